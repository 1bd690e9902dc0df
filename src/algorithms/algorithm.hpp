// Algorithms: pure functions from (collective, ranks and their places in the machine, parameters) to a plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "algorithms/level.hpp"
#include "plan/builder.hpp"
#include "plan/plan.hpp"
#include "topology/paths.hpp"

namespace plait {

// A link between the devices of two ranks, alike in both directions. It is their own or, where they have none, their
// share of a path that several pairs use.
struct DeviceLink {
  int a = 0, b = 0;  // ranks, a < b
  double gbps = 0;   // 10^9 bytes/s in each direction

  friend bool operator==(const DeviceLink&, const DeviceLink&) = default;
};

// A path from one rank to another of its node that shares no link with the direct one (TEM-03), or that one itself.
struct RankPath {
  int from = 0, to = 0;
  PathKind kind = PathKind::kDirect;  // kDirect, kHost or kRelay
  int via = -1;                       // kRelay: the rank whose device passes data on; else -1
  double gbps = 0;                    // 10^9 bytes/s
  double ring_gbps = 0;               // while all ranks send to the next one by such paths, which may share links
  bool across_sockets = false;        // kHost: from CPU to CPU as well

  friend bool operator==(const RankPath&, const RankPath&) = default;
};

// A path, and how much of every message goes over it.
struct PathShare {
  PathKind kind = PathKind::kDirect;
  int share = 1;  // of the sum of all shares

  friend bool operator==(const PathShare&, const PathShare&) = default;
};

// Ranks of which more are not searched for rings and trees, since that takes too long.
inline constexpr int kMostLinkedRanks = 16;

// The partners with which a rank begins to halve a message. The all-gather goes back the same way.
enum class Order : uint8_t {
  kFarFirst,   // half of the ranks away, then a quarter, … (NVG-31)
  kNearFirst,  // its neighbour, then the ranks two away, … (UEN-07)
};
const char* name(Order order);  // "far_first", "near_first"

// The arguments on which an algorithm may depend. They are the same on every rank, so that all ranks derive the same
// plan.
struct AlgorithmArguments {
  Collective collective = Collective::kAllReduce;
  int ranks = 1;
  int root = 0;
  Engine engine = Engine::kCpu;     // of queues that move data next to a rank: kSm or kCpu, or kCopy
  Access access = Access::kStaged;  // kZeroCopy: straight from and to user buffers
  std::vector<int> node_of = {};    // node of each rank; empty: one node
  // NVLink groups as lists of ranks, the leader first. Empty: the ranks of each node form one group.
  std::vector<std::vector<int>> groups = {};
  // The machine's graph as ranks see it, each pair at most once, in order. Empty: not known, or of no use, as where a
  // switch joins all.
  std::vector<DeviceLink> links = {};
  // The paths between ranks, where it is known which there are.
  std::optional<std::vector<RankPath>> paths = {};
  std::vector<int> factors = {};   // hierarchy p1 x p2 x …; empty: derived from groups and nodes
  std::vector<Level> levels = {};  // of a hierarchy, the innermost first
  Direction direction = Direction::kLoad;
  Order order = Order::kFarFirst;
  int radix = 2;                                      // of a tree: a k-nomial tree has radix k
  int parts = 1;                                      // of the message that are under way at once
  int count = 0;                                      // of rings or trees; 0: as many as links have room for
  std::vector<PathShare> shares = {};                 // of paths; empty: by their bandwidth
  int most_operations = PlanBuilder::kMaxOperations;  // PlanTooLarge if the plan would have more
  // Keeps the operations of a few ranks that stand for all (plan/fold.hpp). Null: the plan is whole.
  PlanFold* fold = nullptr;

  friend bool operator==(const AlgorithmArguments&, const AlgorithmArguments&) = default;
};

// The arguments that an algorithm uses, besides the collective, ranks, root, nodes and groups. Other arguments are
// refused unless they have their default.
struct Uses {
  bool direction = false;  // kLoad and kStore
  bool both = false;       // kBoth as well
  bool factors = false;
  bool levels = false;
  bool parts = false;
  bool count = false;
  bool zero_copy = false;  // Access::kZeroCopy
  bool engine = false;     // Engine::kCopy, for some zero-copy plans: copy engines can perform them
  bool order = false;
  bool radix = false;
  bool shares = false;
  bool relays = false;  // shares of PathKind::kRelay as well
};

struct Algorithm {
  std::string_view name;     // "ring"
  std::string_view summary;  // one line for people
  std::string_view source;   // paper ids, such as "UEN-06, NVG-28"
  std::vector<Collective> collectives;
  Uses uses;
  // Makes the plan, not yet verified. Throws kInvalidArgument, which says what is legal, or PlanTooLarge if the plan is
  // legal but too large to build.
  Plan (*make)(const AlgorithmArguments&);
  // Returns the few arguments that are worth trying for these ranks on this machine, the most promising first. Each is
  // `machine` with direction, factors, order, radix, parts, count, shares and, for zero-copy plans on GPUs, the engine
  // filled in. Never throws. Empty if the algorithm is not for them.
  std::vector<AlgorithmArguments> (*candidates)(const AlgorithmArguments& machine);
  // No rank touches a block that it neither gives nor gets, so ranks need not know the sizes of others' blocks.
  bool keeps_to_own_blocks = false;
};

// The algorithm of exactly that name; null where there is none.
const Algorithm* algorithm_named(std::string_view name);
// All algorithms in alphabetical order. Each has a file in this folder.
const std::vector<Algorithm>& algorithms();
bool serves(const Algorithm& algorithm, Collective collective);
// The one that keeps to own blocks. Throws kInternal if there is none for the collective.
const Algorithm& own_block_algorithm(Collective collective);
// Finds an algorithm by its name, in any case, with "-", "_" or nothing between words. Throws kInvalidArgument, which
// lists the algorithms for `collective`, or says why this one does not serve it.
const Algorithm& find_algorithm(std::string_view name, Collective collective);
// Finds an algorithm and makes its plan, not yet verified. `text` is a name, or more of the form that spec.hpp reads;
// it takes precedence over `arguments`. Throws kInvalidArgument and PlanTooLarge, as the functions above do.
Plan make_plan(std::string_view text, const AlgorithmArguments& arguments);

namespace internal {

// Makes the list anew, from every file of this folder that has no header of its own (cmake/AlgorithmCatalog.cmake).
std::vector<Algorithm> algorithm_catalog();

}  // namespace internal

}  // namespace plait
