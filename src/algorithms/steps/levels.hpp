// The work of an algorithm as a level of a hierarchy, and which algorithms can be levels.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "algorithms/steps/broadcast_levels.hpp"
#include "algorithms/steps/carrier.hpp"
#include "algorithms/steps/held.hpp"
#include "algorithms/steps/level_trees.hpp"

namespace plait {

// The members of one list, and what they combine.
struct LevelShape {
  std::vector<QueueId> queues;  // of the members, in order
  ChunkRange range;             // of the message; a multiple of LevelAlgorithm::chunks
  Level level;
  bool scatters = true;          // reduce_scatter() will be called
  bool gathers = true;           // all_gather() or follow() will be called
  bool reads_inputs = false;     // members may read each other's inputs (Access::kZeroCopy)
  bool stores_to_peers = false;  // all_gather() may store to the first of finish's places of other members
};

// The two halves of an all-reduce among the members. Between them another level may work on the shares.
//
//     reduce_scatter()   every member has a share of the sums ---> the level above combines shares
//     all_gather()       every member has everything          <--- and brings them back
//
// The shares may overlap: after an all-reduce every member has all. They may be empty: a leader may have all.
class LevelSteps {
 public:
  explicit LevelSteps(std::vector<QueueId> queues) : queues_(std::move(queues)) {}
  virtual ~LevelSteps() = default;

  std::vector<int> ranks() const;  // of the members

  // The chunks that member x has after reduce_scatter(). Shares that are not empty come first.
  virtual ChunkRange share(int x) const = 0;
  // Takes held[rank] of each member. Afterwards held[rank] is what has to be combined for the member's share. It need
  // not have come yet.
  virtual void reduce_scatter(HeldByRank& held) = 0;
  // Awaits what reduce_scatter() has under way.
  virtual void settle() {}
  // At the top of a reduce_scatter: every member stores its share. Only where each has one.
  virtual void store(const HeldByRank& held, const Finish& finish);
  // At the top of the hierarchy: combines the shares from held[rank], and every member stores everything.
  virtual void all_gather(const HeldByRank& held, const Finish& finish) = 0;

  // Below the top: tells the level above where it shall store a share. By default at the first of finish's places, from
  // where follow() takes it.
  virtual Finish ahead(const Finish& finish);
  // Below the top, once the shares have been stored there: every member stores everything.
  virtual void follow(const Finish& finish);

 protected:
  int members() const { return static_cast<int>(queues_.size()); }
  int rank_of(int x) const { return queues_[x].rank; }

 private:
  const std::vector<QueueId> queues_;
};

// An algorithm that can be a level.
struct LevelAlgorithm {
  std::string_view name;
  bool parts = false;      // takes Level::parts
  bool leaders = false;    // takes Level::leaders
  bool direction = false;  // takes Level::direction
  bool radix = false;      // takes Level::radix
  // Every member gets everything in any case: below the last level it makes an all-reduce.
  bool whole = false;
  // Into how many equal shares a level of n members divides its range; and the number of chunks that the range must be
  // a multiple of. Null, as make is, if the algorithm serves broadcasts only.
  int (*shares)(const Level& level, int members) = nullptr;
  int64_t (*chunks)(const Level& level, int members) = nullptr;
  std::unique_ptr<LevelSteps> (*make)(PlanBuilder& builder, Carrier& carrier, const LevelShape& shape) = nullptr;
  // Empty if the algorithm serves no broadcast.
  BroadcastAlgorithm broadcast = {};
  // The trees along which a reduce comes to member 0. Empty if the algorithm serves none.
  RootedTrees reduce = {};
};

const std::vector<LevelAlgorithm>& level_algorithms();
// Throws kInvalidArgument, which lists them.
const LevelAlgorithm& find_level_algorithm(std::string_view name);
// Whether levels of the algorithm serve the collective.
bool serves(const LevelAlgorithm& algorithm, Collective collective);
// The names of those that do: "binomial, chain, flat".
std::string level_algorithms_for(Collective collective);

// The functions of the level's algorithm, for a level that may make an all-reduce.
int shares_of(const Level& level, int members);
int64_t chunks_of(const Level& level, int members);
std::unique_ptr<LevelSteps> make_level(PlanBuilder& builder, Carrier& carrier, const LevelShape& shape);

}  // namespace plait
