// Algorithms: pure functions from (collective, ranks and their places in the machine, parameters) to a plan.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "plan/builder.hpp"
#include "plan/plan.hpp"

namespace plait {

// Who moves data within a node. Between nodes there are messages, whatever the direction.
enum class Direction : uint8_t {
  kLoad,   // whoever needs it loads it
  kStore,  // whoever has it stores it
  kBoth,   // most is stored, a part is loaded
};
const char* name(Direction direction);  // "load", "store", "both"

// What an algorithm may depend on. The same on every rank, so that all ranks derive the same plan.
struct AlgorithmArguments {
  Collective collective = Collective::kAllReduce;
  int ranks = 1;
  int root = 0;
  Engine engine = Engine::kCpu;     // of the queues that move data next to a rank: kSm or kCpu, or kCopy
  Access access = Access::kStaged;  // kZeroCopy: zero-copy, straight from and to users' buffers
  std::vector<int> node_of = {};    // node of each rank; empty: one node
  // NVLink groups as lists of ranks, the leader first; empty: the ranks of each node form one.
  std::vector<std::vector<int>> groups = {};
  std::vector<int> factors = {};  // hierarchy p1 x p2 x …; empty: derived from groups and nodes
  Direction direction = Direction::kLoad;
  int parts = 1;                                      // of the message that are under way at once
  int most_operations = PlanBuilder::kMaxOperations;  // PlanTooLarge where the plan would have more

  friend bool operator==(const AlgorithmArguments&, const AlgorithmArguments&) = default;
};

// Which arguments an algorithm looks at, besides the collective, ranks, root, nodes and groups. The others are refused
// unless they have their default.
struct Uses {
  bool direction = false;  // kLoad and kStore
  bool both = false;       // kBoth besides
  bool factors = false;
  bool parts = false;
  bool zero_copy = false;  // Access::kZeroCopy
  bool engine = false;     // Engine::kCopy, in some zero-copy plans: copy engines can perform them
};

struct Algorithm {
  std::string_view name;     // "ring"
  std::string_view summary;  // one line for people
  std::string_view source;   // paper ids, such as "UEN-06, NVG-28"
  std::vector<Collective> collectives;
  Uses uses;
  // The plan, not yet verified. Throws kInvalidArgument that says what is legal; PlanTooLarge where the plan is legal
  // but too large to build.
  Plan (*make)(const AlgorithmArguments&);
  // What is worth trying for these ranks on this machine: `machine` with direction, factors, parts and, of zero-copy
  // plans on GPUs, engine filled in; the most promising first, and few. Never throws; empty where the algorithm is not
  // for them.
  std::vector<AlgorithmArguments> (*candidates)(const AlgorithmArguments& machine);
};

// All algorithms, one a file of this folder, in alphabetical order.
const std::vector<Algorithm>& algorithms();
bool serves(const Algorithm& algorithm, Collective collective);
// By its name in any case, with "-", "_" or nothing between words. Throws kInvalidArgument that lists the algorithms
// known for `collective`, or says why this one does not serve it.
const Algorithm& find_algorithm(std::string_view name, Collective collective);
// Looks up and runs: the plan is not yet verified. `text` is a name, or more of what spec.hpp reads; what it says wins
// over `arguments`. Throws kInvalidArgument and PlanTooLarge, as the functions above do.
Plan make_plan(std::string_view text, const AlgorithmArguments& arguments);

namespace internal {

// The same, made anew: of every file of this folder that has no header of its own (cmake/AlgorithmCatalog.cmake).
std::vector<Algorithm> algorithm_catalog();

}  // namespace internal

}  // namespace plait
