// Ranks that make different calls: every rank is told who called what. Calls that cannot be made harm no rank.
#include <gtest/gtest.h>

#include "runtime/host/rank_status.hpp"
#include "support/expect_outcomes.hpp"
#include "support/failing_ranks.hpp"
#include "support/rank_threads.hpp"

namespace plait::test {
namespace {

constexpr int kRanks = 3;

// Each rank makes its calls and then waits for the others in barriers, until something fails.
Outcomes run_calls(const std::string& algorithms, const std::function<std::vector<Call>(int rank)>& calls_of) {
  Settings settings = fault_settings();
  settings.algorithm = algorithms;
  return run_processes(kRanks, kLimit, with_communicator(kRanks, settings, [&](Communicator& communicator) {
                         const std::vector<Call> calls = calls_of(communicator.rank());
                         call_until_error(communicator, [&](int i) {
                           require(i < 10, "nobody noticed");
                           if (static_cast<size_t>(i) >= calls.size()) return communicator.barrier();
                           CallBuffers buffers(calls[static_cast<size_t>(i)], kRanks, communicator.rank(), {});
                           communicator.run(calls[static_cast<size_t>(i)], buffers.input(), buffers.output());
                         });
                       }));
}

// Rank 1 makes a different call from the others.
void expect_noticed(const Call& most, const Call& rank_one, const std::string& algorithms = "") {
  SCOPED_TRACE(to_text(most) + " and " + to_text(rank_one));
  const Outcomes outcomes = run_calls(algorithms, [&](int rank) { return std::vector{rank == 1 ? rank_one : most}; });
  expect_errors(outcomes, -1, ErrorCode::kMismatch,
                {"call 1 differs", "rank 1 called " + to_text(rank_one), " called " + to_text(most)});
}

const Call kCall{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 1000};

Call with_count(Call call, size_t count) {
  call.count = count;
  return call;
}

TEST(Mismatch, Counts) {
  for (const size_t count : {size_t{999}, size_t{0}, size_t{100'000}}) expect_noticed(kCall, with_count(kCall, count));
  for (const Collective collective : {Collective::kReduceScatter, Collective::kAllGather}) {
    Call call = kCall;
    call.collective = collective;
    expect_noticed(call, with_count(call, 1001));
  }
}

TEST(Mismatch, TypesOfEqualAndOfOtherSize) {
  for (const DataType type : {DataType::kInt32, DataType::kFloat16}) {
    Call other = kCall;
    other.type = type;
    expect_noticed(kCall, other);
  }
}

TEST(Mismatch, Operations) {
  Call other = kCall;
  other.op = ReduceOp::kMax;
  expect_noticed(kCall, other);
}

TEST(Mismatch, Collectives) {
  for (const Collective collective : {Collective::kReduceScatter, Collective::kAllGather, Collective::kBroadcast}) {
    Call other = kCall;
    other.collective = collective;
    expect_noticed(kCall, other);
    expect_noticed(other, kCall);
  }
  expect_noticed(kCall, Call{});
}

// Trees do not synchronise: calls along them may be over before any rank can notice. The next calls then have to
// notice.
constexpr const char* kTrees = "broadcast:binomial,reduce:binomial";

TEST(Mismatch, Roots) {
  for (const Collective collective : {Collective::kReduce, Collective::kBroadcast}) {
    for (const int common : {0, 1, 2}) {
      for (const int other : {0, 1, 2}) {
        if (common == other) continue;
        Call most{collective, DataType::kInt32, ReduceOp::kSum, common, 50}, rank_one = most;
        rank_one.root = other;
        expect_noticed(most, rank_one);
        expect_noticed(most, rank_one, kTrees);
      }
    }
  }
}

TEST(Mismatch, CallsThatNobodyWaitsFor) {
  // Rank 1 gives to a reduce while the others get a broadcast: none of them waits for any other.
  const Call broadcast{Collective::kBroadcast, DataType::kInt32, ReduceOp::kSum, 0, 50};
  const Call reduce{Collective::kReduce, DataType::kInt32, ReduceOp::kSum, 0, 50};
  expect_noticed(broadcast, reduce, kTrees);
}

// ---- Calls in which no rank waits for another, and after which no rank makes a call in which it would wait.

constexpr Collective kRooted[] = {Collective::kBroadcast, Collective::kReduce, Collective::kGather,
                                  Collective::kScatter};

// Each rank gives, or each is the root: a rank with both a part and a root of its own waits for no other.
Call unawaited(Collective collective, int rank, int ranks) {
  const bool gives = collective == Collective::kReduce || collective == Collective::kGather;
  return {collective, DataType::kInt32, ReduceOp::kSum, gives ? (rank + 1) % ranks : rank, 50};
}

void call(Communicator& communicator, const Call& call) {
  CallBuffers buffers(call, communicator.size(), communicator.rank(), {});
  communicator.run(call, buffers.input(), buffers.output());
}

TEST(Mismatch, ALastCallThatNobodyWaitsForIsNoticedWhenRanksClose) {
  for (const Collective collective : kRooted) {
    for (const int before : {0, 1, 40}) {
      SCOPED_TRACE(join(name(collective), " after ", before));
      const auto body = [&](Communicator& communicator) {
        for (int i = 0; i < before; ++i) call_and_check(communicator, kCall, i);
        call(communicator, unawaited(collective, communicator.rank(), 2));
        communicator.close();
      };
      expect_errors(run_processes(2, kLimit, with_communicator(2, fault_settings(), body)), -1, ErrorCode::kMismatch,
                    {join("call ", before + 1, " differs"), "rank 0 called " + to_text(unawaited(collective, 0, 2)),
                     "rank 1 called " + to_text(unawaited(collective, 1, 2))});
    }
  }
}

TEST(Mismatch, ALoopOfCallsThatNobodyWaitsForIsNoticedInIt) {
  for (const int ranks : {2, 3}) {
    for (const Collective collective : kRooted) {
      SCOPED_TRACE(join(name(collective), " of ", ranks));
      const auto body = [&](Communicator& communicator) {
        call_until_error(communicator, [&](int i) {
          require(i < kCallHistory, "nobody noticed");
          call(communicator, unawaited(collective, communicator.rank(), ranks));
        });
      };
      expect_errors(run_processes(ranks, kLimit, with_communicator(ranks, fault_settings(), body)), -1,
                    ErrorCode::kMismatch, {"call 1 differs", name(collective)});
    }
  }
}

// A mismatch that was noticed in a call is not reported once more: a program that has heard of it can close.
TEST(Mismatch, IsToldOnce) {
  expect_all_well(run_threads(2, fault_settings(), [](Communicator& communicator) {
    const Outcome outcome = outcome_of(
        [&](int rank) {
          for (;;) call(communicator, unawaited(Collective::kGather, rank, 2));
        },
        communicator.rank());
    require(objection(outcome, ErrorCode::kMismatch, {"call 1 differs"}).empty(), describe(outcome));
    communicator.close();
  }));
}

TEST(Mismatch, ARankThatClosesWithoutTheLastCall) {
  const auto body = [](Communicator& communicator) {
    call_and_check(communicator, kCall);
    if (communicator.rank() == 0) call(communicator, {Collective::kGather, DataType::kInt32, ReduceOp::kSum, 1, 50});
    communicator.close();
  };
  const Outcomes outcomes = run_processes(2, kLimit, with_communicator(2, fault_settings(), body));
  // Either rank may be the one that finds out, and reports it from its side.
  expect_error(outcomes, 0, ErrorCode::kMismatch,
               {"(process ", "closed its communicator after ", "call 2, gather of 50"});
}

TEST(Mismatch, ARankThatDiesBeforeTheLastCall) {
  const auto body = [](Communicator& communicator) {
    call_and_check(communicator, kCall);
    if (communicator.rank() == 1) ::_exit(0);
    call(communicator, {Collective::kBroadcast, DataType::kInt32, ReduceOp::kSum, 0, 50});
    communicator.close();
  };
  const Outcomes outcomes = run_processes(2, kLimit, with_communicator(2, fault_settings(), body));
  expect_error(outcomes, 0, ErrorCode::kPeerFailed,
               {"rank 1 (process ", "has died after 1 call, and rank 0 has made call 2, broadcast of 50"});
}

// A rank that closes does not hang because another computes for longer. Nor is it wrong, and nothing that it gave is
// lost.
TEST(Mismatch, NobodyIsWrongWhoClosesWhileOthersCompute) {
  const Call broadcast{Collective::kBroadcast, DataType::kInt32, ReduceOp::kSum, 0, 50};
  Shared<Progress> progress;
  const auto body = [&](Communicator& communicator) {
    call_and_check(communicator, kCall);
    if (communicator.rank() == 1) {  // until the other has closed
      while (progress->calls[0] == 0) ::usleep(1000);
    }
    call_and_check(communicator, broadcast);
    communicator.close();
    communicator.close();
    progress->calls[communicator.rank()] = 1;
    const Outcome outcome = outcome_of([&](int) { communicator.barrier(); }, 0);
    require(objection(outcome, ErrorCode::kInvalidArgument, {"closed"}).empty(), describe(outcome));
  };
  expect_all_well(run_processes(2, kLimit, with_communicator(2, fault_settings(), body)));
}

// ---- The order and the number of calls.

TEST(Mismatch, TheOrderOfCalls) {
  const Call a = kCall, b = with_count(kCall, 10);
  const Outcomes outcomes =
      run_calls("", [&](int rank) { return rank == 2 ? std::vector{a, b, a} : std::vector{a, a, b}; });
  expect_errors(outcomes, -1, ErrorCode::kMismatch,
                {"call 2 differs", "rank 2 called " + to_text(b), " called " + to_text(a)});
}

TEST(Mismatch, OneCallTooMany) {
  const Outcomes outcomes = run_calls("", [&](int rank) { return std::vector<Call>(rank == 0 ? 3 : 2, kCall); });
  expect_errors(outcomes, -1, ErrorCode::kMismatch, {"call 3 differs", "rank 0 called " + to_text(kCall), "barrier"});
}

TEST(Mismatch, Settings) {
  const UniqueId id = new_id();
  const Outcomes outcomes = run_processes(3, kLimit, [&](int rank) {
    Settings settings = fault_settings();
    if (rank == 1) settings.scratch_bytes *= 2;
    Communicator::create(id, rank, 3, settings);
  });
  expect_errors(outcomes, -1, ErrorCode::kMismatch, {"PLAIT_SCRATCH_KIB", "rank 0", "rank 1"});

  const UniqueId limited = new_id();
  const Outcomes unlike = run_processes(2, kLimit, [&](int rank) {
    Settings settings = fault_settings();
    if (rank == 1) settings.max_sms = 8;
    Communicator::create(limited, rank, 2, settings);
  });
  expect_errors(unlike, -1, ErrorCode::kMismatch, {"PLAIT_MAX_SMS", "'0' on rank 0, '8' on rank 1"});

  const UniqueId second = new_id();
  const Outcomes others = run_processes(3, kLimit, [&](int rank) {
    Settings settings = fault_settings();
    if (rank == 2) settings.algorithm = "all_reduce:ring";
    Communicator::create(second, rank, 3, settings);
  });
  expect_errors(others, -1, ErrorCode::kMismatch, {"PLAIT_ALGORITHM", "all_reduce:ring", "rank 2"});
}

// ---- Calls that are refused before anything happens.

void expect_refused(Communicator& communicator, const Call& call, const void* input, void* output,
                    const std::string& part) {
  const Outcome outcome = outcome_of([&](int) { communicator.run(call, input, output); }, 0);
  EXPECT_EQ(objection(outcome, ErrorCode::kInvalidArgument, {"rank 0", part}), "");
}

TEST(Refusals, HarmNobody) {
  std::vector<Communicator> ranks = Communicator::in_process(2, fault_settings());
  std::vector<float> buffer(100);
  float* data = buffer.data();
  const Call sum{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 10};
  expect_refused(ranks[0], sum, nullptr, data, "input is null");
  expect_refused(ranks[0], sum, data, nullptr, "output is null");
  expect_refused(ranks[0], sum, data, data + 3, "overlap");
  expect_refused(ranks[0], sum, data + 9, data, "overlap");
  Call rooted{Collective::kBroadcast, DataType::kFloat32, ReduceOp::kSum, 2, 10};
  expect_refused(ranks[0], rooted, data, data, "root 2 is not one of the 2 ranks");
  rooted.root = -1;
  expect_refused(ranks[0], rooted, data, data, "root -1 is not one of the 2 ranks");
  Call gather{Collective::kAllGather, DataType::kFloat32, ReduceOp::kSum, 0, 10};
  expect_refused(ranks[0], gather, data + 10, data, "in place means input = output + rank * count");
  gather.collective = Collective::kReduceScatter;
  expect_refused(ranks[0], gather, data, data + 10, "in place means output = input + rank * count");
  Call huge = sum;
  for (const size_t count : {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 16 + 1}) {
    huge.count = count;
    expect_refused(ranks[0], huge, data, data, "larger than any memory");
  }

  expect_all_well(run_threads(2, [&](int rank) { call_and_check(ranks[static_cast<size_t>(rank)], sum); }));
}

// A plan that does not fit is refused on all ranks alike, and calls that were bound before stay right.
TEST(Refusals, PlansThatDoNotFit) {
  Settings settings = fault_settings();
  settings.algorithm = "broadcast:chain(600)";
  expect_all_well(run_threads(2, settings, [](Communicator& communicator) {
    const Call deep{Collective::kBroadcast, DataType::kInt8, ReduceOp::kSum, 0, 5000};
    for (size_t count = 1; count < 300; ++count) {  // more calls than the communicator remembers
      const Call call{Collective::kAllReduce, DataType::kInt8, ReduceOp::kSum, 0, count};
      call_and_check(communicator, call);
      if (count % 16 != 0) continue;
      int8_t data[5000] = {};
      const Outcome outcome = outcome_of([&](int) { communicator.run(deep, data, data); }, 0);
      const std::string problem = objection(outcome, ErrorCode::kResources, {"chain", "600 signals"});
      require(problem.empty(), problem);
      call_and_check(communicator, call);
    }
  }));
}

TEST(Refusals, CommunicatorsThatCannotBe) {
  const auto expect_code = [](ErrorCode code, const RankBody& body) {
    EXPECT_EQ(objection(outcome_of(body, 0), code, {}), "");
  };
  expect_code(ErrorCode::kInvalidArgument, [](int) { Communicator::in_process(0, Settings{}); });
  expect_code(ErrorCode::kInvalidArgument, [](int) { Communicator::in_process(100'000, Settings{}); });
  expect_code(ErrorCode::kInvalidArgument, [](int) { Communicator::create(new_id(), 3, 3, Settings{}); });
  expect_code(ErrorCode::kInvalidArgument, [](int) { Communicator::create(new_id(), -1, 3, Settings{}); });
  expect_code(ErrorCode::kInvalidArgument, [](int) { Communicator::create(UniqueId{}, 0, 1, Settings{}); });
  Settings settings;
  settings.algorithm = "all_reduce:magic";
  expect_code(ErrorCode::kInvalidArgument, [&](int) { Communicator::in_process(2, settings); });
}

TEST(Refusals, AMovedFromCommunicatorSaysSo) {
  std::vector<Communicator> ranks = Communicator::in_process(1, Settings{});
  Communicator& old = ranks[0];
  const Communicator taken = std::move(old);
  for (const RankBody& use : {RankBody([&](int) { old.barrier(); }), RankBody([&](int) { old.rank(); }),
                              RankBody([&](int) { old.abort("x"); }), RankBody([&](int) { old.settings(); })}) {
    EXPECT_EQ(objection(outcome_of(use, 0), ErrorCode::kInvalidArgument, {"moved"}), "");
  }
}

}  // namespace
}  // namespace plait::test
