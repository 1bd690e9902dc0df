// Algorithms: pure functions from (collective, ranks and their places in the machine, parameters) to a plan.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.hpp"

namespace plait {

// What an algorithm may depend on. The same on every rank, so that all ranks derive the same plan.
struct AlgorithmArguments {
  Collective collective = Collective::kAllReduce;
  int ranks = 1;
  int root = 0;
  Engine engine = Engine::kCpu;   // of the lanes that move data next to a rank: kSm or kCpu, or kCopy
  Reach reach = Reach::kStaged;   // what those engines can load from and store to
  std::vector<int> node_of = {};  // node of each rank; empty: one node
  // NVLink groups as lists of ranks, the leader first; empty: the ranks of each node form one.
  std::vector<std::vector<int>> groups = {};
  std::vector<int> factors = {};  // hierarchy p1 x p2 x … (hierarchical_ring); empty: derived from groups and nodes
  int pipeline = 1;               // parts of the message under way at once, where the algorithm has a pipeline
};

struct Algorithm {
  std::string_view name;     // "ring"
  std::string_view summary;  // one line for people
  std::string_view source;   // paper ids, such as "UEN-06, NVG-28"
  std::vector<Collective> collectives;
  // The plan, not yet verified. Throws kInvalidArgument that says what is legal.
  Plan (*make)(const AlgorithmArguments&);
  bool only_copies = false;  // from one place to one place: copy engines can perform it
};

// All algorithms, in the order of the files' names.
const std::vector<Algorithm>& algorithms();
// By its name in any case, with "-", "_" or nothing between words. Throws kInvalidArgument that lists the algorithms
// known for `collective`, or says why this one does not serve it.
const Algorithm& find_algorithm(std::string_view name, Collective collective);
// `arguments` with the engine that is for the algorithm: on GPUs, copy engines perform what only copies, SMs all else.
AlgorithmArguments fitted(const Algorithm& algorithm, AlgorithmArguments arguments);
// Looks up and runs: the plan is not yet verified. Throws kInvalidArgument as the two above do.
Plan make_plan(std::string_view name, const AlgorithmArguments& arguments);

}  // namespace plait
