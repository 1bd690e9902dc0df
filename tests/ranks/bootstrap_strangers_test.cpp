// Ranks must meet in time whatever strangers do at the listening socket, and no stranger must be taken for a rank.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "ranks/rank_processes.hpp"

namespace plait {
namespace {

// Returns true if rank 0 hangs up within `seconds`, after sending at most a challenge.
bool is_refused(int socket, double seconds) {
  std::array<std::byte, sizeof(Challenge) + 1> bytes;
  return receive_all(socket, bytes, Deadline::after(seconds)) == Progress::kGone;
}

// A counter that forked processes share.
class SharedCount {
 public:
  SharedCount() : count_(new(map()) std::atomic<int>(0)) {}
  ~SharedCount() { ::munmap(count_, sizeof *count_); }
  void add_one() { ++*count_; }
  void wait_for(int count) const {
    const Deadline deadline = Deadline::after(10);
    while (*count_ < count && !deadline.passed()) sleep_seconds(0.001);
  }

 private:
  static void* map() {
    void* memory = ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    require(memory != MAP_FAILED, "shared memory for a test");
    return memory;
  }
  std::atomic<int>* count_;
};

// The actions of one stranger. It calls `begun` when it is connected.
using Stranger = std::function<void(const UniqueId& id, const std::function<void()>& begun)>;

class BootstrapStrangers : public EveryMeeting {
 protected:
  // Four ranks meet while strangers are connected. The last rank comes when all strangers have begun. Rank 0 must not
  // be delayed: the last rank is accepted before a silent caller's two seconds are over.
  static void meet_despite(int strangers, const Stranger& stranger) {
    meet_despite(new_meeting(), strangers, stranger);
  }
  static void meet_despite(const UniqueId& id, int strangers, const Stranger& stranger);
};

INSTANTIATE_TEST_SUITE_P(At, BootstrapStrangers, testing::Values(Meeting::kPort, Meeting::kName, Meeting::kJob),
                         name_of);

void BootstrapStrangers::meet_despite(const UniqueId& id, int strangers, const Stranger& stranger) {
  SharedCount begun;
  const Outcomes outcomes = run_processes(4 + strangers, [&](int process) {
    if (process >= 4) return stranger(id, [&] { begun.add_one(); });
    if (process == 3) begun.wait_for(strangers);
    const auto begin = Clock::now();
    Bootstrap bootstrap = Bootstrap::create(id, process, 4, within(15));
    check_all_gather(bootstrap);
    require(process != 3 || seconds_since(begin) < 1.9, "strangers do not delay the ranks");
  });
  expect_all_well(outcomes);
}

TEST_P(BootstrapStrangers, WhoSendsGarbageIsRefused) {
  meet_despite(3, [](const UniqueId& id, const auto& begun) {
    const UniqueFd socket = knock(id);
    const std::vector<std::byte> garbage(4096, std::byte{0xff});
    send_all(socket.get(), garbage, Deadline::after(1));
    require(is_refused(socket.get(), 1.5), "garbage is refused at once");
    begun();
  });
}

TEST_P(BootstrapStrangers, WhoStaysSilentDoesNotHoldUpTheRanks) {
  meet_despite(3, [](const UniqueId& id, const auto& begun) {
    const UniqueFd socket = knock(id);
    begun();
    require(is_refused(socket.get(), 10), "silence ends when the ranks have met");
  });
}

TEST_P(BootstrapStrangers, WhoSendsHalfAHelloDoesNotHoldUpTheRanks) {
  meet_despite(3, [](const UniqueId& id, const auto& begun) {
    const UniqueFd socket = knock(id);
    begun();
    const Hello hello;
    send_all(socket.get(), bytes_of(hello).first(17), Deadline::after(1));
    require(is_refused(socket.get(), 10), "half a hello is refused in the end");
  });
}

TEST_P(BootstrapStrangers, WhoLeavesEarlyIsForgotten) {
  meet_despite(3, [](const UniqueId& id, const auto& begun) {
    for (int i = 0; i < 50; ++i) {
      const UniqueFd socket = knock(id);
      const Hello hello;
      if (i % 2 == 0) send_all(socket.get(), bytes_of(hello).first(static_cast<size_t>(i) % 40), Deadline::after(1));
    }
    begun();
  });
}

// Connects like a port scanner, without a pause.
TEST_P(BootstrapStrangers, WhoComesAndGoesAllTheTimeDoesNotHoldUpTheRanks) {
  meet_despite(2, [](const UniqueId& id, const auto& begun) {
    int calls = 0;
    for (const Deadline deadline = Deadline::after(15); !deadline.passed();) {
      const SocketOrError connection = connect_to(id.meeting_place());
      if (connection.error == ECONNREFUSED && calls > 0) return;
      if (connection.error != 0) sleep_seconds(0.001);
      if (++calls == 200) begun();
    }
    throw std::runtime_error("the ranks have not met");
  });
}

TEST_P(BootstrapStrangers, AThousandSilentConnectionsDoNotHoldUpTheRanks) {
  meet_despite(2, [](const UniqueId& id, const auto& begun) {
    std::vector<UniqueFd> sockets;
    // Holds all of them, and connects again and again, until the ranks have met.
    for (const Deadline deadline = Deadline::after(15); !deadline.passed();) {
      SocketOrError connection = connect_to(id.meeting_place());
      if (connection.error == ECONNREFUSED && !sockets.empty()) return;
      if (connection.error == 0) sockets.push_back(std::move(connection.socket));
      if (sockets.size() == 500) begun();
      if (connection.error != 0 || sockets.size() >= 500) sleep_seconds(0.001);
    }
    throw std::runtime_error("the ranks have not met");
  });
}

TEST_P(BootstrapStrangers, WhoKnowsTheProtocolButNotTheSecretIsRefused) {
  meet_despite(2, [](const UniqueId& id, const auto& begun) {
    const UniqueFd socket = knock(id);
    Hello hello;
    hello.rank = 2;
    hello.size = 4;
    Challenge challenge;
    const Deadline deadline = Deadline::after(2);
    send_all(socket.get(), bytes_of(hello), deadline);
    require(receive_all(socket.get(), writable_bytes_of(challenge), deadline) == Progress::kDone, "a challenge");
    require(is_genuine(id.secret, hello, challenge), "rank 0 proves itself first");
    const Proof proof = make_proof(random_128_bits(), hello, challenge);
    send_all(socket.get(), bytes_of(proof), deadline);
    require(is_refused(socket.get(), 1.5), "a wrong proof is refused at once");
    begun();
  });
}

TEST_P(BootstrapStrangers, RankZerosOwnTagIsNoProof) {
  meet_despite(1, [](const UniqueId& id, const auto& begun) {
    const UniqueFd socket = knock(id);
    Hello hello;
    hello.rank = 1;
    hello.size = 4;
    Challenge challenge;
    const Deadline deadline = Deadline::after(2);
    send_all(socket.get(), bytes_of(hello), deadline);
    receive_all(socket.get(), writable_bytes_of(challenge), deadline);
    const Proof proof{challenge.mac};
    send_all(socket.get(), bytes_of(proof), deadline);
    require(is_refused(socket.get(), 1.5), "a reflected tag is refused");
    begun();
  });
}

TEST_P(BootstrapStrangers, ASilentCallerIsDroppedAfterTwoSeconds) {
  const UniqueId id = new_meeting();
  const Outcomes outcomes = run_processes(2, [&](int process) {
    if (process == 0) {
      Bootstrap::create(id, 0, 2, within(4.5));
      return;
    }
    const UniqueFd socket = knock(id);
    const auto begin = Clock::now();
    require(is_refused(socket.get(), 4), "dropped");
    require(seconds_since(begin) > 1.5 && seconds_since(begin) < 4, "after two seconds");
  });
  EXPECT_TRUE(has(outcomes[0], "rank 1 of 2 did not arrive within 4.5 s"));
  EXPECT_TRUE(has(outcomes[0], "refused 1 connection that could not prove to be a rank"));
  EXPECT_EQ(outcomes[1], "");
}

// Over TCP the kernel does not identify the caller: another user is just one more who does not know the secret.
TEST_P(BootstrapStrangers, AnotherUserIsRefusedAtOnceAndTakesNoPlace) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs the right to become another user";
  if (GetParam() == Meeting::kPort) GTEST_SKIP() << "needs to know the user";
  meet_despite(2, [](const UniqueId& id, const auto& begun) {
    require(::setuid(65534) == 0, "setuid");
    const UniqueFd socket = knock(id);
    begun();
    const Hello hello;
    send_all(socket.get(), bytes_of(hello), Deadline::after(1));
    std::byte answer;
    require(receive_all(socket.get(), std::span(&answer, 1), Deadline::after(2)) == Progress::kGone,
            "another user gets no answer at all");
  });
}

// A process of another user holds the name of a job before its ranks come. Tests how the ranks end, and how that
// process does.
Outcomes ranks_after_another_user(int ranks) {
  const UniqueId id = new_job();
  SharedCount held, ended;
  return run_processes(ranks + 1, [&](int process) {
    if (process < ranks) {
      held.wait_for(1);
      const std::string outcome =
          outcome_of([&](int rank) { Bootstrap::create(id, rank, ranks, within(15)); }, process);
      ended.add_one();
      throw std::runtime_error(outcome);
    }
    require(::setuid(65534) == 0, "setuid");
    const UniqueFd holder = listen_at(id.meeting_place());
    require(static_cast<bool>(holder), "listen");
    held.add_one();
    ended.wait_for(ranks);
  });
}

TEST(BootstrapStrangersOfJobs, EveryRankIsToldWhichOtherUserHoldsItsMeetingPlace) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs the right to become another user";
  const Outcomes outcomes = ranks_after_another_user(3);
  for (int rank = 0; rank < 3; ++rank) {
    const std::string& outcome = outcomes[static_cast<size_t>(rank)];
    EXPECT_TRUE(has(outcome, join("mismatched call: rank ", rank, ": the ranks' meeting place is held by pid ")));
    EXPECT_TRUE(has(outcome, "of user 65534, this process belongs to user 0"));
    EXPECT_TRUE(has(outcome, "set PLAIT_JOB to one random text on all ranks"));
  }
  EXPECT_EQ(outcomes[3], "");
}

