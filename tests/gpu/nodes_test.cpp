// Ranks with GPUs on several hosts, of which one machine takes the part: each is a process with a PLAIT_HOST_ID, and
// ranks may share a GPU. Results are right, in the order of streams, and no stream is left waiting when a rank dies, a
// call is refused or somebody frees memory. Skipped where there is no UCX.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <thread>

#include "api/communicator.hpp"
#include "bench/exact_input.hpp"
#include "machine.hpp"
#include "runtime/net/open_transport.hpp"
#include "support/random_calls.hpp"
#include "support/rank_processes.hpp"
#include "support/several_hosts.hpp"

namespace plait::test {
namespace {

constexpr double kSeconds = 120;
constexpr size_t kMostBytes = 24 << 20;

std::string library() {
  const char* const named = std::getenv("PLAIT_UCX_LIBRARY");
  return named == nullptr ? "" : named;
}

// A rank with its stream and two buffers.
struct GpuRank {
  Communicator& communicator;
  cudaStream_t stream;
  std::byte* input;
  std::byte* output;

  int rank() const { return communicator.rank(); }
  int size() const { return communicator.size(); }
  void synchronize() const {
    check_cuda(cudaStreamSynchronize(stream), "waiting for the GPU");
    if (const auto error = communicator.async_error()) throw *error;
  }
};

class Nodes : public ::testing::Test {
 protected:
  void SetUp() override {
    static const std::string missing = [] {
      const std::string name = library().empty() ? "libucp.so.0" : library();
      const Outcome outcome = test::run_processes(1, 60, [&](int) { open_transport({name}); })[0];
      return outcome.well() ? "" : outcome.text;
    }();
    if (!missing.empty()) GTEST_SKIP() << missing;
    settings.timeout_seconds = 60;
    settings.ucx_library = library();
  }

  using Body = std::function<void(const GpuRank&)>;
  RankBody over(const std::vector<int>& hosts, const Body& body) const {
    const UniqueId id = new_id();
    return [=, settings = settings](int rank) {
      Settings own = settings;
      own.host_id = host_name(hosts[static_cast<size_t>(rank)]);
      const int device = rank % gpus();
      const DeviceGuard guard(device);
      Communicator communicator = Communicator::create(id, rank, static_cast<int>(hosts.size()), own, device);
      cudaStream_t stream;
      check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
      body({communicator, stream, allocate(kMostBytes), allocate(kMostBytes)});
      communicator.close();
    };
  }
  void expect_well(const std::vector<int>& hosts, const Body& body) const {
    const auto ranks = static_cast<int>(hosts.size());
    const Outcomes outcomes = run_processes(ranks, kSeconds, over(hosts, body));
    for (int rank = 0; rank < ranks; ++rank) {
      const Outcome& outcome = outcomes[static_cast<size_t>(rank)];
      EXPECT_TRUE(outcome.well()) << "rank " << rank << " of " << ranks << ": " << describe(outcome);
    }
  }

