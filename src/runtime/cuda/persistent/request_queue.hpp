// The host's end of a persistent kernel's work queue: posts requests, and launches the kernel whenever none runs that
// could take them.
//
// A kernel leaves by itself (PersistentLaunch says when), maybe just as the host posts a request. CTA 0 alone decides
// that. It then writes the number of the last request that it took, and takes no more. So whoever waits for an answer
// also looks whether the kernel has left, and launches it again if it left without the request. No request is lost, and
// none is performed twice, since only a kernel that has left is followed by another. persistent_queue_test tries all
// orders in which the two sides can meet.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "runtime/cuda/persistent/request.hpp"

namespace plait {

// How the host reaches words that the GPU reads or writes at the same time.
struct HostWords {
  static uint64_t load(const uint64_t& word) {
    return std::atomic_ref(const_cast<uint64_t&>(word)).load(std::memory_order_acquire);
  }
  static void store(uint64_t& word, uint64_t value) { std::atomic_ref(word).store(value, std::memory_order_release); }
};

// One thread at a time. `Words` is for tests.
template <class Words = HostWords>
class RequestQueue {
 public:
  // `launch` launches the kernel behind its earlier launches: the number of this one, from 1, and of the first request
  // that it takes. Its exceptions pass through; then nobody performs the requests that were posted.
  using Launch = std::function<void(uint64_t number, uint64_t first)>;
  RequestQueue(HostQueue& queue, Launch launch) : queue_(queue), launch_(std::move(launch)) {}

  // Posts a request, and returns its number. All requests of kEntries and more before it must be answered.
  uint64_t post(const Request& request) {
    ++posted_;
    Words::store(queue_.requests[posted_ % HostQueue::kEntries].word, word_of(request, posted_));
    if (!request.terminates) launch_if_none_runs();
    return posted_;
  }

  // Whether a request is done. If not, call it again: it launches the kernel if that has left without the request.
  bool is_answered(uint64_t number) {
    if (Words::load(queue_.answered) >= number) return true;
    launch_if_none_runs();
    return false;
  }

  // Lets the kernel leave, if it runs, once it has performed all that was posted. Does not wait for that.
  void let_leave() {
    if (runs() && !is_told_to_leave()) last_words_ = post({.terminates = true});
  }

 private:
  bool runs() {
    if (is_launched_ && Words::load(queue_.left) == launches_) is_launched_ = false;
    return is_launched_;
  }

  // Requests before the last one that it posted to let a kernel leave are over.
  bool is_told_to_leave() const { return last_words_ != 0 && last_words_ == posted_; }

  void launch_if_none_runs() {
    if (runs()) return;
    uint64_t first = launches_ == 0 ? 1 : Words::load(queue_.taken) + 1;
    if (first == last_words_) ++first;  // it left by itself
    if (first > posted_) return;        // its last CTAs still perform what was posted
    launch_(launches_ + 1, first);
    ++launches_;
    is_launched_ = true;
  }

  HostQueue& queue_;
  const Launch launch_;
  uint64_t posted_ = 0, launches_ = 0;
  uint64_t last_words_ = 0;   // the last request to leave; 0: none
  bool is_launched_ = false;  // and not known to have left
};

}  // namespace plait
