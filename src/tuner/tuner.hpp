// The one choice, for communicators and for `plait plan`.
//
// The first of these decides: the plan that the call names, the algorithm on which the user insists, a table of `plait
// tune` for these very ranks, a table of the machine's profile. Else the candidate that the model finds cheapest is
// taken; of up to 64 ranks their runs are simulated, and the fastest is. A table that was measured on other machines
// gives way to a plan over more paths where direct ones alone do not allow as much. One that was measured with fewer
// ranks gives way to a plan whose simulated launch is much faster. The choice is a pure function of facts that are
// equal on all ranks, so all choose alike.
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
#include "tuner/contest.hpp"
#include "tuner/gpu_launch.hpp"
#include "tuner/launch_timer.hpp"
#include "tuner/overrides.hpp"
#include "tuner/plan_cache.hpp"
#include "tuner/plan_runs.hpp"
#include "tuner/variations.hpp"

namespace plait {

// A choice for all messages of so many bytes.
struct ChoiceRange {
  size_t from = 0, to = 0;  // both included; the last range ends with the largest size that was asked for
  Choice choice;
  // These figures are of the zero-copy plan, if there is one, since it goes first.
  Protocol protocol = Protocol::kSimple;
  int steps = 0;
  double from_seconds = 0, to_seconds = 0;  // predicted, at its ends
  double bound_gbps = 0;                    // of message, that links allow at most; 0: none is used
  // Measured times at sizes of this range, in order, if the profile has any for such a machine. Else empty.
  std::vector<MeasuredTimes::Point> measured;
  std::string measured_source;
};

class Tuner {
 public:
  // Throws kInvalidArgument if settings cannot be used with these ranks. `is_for_gpus`: choices are for ranks with
  // GPUs. Only these run zero-copy plans; on others, settings that insist on one are refused. `timer`, which must
  // outlive it, tells what launches take; null: nobody knows.
  Tuner(RankMachine machine, const Settings& settings, const PlanLimits& limits, bool is_for_gpus,
        const LaunchTimer* timer = nullptr);

  // Tells `progress` of everything that takes long, from now on.
  void report_to(TunerProgress progress) { progress_ = std::move(progress); }

  const RankMachine& machine() const { return machine_; }
  // The network's rate for one long message, each way of a host, 10^9 bytes/s. `source` says where it is from: the
  // topology, or set_network(). It is 0 where nothing joins the ranks' nodes but NVLink.
  struct Network {
    double gbps = 0;
    std::string source;
    std::string text() const;  // "0.12 GB/s each way of a host, measured"
  };
  Network network() const;
  // From now on choices go by this rate. Choices that were made before may be others now; plans stay.
  void set_network(Network network);
  // Whether the model chooses the plan, rather than the user or a table: only then do links matter.
  bool goes_by_model(const Query& query) const;
  Choice choose(const Query& query);
  // The way of a message of so many bytes from one GPU's rank to another. Both ends choose alike.
  MessageChoice choose_message(size_t bytes) const;
  std::shared_ptr<const VerifiedPlan> plan(const PlanChoice& choice);
  // The model's prediction for a choice, whoever made it.
  Candidate costed(const Choice& choice);
  CostCurve cost(const Choice& choice) { return costed(choice).cost; }
  // The model's time for a candidate, as it compares them: by simulation, or by its costs alone where it simulates
  // none.
  double seconds(const Candidate& it, double bytes);
  // Whether measured rules choose algorithms for so many ranks, where they hold.
  bool has_rules() const;
  // Whether the model simulates what it compares: one run of the plan, or launches of GPUs.
  bool simulates(Collective collective) const;
  // The candidates from which the model chooses. Throws what find_candidates() does.
  const Candidates& candidates(Collective collective, int root);
  // Adds a plan that queries name by its fingerprint. Returns true if it forgot those that were given before, to make
  // room; nobody may use these any more.
  bool give(std::shared_ptr<const VerifiedPlan> plan) { return plans_.give(std::move(plan)); }
  // Lets queries name a plan of plan() by its fingerprint, for good.
  void keep(std::shared_ptr<const VerifiedPlan> plan) { plans_.keep(std::move(plan)); }
  bool knows(uint64_t fingerprint) const { return plans_.knows(fingerprint); }
  const VerifiedPlan& given(uint64_t fingerprint) const { return *plans_.given(fingerprint); }
  // All choices for messages from 1 byte to `most`, of one collective, root and type; a barrier has one, of 0 bytes.
  std::vector<ChoiceRange> ranges(Query query, size_t most);

