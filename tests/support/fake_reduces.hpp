// A GPU that is none, for tests of calls that the CPU drives: its memory is host memory that the ranks of a host share,
// and its kernel is a thread.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/memory_file.hpp"
#include "runtime/bootstrap.hpp"
#include "runtime/host/scale.hpp"
#include "runtime/reduce_device.hpp"
#include "support/fake_staging.hpp"
#include "support/reduce_request.hpp"

namespace plait::test {

class FakeReduces final : public ReduceDevice {
 public:
  static inline std::atomic<int> broken_request = 0;  // the number of one that the GPU fails at; 0: none

  // Collective over the ranks of `on_host`.
  FakeReduces(Bootstrap& on_host, std::vector<int> ranks, size_t scratch_bytes)
      : ranks_(std::move(ranks)), scratch_bytes_(scratch_bytes), bytes_(2 * scratch_bytes * ranks_.size()) {
    UniqueFd own;
    if (on_host.rank() == 0) own = make_memory_file("gpu", bytes_);
    const UniqueFd shared = on_host.broadcast_descriptor(own.get());
    void* const memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, shared.get(), 0);
    if (memory == MAP_FAILED) fail(ErrorCode::kResources, "no memory for a GPU that is none");
    memory_ = static_cast<std::byte*>(memory);
  }
  ~FakeReduces() override {
    finish();
    ::munmap(memory_, bytes_);
  }

  std::byte* scratch(int rank, uint32_t room) const override {
    const auto found = std::ranges::find(ranks_, rank);
    if (found == ranks_.end()) return nullptr;
    return memory_ + (2 * static_cast<size_t>(found - ranks_.begin()) + room) * scratch_bytes_;
  }
  void map_host(std::shared_ptr<std::byte> memory, size_t) override { host_ = std::move(memory); }
  std::byte* of_host(const std::byte* address) const override { return const_cast<std::byte*>(address); }

  bool has_room() override { return posted_ - done_ < kRoom; }
  uint64_t post(const WorkRequest& request) override {
    const uint64_t number = ++posted_;
    ++actions[static_cast<size_t>(request.action)];
    kernel_.add([this, request, number] {
      if (has_given_up_) return;
      reduce_request(request);
      done_.store(number, std::memory_order_release);
    });
    return number;
  }
  bool is_done(uint64_t number) override {
    if (broken_request != 0 && posted_ >= static_cast<uint64_t>(broken_request)) {
      fail(ErrorCode::kSystem, "CUDA says that a kernel failed");
    }
    return done_.load(std::memory_order_acquire) >= number;
  }
  const void* multiply(const Scalar& scalar, const void* input, void* output, size_t elements) override {
    products_.resize(output == nullptr ? elements * size_of(scalar.type) : 0);
    if (output == nullptr) output = products_.data();
    Scalar on_host = scalar;
    if (scalar.on_device != nullptr) std::memcpy(on_host.value.data(), scalar.on_device, size_of(scalar.type));
    on_host.on_device = nullptr;
    scale(input, output, elements, on_host);
    return output;
  }
  const void* copy(const void* input, size_t bytes) override {
    const auto* const from = static_cast<const std::byte*>(input);
    products_.assign(from, from + bytes);
    return products_.data();
  }
  void use(const std::function<void()>& work) const override { work(); }
  void finish() override { kernel_.finish(); }
  void give_up() noexcept override { has_given_up_ = true; }
  int ordinal() const override { return 0; }
  size_t device_bytes() const override { return bytes_; }
  uint64_t requests() const override { return posted_; }

  // How many requests of each action were posted in this process.
  static inline std::atomic<int> actions[kWorkActions] = {};

 private:
  static constexpr uint64_t kRoom = 4;
  const std::vector<int> ranks_;
  const size_t scratch_bytes_, bytes_;
  std::byte* memory_ = nullptr;
  std::shared_ptr<std::byte> host_;
  std::vector<std::byte> products_;
  uint64_t posted_ = 0;
  std::atomic<uint64_t> done_ = 0;
  std::atomic<bool> has_given_up_ = false;
  FakeStream kernel_;  // last: its thread uses the others
};

}  // namespace plait::test
