// Ranks that are processes with a GPU each.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "api/communicator.hpp"
#include "base/error.hpp"
#include "runtime/cuda/driver/driver.hpp"
#include "support/rank_processes.hpp"
#include "world.hpp"

namespace plait::test {

// Runs a process for each rank, rank r on the GPU r modulo their number. Expects that all return. Tests with such ranks
// come first in their file (gpus.hpp).
inline void on_processes(const std::string& what, int ranks, const Settings& settings,
                         const std::function<void(Communicator&, cudaStream_t)>& work, int seconds = 100) {
  const UniqueId id = new_id();
  RankProcesses processes(ranks, [&](int rank) {
    const int device = rank % gpus();
    const DeviceGuard guard(device);
    Communicator communicator = Communicator::create(id, rank, ranks, settings, device);
    cudaStream_t stream;
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
    work(communicator, stream);
    check_cuda(cudaDeviceSynchronize(), "the end");
  });
  const Outcomes outcomes = processes.wait(seconds);
  for (int rank = 0; rank < ranks; ++rank) {
    const Outcome& outcome = outcomes[static_cast<size_t>(rank)];
    EXPECT_TRUE(outcome.well()) << what << ", rank " << rank << " of " << ranks << ": " << describe(outcome);
  }
}

// Checks the error that ended the communicator. This rank may learn of it a little later.
inline void expect_error(const Communicator& communicator, ErrorCode code, const std::string& words) {
  for (int tries = 0; tries < 200 && !communicator.async_error(); ++tries) usleep(50'000);
  const auto error = communicator.async_error();
  if (!error || error->code() != code || std::string(error->what()).find(words) == std::string::npos) {
    fail(ErrorCode::kInternal, "should say '", words, "', says: ", error ? error->what() : "nothing");
  }
}

inline std::byte* allocate(size_t bytes) {
  void* memory = nullptr;
  check_cuda(cudaMalloc(&memory, bytes), "a buffer");
  return static_cast<std::byte*>(memory);
}

inline size_t free_bytes() {
  size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "asking for free memory");
  return free;
}

inline void expect_zero_copy(const Communicator& communicator, uint64_t calls) {
  const uint64_t zero_copy = communicator.zero_copy_calls();
  if (zero_copy != calls) fail(ErrorCode::kInternal, zero_copy, " zero-copy calls, and should be ", calls);
}

}  // namespace plait::test
