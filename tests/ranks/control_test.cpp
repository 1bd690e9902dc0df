// Ranks of several hosts hear of each other's failures, and of those that have died, wherever they are.
#include "runtime/host/control.hpp"

#include <gtest/gtest.h>

#include "runtime/hosts.hpp"
#include "support/expect_outcomes.hpp"
#include "support/several_hosts.hpp"

namespace plait::test {
namespace {

// One rank of a world of several hosts, as a communicator joins it, without collectives.
class Member {
 public:
  Member(const UniqueId& id, int rank, int size, const std::string& host)
      : rank_(rank), bootstrap_(Bootstrap::create(id, rank, size, {{kLimit / 2, Logger()}, {}})) {
    const Hosts hosts = Hosts::meet(bootstrap_, own_host(host));
    const SegmentShape shape{size, 4096, 1};
    Bootstrap on_host = hosts.meet_on_host(bootstrap_);
    UniqueFd file;
    if (hosts.ranks_of(hosts.node_of(rank)).front() == rank) file = Segment::create(shape, "");
    segment_ = std::make_shared<Segment>(shape, on_host.broadcast_descriptor(file.get()));
    segment_->status(rank).state = RankState::kPresent;
    std::vector<std::string> names;
    for (const std::string& name :
         bootstrap_.all_gather_texts(join("rank ", rank, " (process ", getpid(), " on ", host, ")"))) {
      names.push_back(name);
    }
    control_ = std::make_unique<Control>(std::move(bootstrap_), segment_, std::move(names));
  }

  Segment& segment() { return *segment_; }
  Control& control() { return *control_; }

  // Waits for a failure, and throws it.
  void await_failure() {
    const auto begin = std::chrono::steady_clock::now();
    while (!segment_->failure().is_set()) {
      require(seconds_since(begin) < kMargin, "rank ", rank_, " heard of no failure");
      ::usleep(500);
    }
    throw *segment_->failure_for(rank_);
  }

 private:
  const int rank_;
  Bootstrap bootstrap_;
  std::shared_ptr<Segment> segment_;
  std::unique_ptr<Control> control_;
};

TEST(Control, AFailureOfOneRankReachesAllHosts) {
  Random random(run_seed());
  for (int round = 0; round < 4; ++round) {
    const int ranks = 2 + static_cast<int>(random() % 5), culprit = static_cast<int>(random() % ranks);
    const std::vector<int> hosts = random_hosts(random, ranks);
    const UniqueId id = new_id();
    const Outcomes outcomes = run_processes(ranks, kLimit, [&](int rank) {
      Member member(id, rank, ranks, host_name(hosts[rank]));
      if (rank == culprit) member.segment().record_failure(ErrorCode::kTimeout, rank, "it took too long");
      member.await_failure();
    });
    expect_errors(outcomes, -1, ErrorCode::kTimeout, {"it took too long"});
  }
}

TEST(Control, WhoIsKilledIsNamedOnAllHosts) {
  Random random(run_seed());
  for (int round = 0; round < 4; ++round) {
    const int ranks = 2 + static_cast<int>(random() % 5), victim = static_cast<int>(random() % ranks);
    const std::vector<int> hosts = random_hosts(random, ranks);
    const UniqueId id = new_id();
    const Shared<Progress> progress;
    RankProcesses processes(ranks, [&](int rank) {
      Member member(id, rank, ranks, host_name(hosts[rank]));
      progress->calls[rank] = 1;
      if (rank == victim) sleep_for_ever();
      member.await_failure();
    });
    for (int rank = 0; rank < ranks; ++rank) await_calls(processes, *progress, rank, 1);
    const std::string name =
        join("rank ", victim, " (process ", processes.pid(victim), " on ", host_name(hosts[victim]), ")");
    processes.kill(victim);
    expect_errors(processes.wait(kLimit), victim, ErrorCode::kPeerFailed, {name, "has died"});
  }
}

TEST(Control, AHostThatIsGoneIsNamedWithAllItsRanks) {
  const UniqueId id = new_id();
  const Shared<Progress> progress;
  RankProcesses processes(6, [&](int rank) {
    Member member(id, rank, 6, host_name(rank / 2));
    progress->calls[rank] = 1;
    if (rank >= 4) sleep_for_ever();
    member.await_failure();
  });
  for (int rank = 0; rank < 6; ++rank) await_calls(processes, *progress, rank, 1);
  processes.signal(4, SIGKILL);
  processes.signal(5, SIGKILL);
  const Outcomes outcomes = processes.wait(kLimit);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(objection(outcomes[rank], ErrorCode::kPeerFailed,
                        {"rank 4 (process ", "rank 5 (process ", "on host2", "have died"}),
              "");
  }
}

// In any order, and with rank 0 among the first: nobody takes that for a death.
TEST(Control, WhoLeavesIsNotMissed) {
  Random random(run_seed());
  for (int round = 0; round < 3; ++round) {
    const int ranks = 2 + static_cast<int>(random() % 5);
    const std::vector<int> hosts = random_hosts(random, ranks);
    std::vector<double> seconds;
    for (int rank = 0; rank < ranks; ++rank) seconds.push_back(static_cast<double>(random() % 500) / 1000);
    const UniqueId id = new_id();
    expect_all_well(run_processes(ranks, kLimit, [&](int rank) {
      Member member(id, rank, ranks, host_name(hosts[rank]));
      const auto begin = std::chrono::steady_clock::now();
      sleep_seconds(seconds[rank]);
      member.control().leave();
      // Longer than a death would take to show.
      while (seconds_since(begin) < 0.7 + Control::kGraceSeconds && rank != 0) ::usleep(1000);
      require(!member.segment().failure().is_set(), "leaving counted as a failure");
    }));
  }
}

TEST(Control, WhoHasLeftIsMarkedOnAllHosts) {
  const UniqueId id = new_id();
  expect_all_well(run_processes(4, kLimit, [&](int rank) {
    Member member(id, rank, 4, host_name(rank / 2));
    if (rank == 3) {
      member.segment().status(3).completed_call = 77;
      member.segment().status(3).state = RankState::kClosed;
      member.control().leave();
      return;
    }
    const auto begin = std::chrono::steady_clock::now();
    const RankStatus& status = member.segment().status(3);
    while (status.state.load() != RankState::kClosed) require(seconds_since(begin) < kMargin, "no word of rank 3");
    require(status.completed_call == 77, "what rank 3 completed");
  }));
}

// A child has a copy of the connections: it neither leaves for its parent nor waits for a thread that it has not.
TEST(Control, AForkedChildThatEndsIsNotTheRank) {
  const UniqueId id = new_id();
  const Shared<Progress> progress;
  expect_all_well(run_processes(2, kLimit, [&](int rank) {
    auto member = std::make_unique<Member>(id, rank, 2, host_name(rank));
    const pid_t child = ::fork();
    if (child == 0) {
      member.reset();
      ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    sleep_seconds(3 * Control::kGraceSeconds);
    require(!member->segment().failure().is_set(), "the child counted as the rank");
    require(member->segment().status(1 - rank).state.load() != RankState::kClosed, "the child said goodbye");
    // Neither leaves before the other has looked.
    progress->calls[rank] = 1;
    const auto begin = std::chrono::steady_clock::now();
    while (progress->calls[1 - rank] == 0 && seconds_since(begin) < kMargin) ::usleep(500);
  }));
}

}  // namespace
}  // namespace plait::test