// The kernel does not tell who that is.
TEST(BootstrapStrangersOfJobs, AMeetingPlaceAtWhichNobodyListensIsToldSoon) {
  const UniqueId id = new_job();
  const SocketAddress place = id.meeting_place();
  const UniqueFd holder = new_socket(AF_UNIX);
  ASSERT_EQ(::bind(holder.get(), place.get(), place.length()), 0);
  EXPECT_TRUE(has(outcome_of([&](int) { Bootstrap::create(id, 0, 2, within(60)); }, 0),
                  "mismatched call: rank 0: the ranks' meeting place is held by a socket at which nobody listens"));
}

// A rank 0 that is done, while the next one of the same name has begun.
TEST(BootstrapStrangersOfJobs, AMeetingPlaceThatIsAboutToBeFreeIsWaitedFor) {
  const UniqueId id = new_job();
  UniqueFd ending = listen_at(id.meeting_place());
  ::shutdown(ending.get(), SHUT_RDWR);
  std::thread end([&] {
    sleep_seconds(0.02);
    ending.reset();
  });
  EXPECT_EQ(outcome_of([&](int) { RendezvousPoint::claim(id); }, 0), "");
  end.join();
}

TEST_P(BootstrapStrangers, AFalseRankZeroIsRecognised) {
  const RendezvousPoint point = new_point();
  std::thread impostor([&] {
    play_rank_zero(point.listener(),
                   [](const Hello& hello) { return make_challenge(random_128_bits(), hello, random_128_bits()); });
  });
  EXPECT_TRUE(has(
      outcome_of([&](int) { Bootstrap::create(point.id(), 1, 2, within(5)); }, 0),
      "the process that answers at the ranks' meeting place does not know the secret of the id; it is not rank 0, or "
      "not any more"));
  impostor.join();
}

