// The memory that sends of a rank read after their queue has gone on.
//
// The verifier lets a plan write to what it has sent (its sends are over when their queue goes on). The network reads
// it until the request is done. So the rank itself ends such a send before it writes, and what others may write is
// copied first. Most plans do neither: they write a slot once.
#pragma once

#include <map>
#include <vector>

#include "plan/fault.hpp"
#include "plan/plan.hpp"

namespace plait {

class SentMemory {
 public:
  SentMemory(const Plan& plan, int rank);

  // Numbers of the sends whose source this operation of the rank writes to. They count in the order of queues and
  // operations. Sends that come after it in the same queue are left out. In place, input and output are one memory.
  std::vector<size_t> overwritten_by(const OperationId& id) const;
  // Whether another rank may write to one of so many slots again after it was sent.
  bool is_written_elsewhere(const Place& source, int slots) const;

 private:
  struct Sent {
    OperationId id;
    ChunkRange chunks;
    Place source;
  };
  struct Writers {
    int operations = 0;
    bool others = false;  // than this rank
  };

  void count_writers(int writer, const Operation& operation);
  static bool overlap(const Sent& sent, const Place& place, const ChunkRange& chunks);

  const Plan& plan_;
  const int rank_;
  std::vector<Sent> sends_;
  std::map<Place, Writers> writers_;  // of slots, where there are sends
};

}  // namespace plait
