// What a collective should take on more nodes than can be simulated.
//
// Plans that do not look alike from all nodes are simulated rank by rank, and 100,000 of them are too many. Then the
// same request is simulated on a half, a quarter, … of the nodes, and the times are continued: over the logarithm of
// the nodes or its square, as trees take, or over their number, as rings take. The curve is taken that was best at
// saying the last simulated time from far fewer nodes. The error is no bound: what limits a plan may change farther on.
#pragma once

#include <string>
#include <vector>

#include "api/machine_plan.hpp"
#include "base/settings.hpp"

namespace plait {

struct Extrapolation {
  struct Point {
    int nodes = 0;
    double seconds = 0;
  };
  std::vector<Point> points;  // simulated, the fewest nodes first
  std::string algorithm;      // with its arguments, on the most nodes that were simulated
  std::string profile;        // where costs come from
  int nodes = 0, ranks = 0;   // of the whole machine
  std::string over;           // "logarithm", "number" or "square of the logarithm" of the nodes
  double seconds = 0;
  // A share: how far the same curve was off where points of so many times fewer nodes gave the last one, or if that is
  // more, how far another curve that was near there is from this one now.
  double error = 0;
  int checked_times = 0;  // the nodes of the last point over those of the points that gave it
  int times = 0;          // the nodes of the machine over those of the last point

  std::string describe() const;
};

// `most_ranks`: of the largest simulation; 0: 16,384. Throws what simulate_on_machine() does, and kInvalidArgument
// where no algorithm is named, the nodes are not equal, or fewer than four of the simulations are small enough.
Extrapolation extrapolate_on_machine(const Topology& topology, const MachinePlanRequest& request,
                                     const Settings& settings, const TunerProgress& progress = {}, int most_ranks = 0);

}  // namespace plait
