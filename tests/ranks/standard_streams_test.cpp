// Ranks of a program that was started with standard streams closed. What the library opens must not become a standard
// stream: lines of the log would go into a socket, or into the memory that all ranks share.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "runtime/bootstrap.hpp"
#include "support/expect_outcomes.hpp"
#include "support/failing_ranks.hpp"

namespace plait::test {
namespace {

constexpr int kRanks = 3;

void close_all(const std::vector<int>& streams) {
  for (const int stream : streams) ::close(stream);
}

void require_closed(const std::vector<int>& streams) {
  for (const int stream : streams) {
    require(::fcntl(stream, F_GETFD) < 0 && errno == EBADF, "descriptor ", stream, " is open");
  }
}

Settings talkative_settings() {
  Settings settings = fault_settings();
  settings.log_level = LogLevel::kDebug;
  return settings;
}

// A new id, whose socket rank 0 has inherited, or the id of a job.
UniqueId id_of(bool is_job) { return is_job ? new_id() : RendezvousPoint::create().release(); }

class ClosedStreams : public testing::TestWithParam<std::vector<int>> {};

INSTANTIATE_TEST_SUITE_P(Of, ClosedStreams,
                         testing::Values(std::vector{2}, std::vector{0}, std::vector{1, 2}, std::vector{0, 1, 2}));

TEST_P(ClosedStreams, AreNotOpenedByACommunicator) {
  for (const bool is_job : {false, true}) {
    for (const char* directory : {"", "/dev/shm"}) {
      const UniqueId id = id_of(is_job);
      expect_all_well(run_processes(kRanks, kLimit, [&](int rank) {
        close_all(GetParam());
        Settings settings = talkative_settings();
        settings.shared_memory_directory = directory;
        Communicator communicator = Communicator::create(id, rank, kRanks, settings);
        for (int i = 0; i < 5; ++i) {
          call_and_check(communicator, {Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, 1000}, i);
        }
        require_closed(GetParam());
      }));
    }
  }
}

TEST_P(ClosedStreams, AreNotOpenedByDescriptorsThatOtherRanksSend) {
  for (const bool is_job : {false, true}) {
    const UniqueId id = id_of(is_job);
    expect_all_well(run_processes(kRanks, kLimit, [&](int rank) {
      close_all(GetParam());
      const UniqueFd mine(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      Bootstrap bootstrap = Bootstrap::create(id, rank, kRanks, {{30, Logger(LogLevel::kDebug, rank)}, {}});
      const UniqueFd from_rank_zero = bootstrap.broadcast_descriptor(mine.get());
      const std::vector<UniqueFd> from_all = bootstrap.all_gather_descriptors(mine.get());
      require_closed(GetParam());
    }));
  }
}

TEST_P(ClosedStreams, AreNotOpenedByAnId) {
  expect_all_well(run_processes(1, kLimit, [&](int) {
    close_all(GetParam());
    const UniqueId used = RendezvousPoint::create().release(), unused = RendezvousPoint::create().release();
    require(RendezvousPoint::claim(used).id() == used, "claimed");
    const RendezvousPoint at_name = RendezvousPoint::create_at_name();
    require_closed(GetParam());
    require(::fcntl(unused.creator_descriptor, F_GETFD) >= 0, "another id's descriptor is its own");
  }));
}

}  // namespace
}  // namespace plait::test