 private:
  void check_overrides(bool is_for_gpus);
  Candidates& find(Collective collective, int root);
  enum class Compare : uint8_t { kCosts, kSimulations };
  const Candidate& cheapest(const Query& query, Compare compare);
  const Candidate& fastest_by_model(const Query& query, const Candidates& candidates);
  PlanChoice made_of(const AlgorithmSpec& spec, const Query& query, const std::string& reason) const;
  PlanChoice made_of(const VerifiedPlan& given) const;
  std::optional<PlanChoice> zero_copy(const Query& query, const AlgorithmOverrides::Entry* forced) const;
  void launch_on_gpus(Choice& choice, const Query& query, const AlgorithmOverrides::Entry* forced,
                      const LaunchWish& wish);
  bool is_same(const Choice& a, const Choice& b) const;
  ChoiceRange range(size_t from, size_t to, Choice choice);
  void add_measured(ChoiceRange& range) const;
  static void add_points(ChoiceRange& range, const MeasuredTimes& times);
  // The rule that was measured for these very ranks; null where there is none.
  const TunedRule* tuned_rule(const Query& query) const;
  const TunedTable* tuned_table(Collective collective) const;
  // The row of the profile that chooses the algorithm; null where there is none for so many ranks.
  const MeasuredRule* measured_rule(const Query& query) const;
  bool has_paths_to_add() const;
  // The candidate over more paths than a guess from elsewhere, if it is better; else null.
  const Candidate* better_than_guess(const Query& query, const PlanChoice& guess);

  // --- simulated times: simulated_times.cpp ---

  struct Simulations {
    Simulations(const RankMachine& machine, const PlanLimits& limits) : variations(machine, limits) {}

    Contest contest;
    PlanRuns runs;
    Variations variations;
    std::map<std::pair<std::string, size_t>, std::optional<double>> rows;  // of a rule's choice, at a sampled size
  };

  bool knows_launches() const { return timer_ != nullptr && timer_->knows(machine_); }
  Simulations& simulations(const Query& query);
  Stopwatch stopwatch(const Query& query);
  // The same call with a message of a sampled size.
  Query sampled(Query query, size_t bytes) const;
  std::optional<double> launch_seconds(const PlanChoice& plan, const Query& query, const LaunchWish& wish, double most);
  std::optional<double> launch_seconds(const Candidate& it, const Query& query, double most);
  // Launches that take longer are of no interest: where a row holds, only what is much faster is.
  double limit_of(const Query& query);
  std::optional<double> row_seconds(const MeasuredRule& rule, const Query& query);
  // The candidate whose launch is much faster than what was measured to be best with fewer ranks; else null.
  const Candidate* faster_than_guess(const Query& query, const MeasuredRule& rule);

  RankMachine machine_;
  std::optional<Network> network_;  // that set_network() said
  const PlanLimits limits_;
  const AlgorithmOverrides overrides_;
  std::string measured_elsewhere_;  // where rows of the profile were measured; empty: on such a machine
  std::optional<LaunchShape> launch_;
  const LaunchTimer* const timer_;
  TunerProgress progress_;
  PlanCache plans_;
  std::map<std::pair<Collective, int>, Candidates> candidates_;  // of a collective and a root
  std::map<std::pair<Collective, int>, Simulations> simulations_;
};

}  // namespace plait