// Which of the variables that led there is wrong, only the user knows.
TEST(BootstrapStrangersOverHosts, AFalseRankZeroIsToldWithItsPlace) {
  const UniqueId id = UniqueId::for_job(new_job().text(), 0, InternetAddress::loopback(), 0);
  const RendezvousPoint point = RendezvousPoint::claim(id);
  std::thread impostor([&] {
    play_rank_zero(point.listener(),
                   [](const Hello& hello) { return make_challenge(random_128_bits(), hello, random_128_bits()); });
  });
  const std::string said = outcome_of([&](int) { Bootstrap::create(id, 1, 2, within(5)); }, 0);
  impostor.join();
  EXPECT_TRUE(has(said, join("meeting place at ", id.meeting_place().text(), " does not know the secret")));
  EXPECT_TRUE(has(said, "the same PLAIT_JOB, and the host of rank 0 in PLAIT_MASTER_ADDR"));
}

TEST_P(BootstrapStrangers, TheSecretIsNeverSaid) {
  const RendezvousPoint point = new_point();
  const Secret secret = point.id().secret;
  std::string said;
  std::thread listening([&] {
    said = play_rank_zero(point.listener(),
                          [&](const Hello& hello) { return make_challenge(secret, hello, random_128_bits()); });
  });
  EXPECT_NE(outcome_of([&](int) { Bootstrap::create(point.id(), 1, 2, within(0.3)); }, 0), "");
  listening.join();
  ASSERT_EQ(said.size(), sizeof(Hello) + sizeof(Proof));
  for (size_t at = 0; at + 4 <= secret.size(); ++at) {
    EXPECT_EQ(said.find(std::string(reinterpret_cast<const char*>(secret.data()) + at, 4)), said.npos);
  }
}

}  // namespace
}  // namespace plait