  Settings settings;
};

Call sum_of(size_t count) { return {Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, count}; }

// Where the input and the output of a call begin.
std::pair<std::byte*, std::byte*> place(const GpuRank& it, const Call& call, bool in_place) {
  if (!in_place) return {it.input, it.output};
  const size_t own = static_cast<size_t>(it.rank()) * call.count * size_of(call.type);
  return {it.input + (gathers(call.collective) ? own : 0), it.input + (scatters(call.collective) ? own : 0)};
}

void call_and_check(const GpuRank& it, const Call& call, int variant, bool in_place = false, bool multiplied = false) {
  const auto [input, output] = place(it, call, in_place);
  std::vector<std::byte> host(std::max<size_t>(1, message_bytes(call, it.size())));
  const size_t in = input_elements(call, it.size(), it.rank()) * size_of(call.type);
  const size_t out = output_elements(call, it.size(), it.rank()) * size_of(call.type);
  if (in > 0) {
    fill_input(call, it.size(), it.rank(), variant, host.data());
    check_cuda(cudaMemcpyAsync(input, host.data(), in, cudaMemcpyHostToDevice, it.stream), "upload");
  }
  const Scalar factor = exact_scalar(call.type, it.rank());
  it.communicator.enqueue(call, input, output, it.stream, multiplied ? &factor : nullptr);
  if (out > 0) check_cuda(cudaMemcpyAsync(host.data(), output, out, cudaMemcpyDeviceToHost, it.stream), "download");
  it.synchronize();
  const size_t wrong = count_wrong(call, it.size(), it.rank(), variant, host.data(), multiplied);
  require(wrong == 0, wrong, " elements are wrong: ", to_text(call), in_place ? ", in place" : "");
}

// Tests with processes come first: none before them has used CUDA in this process (gpus.hpp), and none after.

TEST_F(Nodes, RandomCalls) {
  Random random(run_seed());
  for (int round = 0; round < 6; ++round) {
    const int ranks = 2 + static_cast<int>(random() % 3);
    const std::vector<int> hosts = random_hosts(random, ranks);
    const uint64_t seed = random();
    settings.staging_bytes = size_t{16} << 10 << random() % 9;
    expect_well(hosts, [&](const GpuRank& it) {
      Random common(seed);
      for (int i = 0; i < 40; ++i) {
        Call call = random_call(common, ranks);
        if (call.collective != Collective::kBarrier) {
          const size_t most = kMostBytes / size_of(call.type) / static_cast<size_t>(ranks);
          call.count = common() % (i % 4 == 0 ? most : i % 4 == 1 ? 5 : 50'000);
        }
        const bool in_place = one_in(common, 3);
        const bool multiplied = reduces(call.collective) && call.op == ReduceOp::kSum && one_in(common, 2);
        call_and_check(it, call, i, in_place, multiplied);
      }
    });
    if (HasFailure()) return;
  }
}

// Between work of the same stream, on several streams, and on the default stream.
TEST_F(Nodes, CallsAreInTheOrderOfTheirStream) {
  expect_well({0, 1}, [](const GpuRank& it) {
    constexpr size_t kCount = 300'000;
    std::vector<int32_t> host(kCount);
    for (const cudaStream_t stream : {it.stream, cudaStream_t{nullptr}}) {
      for (int round = 1; round <= 20; ++round) {
        check_cuda(cudaMemsetAsync(it.input, round, kCount * 4, stream), "setting");
        it.communicator.enqueue(sum_of(kCount), it.input, it.output, stream);
        it.communicator.enqueue(sum_of(kCount), it.output, it.output, stream);
        check_cuda(cudaMemsetAsync(it.input, 0xff, kCount * 4, stream), "setting");
        check_cuda(cudaMemcpyAsync(host.data(), it.output, kCount * 4, cudaMemcpyDeviceToHost, stream), "download");
        check_cuda(cudaStreamSynchronize(stream), "waiting for the GPU");
        const int32_t expected = 0x01010101 * round * 4;
        for (const int32_t value : host) require(value == expected, "round ", round, ": ", value);
      }
    }
  });
}

// Many calls enqueued ahead, of more operations than CUDA queues.
TEST_F(Nodes, CallsMayBeFarAheadOfTheGpu) {
  settings.staging_bytes = 16 << 10;
  expect_well({0, 1}, [](const GpuRank& it) {
    check_cuda(cudaMemset(it.input, 0, kMostBytes), "setting");
    for (int i = 0; i < 300; ++i) it.communicator.enqueue(sum_of(20'000), it.input, it.output, it.stream);
    it.communicator.enqueue(sum_of(kMostBytes / 4), it.input, it.output, it.stream);
    it.synchronize();
  });
}

// CUDA frees memory when the GPU is idle, and keeps all who call it waiting until then.
TEST_F(Nodes, WhoFreesMemoryAmidCallsWaitsForThemAndNotForEver) {
  expect_well({0, 1}, [](const GpuRank& it) {
    for (int i = 0; i < 10; ++i) {
      std::byte* const more = allocate(1 << 20);
      it.communicator.enqueue(sum_of(kMostBytes / 4), it.input, it.output, it.stream);
      check_cuda(cudaFree(more), "freeing");
    }
    it.synchronize();
  });
}

TEST_F(Nodes, HostCallsGoBetween) {
  expect_well({0, 0, 1}, [](const GpuRank& it) {
    check_cuda(cudaMemset(it.input, 0, kMostBytes), "setting");
    for (int i = 0; i < 20; ++i) {
      it.communicator.enqueue(sum_of(200'000), it.input, it.output, it.stream);
      int32_t one = 1, all = 0;
      it.communicator.all_reduce(&one, &all, 1, DataType::kInt32, ReduceOp::kSum);
      require(all == it.size(), "the sum on host memory is ", all);
    }
    it.synchronize();
  });
}

TEST_F(Nodes, GraphsAndMessagesAreRefusedAndHarmNobody) {
  expect_well({0, 1}, [](const GpuRank& it) {
    check_cuda(cudaStreamBeginCapture(it.stream, cudaStreamCaptureModeThreadLocal), "beginning a capture");
    require_refusal("graph", [&] { it.communicator.enqueue(sum_of(10), it.input, it.output, it.stream); });
    cudaGraph_t captured = nullptr;
    check_cuda(cudaStreamEndCapture(it.stream, &captured), "ending a capture");
    check_cuda(cudaGraphDestroy(captured), "a graph");
    const PeerMessage message{PeerMessage::Kind::kSend, 1 - it.rank(), DataType::kInt32, 10, it.input};
    void* const streams[] = {it.stream};
    require_refusal("ranks of one host", [&] { it.communicator.enqueue_p2p({&message, 1}, streams); });
    call_and_check(it, sum_of(1000), 1);
  });
}

TEST_F(Nodes, ScalarsMayBeOnTheGpu) {
  expect_well({0, 1}, [](const GpuRank& it) {
    const std::vector<float> ones(100'000, 1);
    const float factor = static_cast<float>(it.rank() + 2);
    std::byte* const on_device = allocate(sizeof factor);
    check_cuda(cudaMemcpy(on_device, &factor, sizeof factor, cudaMemcpyHostToDevice), "upload");
    check_cuda(cudaMemcpy(it.input, ones.data(), ones.size() * 4, cudaMemcpyHostToDevice), "upload");
    const Scalar scalar{DataType::kFloat32, {}, on_device};
    const Call call{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, ones.size()};
    it.communicator.enqueue(call, it.input, it.output, it.stream, &scalar);
    it.synchronize();
    std::vector<float> sums(ones.size());
    check_cuda(cudaMemcpy(sums.data(), it.output, sums.size() * 4, cudaMemcpyDeviceToHost), "download");
    require(sums == std::vector<float>(sums.size(), 5), "the sum is ", sums[0]);
  });
}

// ---- Faults

struct Fault {
  int signal;
  double timeout_seconds;
  ErrorCode code;
};

TEST_F(Nodes, ARankThatIsKilledOrStoppedAmidChunksIsNamed) {
  for (const Fault& fault : {Fault{SIGKILL, 600, ErrorCode::kPeerFailed}, Fault{SIGSTOP, 3, ErrorCode::kTimeout}}) {
    settings.timeout_seconds = fault.timeout_seconds;
    Shared<Progress> progress;
    const int victim = 2;
    RankProcesses processes(3, over({0, 0, 1}, [&](const GpuRank& it) {
                              for (int i = 0;; ++i) {
                                call_and_check(it, sum_of(3'000'000), i);
                                ++progress->calls[it.rank()];
                              }
                            }));
    await_calls(processes, *progress, victim, 5);
    if (fault.signal == SIGKILL) {
      processes.kill(victim);
    } else {
      processes.signal(victim, fault.signal);
    }
    const Deadline heard = Deadline::after(60);
    while (!(processes.has_ended(0) && processes.has_ended(1)) && !heard.passed()) ::usleep(1000);
    const Outcomes outcomes = processes.wait(1);
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(objection(outcomes[static_cast<size_t>(rank)], fault.code, {"rank 2 (process "}), "") << fault.signal;
    }
  }
}

TEST_F(Nodes, AnAbortLetsAllStreamsGoOn) {
  settings.timeout_seconds = 600;
  const Outcomes outcomes = run_processes(2, kSeconds, over({0, 1}, [](const GpuRank& it) {
                                            call_and_check(it, sum_of(1000), 0);
                                            if (it.rank() == 1) ::usleep(300'000);
                                            if (it.rank() == 1) it.communicator.abort("somebody pressed the button");
                                            it.communicator.enqueue(sum_of(3'000'000), it.input, it.output, it.stream);
                                            it.synchronize();
                                          }));
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(objection(outcome, ErrorCode::kPeerFailed, {"rank 1 aborted: somebody pressed the button"}), "");
  }
}

}  // namespace
}  // namespace plait::test
