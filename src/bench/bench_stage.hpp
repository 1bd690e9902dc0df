// The call that is timed, which every peer can make on this rank's buffers.
#pragma once

#include <vector>

#include "bench/measure.hpp"

namespace plait {

class BenchStage {
 public:
  virtual ~BenchStage() = default;
  virtual bool served_by(const PeerLibrary& peer) const = 0;
  virtual bool has_exact_result() const = 0;
  virtual void fill(int variant) = 0;
  virtual void run(PeerLibrary& peer) = 0;
  virtual size_t count_wrong(int variant) const = 0;
};

// Checks and times it with each peer in turn. Collective over the ranks of `communicator`.
std::vector<Measurement> measure_stage(Communicator& communicator, const std::vector<PeerLibrary*>& peers,
                                       BenchStage& stage, const MeasureOptions& options);

}  // namespace plait
