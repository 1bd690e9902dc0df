// Rows that were measured with up to 4 GPUs, on 8: what `plait plan` chooses, by the simulator that `plait simulate`
// runs.
#include <gtest/gtest.h>

#include <string>

#include "api/machine_plan.hpp"
#include "api/machine_simulation.hpp"
#include "support/seed.hpp"
#include "topology/machines.hpp"

namespace plait {
namespace {

MachinePlanRequest request_of(Collective collective, size_t bytes, const std::string& algorithm = "") {
  MachinePlanRequest request;
  request.collective = collective;
  request.bytes = bytes;
  request.algorithm = algorithm;
  return request;
}

double launch_seconds(const char* name, const MachinePlanRequest& request) {
  const MachineSimulation made = simulate_on_machine(machine(name), request, {});
  EXPECT_NE(made.launch, "") << made.why_no_launch;
  return made.run.seconds;
}

// Below 64 MiB the row has LL128, which eight GPUs that store to each other do not fill links with.
TEST(RowsOfFourGpusOnEight, GiveWayToLaunchesThatAreMuchFaster) {
  for (const size_t bytes : {size_t{16} << 20, size_t{32} << 20}) {
    const MachinePlan made = plan_for_machine(machine("hgx-h100-8"), request_of(Collective::kReduce, bytes), {});
    EXPECT_TRUE(made.reason().starts_with("much faster than flat(store), ")) << made.reason();
    const double of_row = launch_seconds("hgx-h100-8", request_of(Collective::kReduce, bytes, "flat(store)"));
    EXPECT_LT(launch_seconds("hgx-h100-8", request_of(Collective::kReduce, bytes)) * 1.25, of_row) << bytes;
  }
}

TEST(RowsOfFourGpusOnEight, HoldWhereNothingIsMuchFaster) {
  for (const size_t bytes : {size_t{64} << 10, size_t{1} << 20, size_t{1} << 30}) {
    if (test::kSanitized && bytes > size_t{64} << 10) break;  // simulations of long messages take minutes there
    const MachinePlan made = plan_for_machine(machine("hgx-h100-8"), request_of(Collective::kReduce, bytes), {});
    const double of_row = launch_seconds("hgx-h100-8", request_of(Collective::kReduce, bytes));
    EXPECT_TRUE(made.reason().starts_with("a guess from what was measured ")) << made.reason();
    for (const char* other : {"flat(store)", "double_binary_tree(store, parts=8)", "chain(store, parts=8)"}) {
      const double seconds = launch_seconds("hgx-h100-8", request_of(Collective::kReduce, bytes, other));
      EXPECT_LT(of_row, seconds * 1.25) << other << " of " << bytes;
    }
  }
}

}  // namespace
}  // namespace plait
