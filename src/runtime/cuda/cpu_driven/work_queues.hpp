// The CPU's end of the work queues of one rank's GPU: one queue, or one for each CTA (NVG-37, NVG-38, NVG-40).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/cuda/cpu_driven/work_kernel.hpp"
#include "runtime/cuda/persistent/request_queue.hpp"

namespace plait {

// One kernel's queue. Numbers are those of RequestQueue.
class WorkQueue {
 public:
  WorkQueue(HostWork& memory, uint32_t ctas, RequestQueue<>::Launch launch)
      : memory_(memory), ctas_(ctas), queue_(memory.queue, std::move(launch)) {}

  // Fewer than kEntries requests may be without an answer.
  uint64_t post(const WorkRequest& request) {
    const uint32_t slot = next_++ % kCallSlots;
    memory_.requests[slot] = request;
    return queue_.post({.is_new = true, .slot = slot, .ctas = ctas_});
  }
  bool is_answered(uint64_t number) { return queue_.is_answered(number); }
  void let_leave() { queue_.let_leave(); }

 private:
  HostWork& memory_;
  const uint32_t ctas_;
  RequestQueue<> queue_;
  uint32_t next_ = 0;
};

// The queues together: every request goes to all of them, and is done when all have answered. One thread at a time.
class WorkQueues {
 public:
  static constexpr uint64_t kMostUnderWay = HostQueue::kEntries - 1;  // one entry is left, to let the kernel leave

  void add(HostWork& memory, uint32_t ctas, RequestQueue<>::Launch launch) {
    queues_.push_back(std::make_unique<Queue>(WorkQueue(memory, ctas, std::move(launch))));
  }

  // Post only if it has room. Requests have numbers from 1.
  bool has_room() { return posted_ < kMostUnderWay || is_done(posted_ + 1 - kMostUnderWay); }
  uint64_t post(const WorkRequest& request) {
    ++posted_;
    for (const auto& it : queues_) it->numbers[posted_ % kMostUnderWay] = it->queue.post(request);
    return posted_;
  }
  // Whether all requests up to this one are done. It launches a kernel that has left without one again.
  bool is_done(uint64_t number) {
    if (number <= done_) return true;
    for (const auto& it : queues_) {
      if (!it->queue.is_answered(it->numbers[number % kMostUnderWay])) return false;
    }
    done_ = number;
    return true;
  }
  uint64_t posted() const { return posted_; }

  // Lets the kernels leave once all requests are done.
  void let_leave() {
    for (const auto& it : queues_) it->queue.let_leave();
  }

 private:
  struct Queue {
    explicit Queue(WorkQueue its_queue) : queue(std::move(its_queue)) {}
    WorkQueue queue;
    std::array<uint64_t, kMostUnderWay> numbers{};  // by request, modulo: its number in this queue
  };

  std::vector<std::unique_ptr<Queue>> queues_;
  uint64_t posted_ = 0, done_ = 0;
};

}  // namespace plait
