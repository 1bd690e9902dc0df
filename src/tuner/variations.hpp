// Variations of candidates: algorithms name the few arguments that are worth trying at any size. Where one of these
// comes near the fastest, it may be faster still in more or fewer parts, or in the other direction.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tuner/candidates.hpp"

namespace plait {

// Variations on one machine, each made once.
class Variations {
 public:
  Variations(const RankMachine& machine, const PlanLimits& limits)
      : machine_(machine), limits_(limits), routes_(machine.topology, machine.placement) {}

  // Those with the same protocol that the runtime can perform. They stay where they are.
  std::vector<const Candidate*> of(const Candidate& it);
  // It turned out not to be usable.
  void drop(const PlanChoice& choice) { made_[choice.text()].clear(); }

 private:
  const std::vector<Candidate>& candidates(const PlanChoice& choice);

  const RankMachine& machine_;
  const PlanLimits& limits_;
  Routes routes_;
  std::map<std::string, std::vector<Candidate>> made_;  // by the text of the choice; none: it cannot be performed
};

}  // namespace plait
