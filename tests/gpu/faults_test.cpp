// Ranks on GPUs die, stop or leave in the middle of collectives. Each is a process of its own. Every other rank must
// learn of it in bounded time, and no kernel may be left spinning.
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdio>
#include <thread>

#include "api/communicator.hpp"
#include "machine.hpp"
#include "runtime/cuda/driver/driver.hpp"
#include "support/outcome.hpp"
#include "support/rank_processes.hpp"

namespace plait::test {
namespace {

constexpr int kRanks = 2;

struct Progress {
  std::atomic<int> calls[kRanks];
};

// Makes calls until something goes wrong, or until `most` are done.
void work(const UniqueId& id, int rank, const Call& call, int most, const Settings& settings, Progress& progress) {
  const int device = rank % cuda_device_count();
  const DeviceGuard guard(device);
  Communicator communicator = Communicator::create(id, rank, kRanks, settings, device);
  cudaStream_t stream;
  void *input, *output;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
  const size_t bytes = call.count * sizeof(float);
  check_cuda(cudaMalloc(&input, bytes), "input");
  check_cuda(cudaMalloc(&output, message_bytes(call, kRanks)), "output");
  check_cuda(cudaMemset(input, 0, bytes), "input");
  for (int i = 0; i < most; ++i) {
    communicator.enqueue(call, input, output, stream);
    check_cuda(cudaStreamSynchronize(stream), "waiting for the GPU");
    if (const auto error = communicator.async_error()) throw *error;
    ++progress.calls[rank];
  }
}

// A fault of rank 1, and the error that rank 0 must report.
struct Fault {
  const char* what;
  int signal;  // to rank 1 in the middle of its calls; 0: it leaves after a few
  double timeout_seconds;
  ErrorCode code;
  double limit_seconds;  // for rank 0 to learn of it
};

void expect_survival(const Fault& fault, Collective collective, size_t count, const char* algorithm) {
  const Call call{collective, DataType::kFloat32, ReduceOp::kSum, 0, count};
  const UniqueId id = new_id();
  Settings settings;
  settings.timeout_seconds = fault.timeout_seconds;
  settings.algorithm = algorithm;
  Shared<Progress> progress;
  RankProcesses ranks(kRanks, [&](int rank) {
    work(id, rank, call, rank == 1 && fault.signal == 0 ? 20 : 1 << 30, settings, *progress);
  });
  const Deadline deadline = Deadline::after(60);
  while ((progress->calls[0] < 10 || progress->calls[1] < 10) && !deadline.passed() && !ranks.has_ended(0)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const Deadline heard = Deadline::after(fault.limit_seconds);
  if (fault.signal == SIGKILL) {
    ranks.kill(1);
  } else if (fault.signal != 0) {
    ranks.signal(1, fault.signal);
  }
  while (!ranks.has_ended(0) && !heard.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const bool in_time = ranks.has_ended(0);
  const Outcomes outcomes = ranks.wait(1);
  std::string objection = in_time ? test::objection(outcomes[0], fault.code, {"rank 1"}) : "it did not hear in time";
  EXPECT_EQ(objection, "") << fault.what << ", " << to_text(call);
}

void expect_survival(const Fault& fault) {
  for (const size_t count : {size_t{100}, size_t{1} << 18, size_t{16} << 20}) {
    expect_survival(fault, Collective::kAllReduce, count, "");
    for (const char* const algorithm :
         {"all_gather:flat(load, zero_copy, engine=copy)", "all_gather:flat(load, zero_copy, engine=sm)"}) {
      expect_survival(fault, Collective::kAllGather, count, algorithm);
    }
    for (const char* const algorithm :
         {"all_reduce:flat(load, zero_copy, engine=copy)", "all_reduce:flat(load, zero_copy, engine=sm)"}) {
      expect_survival(fault, Collective::kAllReduce, count, algorithm);
    }
  }
}

TEST(Faults, AKilledRank) { expect_survival({"a killed rank", SIGKILL, 60, ErrorCode::kPeerFailed, 20}); }
TEST(Faults, AStoppedRank) { expect_survival({"a stopped rank", SIGSTOP, 3, ErrorCode::kTimeout, 20}); }
TEST(Faults, ARankThatLeaves) { expect_survival({"a rank that leaves", 0, 60, ErrorCode::kPeerFailed, 20}); }

}  // namespace
}  // namespace plait::test
