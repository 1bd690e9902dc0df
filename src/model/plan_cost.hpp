// What a plan should take, for messages of any size: start-up, steps, links, memory. Constants come from a profile.
#pragma once

#include <vector>

#include "model/link_load.hpp"
#include "model/profile.hpp"
#include "model/routes.hpp"
#include "plan/verifier.hpp"

namespace plait {

// Seconds: some at the start, and more for each byte of the message.
struct Line {
  double start = 0;
  double per_byte = 0;

  // For a message of infinitely many bytes only they count.
  double at(double bytes) const;
};

// What operations cost on the critical path. All 0: only bytes over links count.
struct StepCosts {
  double operation_seconds = 0;
  std::array<double, kLinkKindCount> signal_seconds = {};
  double local_signal_seconds = 0;
  double link_share = 1;  // of the seconds that bytes take at the full speed of their links: more than 1 is slower
};

// The longest chain of operations that wait for each other, for a message of so many bytes (which may be infinite):
// what it takes in the end is its line at that size.
Line critical_path(const VerifiedPlan& plan, Routes& routes, const StepCosts& costs, double bytes);

// How long a plan takes, by size of the message. A maximum of lines: of its critical path at each size, of its busiest
// link, and of the busiest memory.
class CostCurve {
 public:
  double seconds(double bytes) const;
  void add(Line line) { lines_.push_back(line); }

 private:
  std::vector<Line> lines_;
};

enum class FlagPlace : uint8_t { kBehindData, kEvery8Bytes, kEvery128Bytes };  // Simple, LL, LL128
CostCurve cost_curve(const VerifiedPlan& plan, const LinkLoad& load, Routes& routes, const Costs& costs,
                     FlagPlace flags = FlagPlace::kBehindData);

}  // namespace plait
