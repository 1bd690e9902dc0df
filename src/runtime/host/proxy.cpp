// Does the work of a rank on a thread of its own.
#include "runtime/host/proxy.hpp"

#include <utility>

#include "base/error.hpp"
#include "base/library_thread.hpp"

namespace plait {
namespace {

thread_local bool is_proxy = false;

}  // namespace

bool Proxy::is_current() { return is_proxy; }

Proxy::Proxy(OnFailure on_failure) : on_failure_(std::move(on_failure)), queue_(std::make_unique<Queue>()) {
  queue_->thread = start_library_thread("calls over several hosts", [this] { run(); });
}

Proxy::~Proxy() {
  if (fork_mark_.is_in_child()) {  // where there is no such thread
    static_cast<void>(queue_.release());
    return;
  }
  {
    const std::scoped_lock lock(queue_->mutex);
    queue_->is_ending = true;
  }
  queue_->changed.notify_all();
  queue_->thread.join();
}

void Proxy::add(Work work) {
  const std::scoped_lock lock(queue_->mutex);
  queue_->work.push_back(std::move(work));
  queue_->changed.notify_all();
}

void Proxy::drain() {
  if (fork_mark_.is_in_child()) return;
  std::unique_lock lock(queue_->mutex);
  queue_->changed.wait(lock, [&] { return queue_->work.empty(); });
}

bool Proxy::drain_within(std::chrono::nanoseconds time) {
  if (fork_mark_.is_in_child()) return true;
  std::unique_lock lock(queue_->mutex);
  return queue_->changed.wait_for(lock, time, [&] { return queue_->work.empty(); });
}

void Proxy::run() {
  is_proxy = true;
  Queue& queue = *queue_;
  std::unique_lock lock(queue.mutex);
  for (;;) {
    queue.changed.wait(lock, [&] { return !queue.work.empty() || queue.is_ending; });
    if (queue.work.empty()) return;
    const Work& work = queue.work.front();  // it stays where it is while others are added
    lock.unlock();
    perform(work);
    lock.lock();
    queue.work.pop_front();
    queue.changed.notify_all();
  }
}

void Proxy::perform(const Work& work) {
  if (has_failed_) return;
  try {
    work();
  } catch (...) {
    has_failed_ = true;
    on_failure_(std::current_exception());
  }
}

}  // namespace plait
