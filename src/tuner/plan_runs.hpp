// Times of candidates' plans by simulation of one run: with contention, which costs alone do not know.
#pragma once

#include <map>
#include <string>

#include "model/simulator/program.hpp"
#include "tuner/candidates.hpp"

namespace plait {

// Ranks of which more are not simulated for a choice, since that takes too long.
inline constexpr int kMostSimulatedRanks = 64;

class PlanRuns {
 public:
  double seconds(const RankMachine& machine, const Candidate& it, double bytes);

 private:
  const SimulatorProgram& program_of(const RankMachine& machine, const PlanChoice& choice);

  std::map<std::string, SimulatorProgram> programs_;  // by the text of the choice
};

}  // namespace plait
