// Blocking calls in which the CPU drives GPUs of several hosts, of which one machine takes the part. The GPUs are none
// (fake_reduces.hpp); the proxies, their queues and the network are as on GPUs. Skipped where there is no UCX.
#include <gtest/gtest.h>

#include "support/expect_outcomes.hpp"
#include "support/fake_reduces.hpp"
#include "support/random_calls.hpp"
#include "support/several_hosts.hpp"

namespace plait::test {
namespace {

class CpuDrivenRing : public ::testing::Test {
 protected:
  void SetUp() override {
    static const std::string missing = missing_network();
    if (!missing.empty()) GTEST_SKIP() << missing;
  }
};

Settings driven_settings(const std::string& algorithm = "all_reduce:nvgroup_ring") {
  Settings settings = fault_settings();
  settings.cpu_driven = CpuDriven::kOneQueue;
  settings.algorithm = algorithm;
  settings.cpu_reduce_bytes = 0;
  settings.staging_bytes = 64 << 10;  // so that calls have chunks for all lanes
  return settings;
}

RankBody on_gpus(const std::vector<int>& hosts, const Settings& settings, const CommunicatorBody& body) {
  const UniqueId id = new_id();
  return [=](int rank) {
    Settings own = settings;
    own.host_id = host_name(hosts[static_cast<size_t>(rank)]);
    Communicator communicator = Communicator::create(id, rank, static_cast<int>(hosts.size()), own, 0);
    body(communicator);
    communicator.close();
  };
}

Call sum_of(size_t count) { return {Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, count}; }

int posted(WorkAction action) { return FakeReduces::actions[static_cast<size_t>(action)]; }

void block_and_check(Communicator& communicator, const Call& call, int variant = 0, const BufferLayout& layout = {},
                     bool multiplied = false) {
  const int ranks = communicator.size(), rank = communicator.rank();
  CallBuffers buffers(call, ranks, rank, layout);
  if (call.count > 0) fill_input(call, ranks, rank, variant, buffers.input());
  buffers.remember();
  const Scalar factor = exact_scalar(call.type, rank);
  communicator.enqueue(call, buffers.input(), buffers.output(), kBlockingStream, multiplied ? &factor : nullptr);
  buffers.require_untouched_surroundings();
  require(count_wrong(call, ranks, rank, variant, buffers.output(), multiplied) == 0,
          "a call that succeeded gave a wrong result: ", to_text(call));
}

// Whoever has peers in the group asks for sums of the group, and everybody for the ring's steps (NVG-60).
TEST_F(CpuDrivenRing, TwoGroupsPassChunksRound) {
  for (const std::vector<int>& hosts : {std::vector{0, 1}, {0, 0, 1, 1}, {0, 1, 0}}) {
    expect_all_well(run_processes(
        static_cast<int>(hosts.size()), kLimit, on_gpus(hosts, driven_settings(), [&](Communicator& communicator) {
          const Call call{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 100'003};
          block_and_check(communicator, call);
          require(communicator.served_calls() == 1, "the call was not driven");
          Call blocking = call;
          blocking.is_blocking = true;
          require(communicator.launch_for(blocking).starts_with("driven by the CPU"),
                  communicator.launch_for(blocking));
          require(posted(WorkAction::kToCpu) > 0, "no TO-CPU");
          require(posted(WorkAction::kGroupBroadcast) > 0, "no GROUP-BCAST");
          const auto peers = std::ranges::count(hosts, hosts[communicator.rank()]) - 1;
          require((posted(WorkAction::kToLocal) > 0) == (peers > 0), "TO-LOCAL");
        })));
    if (HasFailure()) return;
  }
}

// All types and operations, any count and alignment, in place and not, chunks on several lanes, parts of their chunks
// (NVG-62), and slices of what is longer than scratch.
TEST_F(CpuDrivenRing, RandomCalls) {
  Random random(run_seed());
  for (int round = 0; round < 6; ++round) {
    const int ranks = 2 + static_cast<int>(random() % 4);
    const std::vector<int> hosts = random_hosts(random, ranks);
    const uint64_t seed = random();
    Settings settings = driven_settings(join("all_reduce:nvgroup_ring(parts=", 1 << random() % 3, ")"));
    settings.timeout_seconds = 30;
    settings.scratch_bytes = size_t{128} << 10 << random() % 4;
    settings.staging_lanes = 1 + static_cast<int>(random() % 3);
    expect_all_well(run_processes(ranks, kLimit, on_gpus(hosts, settings, [&](Communicator& communicator) {
                                    Random common(seed);
                                    uint64_t driven = 0;
                                    for (int i = 0; i < 30; ++i) {
                                      Call call = random_call(common, ranks);
                                      call.collective = Collective::kAllReduce;
                                      call.count = 1 + (common() % 3 == 0 ? common() % 4 : common() % 20'000);
                                      const bool in_place = one_in(common, 3);
                                      const bool multiplied = call.op == ReduceOp::kSum && one_in(common, 2);
                                      const size_t element = size_of(call.type);
                                      block_and_check(communicator, call, i,
                                                      {in_place, common() % 3 * element, common() % 3 * element, false},
                                                      multiplied);
                                      require(communicator.served_calls() == ++driven, "a call was not driven");
                                      if (one_in(common, 5)) call_and_check(communicator, sum_of(77), i);
                                    }
                                  })));
    if (HasFailure()) return;
  }
}

// With a pinned algorithm, chunks of so many bytes are staged: the CPU reduces them (NVG-63).
TEST_F(CpuDrivenRing, ShortChunksOfAPinnedAlgorithmAreStaged) {
  Settings settings = driven_settings("all_reduce:nvgroup_ring(parts=4)");
  settings.cpu_reduce_bytes = 16'384;
  expect_all_well(run_processes(3, kLimit, on_gpus({0, 0, 1}, settings, [&](Communicator& communicator) {
                                  const size_t most = 2 * 16'384 / sizeof(int32_t);  // of two groups
                                  block_and_check(communicator, sum_of(most));
                                  require(communicator.served_calls() == 0, "the GPU reduced short chunks");
                                  block_and_check(communicator, sum_of(most + 1));
                                  require(communicator.served_calls() == 1, "long chunks were staged");
                                })));
}

// Without one, the CPU reduces short messages by recursive doubling (NVG-64), and the longest are staged.
TEST_F(CpuDrivenRing, TheLengthOfAMessageChoosesItsPlan) {
  for (const std::vector<int>& hosts : {std::vector{0, 1}, {0, 0, 1}, {0, 1, 1, 0, 2}}) {
    Settings settings = driven_settings("");
    settings.cpu_reduce_bytes = 4096;
    settings.cpu_driven_bytes = 1 << 20;
    expect_all_well(run_processes(
        static_cast<int>(hosts.size()), kLimit, on_gpus(hosts, settings, [&](Communicator& communicator) {
          const size_t groups = 1 + static_cast<size_t>(std::ranges::max(hosts));
          const size_t shortest = groups * 4096 / sizeof(int32_t), most = (1 << 20) / sizeof(int32_t);
          const auto algorithm_for = [&](size_t count) {
            Call call = sum_of(count);
            call.is_blocking = true;
            const bool is_driven = communicator.launch_for(call).starts_with("driven by the CPU");
            return is_driven ? communicator.plan_for(call).plan().algorithm : "staged";
          };
          for (const auto& [count, expected] : {std::pair<size_t, const char*>{1, "cpu_recursive_doubling"},
                                                {shortest, "cpu_recursive_doubling"},
                                                {shortest + 1, "nvgroup_ring"},
                                                {most, "nvgroup_ring"},
                                                {most + 1, "staged"}}) {
            const uint64_t before = communicator.served_calls();
            require(algorithm_for(count) == expected, algorithm_for(count), " for ", count);
            block_and_check(communicator, sum_of(count));
            require((communicator.served_calls() > before) == (count <= most), "who performed ", count);
          }
        })));
    if (HasFailure()) return;
  }
}

// Random calls of all lengths, with plans of both kinds and staged ones between them.
TEST_F(CpuDrivenRing, RandomCallsOfAllLengths) {
  Random random(run_seed());
  for (int round = 0; round < 4; ++round) {
    const int ranks = 2 + static_cast<int>(random() % 4);
    const std::vector<int> hosts = random_hosts(random, ranks);
    const uint64_t seed = random();
    Settings settings = driven_settings("");
    settings.timeout_seconds = 30;
    settings.cpu_reduce_bytes = 2048;
    settings.cpu_driven_bytes = 256 << 10;
    expect_all_well(run_processes(ranks, kLimit, on_gpus(hosts, settings, [&](Communicator& communicator) {
                                    Random common(seed);
                                    for (int i = 0; i < 40; ++i) {
                                      Call call = random_call(common, ranks);
                                      call.collective = Collective::kAllReduce;
                                      call.count = 1 + common() % (one_in(common, 2) ? 500 : 50'000);
                                      const bool multiplied = call.op == ReduceOp::kSum && one_in(common, 3);
                                      block_and_check(communicator, call, i, {one_in(common, 3), 0, 0, false},
                                                      multiplied);
                                    }
                                    require(communicator.served_calls() > 0, "no call was driven");
                                  })));
    if (HasFailure()) return;
  }
}

// All collectives, roots, types and operations, by what the tuner chooses (NVG-61, NVG-97).
TEST_F(CpuDrivenRing, RandomCallsOfAllCollectives) {
  Random random(run_seed());
  for (int round = 0; round < 6; ++round) {
    const int ranks = 2 + static_cast<int>(random() % 4);
    const std::vector<int> hosts = random_hosts(random, ranks);
    const uint64_t seed = random();
    Settings settings = driven_settings("");
    settings.timeout_seconds = 30;
    settings.scratch_bytes = size_t{128} << 10 << random() % 4;
    settings.staging_lanes = 1 + static_cast<int>(random() % 3);
    expect_all_well(run_processes(
        ranks, kLimit, on_gpus(hosts, settings, [&](Communicator& communicator) {
          uint64_t driven = 0;
          for (const Collective it : {Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast,
                                      Collective::kReduceScatter, Collective::kAllGather, Collective::kAllToAll}) {
            block_and_check(communicator, {it, DataType::kFloat32, ReduceOp::kSum, 0, 100});
            require(communicator.served_calls() == ++driven, "a call was not driven: ", name(it));
          }
          Random common(seed);
          for (int i = 0; i < 60; ++i) {
            Call call = random_call(common, ranks);
            call.count = 1 + common() % (one_in(common, 2) ? 300 : 20'000);
            const bool multiplied = reduces(call.collective) && call.op == ReduceOp::kSum && one_in(common, 3);
            block_and_check(communicator, call, i, {one_in(common, 3), 0, 0, false}, multiplied);
          }
        })));
    if (HasFailure()) return;
  }
}

// Every algorithm that a user pins, over groups and without (NVG-96).
TEST_F(CpuDrivenRing, PinnedAlgorithms) {
  const std::vector<int> hosts = {0, 0, 1, 1};
  for (const char* const algorithm :
       {"all_reduce:rabenseifner", "all_reduce:double_binary_tree", "all_reduce:hierarchical(node: flat, all: ring)",
        "all_reduce:recursive_doubling", "reduce:binomial", "broadcast:chain(parts=4)", "broadcast:scatter_ring",
        "reduce_scatter:ring", "all_gather:bruck", "all_gather:hierarchical(node: flat, all: ring)"}) {
    Settings settings = driven_settings(algorithm);
    settings.cpu_reduce_bytes = 0;
    const Collective collective =
        parse_collective(std::string_view(algorithm).substr(0, std::string_view(algorithm).find(':')));
    expect_all_well(run_processes(4, kLimit, on_gpus(hosts, settings, [&](Communicator& communicator) {
                                    for (const size_t count : {3, 1000, 50'001}) {
                                      Call call = sum_of(count);
                                      call.collective = collective;
                                      call.root = has_root(collective) ? 2 : 0;
                                      block_and_check(communicator, call);
                                    }
                                    require(communicator.served_calls() == 3, algorithm, ": ",
                                            communicator.served_calls(), " of 3 calls were driven");
                                  })));
    if (HasFailure()) return;
  }
}

// Products are not put into the output then, for that would be a call in place; on host memory neither.
TEST_F(CpuDrivenRing, ProductsForAPlanThatCannotRunInPlace) {
  const std::vector<int> hosts = {0, 0, 1};
  AlgorithmArguments arguments;
  arguments.ranks = 3;
  arguments.node_of = hosts;
  Plan made = make_plan("ring", arguments);
  made.in_place = false;
  const auto plan = std::make_shared<const VerifiedPlan>(verify(std::move(made)));
  expect_all_well(run_processes(3, kLimit, on_gpus(hosts, driven_settings(""), [&](Communicator& communicator) {
                                  communicator.give(plan);
                                  const Call call = call_by(*plan, DataType::kInt32, ReduceOp::kSum, 20'000);
                                  block_and_check(communicator, call, 0, {}, true);
                                  require(communicator.served_calls() == 1, "the call was not driven");
                                  CallBuffers buffers(call, 3, communicator.rank(), {});
                                  fill_input(call, 3, communicator.rank(), 1, buffers.input());
                                  buffers.remember();
                                  const Scalar factor = exact_scalar(call.type, communicator.rank());
                                  communicator.run(call, buffers.input(), buffers.output(), &factor);
                                  buffers.require_untouched_surroundings();
                                  require(count_wrong(call, 3, communicator.rank(), 1, buffers.output(), true) == 0,
                                          "a wrong sum on host memory");
                                })));
}

// Groups of one host, by a plan of the caller's: what passes between groups is the CPU's copy in shared memory.
TEST(CpuDrivenOnOneHost, RandomCallsOfGroups) {
  Random random(run_seed());
  for (const std::vector<std::vector<int>>& groups :
       {std::vector<std::vector<int>>{{0}, {1}}, {{0, 1}, {2, 3}}, {{0, 1}, {2}}, {{0}, {1}, {2}}}) {
    int ranks = 0;
    for (const auto& group : groups) ranks += static_cast<int>(group.size());
    AlgorithmArguments arguments;
    arguments.ranks = ranks;
    arguments.groups = groups;
    arguments.parts = 1 << random() % 3;
    const auto plan = std::make_shared<const VerifiedPlan>(verify(make_plan("nvgroup_ring", arguments)));
    const UniqueId id = new_id(), id_of_gpus = new_id();
    const uint64_t seed = random();
    expect_all_well(run_processes(ranks, kLimit, [&](int rank) {
      Communicator communicator = Communicator::create(id, rank, ranks, fault_settings());
      Bootstrap bootstrap = Bootstrap::create(id_of_gpus, rank, ranks);
      std::vector<int> all;
      for (int r = 0; r < ranks; ++r) all.push_back(r);
      FakeReduces gpu(bootstrap, all, communicator.settings().scratch_bytes);
      communicator.give(plan);
      Random common(seed);
      for (int i = 0; i < 20; ++i) {
        const Call drawn = random_call(common, ranks);
        const Call call = call_by(*plan, drawn.type, drawn.op, 1 + common() % 20'000);
        CallBuffers buffers(call, ranks, rank, {one_in(common, 3), 0, 0, false});
        fill_input(call, ranks, rank, i, buffers.input());
        buffers.remember();
        communicator.run(call, buffers.input(), buffers.output(), gpu);
        buffers.require_untouched_surroundings();
        require(count_wrong(call, ranks, rank, i, buffers.output()) == 0, "a wrong result: ", to_text(call));
      }
      require(gpu.requests() > 0, "no work was requested");
      communicator.close();
    }));
    if (HasFailure()) return;
  }
}

// ---- Faults

void block_until_error(Communicator& communicator, const std::function<void(int)>& call) {
  call_until_error([&] { block_and_check(communicator, sum_of(1000)); }, call);
}

TEST_F(CpuDrivenRing, ARankThatIsKilledIsNamedOnAllHosts) {
  Random random(run_seed());
  const int ranks = 4, victim = static_cast<int>(random() % ranks);
  Settings settings = driven_settings();
  settings.timeout_seconds = 10 * kLimit;  // no test succeeds by waiting for that
  Shared<Progress> progress;
  RankProcesses processes(ranks, on_gpus({0, 0, 1, 1}, settings, [&](Communicator& communicator) {
                            block_until_error(communicator, [&](int i) {
                              block_and_check(communicator, sum_of(300'000), i);
                              ++progress->calls[communicator.rank()];
                            });
                          }));
  await_calls(processes, *progress, victim, static_cast<int>(1 + random() % 5));
  ::usleep(static_cast<useconds_t>(random() % 3000));
  const std::string name = join("rank ", victim, " (process ", processes.pid(victim));
  processes.kill(victim);
  expect_errors(processes.wait(kLimit), victim, ErrorCode::kPeerFailed, {name, "has died"});
}

TEST_F(CpuDrivenRing, AnAbortReachesAllProxies) {
  const Outcomes outcomes =
      run_processes(4, kLimit, on_gpus({0, 1, 1, 0}, driven_settings(), [](Communicator& communicator) {
                      block_and_check(communicator, sum_of(100'000));
                      if (communicator.rank() == 2) communicator.abort("somebody pressed the button");
                      block_until_error(communicator, [&](int i) { block_and_check(communicator, sum_of(90'000), i); });
                    }));
  expect_errors(outcomes, -1, ErrorCode::kPeerFailed, {"rank 2 aborted: somebody pressed the button"});
}

TEST_F(CpuDrivenRing, AKernelThatFailsOnOneRankIsToldOnAllHosts) {
  Settings settings = driven_settings();
  settings.timeout_seconds = 10 * kLimit;
  const RankBody calls = on_gpus({0, 0, 1}, settings, [](Communicator& communicator) {
    block_until_error(communicator, [&](int i) { block_and_check(communicator, sum_of(90'000), i); });
  });
  const Outcomes outcomes = run_processes(3, kLimit, [&](int rank) {
    if (rank == 1) FakeReduces::broken_request = 29;
    calls(rank);
  });
  expect_errors(outcomes, -1, ErrorCode::kSystem, {"CUDA says that a kernel failed"});
}

TEST_F(CpuDrivenRing, AnInterruptEndsACallThatWaits) {
  Settings settings = driven_settings();
  settings.timeout_seconds = 10 * kLimit;
  const Outcomes outcomes =
      run_processes(3, kLimit, on_gpus({0, 0, 1}, settings, [](Communicator& communicator) {
                      block_and_check(communicator, sum_of(100'000));
                      if (communicator.rank() == 2) sleep_seconds(2);
                      if (communicator.rank() == 0) {
                        communicator.set_interrupt_check([] { throw std::runtime_error("interrupt"); });
                      }
                      block_and_check(communicator, sum_of(100'000));
                    }));
  EXPECT_EQ(outcomes[0].text, "interrupt") << describe(outcomes[0]);
  for (int rank = 1; rank < 3; ++rank) {
    EXPECT_EQ(objection(outcomes[static_cast<size_t>(rank)], ErrorCode::kPeerFailed, {"rank 0 was interrupted"}), "");
  }
}

TEST_F(CpuDrivenRing, ARankThatDoesNotComeIsNamed) {
  const Outcomes outcomes =
      run_processes(3, kLimit, on_gpus({0, 0, 1}, driven_settings(), [](Communicator& communicator) {
                      block_and_check(communicator, sum_of(100'000));
                      if (communicator.rank() == 2) sleep_seconds(4 * kFaultTimeout);
                      block_and_check(communicator, sum_of(100'000));
                    }));
  expect_errors(outcomes, -1, ErrorCode::kTimeout, {"PLAIT_TIMEOUT_SEC", "rank 2 (process ", " on host1 of "});
}

}  // namespace
}  // namespace plait::test
