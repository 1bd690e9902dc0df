// Shared memory: too little of it is an error on all ranks that says what to do. None of it is left behind.
#include <gtest/gtest.h>

#include "support/expect_outcomes.hpp"
#include "support/failing_ranks.hpp"
#include "support/rank_threads.hpp"
#include "support/system.hpp"

namespace plait::test {
namespace {

constexpr int kRanks = 3;

void make_and_use(const UniqueId& id, int rank, int ranks, const Settings& settings) {
  Communicator communicator = Communicator::create(id, rank, ranks, settings);
  call_and_check(communicator, {Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, 5000});
}

Settings in_directory(const std::string& directory) {
  Settings settings = fault_settings();
  settings.shared_memory_directory = directory;
  return settings;
}

// ---- Too little.

// Returns what ranks get if their shared memory is in a file system of `kib` KiB. To be used in a process with mounts
// of its own.
Outcomes outcomes_with_room(size_t kib) {
  const TemporaryDirectory directory;
  mount_small(directory.path(), kib);
  const UniqueId id = new_id();
  const Outcomes outcomes =
      run_processes(kRanks, kLimit, [&](int rank) { make_and_use(id, rank, kRanks, in_directory(directory.path())); });
  require(files_in(directory.path()).empty(), "a file is left in the directory");
  ::umount(directory.path().c_str());
  return outcomes;
}

TEST(SharedMemory, ASmallFileSystemIsAnErrorOnAllRanks) {
  if (run_processes(1, kLimit, [](int) { require(enter_mount_namespace(), "no"); })[0].end != Outcome::End::kReturned) {
    GTEST_SKIP() << "this system does not let the test mount a small file system";
  }
  expect_all_well(run_processes(1, kLimit, [](int) {
    enter_mount_namespace();
    for (const size_t kib : {4, 256, 1024}) {
      const Outcomes outcomes = outcomes_with_room(kib);
      for (const Outcome& outcome : outcomes) {
        const std::string problem = objection(outcome, ErrorCode::kResources,
                                              {"rank 0: cannot get 3 MiB of shared memory for 3 ranks", "No space left",
                                               "--shm-size=4m", "unset PLAIT_SHM_DIR", "PLAIT_SCRATCH_KIB (now 64)"});
        require(problem.empty(), kib, " KiB: ", problem);
      }
    }
    for (const Outcome& outcome : outcomes_with_room(3072)) require(outcome.well(), describe(outcome));
  }));
}

TEST(SharedMemory, ADirectoryThatIsNotThere) {
  const UniqueId id = new_id();
  expect_errors(run_processes(kRanks, kLimit,
                              [&](int rank) { make_and_use(id, rank, kRanks, in_directory("/no/such/directory")); }),
                -1, ErrorCode::kResources, {"/no/such/directory", "No such file or directory"});
}

// Going beyond this limit would kill a process with SIGXFSZ.
TEST(SharedMemory, ALimitOnFileSizes) {
  for (const char* directory : {"", "/dev/shm"}) {
    const UniqueId id = new_id();
    expect_errors(run_processes(kRanks, kLimit,
                                [&](int rank) {
                                  if (rank == 0) set_limit(RLIMIT_FSIZE, 100 * 1024);
                                  make_and_use(id, rank, kRanks, in_directory(directory));
                                }),
                  -1, ErrorCode::kResources, {"rank 0: cannot get 3 MiB", "100 KiB only", "ulimit -f"});
  }
}

TEST(SharedMemory, ALimitOnTheAddressSpaceOfAnyRank) {
  if (PLAIT_TEST_SANITIZED) GTEST_SKIP() << "a sanitizer needs the address space";
  for (const int poor : {0, 2}) {
    const UniqueId id = new_id();
    Settings settings = fault_settings();
    settings.scratch_bytes = size_t{256} << 20;
    expect_errors(run_processes(kRanks, kLimit,
                                [&](int rank) {
                                  if (rank == poor) set_limit(RLIMIT_AS, address_space() + (size_t{64} << 20));
                                  make_and_use(id, rank, kRanks, settings);
                                }),
                  -1, ErrorCode::kResources,
                  {join("rank ", poor, ": cannot map 771 MiB"), "ulimit -v", "PLAIT_SCRATCH_KIB (now 262144)"});
  }
}

TEST(SharedMemory, MoreThanThereCanBe) {
  if (PLAIT_TEST_SANITIZED) GTEST_SKIP() << "a sanitizer ends the program where so much is asked for";
  Settings settings = fault_settings();
  settings.scratch_bytes = size_t{1} << 46;
  EXPECT_EQ(objection(outcome_of([&](int) { Communicator::in_process(4, settings); }, 0), ErrorCode::kResources,
                      {"cannot map"}),
            "");
}

TEST(SharedMemory, TooFewDescriptorsOnOneRank) {
  if (PLAIT_TEST_SANITIZED) GTEST_SKIP() << "a sanitizer needs descriptors for its checks";
  const UniqueId id = new_id();
  const Outcomes outcomes = run_processes(kRanks, kLimit, [&](int rank) {
    if (rank == 1) set_limit(RLIMIT_NOFILE, next_descriptor() + 1);  // room to connect, but not for the memory
    make_and_use(id, rank, kRanks, fault_settings());
  });
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(outcomes[static_cast<size_t>(rank)].end, Outcome::End::kError)
        << describe(outcomes[static_cast<size_t>(rank)]);
  }
}

// ---- Nothing is left.

// Makes 50 communicators one after another. The first few may make lasting things, such as buffers of the C library.
void expect_nothing_kept(const std::function<void()>& make_one, const std::string& mapping) {
  for (int i = 0; i < 3; ++i) make_one();
  const size_t descriptors = open_descriptors(), all = mappings(""), ours = mappings(mapping);
  for (int i = 0; i < 50; ++i) make_one();
  require(open_descriptors() == descriptors, "descriptors: ", descriptors, " before, ", open_descriptors(), " after");
  require(mappings(mapping) == ours, "shared memory stays mapped");
  require(PLAIT_TEST_SANITIZED || mappings("") <= all + 3, "mappings: ", all, " before, ", mappings(""), " after");
}

TEST(Leaks, FiftyCommunicatorsInProcesses) {
  for (const char* directory : {"", "/dev/shm"}) {
    const auto before = shared_memory_files();
    std::vector<UniqueId> ids;
    for (int i = 0; i < 53; ++i) ids.push_back(new_id());
    expect_all_well(run_processes(kRanks, kLimit, [&](int rank) {
      size_t next = 0;
      expect_nothing_kept([&] { make_and_use(ids[next++], rank, kRanks, in_directory(directory)); },
                          *directory == 0 ? "memfd:plait" : "/dev/shm");
    }));
    EXPECT_EQ(shared_memory_files(), before);
  }
}

TEST(Leaks, FiftyCommunicatorsOfThreads) {
  expect_all_well(run_processes(1, kLimit, [](int) {
    expect_nothing_kept(
        [] {
          const Outcomes outcomes = run_threads(2, fault_settings(), [](Communicator& communicator) {
            call_and_check(communicator, {Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, 5000});
          });
          for (const Outcome& outcome : outcomes) require(outcome.well(), describe(outcome));
        },
        "memfd:plait");
  }));
}

TEST(Leaks, CommunicatorsThatFailed) {
  std::vector<UniqueId> ids;
  for (int i = 0; i < 53; ++i) ids.push_back(new_id());
  expect_all_well(run_processes(2, kLimit, [&](int rank) {
    size_t next = 0;
    expect_nothing_kept(
        [&] {
          const UniqueId& id = ids[next++];
          const Outcome outcome = outcome_of(
              [&](int) {
                Settings settings = in_directory(rank == 0 && next % 2 == 0 ? "/no/such/directory" : "");
                Communicator communicator = Communicator::create(id, rank, 2, settings);
                const Call call{Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0,
                                10 + static_cast<size_t>(rank)};
                call_and_check(communicator, call);
              },
              rank);
          require(outcome.end == Outcome::End::kError, describe(outcome));
        },
        "memfd:plait");
  }));
}

TEST(Leaks, RanksThatAreKilledLeaveNoFile) {
  const auto before = shared_memory_files();
  Shared<Progress> progress;
  {
    RankProcesses ranks(kRanks, with_communicator(kRanks, in_directory("/dev/shm"), [&](Communicator& communicator) {
                          for (;;) {
                            call_and_check(communicator,
                                           {Collective::kAllGather, DataType::kInt8, ReduceOp::kSum, 0, 99});
                            ++progress->calls[communicator.rank()];
                          }
                        }));
    await_calls(ranks, *progress, 0, 3);
    for (int rank = 0; rank < kRanks; ++rank) ranks.kill(rank);
  }
  EXPECT_EQ(shared_memory_files(), before);
}

// ---- Ranks in containers that share memory and the network, but do not see each other's processes.

TEST(ProcessNamespaces, RanksThatCannotSeeEachOther) {
  const auto in_own_namespace = [](const std::function<void()>& body) {
    require(::unshare(CLONE_NEWPID) == 0, "unshare");
    const Outcomes outcomes = run_processes(1, kLimit, [&](int) { body(); });
    if (outcomes[0].end == Outcome::End::kError) throw Error(outcomes[0].code, outcomes[0].text);
    require(outcomes[0].well(), describe(outcomes[0]));
  };
  if (!run_processes(1, kLimit, [&](int) { in_own_namespace([] {}); })[0].well()) {
    GTEST_SKIP() << "this system does not let the test make process namespaces";
  }
  const UniqueId id = new_id();
  expect_all_well(run_processes(kRanks, kLimit, [&](int rank) {
    const auto body = [&] {
      Communicator communicator = Communicator::create(id, rank, kRanks, fault_settings());
      for (int i = 0; i < 3; ++i) {
        if (i == 1 && rank == 1) sleep_seconds(0.2);  // the others examine their peers
        call_and_check(communicator, {Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, 5000}, i);
      }
    };
    if (rank == 0) {
      body();
    } else {
      in_own_namespace(body);
    }
  }));
}

}  // namespace
}  // namespace plait::test
