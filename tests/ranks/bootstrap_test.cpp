// Ranks that meet and exchange what a communicator starts from, without any failure.
#include "runtime/bootstrap.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "ranks/rank_processes.hpp"

namespace plait {
namespace {

// A page that maps `descriptor`.
struct Mapping {
  explicit Mapping(int descriptor)
      : words(static_cast<int*>(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0))) {
    require(words != MAP_FAILED, "the descriptor can be mapped");
  }
  ~Mapping() { ::munmap(words, 4096); }
  int* words;
};

void check_shared_memory(Bootstrap& bootstrap) {
  UniqueFd mine;
  if (bootstrap.rank() == 0) {
    mine.reset(::memfd_create("bootstrap_test", MFD_CLOEXEC));
    require(::ftruncate(mine.get(), 4096) == 0, "ftruncate");
  }
  const UniqueFd shared = bootstrap.broadcast_descriptor(mine.get());
  mine.reset();
  require((::fcntl(shared.get(), F_GETFD) & FD_CLOEXEC) != 0, "the descriptor closes on exec");
  const Mapping mapping(shared.get());
  mapping.words[bootstrap.rank()] = 1000 + bootstrap.rank();
  bootstrap.barrier();
  for (int rank = 0; rank < bootstrap.size(); ++rank) require(mapping.words[rank] == 1000 + rank, "memory is shared");
}

// Every rank gives a file that holds its rank number, and finds those of all ranks.
void check_every_descriptor(Bootstrap& bootstrap) {
  const int mine = bootstrap.rank();
  UniqueFd file(::memfd_create("bootstrap_test", MFD_CLOEXEC));
  require(::pwrite(file.get(), &mine, sizeof mine, 0) == sizeof mine, "pwrite");
  const std::vector<UniqueFd> all = bootstrap.all_gather_descriptors(file.get());
  require(::fcntl(file.get(), F_GETFD) >= 0, "the rank's own descriptor stays open");
  file.reset();
  require(all.size() == static_cast<size_t>(bootstrap.size()), "a descriptor of each rank");
  for (int rank = 0; rank < bootstrap.size(); ++rank) {
    const int descriptor = all[static_cast<size_t>(rank)].get();
    require((::fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0, "the descriptor closes on exec");
    int found = -1;
    require(::pread(descriptor, &found, sizeof found, 0) == sizeof found && found == rank, "each rank's, by rank");
  }
}

void check_everything(const UniqueId& id, int rank, int size) {
  Bootstrap bootstrap = Bootstrap::create(id, rank, size, within(15));
  require(bootstrap.rank() == rank && bootstrap.size() == size, "rank and size");
  check_all_gather(bootstrap);
  check_shared_memory(bootstrap);
  bootstrap.barrier();
  check_all_gather(bootstrap);
}

void check_descriptors(const UniqueId& id, int rank, int size) {
  Bootstrap bootstrap = Bootstrap::create(id, rank, size, within(15));
  check_every_descriptor(bootstrap);
  check_all_gather(bootstrap);
  check_every_descriptor(bootstrap);
  check_shared_memory(bootstrap);
  bootstrap.barrier();
}

class Worlds : public testing::TestWithParam<int> {};

TEST_P(Worlds, MeetAsProcesses) {
  const int size = GetParam();
  const UniqueId id = new_id();
  expect_all_well(run_processes(size, [&](int rank) { check_everything(id, rank, size); }));
  ::close(id.creator_descriptor);  // this process's copy of the socket
}

TEST_P(Worlds, MeetAsThreads) {
  const int size = GetParam();
  const UniqueId id = new_id();
  expect_all_well(run_threads(size, [&](int rank) { check_everything(id, rank, size); }));
}

TEST_P(Worlds, MeetAsProcessesOfAJob) {
  const int size = GetParam();
  const UniqueId id = new_job();
  expect_all_well(run_processes(size, [&](int rank) { check_everything(id, rank, size); }));
}

TEST_P(Worlds, ExchangeDescriptorsAsProcesses) {
  const int size = GetParam();
  const UniqueId made = new_id(), job = new_job();
  for (const UniqueId& id : {made, job}) {
    expect_all_well(run_processes(size, [&](int rank) { check_descriptors(id, rank, size); }));
  }
  ::close(made.creator_descriptor);  // this process's copy of the socket
}

INSTANTIATE_TEST_SUITE_P(Bootstrap, Worlds, testing::Values(1, 2, 3, 8, 64));

TEST(Bootstrap, AWorldOfOneNeedsNoId) {
  Bootstrap bootstrap = Bootstrap::alone();
  check_all_gather(bootstrap);
  check_shared_memory(bootstrap);
  check_every_descriptor(bootstrap);
  EXPECT_EQ(bootstrap.process_ids(), std::vector<pid_t>{::getpid()});
}

TEST(Bootstrap, ThreadsExchangeDescriptors) {
  const UniqueId made = new_id(), job = new_job();
  for (const UniqueId& id : {made, job}) {
    expect_all_well(run_threads(5, [&](int rank) { check_descriptors(id, rank, 5); }));
  }
}

TEST(Bootstrap, EveryRankKnowsEveryProcess) {
  const UniqueId made = new_id(), job = new_job();
  for (const UniqueId& id : {made, job}) {
    expect_all_well(run_processes(4, [&](int rank) {
      Bootstrap bootstrap = Bootstrap::create(id, rank, 4, within(10));
      require(bootstrap.all_gather(::getpid()) == bootstrap.process_ids(), "process ids are those of the ranks");
    }));
  }
}

// A process id that means another process to rank 0, or none, must not be taken for a rank's.
TEST(Bootstrap, ARankOfAnotherProcessNamespaceHasNoNumber) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs the right to make a process namespace";
  const UniqueId id = new_id();
  expect_all_well(run_processes(2, [&](int rank) {
    const auto meet = [&](int) {
      const Bootstrap bootstrap = Bootstrap::create(id, rank, 2, within(10));
      require(bootstrap.process_ids()[1] == 0, "rank 0 does not know rank 1's process");
      require(bootstrap.process_ids()[0] > 1, "rank 0 knows its own");
    };
    if (rank == 0) return meet(0);
    require(::unshare(CLONE_NEWPID) == 0, "unshare");
    const std::string outcome = outcome_of(start_process(meet, 0));  // the first process of the new namespace
    require(outcome.empty(), outcome);
  }));
}

TEST(Bootstrap, PartsLargerThanASocketsBufferArrive) {
  const UniqueId id = new_id();
  constexpr size_t kBytes = size_t{3} << 20;
  expect_all_well(run_threads(3, [&](int rank) {
    Bootstrap bootstrap = Bootstrap::create(id, rank, 3, within(10));
    std::vector<std::byte> mine(kBytes, static_cast<std::byte>(rank + 1)), all(3 * kBytes);
    bootstrap.all_gather(mine, all);
    for (size_t i = 0; i < all.size(); ++i) require(all[i] == static_cast<std::byte>(i / kBytes + 1), "every byte");
    bootstrap.all_gather({}, {});
  }));
}

TEST(Bootstrap, NoRankLeavesABarrierBeforeTheLastHasCome) {
  const UniqueId id = new_id();
  expect_all_well(run_threads(3, [&](int rank) {
    Bootstrap bootstrap = Bootstrap::create(id, rank, 3, within(10));
    bootstrap.barrier();
    const auto begin = Clock::now();
    if (rank == 1) sleep_seconds(0.1);
    bootstrap.barrier();
    require(seconds_since(begin) > 0.09, "the barrier waits for rank 1");
  }));
}

TEST(Bootstrap, CommunicatorsOfOneJobFollowEachOther) {
  const std::string key = new_id().text();
  expect_all_well(run_processes(3, [&](int rank) {
    for (uint64_t sequence = 0; sequence < 20; ++sequence) {
      Bootstrap bootstrap = Bootstrap::create(UniqueId::for_job(key, sequence), rank, 3, within(10));
      require(bootstrap.all_gather(sequence) == std::vector<uint64_t>(3, sequence), "no rank of another communicator");
    }
  }));
}

TEST(Bootstrap, ASecondIdTravelsOverTheFirstCommunicator) {
  const UniqueId id = new_id();
  expect_all_well(run_threads(4, [&](int rank) {
    Bootstrap world = Bootstrap::create(id, rank, 4, within(10));
    // Two halves, each led by its lowest rank.
    UniqueId mine;
    if (rank % 2 == 0) mine = new_id();
    const UniqueId half = world.all_gather(mine)[static_cast<size_t>(rank / 2 * 2)];
    Bootstrap bootstrap = Bootstrap::create(half, rank % 2, 2, within(10));
    require(bootstrap.all_gather(rank) == std::vector<int>({rank / 2 * 2, rank / 2 * 2 + 1}), "the half");
  }));
}

TEST(Bootstrap, RanksWaitForALateRankZero) {
  const UniqueId made = new_id(), job = new_job();
  for (const UniqueId& id : {made, job}) {
    expect_all_well(run_processes(4, [&](int rank) {
      if (rank == 0) sleep_seconds(0.2);
      Bootstrap::create(id, rank, 4, within(10)).barrier();
    }));
  }
}

size_t open_descriptors() {
  size_t count = 0;
  for (int descriptor = 0; descriptor < 1024; ++descriptor) count += ::fcntl(descriptor, F_GETFD) >= 0;
  return count;
}

TEST(Bootstrap, LeavesNoDescriptorOpen) {
  RendezvousPoint::claim(RendezvousPoint::create().release());  // closes what forked ranks of earlier tests have used
  const auto once = [] {
    const UniqueId id = new_id();
    expect_all_well(run_threads(3, [&](int rank) { check_everything(id, rank, 3); }));
    const UniqueId second = new_id();
    expect_all_well(run_threads(3, [&](int rank) { check_descriptors(second, rank, 3); }));
  };
  const size_t before = open_descriptors();
  for (int i = 0; i < 3; ++i) once();
  EXPECT_EQ(open_descriptors(), before);
}

bool name_is_in_use(const std::string& name) {
  std::ifstream table("/proc/net/unix");
  for (std::string line; std::getline(table, line);) {
    if (line.find(name) != line.npos) return true;
  }
  return false;
}

TEST(Bootstrap, NothingIsLeftWhenARankIsKilledWhileItWaits) {
  const UniqueId id = new_job();
  const Child rank_zero = start_process([&](int) { Bootstrap::create(id, 0, 2, within(10)); }, 0);
  const Deadline deadline = Deadline::after(5);
  while (!name_is_in_use(id.rendezvous_name()) && !deadline.passed()) sleep_seconds(0.002);
  EXPECT_TRUE(name_is_in_use(id.rendezvous_name()));
  ::kill(rank_zero.process, SIGKILL);
  EXPECT_EQ(outcome_of(rank_zero), "killed");
  EXPECT_FALSE(name_is_in_use(id.rendezvous_name()));
  // The same job can start again at once.
  expect_all_well(run_processes(2, [&](int rank) { check_everything(id, rank, 2); }));
}

}  // namespace
}  // namespace plait
