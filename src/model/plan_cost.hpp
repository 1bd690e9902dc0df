// Predicts the time of a plan for messages of any size, from start-up, steps, links and memory. Constants come from a
// profile.
#pragma once

#include <vector>

#include "model/link_load.hpp"
#include "model/profile.hpp"
#include "model/routes.hpp"
#include "model/timeline.hpp"
#include "plan/plan.hpp"

namespace plait {

// The time of a plan by size of the message. It is a maximum of lines: of its critical path at each size, of its
// busiest link, and of the busiest memory.
class CostCurve {
 public:
  double seconds(double bytes) const;
  // What no number of parts gets below: the busiest link, memory, and the critical path of an empty message.
  double seconds_in_any_parts(double bytes) const;
  void add_path(Line line) { paths_.push_back(line); }
  void add_flow(Line line) { flows_.push_back(line); }

 private:
  std::vector<Line> paths_, flows_;
};

enum class FlagPlace : uint8_t { kBehindData, kEvery8Bytes, kEvery128Bytes };  // Simple, LL, LL128

// The costs of operations with the flags there.
StepCosts step_costs(const Costs& costs, FlagPlace flags);

// The bytes that a rank reads and writes for each byte of the message, and those of them that combining operations
// move. Beside them, what a CPU core moves for a rank with a GPU.
struct MemoryBytes {
  double all = 0, combined = 0, of_core = 0;
};

// A plan on a machine, as the model sees it. The plan need not be proved yet: it is cheaper to try many than to prove
// them.
class PlanModel {
 public:
  // Throws kInvalidPlan where its form is wrong or it is too large to prove, and what link_load() throws.
  PlanModel(const Plan& plan, Routes& routes);

  const LinkLoad& load() const { return load_; }
  int steps() const { return steps_; }
  CostCurve curve(const Costs& costs, FlagPlace flags = FlagPlace::kBehindData) const;

 private:
  PlanModel(const Plan& plan, const Pairing& pairing, Routes& routes);
  PlanModel(const Plan& plan, const PlanCounts& counts, Timeline timeline, Routes& routes);

  const Timeline timeline_;
  const LinkLoad load_;
  const int steps_;
  const bool moves_data_;
  const std::vector<MemoryBytes> memory_bytes_;  // of ranks, each amount once
  const int messages_;                           // to and from other nodes, of the rank with the most
};

}  // namespace plait
