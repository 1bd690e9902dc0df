// Ranks with GPUs on several hosts (AWA-17, AWA-19), of which one machine takes the part. The GPUs are none
// (fake_staging.hpp), and all the rest is as on GPUs: results are right, streams keep their order, and what ends on one
// host is told on all, with no stream left waiting. Skipped where there is no UCX.
#include <gtest/gtest.h>

#include "api/split.hpp"
#include "runtime/host/scale.hpp"
#include "support/expect_outcomes.hpp"
#include "support/fake_staging.hpp"
#include "support/random_calls.hpp"
#include "support/several_hosts.hpp"

namespace plait::test {
namespace {

class GpusOverNetwork : public ::testing::Test {
 protected:
  void SetUp() override {
    static const std::string missing = missing_network();
    if (!missing.empty()) GTEST_SKIP() << missing;
  }
};

using GpuBody = std::function<void(Communicator&, FakeStream&)>;

Settings gpu_settings() {
  Settings settings = fault_settings();
  settings.staging_bytes = 64 << 10;
  return settings;
}

// A rank with a stream; it outlives the communicator.
RankBody on_gpus(const std::vector<int>& hosts, const Settings& settings, const GpuBody& body) {
  const UniqueId id = new_id();
  return [=](int rank) {
    Settings own = settings;
    own.host_id = host_name(hosts[static_cast<size_t>(rank)]);
    FakeStream stream;
    Communicator communicator = Communicator::create(id, rank, static_cast<int>(hosts.size()), own, 0);
    body(communicator, stream);
    communicator.close();
  };
}

Call sum_of(size_t count) { return {Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, count}; }

// Enqueues a call behind the filling of its input, waits for the stream and checks the result.
void enqueue_and_check(Communicator& communicator, FakeStream& stream, const Call& call, int variant = 0,
                       const BufferLayout& layout = {}, bool multiplied = false) {
  const int ranks = communicator.size(), rank = communicator.rank();
  CallBuffers buffers(call, ranks, rank, layout);
  const Scalar factor = exact_scalar(call.type, rank);
  if (has_input(call, rank) && call.count > 0) fill_input(call, ranks, rank, variant, buffers.input());
  buffers.remember();
  try {
    communicator.enqueue(call, buffers.input(), buffers.output(), &stream, multiplied ? &factor : nullptr);
  } catch (...) {
    stream.finish();  // what was enqueued before it failed still uses the buffers
    throw;
  }
  stream.finish();
  if (const auto error = communicator.async_error()) throw *error;
  buffers.require_untouched_surroundings();
  require(count_wrong(call, ranks, rank, variant, buffers.output(), multiplied) == 0,
          "a call that succeeded gave a wrong result: ", to_text(call));
}

TEST_F(GpusOverNetwork, RandomCalls) {
  Random random(run_seed());
  for (int round = 0; round < 6; ++round) {
    const int ranks = 2 + static_cast<int>(random() % 4);
    const std::vector<int> hosts = random_hosts(random, ranks);
    const uint64_t seed = random();
    Settings settings = gpu_settings();
    settings.timeout_seconds = 30;
    settings.staging_bytes = 1024 << random() % 8;
    expect_all_well(run_processes(
        ranks, kLimit, on_gpus(hosts, settings, [&](Communicator& communicator, FakeStream& stream) {
          Random common(seed);
          for (int i = 0; i < 30; ++i) {
            Call call = random_call(common, ranks);
            if (call.collective != Collective::kBarrier) {
              call.count = common() % 3 == 0 ? common() % 4 : common() % 20'000;
            }
            const bool in_place = one_in(common, 3);
            const bool multiplied = reduces(call.collective) && call.op == ReduceOp::kSum && one_in(common, 2);
            enqueue_and_check(communicator, stream, call, i, {in_place, 0, 8, false}, multiplied);
            if (one_in(common, 5)) call_and_check(communicator, sum_of(77), i);
          }
        })));
    if (HasFailure()) return;
  }
}

// Later work of a stream sees what the call gave, though the call returned before the work that its input needs.
TEST_F(GpusOverNetwork, CallsAreInTheOrderOfTheirStream) {
  constexpr size_t kCount = 50'000;
  expect_all_well(
      run_processes(3, kLimit, on_gpus({0, 0, 1}, gpu_settings(), [](Communicator& communicator, FakeStream& stream) {
                      FakeStream other;
                      std::vector<int32_t> first(kCount), second(kCount), seen(kCount);
                      stream.add([&] {
                        ::usleep(100'000);
                        std::fill(first.begin(), first.end(), 1);
                      });
                      for (int i = 0; i < 3; ++i)
                        communicator.enqueue(sum_of(kCount), first.data(), first.data(), &stream);  // 1, 3, 9, 27
                      // On another stream, without a word between the two.
                      communicator.enqueue(sum_of(kCount), first.data(), second.data(), &other);
                      other.add([&] { seen = second; });
                      other.finish();
                      require(seen == std::vector<int32_t>(kCount, 81), "the last sum is ", seen[0]);
                      stream.finish();
                      require(first == std::vector<int32_t>(kCount, 27), "the third sum is ", first[0]);
                    })));
}

// Its thread goes on at once, whatever the others do.
TEST_F(GpusOverNetwork, AnEnqueueWaitsForNobody) {
  expect_all_well(
      run_processes(2, kLimit, on_gpus({0, 1}, gpu_settings(), [](Communicator& communicator, FakeStream& stream) {
                      std::vector<int32_t> data(1000, 1);
                      std::atomic<bool> go = communicator.rank() == 1;
                      stream.add([&] { go.wait(false); });
                      for (int i = 0; i < 3; ++i) communicator.enqueue(sum_of(1000), data.data(), data.data(), &stream);
                      require(go || !stream.is_idle(), "the stream did not wait");
                      go = true;
                      go.notify_all();
                      communicator.finish();
                      stream.finish();
                      require(data == std::vector<int32_t>(1000, 8), "the sum is ", data[0]);
                    })));
}

TEST_F(GpusOverNetwork, WhatCannotBeIsRefusedAndHarmsNobody) {
  expect_all_well(run_processes(
      2, kLimit, on_gpus({0, 1}, gpu_settings(), [](Communicator& communicator, FakeStream& stream) {
        std::vector<int32_t> data(10);
        stream.is_captured = true;
        require_refusal("graph", [&] { communicator.enqueue(sum_of(10), data.data(), data.data(), &stream); });
        stream.is_captured = false;
        const PeerMessage message{PeerMessage::Kind::kSend, 1 - communicator.rank(), DataType::kInt32, 10, data.data()};
        void* const streams[] = {&stream};
        require_refusal("ranks of one host", [&] { communicator.enqueue_p2p({&message, 1}, streams); });
        enqueue_and_check(communicator, stream, sum_of(1000));
      })));
}

TEST_F(GpusOverNetwork, ACommunicatorCanBeDivided) {
  expect_all_well(run_processes(
      4, kLimit, on_gpus({0, 1, 0, 1}, gpu_settings(), [](Communicator& communicator, FakeStream& stream) {
        SplitRequest request;
        request.color = communicator.rank() / 2;
        request.settings = communicator.settings();
        std::optional<Communicator> half = split(communicator, request);
        require(half && half->size() == 2, "half of four ranks");
        enqueue_and_check(*half, stream, sum_of(1000));
        half->close();
        enqueue_and_check(communicator, stream, sum_of(1000));
      })));
}

// ---- Faults

// Makes calls until one fails. Its stream goes on, and all later calls fail at once.
void enqueue_until_error(Communicator& communicator, FakeStream& stream, const std::function<void(int)>& call) {
  std::vector<int32_t> data(10);
  try {
    call_until_error([&] { communicator.enqueue(sum_of(10), data.data(), data.data(), &stream); }, call);
  } catch (const Error&) {
    stream.finish();
    throw;
  }
}

TEST_F(GpusOverNetwork, ARankThatIsKilledAmidChunksIsNamedOnAllHosts) {
  Random random(run_seed());
  for (const Collective collective : {Collective::kAllReduce, Collective::kAllGather, Collective::kBroadcast}) {
    const int ranks = 4, victim = static_cast<int>(random() % ranks);
    Settings settings = gpu_settings();
    settings.timeout_seconds = 10 * kLimit;  // no test succeeds by waiting for that
    Shared<Progress> progress;
    RankProcesses processes(ranks, on_gpus({0, 0, 1, 1}, settings, [&](Communicator& communicator, FakeStream& stream) {
                              const Call call{collective, DataType::kInt32, ReduceOp::kSum, 0, 300'000};
                              enqueue_until_error(communicator, stream, [&](int i) {
                                enqueue_and_check(communicator, stream, call, i);
                                ++progress->calls[communicator.rank()];
                              });
                            }));
    await_calls(processes, *progress, victim, static_cast<int>(1 + random() % 5));
    ::usleep(static_cast<useconds_t>(random() % 3000));
    const std::string name = join("rank ", victim, " (process ", processes.pid(victim));
    processes.kill(victim);
    expect_errors(processes.wait(kLimit), victim, ErrorCode::kPeerFailed, {name, "has died"});
  }
}

TEST_F(GpusOverNetwork, AnAbortReachesAllHosts) {
  const Outcomes outcomes = run_processes(
      4, kLimit, on_gpus({0, 1, 1, 0}, gpu_settings(), [](Communicator& communicator, FakeStream& stream) {
        enqueue_and_check(communicator, stream, sum_of(100));
        if (communicator.rank() == 2) communicator.abort("somebody pressed the button");
        enqueue_until_error(communicator, stream,
                            [&](int i) { enqueue_and_check(communicator, stream, sum_of(90'000), i); });
      }));
  expect_errors(outcomes, -1, ErrorCode::kPeerFailed, {"rank 2 aborted: somebody pressed the button"});
}

// Refused when it is enqueued, or failed on the GPU later.
TEST_F(GpusOverNetwork, ACopyThatFailsOnOneRankIsToldOnAllHosts) {
  Settings settings = gpu_settings();
  settings.timeout_seconds = 10 * kLimit;
  for (const bool refused : {true, false}) {
    const RankBody calls = on_gpus({0, 0, 1}, settings, [](Communicator& communicator, FakeStream& stream) {
      enqueue_until_error(communicator, stream,
                          [&](int i) { enqueue_and_check(communicator, stream, sum_of(90'000), i); });
    });
    const Outcomes outcomes = run_processes(3, kLimit, [&](int rank) {
      if (rank == 1) (refused ? FakeStaging::to_refuse : FakeStaging::to_break) = 29;
      calls(rank);
    });
    expect_errors(outcomes, -1, ErrorCode::kSystem,
                  {"rank 1 could not perform a call on its GPU: ",
                   refused ? "CUDA refuses a copy" : "CUDA says that a copy failed"});
  }
}

TEST_F(GpusOverNetwork, DifferentCallsAreFound) {
  const Outcomes outcomes =
      run_processes(3, kLimit, on_gpus({0, 0, 1}, gpu_settings(), [](Communicator& communicator, FakeStream& stream) {
                      enqueue_and_check(communicator, stream, sum_of(100));
                      enqueue_and_check(communicator, stream, sum_of(communicator.rank() == 2 ? 300u : 200u));
                    }));
  expect_errors(outcomes, -1, ErrorCode::kMismatch, {"200 int32", "300 int32"});
}

TEST_F(GpusOverNetwork, ARankThatDoesNotComeIsATimeoutThatNamesIt) {
  const Outcomes outcomes =
      run_processes(3, kLimit, on_gpus({0, 0, 1}, gpu_settings(), [](Communicator& communicator, FakeStream& stream) {
                      enqueue_and_check(communicator, stream, sum_of(100));
                      // Its call comes, but its stream is busy.
                      if (communicator.rank() == 2) stream.add([] { sleep_seconds(4 * kFaultTimeout); });
                      enqueue_and_check(communicator, stream, sum_of(100));
                    }));
  expect_errors(outcomes, -1, ErrorCode::kTimeout, {"PLAIT_TIMEOUT_SEC", "rank 2 (process ", " on host1 of "});
}

}  // namespace
}  // namespace plait::test
