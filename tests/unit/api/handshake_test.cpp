#include "api/handshake.hpp"

#include <gtest/gtest.h>

namespace plait {
namespace {

Handshake on(uint64_t machine, int first_core, int cores) {
  Handshake rank;
  rank.machine = machine;
  CPU_ZERO(&rank.cores);
  for (int core = first_core; core < first_core + cores; ++core) CPU_SET(core, &rank.cores);
  return rank;
}

TEST(Handshake, RanksOfOneMachineCrowdItsCores) {
  EXPECT_FALSE(is_machine_crowded(on(1, 0, 2), {on(1, 0, 2), on(1, 0, 2)}));
  EXPECT_TRUE(is_machine_crowded(on(1, 0, 2), {on(1, 0, 2), on(1, 0, 2), on(1, 0, 2)}));
  EXPECT_TRUE(is_machine_crowded(on(1, 0, 8), {on(1, 0, 8), on(1, 3, 1), on(1, 3, 1)}));
}

TEST(Handshake, CoresOfOtherMachinesAreOthers) {
  const std::vector<Handshake> all{on(1, 0, 2), on(1, 0, 2), on(2, 0, 2), on(2, 0, 1), on(2, 0, 1)};
  EXPECT_FALSE(is_machine_crowded(all[0], all));
  EXPECT_TRUE(is_machine_crowded(all[3], all));
}

// Whatever host the rank is taken to be on.
TEST(Handshake, ThisMachineIsOne) {
  Settings left, right;
  left.host_id = "left";
  right.host_id = "right";
  EXPECT_EQ(introduce(left, false).machine, introduce(right, false).machine);
}

}  // namespace
}  // namespace plait
