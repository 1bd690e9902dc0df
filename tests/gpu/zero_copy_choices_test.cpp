// Tests which calls between processes are zero-copy by default, and their results. Each rank has its own GPU.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <vector>

#include "api/communicator.hpp"
#include "base/error.hpp"
#include "bench/exact_input.hpp"
#include "machine.hpp"
#include "runtime/cuda/driver/driver.hpp"
#include "world.hpp"

namespace plait::test {
namespace {

constexpr int kTimes = 20;  // how often a call is made; sometimes all ranks must come in time

// Few SMs combine messages that are long enough, at any alignment.
void use_few_sms(Communicator& communicator, cudaStream_t stream) {
  std::byte *const input = allocate(kBufferBytes), *const output = allocate(kBufferBytes);
  const int rank = communicator.rank(), ranks = communicator.size();
  for (const Collective collective : {Collective::kAllReduce, Collective::kReduceScatter}) {
    for (const size_t count : {size_t{3}, size_t{1'000'001}}) {
      for (const size_t offset : {size_t{0}, size_t{4}}) {
        const Call call{collective, DataType::kFloat32, ReduceOp::kSum, 0, count};
        std::vector<std::byte> given(input_elements(call, ranks, rank) * 4),
            got(output_elements(call, ranks, rank) * 4);
        const uint64_t before = communicator.zero_copy_calls();
        for (int time = 0; time < kTimes; ++time) {
          fill_input(call, ranks, rank, time, given.data());
          check_cuda(cudaMemcpyAsync(input + offset, given.data(), given.size(), cudaMemcpyHostToDevice, stream),
                     "upload");
          communicator.barrier();  // so that ranks come together
          communicator.enqueue(call, input + offset, output, stream);
          check_cuda(cudaStreamSynchronize(stream), "the call");
          if (const auto error = communicator.async_error()) throw *error;
          check_cuda(cudaMemcpy(got.data(), output, got.size(), cudaMemcpyDeviceToHost), "download");
          const uint64_t wrong = count_wrong(call, ranks, rank, time, got.data());
          if (wrong > 0) fail(ErrorCode::kInternal, wrong, " wrong elements: ", to_text(call), ", offset ", offset);
        }
        if ((communicator.zero_copy_calls() > before) != (count > 1000)) {
          fail(ErrorCode::kInternal, communicator.zero_copy_calls() - before, " zero-copy calls: ", to_text(call));
        }
      }
    }
  }
}

// Makes the call several times, with all ranks at once, and returns how many of them were zero-copy.
uint64_t count_zero_copy(Communicator& communicator, const Call& call, const std::byte* input, std::byte* output,
                         cudaStream_t stream) {
  const uint64_t before = communicator.zero_copy_calls();
  for (int time = 0; time < kTimes; ++time) {
    communicator.barrier();
    communicator.enqueue(call, input, output, stream);
    check_cuda(cudaStreamSynchronize(stream), "the call");
  }
  if (const auto error = communicator.async_error()) throw *error;
  return communicator.zero_copy_calls() - before;
}

// By default ranks decline zero-copy if the input's allocation has an odd size, on one rank.
void decline_odd_allocations(Communicator& communicator, cudaStream_t stream) {
  const size_t block = size_t{128} << 20;
  std::byte* const output = allocate(block * static_cast<size_t>(communicator.size()));
  const Call call{Collective::kAllGather, DataType::kUint32, ReduceOp::kSum, 0, block / 4};
  for (const size_t more : {size_t{0}, size_t{512}}) {
    std::byte* const input = allocate(block + (communicator.rank() == 1 ? more : 0));
    check_cuda(cudaMemsetAsync(input, communicator.rank() + 1, block, stream), "input");
    const uint64_t zero_copy = count_zero_copy(communicator, call, input, output, stream);
    if ((zero_copy > 0) != (more == 0))
      fail(ErrorCode::kInternal, zero_copy, " zero-copy calls with ", more, " bytes more");
    std::vector<uint8_t> got(block * static_cast<size_t>(communicator.size()));
    check_cuda(cudaMemcpy(got.data(), output, got.size(), cudaMemcpyDeviceToHost), "download");
    for (size_t i = 0; i < got.size(); ++i) {
      if (got[i] != i / block + 1) fail(ErrorCode::kInternal, "wrong at ", i);
    }
  }
}

// By default four GPUs combine long messages directly from all inputs, but only if these are aligned.
void combine_long_messages(Communicator& communicator, cudaStream_t stream) {
  const size_t bytes = size_t{256} << 20;
  std::byte *const input = allocate(bytes + 4), *const output = allocate(bytes + 4);
  const Call call{Collective::kAllReduce, DataType::kUint32, ReduceOp::kSum, 0, bytes / 4};
  for (const size_t offset : {size_t{0}, size_t{4}}) {
    check_cuda(cudaMemsetAsync(input, communicator.rank() + 1, bytes + 4, stream), "input");
    const uint64_t zero_copy = count_zero_copy(communicator, call, input + offset, output + offset, stream);
    if ((zero_copy > 0) != (offset == 0)) fail(ErrorCode::kInternal, zero_copy, " zero-copy calls at ", offset);
    std::vector<uint32_t> got(call.count);
    check_cuda(cudaMemcpy(got.data(), output + offset, bytes, cudaMemcpyDeviceToHost), "download");
    if (got != std::vector<uint32_t>(call.count, 0x01010101u * (1 + 2 + 3 + 4)))
      fail(ErrorCode::kInternal, "wrong at ", offset);
  }
}

// The default choices for ranks that have a GPU each.
void on_gpus(int ranks, int max_sms, void (*work)(Communicator&, cudaStream_t)) {
  if (gpus() < ranks) GTEST_SKIP() << ranks << " ranks need as many GPUs, and here are " << gpus();
  Settings settings;
  settings.timeout_seconds = 20;
  settings.max_sms = max_sms;
  on_processes("default choices", ranks, settings, work);
}

TEST(ZeroCopyChoices, FewSmsOfTwoGpus) { on_gpus(2, 8, use_few_sms); }
TEST(ZeroCopyChoices, FewSmsOfFourGpus) { on_gpus(4, 8, use_few_sms); }
TEST(ZeroCopyChoices, OddAllocations) { on_gpus(2, 0, decline_odd_allocations); }
TEST(ZeroCopyChoices, LongMessages) { on_gpus(4, 0, combine_long_messages); }

}  // namespace
}  // namespace plait::test
