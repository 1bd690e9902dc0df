// Ranks whose network is not as it should be: without a loopback interface, or with a network for each rank.
#include <gtest/gtest.h>

#include <optional>

#include "runtime/bootstrap.hpp"
#include "runtime/stream_socket.hpp"
#include "support/expect_outcomes.hpp"
#include "support/failing_ranks.hpp"
#include "support/system.hpp"

namespace plait::test {
namespace {

constexpr const char* kCannot = "this process may make no network namespace";

// Runs `body` in a process in a new network namespace, whose loopback interface is down at first. Does nothing if the
// system does not allow it.
std::optional<Outcome> in_new_network(const std::function<void()>& body) {
  const Outcome outcome = run_processes(1, kLimit, [&](int) {
    if (!enter_namespaces(CLONE_NEWNET)) throw Error(ErrorCode::kResources, kCannot);
    body();
  })[0];
  if (outcome.text == kCannot) return std::nullopt;
  return outcome;
}

void require_all_well(const Outcomes& outcomes) {
  for (const Outcome& outcome : outcomes) require(outcome.well(), describe(outcome));
}

TEST(Network, LoopbackIsMissedWhereItIsDown) {
  EXPECT_TRUE(has_loopback());
  const auto outcome = in_new_network([] { require(!has_loopback(), "lo is up"); });
  if (!outcome) GTEST_SKIP() << kCannot;
  EXPECT_TRUE(outcome->well()) << describe(*outcome);
}

TEST(Network, RanksMeetWithoutALoopbackInterface) {
  const auto outcome = in_new_network([] {
    const UniqueId id = RendezvousPoint::create().release();
    require_all_well(run_processes(3, kLimit, [&](int rank) {
      Communicator communicator = Communicator::create(id, rank, 3, fault_settings());
      call_and_check(communicator, {Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, 100});
    }));
  });
  if (!outcome) GTEST_SKIP() << kCannot;
  EXPECT_TRUE(outcome->well()) << describe(*outcome);
}

// It would wait in vain: no port and no name leads to rank 0.
TEST(Network, ARankInAnotherNetworkSaysSo) {
  for (const bool at_name : {false, true}) {
    const RendezvousPoint point = at_name ? RendezvousPoint::create_at_name() : RendezvousPoint::create();
    const auto outcome = in_new_network([&] { Bootstrap::create(point.id(), 1, 2, {{kLimit / 2, Logger()}, {}}); });
    if (!outcome) GTEST_SKIP() << kCannot;
    EXPECT_EQ(objection(*outcome, ErrorCode::kSystem,
                        {"rank 1 of 2: this process is in another network namespace than rank 0 (pid ",
                         "the loopback interface (lo) is missing or down", "--network=host"}),
              "");
  }
}

// If /proc is not mounted, no rank knows which network it is in.
TEST(Network, ARankThatFindsNoLoopbackInterfaceSaysSo) {
  const RendezvousPoint point = RendezvousPoint::create();
  UniqueId id = point.id();
  id.network_namespace = 0;
  const auto outcome = in_new_network([&] { Bootstrap::create(id, 1, 2, {{kLimit / 2, Logger()}, {}}); });
  if (!outcome) GTEST_SKIP() << kCannot;
  EXPECT_EQ(objection(*outcome, ErrorCode::kSystem,
                      {"rank 1 of 2: the loopback interface (lo) is missing or down here", "ip link set lo up"}),
            "");
}

}  // namespace
}  // namespace plait::test
