// The one choice: for communicators, and for `plait plan`.
//
// In this order: the plan that the call names, what the user insists on, what a measured table of the machine's profile
// says, what the model finds cheapest of all candidates. A pure function of what is equal on all ranks, so that all
// choose alike.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/settings.hpp"
#include "tuner/candidates.hpp"
#include "tuner/choice.hpp"
#include "tuner/gpu_launch.hpp"
#include "tuner/overrides.hpp"
#include "tuner/plan_cache.hpp"

namespace plait {

// A choice for all messages of so many bytes.
struct ChoiceRange {
  size_t from = 0, to = 0;  // both included; the last range ends with the largest size that was asked for
  Choice choice;
  int steps = 0;                            // of the plan
  double from_seconds = 0, to_seconds = 0;  // predicted, at its ends
  double bound_gbps = 0;                    // of message, that links allow at most; 0: none is used
  // What it took on such a machine, where the profile has that: at sizes of this range, in order. Else empty.
  std::vector<MeasuredTimes::Point> measured;
  std::string measured_source;
};

class Tuner {
 public:
  // Throws kInvalidArgument where settings cannot be used with these ranks. `is_for_gpus`: choices are for ranks that
  // have GPUs, which alone copy from buffer to buffer; else whoever insists on that is refused.
  Tuner(RankMachine machine, const Settings& settings, const PlanLimits& limits, bool is_for_gpus);

  // Is told what takes long, from now on.
  void report_to(TunerProgress progress) { progress_ = std::move(progress); }

  const RankMachine& machine() const { return machine_; }
  Choice choose(const Query& query);
  // How a message of so many bytes goes from one rank to another, between GPUs; both ends choose alike.
  MessageChoice choose_message(size_t bytes) const;
  std::shared_ptr<const VerifiedPlan> plan(const PlanChoice& choice);
  // What the model has to say of a choice, whoever made it.
  Candidate costed(const Choice& choice);
  CostCurve cost(const Choice& choice) { return costed(choice).cost; }
  // What the model chooses from. Throws what find_candidates() does.
  const Candidates& candidates(Collective collective, int root);
  // Plans that queries name by their fingerprints. True: to make room, those that were given before have been
  // forgotten, and whoever uses one must not go on.
  bool give(std::shared_ptr<const VerifiedPlan> plan) { return plans_.give(std::move(plan)); }
  bool knows(uint64_t fingerprint) const { return plans_.knows(fingerprint); }
  const VerifiedPlan& given(uint64_t fingerprint) const { return *plans_.given(fingerprint); }
  // All choices for messages from 1 byte to `most`, of one collective, root and type; a barrier has one, of 0 bytes.
  std::vector<ChoiceRange> ranges(Query query, size_t most);

 private:
  void check_overrides(bool is_for_gpus);
  Candidates& find(Collective collective, int root);
  const Candidate& cheapest(const Query& query);
  PlanChoice made_of(const AlgorithmSpec& spec, const Query& query, const std::string& reason) const;
  PlanChoice made_of(const VerifiedPlan& given) const;
  std::optional<PlanChoice> zero_copy(const Query& query, const AlgorithmOverrides::Entry* forced) const;
  void launch_on_gpus(Choice& choice, const Query& query, const AlgorithmOverrides::Entry* forced,
                      const LaunchWish& wish);
  bool is_same(const Choice& a, const Choice& b) const;
  ChoiceRange range(size_t from, size_t to, Choice choice);
  void add_measured(ChoiceRange& range) const;

  const RankMachine machine_;
  const PlanLimits limits_;
  const AlgorithmOverrides overrides_;
  std::optional<LaunchShape> launch_;
  TunerProgress progress_;
  PlanCache plans_;
  std::map<std::pair<Collective, int>, Candidates> candidates_;  // of a collective and a root
};

}  // namespace plait
