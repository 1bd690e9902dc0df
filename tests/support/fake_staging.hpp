// A GPU that is none, for tests of calls that are staged in host memory: its buffers are in host memory, and its
// streams are threads. It fails where a test says so.
#pragma once

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "runtime/staging_device.hpp"

namespace plait::test {

// Does what it is given in order, on a thread of its own.
class FakeStream {
 public:
  using Event = std::shared_ptr<std::atomic<bool>>;

  FakeStream() : thread_([this] { run(); }) {}
  // Does the rest first.
  ~FakeStream() {
    {
      const std::scoped_lock lock(mutex_);
      is_ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  FakeStream(const FakeStream&) = delete;
  FakeStream& operator=(const FakeStream&) = delete;

  void add(std::function<void()> act) {
    const std::scoped_lock lock(mutex_);
    acts_.push_back(std::move(act));
    changed_.notify_all();
  }
  Event record() {
    auto event = std::make_shared<std::atomic<bool>>(false);
    add([event] {
      *event = true;
      event->notify_all();
    });
    return event;
  }
  void wait(const Event& event) {
    if (event) add([event] { event->wait(false); });
  }
  void finish() { record()->wait(false); }
  bool is_idle() {
    const std::scoped_lock lock(mutex_);
    return acts_.empty();
  }

  bool is_captured = false;

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return !acts_.empty() || is_ending_; });
      if (acts_.empty()) return;
      const std::function<void()>& act = acts_.front();
      lock.unlock();
      act();
      lock.lock();
      acts_.pop_front();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> acts_;
  bool is_ending_ = false;
  std::thread thread_;
};

class FakeStaging final : public StagingDevice {
 public:
  explicit FakeStaging(size_t bytes) : memory_(bytes) {}
  ~FakeStaging() override {
    for (StagingCounter& it : counters_.performed) it.chunk = kAllChunks;
  }

  // The copy that CUDA refuses to enqueue, or that fails on the GPU, counted from 1; 0: none.
  int refused_copy = to_refuse;
  int broken_copy = to_break;
  // The same for those that this process will make.
  static inline int to_refuse = 0, to_break = 0;

  int ordinal() const override { return 0; }
  std::span<std::byte> memory() override { return memory_; }
  StagingCounters& counters() override { return counters_; }

  void begin(void* stream) override {
    FakeStream& it = stream_at(stream);
    if (it.is_captured) fail(ErrorCode::kInvalidArgument, "the stream is captured into a CUDA graph");
    const FakeStream::Event start = it.record();
    in_.wait(start);
    out_.wait(start);
    if (stream != last_stream_) in_.wait(done_);
    last_stream_ = stream;
  }
  void copy_in(const void* buffer, std::byte* memory, const StagedRows& rows) override {
    count_copy();
    const bool breaks = copies_ == broken_copy;
    in_.add([this, breaks, memory, from = static_cast<const std::byte*>(buffer), rows] {
      if (breaks) is_broken_ = true;
      for (size_t i = 0; i < rows.count && !is_broken_; ++i) {
        std::memcpy(memory + i * rows.bytes, from + i * rows.stride, rows.bytes);
      }
    });
  }
  void copy_out(const std::byte* memory, void* buffer, const StagedRows& rows) override {
    count_copy();
    const bool breaks = copies_ == broken_copy;
    out_.add([this, breaks, memory, to = static_cast<std::byte*>(buffer), rows] {
      if (breaks) is_broken_ = true;
      const bool is_over = counters_.performed[0].chunk == kAllChunks;  // what is copied then is undefined
      for (size_t i = 0; i < rows.count && !is_broken_ && !is_over; ++i) {
        std::memcpy(to + i * rows.stride, memory + i * rows.bytes, rows.bytes);
      }
    });
  }
  void await_before_in(size_t lane, uint64_t chunk) override { await(in_, lane, chunk); }
  void await_before_out(size_t lane, uint64_t chunk) override { await(out_, lane, chunk); }
  void count_in(uint64_t chunk) override { count(in_, counters_.in, chunk); }
  void count_out(uint64_t chunk) override { count(out_, counters_.out, chunk); }
  void end(void* stream) override {
    out_.wait(in_.record());
    done_ = out_.record();
    stream_at(stream).wait(done_);
  }
  void finish() override {
    out_.finish();
    blocking_.finish();
  }
  void check() override {
    if (is_broken_) fail(ErrorCode::kSystem, "CUDA says that a copy failed");
  }

 private:
  // That of blocking calls has a number instead of an address.
  FakeStream& stream_at(void* stream) {
    constexpr uintptr_t kLeastAddress = 4096;
    return reinterpret_cast<uintptr_t>(stream) < kLeastAddress ? blocking_ : *static_cast<FakeStream*>(stream);
  }
  void count_copy() {
    if (++copies_ == refused_copy) fail(ErrorCode::kSystem, "CUDA refuses a copy");
  }
  void await(FakeStream& stream, size_t lane, uint64_t chunk) {
    stream.add([this, lane, chunk] {
      const std::atomic<uint64_t>& performed = counters_.performed[lane].chunk;
      while (performed.load(std::memory_order_acquire) < chunk && !is_broken_) ::usleep(20);
    });
  }
  // A GPU that has failed does nothing any more.
  void count(FakeStream& stream, StagingCounter& counter, uint64_t chunk) {
    stream.add([this, &counter, chunk] {
      if (!is_broken_) counter.chunk.store(chunk, std::memory_order_release);
    });
  }

  std::vector<std::byte> memory_;
  StagingCounters counters_;
  std::atomic<bool> is_broken_ = false;
  int copies_ = 0;
  void* last_stream_ = nullptr;
  FakeStream::Event done_;
  FakeStream blocking_, in_, out_;  // last: their threads use the others
};

}  // namespace plait::test
