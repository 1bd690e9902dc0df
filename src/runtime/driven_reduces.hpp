// The CPU's end of a plan whose reduces a GPU performs (NVG-54): turns operations into work requests, and keeps the
// order of a plan's queues while several requests are under way.
//
// A queue goes on once a reduce is posted. Three rules keep it right:
//   - A reduce that touches what an unfinished one touches waits for that one, if one of them writes there.
//   - A signal is held back until all reduces before it in its queue are done. The queue goes on meanwhile: a later
//     reduce may begin early, and what must not begin early stands behind a wait.
//   - Reduces, sends and receives of the CPU itself wait for all reduces before them in their queue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "runtime/bound_plan.hpp"
#include "runtime/call.hpp"
#include "runtime/reduce_device.hpp"

namespace plait {

// Whether the reduces of a plan can be a GPU's, and all else the CPU's: messages go to other nodes, and no reduce has
// more places than a request. Messages leave from host memory and arrive there, unless the network
// reaches GPUs; then nobody may overwrite what leaves from a GPU but who sent it.
bool can_be_driven(const Plan& plan, bool network_reaches_gpus = false);

// One run of a plan, over one slice. The plan is bound with BindLimits::host_apart.
class DrivenReduces {
 public:
  // `bases`: the table of base pointers as the GPU addresses them. The arguments outlive this.
  DrivenReduces(ReduceDevice& device, const BoundSlice& slice, const Call& call, int ranks, std::byte* const* bases);

  // Names the queue whose operations follow.
  void turn_to(size_t queue) { queue_ = queue; }
  // A reduce of which all places are in host memory is the CPU's.
  bool is_of_cpu(const BoundOperation& reduce) const;
  // Posts a reduce. False: it has to wait; try again.
  bool post(const BoundOperation& reduce);
  // Whether all reduces that this queue has posted are done.
  bool are_done() { return is_done(queues_[queue_].last); }
  // Keeps a signal until that is so.
  void keep(const BoundOperation& signal);
  // Gives send() the kept signals whose time has come, in their order in each queue. True: there was one.
  template <class Send>
  bool release(const Send& send);
  // Whether all requests are done and all signals are released.
  bool is_over();

 private:
  // Bytes that a request under way touches.
  struct Range {
    const std::byte* first;
    const std::byte* last;  // excluded
    bool is_written;
  };
  struct Posted {
    uint64_t number;
    std::vector<Range> ranges;
  };
  struct Queue {
    uint64_t last = 0;  // the number of its last request; 0: none
    std::deque<std::pair<uint64_t, const BoundOperation*>> kept;
  };

  bool is_in_host(const BoundPlace& place) const { return place.base > signals_base_; }
  bool is_done(uint64_t number) { return number == 0 || device_.is_done(number); }
  WorkRequest request_for(const BoundOperation& reduce) const;
  std::vector<Range> ranges_of(const WorkRequest& request) const;
  bool touches_unfinished(const std::vector<Range>& ranges);

  ReduceDevice& device_;
  const BoundSlice& slice_;
  const Call& call_;
  const uint32_t signals_base_;
  std::byte* const* const bases_;
  size_t queue_ = 0;
  std::vector<Queue> queues_;
  std::deque<Posted> posted_;
};

template <class Send>
bool DrivenReduces::release(const Send& send) {
  bool found = false;
  for (Queue& queue : queues_) {
    for (; !queue.kept.empty() && is_done(queue.kept.front().first); queue.kept.pop_front()) {
      send(*queue.kept.front().second);
      found = true;
    }
  }
  return found;
}

}  // namespace plait
