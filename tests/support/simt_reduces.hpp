// A GPU that the CPU drives, run on a CPU: its kernel is that of runtime/cuda/cpu_driven. Include this before any other
// kernel (*.cuh), like simt.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

// clang-format off: ahead of all kernels
#include "support/simt.hpp"
// clang-format on
#include "base/settings.hpp"
#include "runtime/cuda/cpu_driven/work_kernel.cuh"
#include "runtime/cuda/cpu_driven/work_queues.hpp"
#include "runtime/reduce_device.hpp"

namespace plait::test {

class SimtReduces final : public ReduceDevice {
 public:
  struct Options {
    CpuDriven queues = CpuDriven::kOneQueue;
    uint32_t ctas = 1;
    uint64_t idle_turns = 100, longest_turns = 100'000;  // of all threads
  };

  // Its kernels have streams of their own from `first_stream` on, one for each queue.
  SimtReduces(Simt& machine, size_t first_stream, Options options)
      : machine_(machine), first_stream_(first_stream), options_(options) {
    if (options.queues == CpuDriven::kOneQueue) {
      add(0, options.ctas);
    } else {
      for (uint32_t share = 0; share < options.ctas; ++share) add(share, 1);
    }
  }

  // Makes scratch for so many ranks, as many bytes for each and large room. `of` gives that of another rank.
  void make_scratch(size_t bytes) {
    for (auto& half : scratch_) {
      half.resize(bytes);
      machine_.watch(half.data(), bytes, "scratch");
    }
  }
  void meet(std::vector<SimtReduces*> all) { all_ = std::move(all); }

  std::byte* scratch(int rank, uint32_t room) const override {
    return all_[static_cast<size_t>(rank)]->scratch_[room].data();
  }
  void map_host(std::shared_ptr<std::byte>, size_t) override {}
  std::byte* of_host(const std::byte* address) const override { return const_cast<std::byte*>(address); }
  bool has_room() override { return queues_.has_room(); }
  uint64_t post(const WorkRequest& request) override {
    ++actions[static_cast<size_t>(request.action)];
    return queues_.post(request);
  }
  bool is_done(uint64_t number) override { return queues_.is_done(number); }
  const void* multiply(const Scalar&, const void* input, void*, size_t) override {
    return input;
  }  // no test of it here
  const void* copy(const void* input, size_t) override { return input; }
  void use(const std::function<void()>& work) const override { work(); }
  void finish() override { queues_.let_leave(); }
  void give_up() noexcept override { aborted_ = 1; }
  int ordinal() const override { return 0; }
  size_t device_bytes() const override { return 0; }
  uint64_t requests() const override { return queues_.posted(); }

  int actions[kWorkActions] = {};
  int launches = 0;

 private:
  struct Memory {
    HostWork host;
    DeviceWork device;
  };

  void add(uint32_t first_share, uint32_t ctas) {
    const size_t stream = first_stream_ + memory_.size();
    Memory& memory = *memory_.emplace_back(std::make_unique<Memory>());
    machine_.watch(&memory.host, sizeof memory.host, "a queue in host memory");
    machine_.watch(&memory.device, sizeof memory.device, "a queue in GPU memory");
    queues_.add(memory.host, ctas, [this, &memory, stream, first_share, ctas](uint64_t number, uint64_t first) {
      launch(memory, stream, first_share, ctas, number, first);
    });
  }
  void launch(Memory& memory, size_t stream, uint32_t first_share, uint32_t ctas, uint64_t number, uint64_t first) {
    constexpr uint64_t kSecond = 1'000'000'000;  // a turn of all threads
    ++launches;
    WorkLaunch argument;
    argument.host = &memory.host.queue;
    argument.device = &memory.device.queue;
    argument.host_requests = memory.host.requests;
    argument.requests = memory.device.requests;
    argument.aborted = &aborted_;
    argument.number = number;
    argument.first = first;
    argument.idle_nanoseconds = options_.idle_turns * kSecond;
    argument.longest_nanoseconds = options_.longest_turns * kSecond;
    argument.silent_nanoseconds = UINT64_MAX;
    argument.first_share = first_share;
    argument.shares = options_.ctas;
    machine_.launch(stream, {ctas}, {kLeastThreads}, [argument] { run_work(argument); });
  }

  Simt& machine_;
  const size_t first_stream_;
  const Options options_;
  uint32_t aborted_ = 0;
  std::vector<std::unique_ptr<Memory>> memory_;
  std::vector<std::byte> scratch_[2];
  std::vector<SimtReduces*> all_;
  WorkQueues queues_;
};

}  // namespace plait::test
