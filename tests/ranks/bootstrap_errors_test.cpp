// Every failure of the bootstrap must reach every rank, with its reason, in bounded time.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "ranks/rank_processes.hpp"
#include "runtime/bootstrap_messages.hpp"
#include "runtime/rendezvous.hpp"

namespace plait {
namespace {

class BootstrapErrors : public EveryMeeting {
 protected:
  static Outcomes run_differing(const std::function<void(Bootstrap&)>& rank_zero,
                                const std::function<void(Bootstrap&)>& other);
  static Outcomes meet_with_hello(const Hello& hello);
};

INSTANTIATE_TEST_SUITE_P(At, BootstrapErrors, testing::Values(Meeting::kPort, Meeting::kName, Meeting::kJob), name_of);

TEST_P(BootstrapErrors, MissingRanksAreNamedToAll) {
  const UniqueId id = new_meeting();
  const auto begin = Clock::now();
  const Outcomes outcomes = run_processes(5, [&](int rank) {
    if (rank == 2 || rank == 4) return;
    Bootstrap::create(id, rank, 5, within(1));
  });
  const std::string reason =
      "ranks 2 and 4 of 5 did not arrive within 1 s (PLAIT_BOOTSTRAP_TIMEOUT_SEC); "
      "started with another id, or not started?";
  EXPECT_EQ(outcomes[0], "timeout: rank 0: " + reason);
  EXPECT_EQ(outcomes[1], "timeout: rank 1: told by rank 0: " + reason);
  EXPECT_EQ(outcomes[3], "timeout: rank 3: told by rank 0: " + reason);
  EXPECT_LT(seconds_since(begin), 5);
}

TEST(BootstrapErrorsAlone, ManyMissingRanksAreCounted) {
  EXPECT_TRUE(has(outcome_of([](int) { Bootstrap::create(new_job(), 0, 64, within(0.05)); }, 0),
                  "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 55 more of 64 did not arrive"));
}

TEST(BootstrapErrorsAlone, RankZeroMissing) {
  const auto begin = Clock::now();
  const UniqueId job = new_job();
  EXPECT_TRUE(has(outcome_of([&](int) { Bootstrap::create(job, 1, 2, within(0.2)); }, 0),
                  "timeout: rank 1 of 2: rank 0 did not take part within 0.2 s"));
  // A socket listens, but nobody answers.
  const RendezvousPoint point = RendezvousPoint::create();
  EXPECT_TRUE(has(outcome_of([&](int) { Bootstrap::create(point.id(), 1, 2, within(0.2)); }, 0),
                  "timeout: rank 1 of 2: rank 0 did not take part within 0.2 s"));
  EXPECT_LT(seconds_since(begin), 2);
}

// Whoever looks for a firewall needs address and port, and whoever forgot that there are two hosts needs the variable.
TEST(BootstrapErrorsAlone, RankZeroOfAnotherHostMissing) {
  const auto missing = [](const UniqueId& id) {
    return outcome_of([&](int) { Bootstrap::create(id, 1, 2, within(0.2)); }, 0);
  };
  const std::string key = new_job().text();
  const UniqueId over_hosts = UniqueId::for_job(key, 0, InternetAddress::loopback(), 0);
  EXPECT_TRUE(has(missing(over_hosts), join(" at ", over_hosts.meeting_place().text(), "; not started")));
  EXPECT_TRUE(has(missing(over_hosts), "behind a firewall"));
  EXPECT_TRUE(has(missing(UniqueId::for_job(key, 0)), "on another host (PLAIT_MASTER_ADDR)"));
}

// Rank 0 alone can see that the others were sent elsewhere. 192.0.2.0/24 is for documentation: no host has it.
TEST(BootstrapErrorsAlone, RankZeroDoubtsAnAddressThatIsNotItsOwn) {
  const auto alone = [](const InternetAddress& address) {
    const UniqueId id = UniqueId::for_job(new_job().text(), 0, address, 0);
    const std::string place = join(" (they look for rank 0 at ", id.meeting_place().text());
    const std::string said = outcome_of([&](int) { Bootstrap::create(id, 0, 2, within(0.2)); }, 0);
    EXPECT_TRUE(has(said, place));
    return said;
  };
  const std::string doubt = "which is no address of this host; is PLAIT_MASTER_ADDR";
  EXPECT_FALSE(has(alone(InternetAddress::loopback()), doubt));
  EXPECT_TRUE(has(alone(resolve("192.0.2.1", "this test").front()), doubt));
}

// Its network namespace has the number of rank 0's.
TEST(BootstrapErrorsAlone, AnIdThatDoesNotLeadOutOfAnotherHostSaysSo) {
  UniqueId id = RendezvousPoint::create().id();  // nobody listens any more
  const auto refused = [&] { return outcome_of([&](int) { Bootstrap::create(id, 1, 2, within(10)); }, 0); };
  EXPECT_TRUE(has(refused(), "nobody waits for ranks with this id any more"));
  if (id.kernel == 0) GTEST_SKIP() << "the kernel has no number";
  ++id.kernel;
  EXPECT_TRUE(has(refused(), "rank 1 of 2: this process is on another host than the one where the id was made"));
  EXPECT_TRUE(has(refused(), "PLAIT_SOCKET_IFNAME"));
}

// `waits` makes its rank wait long. An interrupt must end that, and soon.
void expect_interruptible(const std::function<void(const BootstrapOptions&)>& waits) {
  BootstrapOptions options = within(60);
  int heard = 0;
  options.interrupt_check = [&] {
    if (++heard == 3) fail(ErrorCode::kSystem, "interrupted");
  };
  const auto begin = Clock::now();
  EXPECT_TRUE(has(outcome_of([&](int) { waits(options); }, 0), "interrupted"));
  EXPECT_LT(seconds_since(begin), 30);
}

TEST(BootstrapErrorsAlone, EveryWaitHearsInterrupts) {
  expect_interruptible([](const BootstrapOptions& options) { Bootstrap::lead(RendezvousPoint::create(), 2, options); });
  expect_interruptible([](const BootstrapOptions& options) { Bootstrap::create(new_job(), 1, 2, options); });
  const RendezvousPoint silent = RendezvousPoint::create();  // accepts, and does not answer
  expect_interruptible([&](const BootstrapOptions& options) { Bootstrap::create(silent.id(), 1, 2, options); });
  for (const int waiting : {0, 1}) {
    const UniqueId id = new_id();
    run_threads(2, [&](int rank) {
      if (rank == waiting) {
        expect_interruptible(
            [&](const BootstrapOptions& options) { Bootstrap::create(id, rank, 2, options).barrier(); });
      } else {
        Bootstrap idle = Bootstrap::create(id, rank, 2, within(60));
        sleep_seconds(1);
      }
    });
  }
}

TEST(BootstrapErrorsAlone, AnIdWhoseMakerIsGoneFailsAtOnce) {
  UniqueId id;
  {
    id = RendezvousPoint::create().id();
  }
  const auto begin = Clock::now();
  EXPECT_TRUE(has(outcome_of([&](int) { Bootstrap::create(id, 1, 2, within(10)); }, 0),
                  "peer failed: rank 1: nobody waits for ranks with this id any more"));
  EXPECT_LT(seconds_since(begin), 1);
}

TEST_P(BootstrapErrors, ADuplicateRankIsToldToAll) {
  const UniqueId id = new_meeting();
  const Outcomes outcomes =
      run_processes(3, [&](int process) { Bootstrap::create(id, process == 2 ? 1 : process, 3, within(5)); });
  for (const std::string& outcome : outcomes) {
    EXPECT_TRUE(has(outcome, "mismatched call: rank "));
    EXPECT_TRUE(has(outcome, "two processes say that they are rank 1 of 3 (pids "));
  }
}

TEST_P(BootstrapErrors, AnotherSizeIsToldToAll) {
  const UniqueId id = new_meeting();
  const Outcomes outcomes =
      run_processes(2, [&](int rank) { Bootstrap::create(id, rank, rank == 1 ? 7 : 3, within(5)); });
  for (const std::string& outcome : outcomes) {
    EXPECT_TRUE(has(outcome, "mismatched call: rank "));
    EXPECT_TRUE(has(outcome, " was started with 7 ranks, rank 0 with 3; give all ranks the same size"));
  }
}

TEST(BootstrapErrorsAlone, ASecondRankZeroIsRefused) {
  const UniqueId id = new_job();
  const RendezvousPoint first = RendezvousPoint::claim(id);
  EXPECT_TRUE(has(outcome_of([&](int) { Bootstrap::create(id, 0, 2, within(5)); }, 0),
                  "mismatched call: rank 0: another process (pid " + std::to_string(::getpid()) +
                      ") already waits for the ranks of this job as rank 0"));
}

TEST(BootstrapErrorsAlone, ArgumentsThatCannotBeRight) {
  const auto outcome = [](const UniqueId& id, int rank, int size, double seconds) {
    return outcome_of([&](int) { Bootstrap::create(id, rank, size, within(seconds)); }, 0);
  };
  const UniqueId id = new_job();
  EXPECT_TRUE(has(outcome(UniqueId(), 0, 1, 1), "these 128 bytes are not a Plait id"));
  EXPECT_TRUE(has(outcome(id, 3, 3, 1), "rank 3 of 3 ranks; they are 0 to 2"));
  EXPECT_TRUE(has(outcome(id, -1, 3, 1), "rank -1 of 3 ranks"));
  EXPECT_TRUE(has(outcome(id, 0, 0, 1), "a communicator of 0 ranks"));
  EXPECT_TRUE(has(outcome(id, 0, 1 << 20, 1), "a communicator of 1048576 ranks"));
  EXPECT_TRUE(has(outcome(id, 0, 1, 0), "a bootstrap timeout of 0 s"));
  EXPECT_TRUE(has(outcome(id, 0, 1, std::nan("")), "a bootstrap timeout of nan s"));
}

TEST_P(BootstrapErrors, ARankThatIsKilledIsNamedToAll) {
  const UniqueId id = new_meeting();
  const auto begin = Clock::now();
  const Outcomes outcomes = run_processes(4, [&](int rank) {
    Bootstrap bootstrap = Bootstrap::create(id, rank, 4, within(10));
    bootstrap.barrier();
    if (rank == 2) ::raise(SIGKILL);
    bootstrap.barrier();
  });
  EXPECT_EQ(outcomes[2], "killed");
  for (const int rank : {0, 1, 3}) {
    const std::string& outcome = outcomes[static_cast<size_t>(rank)];
    EXPECT_TRUE(has(outcome, "peer failed: rank " + std::to_string(rank)));
    EXPECT_TRUE(has(outcome, "rank 2 (pid "));
    EXPECT_TRUE(has(outcome, "of 4 ended or closed its communicator during barrier"));
  }
  EXPECT_LT(seconds_since(begin), 5);
}

TEST_P(BootstrapErrors, RankZeroKilledIsNamedToAll) {
  const UniqueId id = new_meeting();
  const auto begin = Clock::now();
  const Outcomes outcomes = run_processes(3, [&](int rank) {
    Bootstrap bootstrap = Bootstrap::create(id, rank, 3, within(10));
    if (rank == 0) ::raise(SIGKILL);
    bootstrap.all_gather(rank);
  });
  for (const int rank : {1, 2}) {
    EXPECT_TRUE(has(outcomes[static_cast<size_t>(rank)], ": rank 0 (pid "));
    EXPECT_TRUE(has(outcomes[static_cast<size_t>(rank)], "ended or closed its communicator during all_gather"));
  }
  EXPECT_LT(seconds_since(begin), 5);
}

TEST_P(BootstrapErrors, ARankThatIsKilledBeforeAllHaveArrivedEndsTheWait) {
  const UniqueId id = new_meeting();
  const auto begin = Clock::now();
  const Outcomes outcomes = run_processes(3, [&](int rank) {
    if (rank == 2) return;
    if (rank == 1) ::ualarm(200000, 0);  // ends the process, as SIGKILL would
    Bootstrap::create(id, rank, 3, within(10));
  });
  EXPECT_TRUE(has(outcomes[0], "peer failed: rank 0: rank 1 (pid "));
  EXPECT_TRUE(has(outcomes[0], "during rendezvous"));
  EXPECT_LT(seconds_since(begin), 5);
}

TEST_P(BootstrapErrors, ARankThatDoesNotCallIsNamedToAll) {
  const UniqueId id = new_meeting();
  const Outcomes outcomes = run_threads(3, [&](int rank) {
    Bootstrap bootstrap = Bootstrap::create(id, rank, 3, within(0.7));
    if (rank == 1) return sleep_seconds(2);
    bootstrap.barrier();
  });
  const std::string reason = "rank 1 of 3 did not reach barrier within 0.7 s (PLAIT_BOOTSTRAP_TIMEOUT_SEC)";
  EXPECT_TRUE(has(outcomes[0], "timeout: rank 0: " + reason));
  EXPECT_TRUE(has(outcomes[2], "timeout: rank 2: told by rank 0: " + reason));
}

TEST_P(BootstrapErrors, RankZeroThatDoesNotCallIsNamed) {
  const UniqueId id = new_meeting();
  const Outcomes outcomes = run_threads(2, [&](int rank) {
    Bootstrap bootstrap = Bootstrap::create(id, rank, 2, within(0.7));
    if (rank == 0) return sleep_seconds(2);
    bootstrap.barrier();
  });
  EXPECT_TRUE(has(outcomes[1], "timeout: rank 1 of 2: rank 0 (pid "));
  EXPECT_TRUE(has(outcomes[1], "did not answer in barrier within 0.7 s"));
}

// Runs two ranks that make different calls. Both must hear of it.
Outcomes BootstrapErrors::run_differing(const std::function<void(Bootstrap&)>& rank_zero,
                                        const std::function<void(Bootstrap&)>& other) {
  const UniqueId id = new_meeting();
  return run_threads(2, [&](int rank) {
    Bootstrap bootstrap = Bootstrap::create(id, rank, 2, within(5));
    (rank == 0 ? rank_zero : other)(bootstrap);
  });
}

TEST_P(BootstrapErrors, DifferentCallsAreNamed) {
  Outcomes outcomes =
      run_differing([](Bootstrap& b) { b.all_gather(int64_t{1}); }, [](Bootstrap& b) { b.all_gather(int32_t{1}); });
  for (const std::string& outcome : outcomes) {
    EXPECT_TRUE(has(outcome, "mismatched call: "));
    EXPECT_TRUE(has(outcome, "is in all_gather with 4 bytes a rank, rank 0 in all_gather with 8"));
  }
  outcomes = run_differing([](Bootstrap& b) { b.all_gather(1); }, [](Bootstrap& b) { b.barrier(); });
  for (const std::string& outcome : outcomes) {
    EXPECT_TRUE(has(outcome, "is in barrier with 0 bytes a rank, rank 0 in all_gather with 4"));
  }
  outcomes = run_differing([](Bootstrap& b) { b.broadcast_descriptor(0); }, [](Bootstrap& b) { b.barrier(); });
  for (const std::string& outcome : outcomes) {
    EXPECT_TRUE(has(outcome, "is in barrier with 0 bytes a rank, rank 0 in broadcast_descriptor"));
  }
  outcomes = run_differing([](Bootstrap& b) { b.all_gather_descriptors(0); }, [](Bootstrap& b) { b.barrier(); });
  for (const std::string& outcome : outcomes) {
    EXPECT_TRUE(has(outcome, "is in barrier with 0 bytes a rank, rank 0 in all_gather_descriptors"));
  }
  outcomes = run_differing([](Bootstrap& b) { b.barrier(); }, [](Bootstrap& b) { b.broadcast_descriptor(-1); });
  for (const std::string& outcome : outcomes) {
    EXPECT_TRUE(has(outcome, "is in broadcast_descriptor with 0 bytes a rank, rank 0 in barrier"));
  }
}

TEST_P(BootstrapErrors, WhatRankZeroCannotDoFailsEverywhere) {
  const UniqueId id = new_meeting();
  const auto begin = Clock::now();
  const Outcomes outcomes =
      run_threads(3, [&](int rank) { Bootstrap::create(id, rank, 3, within(10)).broadcast_descriptor(-1); });
  EXPECT_TRUE(has(outcomes[0], "invalid argument: rank 0 broadcasts -1, which is not a descriptor"));
  EXPECT_TRUE(has(outcomes[1], "told by rank 0: rank 0 failed during broadcast_descriptor"));
  EXPECT_TRUE(has(outcomes[2], "told by rank 0: rank 0 failed during broadcast_descriptor"));
  EXPECT_LT(seconds_since(begin), 5);
}

TEST_P(BootstrapErrors, ADescriptorThatIsNoneFailsEverywhere) {
  for (const int wrong : {0, 1}) {
    const UniqueId id = new_meeting();
    const auto begin = Clock::now();
    const Outcomes outcomes = run_threads(3, [&](int rank) {
      Bootstrap::create(id, rank, 3, within(10)).all_gather_descriptors(rank == wrong ? -1 : 0);
    });
    EXPECT_TRUE(has(outcomes[static_cast<size_t>(wrong)], "invalid argument: rank " + std::to_string(wrong) +
                                                              " gives all ranks -1, which is not a descriptor"));
    for (const int rank : {0, 1, 2}) {
      if (rank == wrong) continue;
      EXPECT_TRUE(has(outcomes[static_cast<size_t>(rank)], "peer failed: rank " + std::to_string(rank)));
      EXPECT_TRUE(has(outcomes[static_cast<size_t>(rank)], "during all_gather_descriptors"));
    }
    EXPECT_LT(seconds_since(begin), 5);
  }
}

TEST_P(BootstrapErrors, ARankWithoutRoomForDescriptorsFailsEverywhere) {
  for (const int full : {0, 2}) {
    const UniqueId id = new_meeting();
    const auto begin = Clock::now();
    const Outcomes outcomes = run_processes(4, [&](int rank) {
      Bootstrap bootstrap = Bootstrap::create(id, rank, 4, within(1));
      if (rank == full) {
        const int next = ::dup(0);
        ::close(next);
        // Room for two descriptors: over TCP ranks use them in the second rendezvous, otherwise for the first
        // descriptors.
        const rlimit limit{static_cast<rlim_t>(next) + 2, static_cast<rlim_t>(next) + 2};
        require(::setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
      }
      bootstrap.all_gather_descriptors(0);
    });
    for (const std::string& outcome : outcomes) {
      EXPECT_TRUE(outcome != "" && outcome != "hung") << outcome;
      if (GetParam() == Meeting::kPort) continue;
      EXPECT_TRUE(has(outcome, "all_gather_descriptors") || has(outcome, "ulimit -n")) << outcome;
    }
    EXPECT_LT(seconds_since(begin), 5);
  }
}

TEST_P(BootstrapErrors, ARankThatIsKilledBeforeItGivesItsDescriptorIsNamedToAll) {
  for (const int dead : {0, 2}) {
    const UniqueId id = new_meeting();
    const auto begin = Clock::now();
    const Outcomes outcomes = run_processes(4, [&](int rank) {
      Bootstrap bootstrap = Bootstrap::create(id, rank, 4, within(10));
      bootstrap.all_gather_descriptors(0);
      if (rank == dead) ::raise(SIGKILL);
      bootstrap.all_gather_descriptors(0);
    });
    for (int rank = 0; rank < 4; ++rank) {
      const std::string& outcome = outcomes[static_cast<size_t>(rank)];
      if (rank == dead) {
        EXPECT_EQ(outcome, "killed");
        continue;
      }
      EXPECT_TRUE(has(outcome, "peer failed: rank " + std::to_string(rank)));
      EXPECT_TRUE(has(outcome, "rank " + std::to_string(dead) + " (pid "));
      EXPECT_TRUE(has(outcome, "during all_gather_descriptors"));
    }
    EXPECT_LT(seconds_since(begin), 5);
  }
}

TEST_P(BootstrapErrors, ARankThatGivesNoDescriptorIsNamedToAll) {
  const UniqueId id = new_meeting();
  const Outcomes outcomes = run_threads(3, [&](int rank) {
    Bootstrap bootstrap = Bootstrap::create(id, rank, 3, within(0.7));
    if (rank == 1) return sleep_seconds(2);
    bootstrap.all_gather_descriptors(0);
  });
  const std::string reason =
      "rank 1 of 3 did not reach all_gather_descriptors within 0.7 s (PLAIT_BOOTSTRAP_TIMEOUT_SEC)";
  EXPECT_TRUE(has(outcomes[0], "timeout: rank 0: " + reason));
  EXPECT_TRUE(has(outcomes[2], "timeout: rank 2: told by rank 0: " + reason));
}

TEST_P(BootstrapErrors, BuffersThatDoNotFitFailEverywhere) {
  const UniqueId id = new_meeting();
  const Outcomes outcomes = run_threads(3, [&](int rank) {
    Bootstrap bootstrap = Bootstrap::create(id, rank, 3, within(10));
    std::vector<std::byte> mine(8), all(rank == 1 ? 16 : 24);
    bootstrap.all_gather(mine, all);
  });
  EXPECT_TRUE(has(outcomes[0], "rank 1 (pid"));
  EXPECT_TRUE(has(outcomes[1], "invalid argument: rank 1: all_gather of 8 bytes into 16; it needs 3 times as many"));
  EXPECT_TRUE(has(outcomes[2], "rank 1 (pid"));
}

TEST(BootstrapErrorsAlone, AClosedBootstrapSaysWhy) {
  Bootstrap closed = Bootstrap::alone();
  closed.close();
  closed.close();
  EXPECT_TRUE(has(outcome_of([&](int) { closed.barrier(); }, 0), "this communicator's bootstrap is closed"));
  Bootstrap failed = Bootstrap::alone();
  EXPECT_NE(outcome_of([&](int) { failed.broadcast_descriptor(-1); }, 0), "");
  EXPECT_TRUE(has(outcome_of([&](int) { failed.barrier(); }, 0), "it failed before: rank 0 broadcasts -1"));
}

// Ranks that met over TCP meet again to pass a descriptor. A rank that ends in between is named at once all the same.
TEST(BootstrapErrorsAlone, ARankThatEndsBetweenTwoMeetingsIsNamedToAll) {
  const UniqueId id = new_id();
  const auto begin = Clock::now();
  const Outcomes outcomes = run_processes(3, [&](int rank) {
    if (rank != 1) {
      Bootstrap bootstrap = Bootstrap::create(id, rank, 3, within(10));
      bootstrap.broadcast_descriptor(0);
      return;
    }
    double seconds_left = 0;
    const RankLink link = reach_rank_zero(id, 1, 3, within(10), seconds_left);
    const Deadline deadline = Deadline::after(5);
    const auto read_result = [&](size_t bytes) {
      std::vector<std::byte> message(sizeof(Frame) + bytes);
      require(receive_all(link.socket.get(), message, deadline) == Progress::kDone, "a result");
    };
    read_result(3 * sizeof(pid_t));
    Frame frame;
    frame.kind = Frame::Kind::kContribute;
    frame.stage = Stage::kBroadcastDescriptor;
    frame.sequence = 2;
    send_all(link.socket.get(), bytes_of(frame), deadline);
    read_result(0);
    read_result(sizeof(UniqueId));  // the place of the second rendezvous
  });
  EXPECT_TRUE(has(outcomes[0], "peer failed: rank 0: rank 1 (pid "));
  EXPECT_TRUE(has(outcomes[0], " of 3 ended or closed its communicator during broadcast_descriptor"));
  EXPECT_EQ(outcomes[1], "");
  EXPECT_TRUE(has(outcomes[2], "peer failed: rank 2: "));
  EXPECT_LT(seconds_since(begin), 5);
}

// The same in the middle of an exchange: all have joined the call, and one then ends without sending its descriptor.
TEST(BootstrapErrorsAlone, ARankThatEndsInAnExchangeIsNamedToAll) {
  const UniqueId id = new_job();
  const auto begin = Clock::now();
  const Outcomes outcomes = run_processes(3, [&](int rank) {
    if (rank != 1) {
      Bootstrap::create(id, rank, 3, within(10)).all_gather_descriptors(0);
      return;
    }
    double seconds_left = 0;
    const RankLink link = reach_rank_zero(id, 1, 3, within(10), seconds_left);
    const Deadline deadline = Deadline::after(5);
    std::vector<std::byte> met(sizeof(Frame) + 3 * sizeof(pid_t)), agreed(sizeof(Frame));
    require(receive_all(link.socket.get(), met, deadline) == Progress::kDone, "the processes");
    Frame frame;
    frame.kind = Frame::Kind::kContribute;
    frame.stage = Stage::kAllGatherDescriptors;
    frame.sequence = 2;
    send_all(link.socket.get(), bytes_of(frame), deadline);
    require(receive_all(link.socket.get(), agreed, deadline) == Progress::kDone, "all take part");
  });
  EXPECT_TRUE(has(outcomes[0], "peer failed: rank 0: rank 1 (pid "));
  EXPECT_EQ(outcomes[1], "");
  EXPECT_TRUE(has(outcomes[2], "peer failed: rank 2: told by rank 0: rank 1 (pid "));
  EXPECT_TRUE(has(outcomes[2], " of 3 ended or closed its communicator during all_gather_descriptors"));
  EXPECT_LT(seconds_since(begin), 5);
}

// --- ranks that know the secret and are wrong all the same ---

// Rank 0 of two, and one caller with this hello and a good proof. Returns what rank 0 and the caller were told.
Outcomes BootstrapErrors::meet_with_hello(const Hello& hello) {
  const UniqueId id = new_job();
  return run_threads(2, [&](int rank) {
    if (rank == 0) {
      Bootstrap::create(id, 0, 2, within(5));
      return;
    }
    const UniqueFd socket = knock(id);
    const Deadline deadline = Deadline::after(5);
    Challenge challenge;
    Frame frame;
    send_all(socket.get(), bytes_of(hello), deadline);
    require(receive_all(socket.get(), writable_bytes_of(challenge), deadline) == Progress::kDone, "a challenge");
    const Proof proof = make_proof(id.secret, hello, challenge);
    send_all(socket.get(), bytes_of(proof), deadline);
    require(receive_all(socket.get(), writable_bytes_of(frame), deadline) == Progress::kDone, "a frame");
    require(frame.kind == Frame::Kind::kFailure, "a failure");
    receive_failure(socket.get(), hello.rank, deadline);
  });
}

TEST_P(BootstrapErrors, AnotherVersionIsNamedToBoth) {
  Hello hello;
  hello.version = 7;
  hello.rank = 1;
  hello.size = 2;
  for (const std::string& outcome : meet_with_hello(hello)) {
    EXPECT_TRUE(has(outcome, "mismatched call: "));
    EXPECT_TRUE(has(outcome, join("speaks version 7 of the bootstrap's protocol, rank 0 version ", kBootstrapVersion,
                                  "; use one build")));
  }
}

TEST_P(BootstrapErrors, AnotherVersionOfRankZeroIsNamed) {
  const RendezvousPoint point = new_point();
  std::thread rank_zero([&] {
    play_rank_zero(point.listener(), [&](const Hello& hello) {
      // The tag covers the version, so a newer library computes it over its own.
      return make_challenge(point.id().secret, hello, random_128_bits(), kBootstrapVersion + 1);
    });
  });
  EXPECT_TRUE(has(outcome_of([&](int) { Bootstrap::create(point.id(), 1, 2, within(5)); }, 0),
                  join("rank 1 speaks version ", kBootstrapVersion, " of the bootstrap's protocol, rank 0 version ",
                       kBootstrapVersion + 1, "; use one build")));
  rank_zero.join();
}

TEST_P(BootstrapErrors, ARankOutOfRangeIsNamedToBoth) {
  for (const int rank : {0, 2, -5}) {
    Hello hello;
    hello.rank = rank;
    hello.size = 2;
    for (const std::string& outcome : meet_with_hello(hello)) {
      EXPECT_TRUE(has(outcome, "says that it is rank " + std::to_string(rank) + " of 2; beside rank 0"));
    }
  }
}

}  // namespace
}  // namespace plait
