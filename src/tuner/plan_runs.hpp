// Times of candidates' plans by simulation of one run: with contention, which costs alone do not know.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "model/simulator/program.hpp"
#include "tuner/candidates.hpp"

namespace plait {

// Ranks of which more are not simulated for a choice, since that takes too long.
inline constexpr int kMostSimulatedRanks = 64;

class PlanRuns {
 public:
  // None where it takes more than `most`.
  std::optional<double> seconds(const RankMachine& machine, const Candidate& it, double bytes, double most);

 private:
  const SimulatorProgram& program_of(const RankMachine& machine, const PlanChoice& choice);

  std::map<std::string, SimulatorProgram> programs_;  // by the text of the choice
};

}  // namespace plait
