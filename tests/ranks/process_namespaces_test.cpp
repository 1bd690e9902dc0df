// Ranks that cannot see each other's processes, such as those of different containers: a rank that dies is found at
// once.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "runtime/bootstrap.hpp"
#include "runtime/host/host_rank.hpp"
#include "runtime/host/peers.hpp"
#include "support/expect_outcomes.hpp"
#include "support/failing_ranks.hpp"
#include "support/system.hpp"

namespace plait::test {
namespace {

constexpr int kRanks = 3;
constexpr const char* kCannot = "this process may make no process namespace";

// No test may succeed by waiting for the end of this time.
Settings long_timeouts() {
  Settings settings = fault_settings();
  settings.timeout_seconds = 10 * kLimit;
  return settings;
}

// Runs `body` as the first process of a new process namespace, and ends as it does.
void in_new_process_namespace(int rank, const RankBody& body) {
  if (!enter_namespaces(CLONE_NEWPID)) throw Error(ErrorCode::kResources, kCannot);
  const Outcome outcome = run_processes(1, kLimit, [&](int) {
    require(::getpid() == 1, "process ", ::getpid(), " is not the first one");
    body(rank);
  })[0];
  if (outcome.end == Outcome::End::kError) throw Error(outcome.code, outcome.text);
  require(outcome.well(), describe(outcome));
}

bool cannot_make_namespaces() {
  const Outcome outcome = run_processes(1, kLimit, [](int) { in_new_process_namespace(0, [](int) {}); })[0];
  return outcome.text == kCannot;
}

TEST(ProcessNamespaces, ARankThatDiesIsFoundAtOnce) {
  if (cannot_make_namespaces()) GTEST_SKIP() << kCannot;
  for (const int victim : {0, 1}) {
    for (const bool is_job : {false, true}) {
      const UniqueId id = is_job ? new_id() : RendezvousPoint::create().release();
      const Outcomes outcomes = run_processes(kRanks, kLimit, [&](int process) {
        // The last rank is where this test is, and sees more than the others.
        const RankBody body = [&](int rank) {
          Communicator communicator = Communicator::create(id, rank, kRanks, long_timeouts());
          const Call sum{Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, 100};
          call_and_check(communicator, sum);
          if (rank == victim) ::_exit(0);
          call_until_error(communicator, [&](int i) { call_and_check(communicator, sum, i); });
        };
        if (process + 1 == kRanks) return body(process);
        in_new_process_namespace(process, body);
      });
      for (int rank = 0; rank < kRanks; ++rank) {
        if (rank == victim) continue;
        expect_error(outcomes, rank, ErrorCode::kPeerFailed, {join("rank ", victim, " (process "), "has died while"});
      }
      EXPECT_NE(outcomes[1 - victim].text.find("(process 1 in another container) has died"), std::string::npos)
          << outcomes[1 - victim].text;
    }
  }
}

TEST(ProcessNamespaces, RanksThatEndWellHarmNobody) {
  if (cannot_make_namespaces()) GTEST_SKIP() << kCannot;
  const UniqueId id = RendezvousPoint::create().release();
  expect_all_well(run_processes(kRanks, kLimit, [&](int process) {
    in_new_process_namespace(process, [&](int rank) {
      Communicator communicator = Communicator::create(id, rank, kRanks, long_timeouts());
      for (int i = 0; i < 20; ++i) {
        if (rank == 2) ::usleep(1000);
        call_and_check(communicator, {Collective::kBroadcast, DataType::kInt8, ReduceOp::kSum, 0, 999}, i);
      }
    });
  }));
}

// The same if no namespace can be made: ranks that do not use what they know of each other's processes.
TEST(ProcessNamespaces, ARankWhoseProcessIsNotKnownAndThatDiesIsFoundAtOnce) {
  const UniqueId id = RendezvousPoint::create().release();
  RankProcesses ranks(2, [&](int rank) {
    Bootstrap bootstrap = Bootstrap::create(id, rank, 2, {{30, Logger()}, {}});
    const SegmentShape shape{2, 4096, 16};
    UniqueFd file;
    if (rank == 0) file = Segment::create(shape, "");
    const UniqueFd shared = bootstrap.broadcast_descriptor(file.get());
    Peers peers = Peers::meet(bootstrap, {0, 1}, {0, 0}, {71, 72});
    HostRank host(std::make_shared<Segment>(shape, shared), rank, std::move(peers),
                  {{10 * kLimit, Logger()}, WaitPolicy::kAuto, true});
    bootstrap.barrier();
    bootstrap.close();
    if (rank == 1) sleep_for_ever();
    int64_t message = 0;
    const PeerMessage receive{PeerMessage::Kind::kReceive, 1, DataType::kInt64, 1, &message};
    host.exchange({&receive, 1});
  });
  sleep_seconds(0.3);
  EXPECT_FALSE(ranks.has_ended(0));
  ranks.kill(1);
  expect_error(ranks.wait(kLimit), 0, ErrorCode::kPeerFailed, {"rank 1 (process 72 in another container) has died"});
}

}  // namespace
}  // namespace plait::test
