// Times calls on GPUs: correctness before time, Plait and its peers in turn within one run, the slowest rank's time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "api/communicator.hpp"
#include "bench/measure.hpp"

namespace plait {

struct CudaMeasureOptions : MeasureOptions {
  int graph = 0;          // calls of a CUDA graph that is replayed; 0: calls are enqueued one by one
  int unalign = 0;        // elements by which buffers begin after what is aligned to everything
  bool blocking = false;  // the host waits for each call: not in graphs, nor with messages
};

// One rank's end; all ranks make the same calls in the same order. The buffers are made once, for the largest message,
// and are the same for Plait and for peers that take any memory.
//
// Checked are, with exact input each: a call enqueued, a call replayed from a graph, and, out of place, the last call
// of the last timed loop.
//
// Timed is a loop of calls (or replays) on one stream between two events, after one that is not counted, with which
// the ranks begin together. Blocking calls are timed by the host's clock. Plait makes them without a stream
// (kBlockingStream); a peer that only has streams is waited for after each call.
class CudaBench {
 public:
  // `communicator` has a device and outlives this. `largest_bytes`: of the messages to come, and what they lie behind
  // where they are not aligned. Throws kResources.
  CudaBench(Communicator& communicator, size_t largest_bytes);
  ~CudaBench();
  CudaBench(const CudaBench&) = delete;
  CudaBench& operator=(const CudaBench&) = delete;

  // Adds another communicator of the same ranks on the same GPUs, which outlives this.
  void add_plait(Communicator& communicator);
  // Adds NCCL as make_nccl_peers() does.
  void add_nccl(const std::vector<std::string>& libraries);
  // Plait first.
  std::vector<std::string> peers() const;

  // As measure() of measure.hpp. Throws kInvalidArgument where the message is larger than the buffers, and what
  // Communicator::enqueue and async_error give.
  std::vector<Measurement> measure(const Call& call, const CudaMeasureOptions& options);
  // As measure_ring_shift() of measure.hpp.
  std::vector<Measurement> measure_ring_shift(DataType type, size_t count, const ShiftPattern& pattern,
                                              const CudaMeasureOptions& options);

  // Waits for the other ranks, and lets go of everything; without it, the destructor does not wait for them. May be
  // repeated; nothing can be measured any more.
  void close();

 private:
  struct Impl;
  Impl& open() const;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plait
