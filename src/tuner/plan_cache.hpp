// Keeps plans: each chosen plan is made and proved once, and plans that the caller gave stay.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "algorithms/algorithm.hpp"
#include "base/error.hpp"
#include "plan/fingerprint.hpp"
#include "plan/verifier.hpp"
#include "tuner/choice.hpp"

namespace plait {

class PlanCache {
 public:
  // Given plans at a time. Programs that try thousands of them have to forget some.
  static constexpr size_t kMostGiven = 256;

  // The plan of a choice whose ranks, nodes and groups are those of all choices here, or one that was given.
  std::shared_ptr<const VerifiedPlan> get(const PlanChoice& choice) {
    if (choice.given != 0) return given(choice.given);
    auto& plan = plans_[key_of(choice)];
    if (!plan) {
      const Algorithm& algorithm = find_algorithm(choice.algorithm, choice.arguments.collective);
      plan = std::make_shared<const VerifiedPlan>(verify(algorithm.make(choice.arguments)));
    }
    return plan;
  }
  // Whether get() has the plan already.
  bool has(const PlanChoice& choice) const {
    if (choice.given != 0) return true;
    const auto found = plans_.find(key_of(choice));
    return found != plans_.end() && found->second != nullptr;
  }

  // Lets given() find the plan from now on. Returns true if it forgot earlier plans to make room.
  bool give(std::shared_ptr<const VerifiedPlan> plan) {
    const bool is_full = given_.size() == kMostGiven;
    if (is_full) given_.clear();
    const uint64_t fingerprint = plan->fingerprint();
    given_[fingerprint] = std::move(plan);
    return is_full;
  }
  bool knows(uint64_t fingerprint) const { return given_.contains(fingerprint); }
  // The same for a plan that get() made. It is not forgotten, and makes nothing forgotten.
  void keep(std::shared_ptr<const VerifiedPlan> plan) { kept_[plan->fingerprint()] = std::move(plan); }
  // Throws kInvalidArgument where it has no such plan.
  const std::shared_ptr<const VerifiedPlan>& given(uint64_t fingerprint) const {
    const auto found = given_.find(fingerprint);
    if (found != given_.end()) return found->second;
    const auto kept = kept_.find(fingerprint);
    if (kept != kept_.end()) return kept->second;
    fail(ErrorCode::kInvalidArgument, "no plan ", fingerprint_text(fingerprint),
         " is known here: give it to the communicator before a call names it; the last ", kMostGiven, " are kept");
  }

 private:
  struct Call {
    Collective collective;
    int root;
    Engine engine;
    auto operator<=>(const Call&) const = default;
  };
  static std::pair<std::string, Call> key_of(const PlanChoice& choice) {
    return {choice.text(), {choice.arguments.collective, choice.arguments.root, choice.arguments.engine}};
  }
  std::map<std::pair<std::string, Call>, std::shared_ptr<const VerifiedPlan>> plans_;
  std::map<uint64_t, std::shared_ptr<const VerifiedPlan>> given_, kept_;  // by fingerprint
};

}  // namespace plait
