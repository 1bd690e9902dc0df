// The view of a whole plan for the symbolic execution: every rank is there and stands for itself. A folded plan is seen
// through FoldedView, which has the same members.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "plan/clock.hpp"
#include "plan/fault.hpp"
#include "plan/plan.hpp"
#include "plan/values.hpp"

namespace plait {

class WholeView {
 public:
  using Value = ValueTable::Id;
  static constexpr Value kNothing = ValueTable::kNothing;
  using Clock = plait::Clock;
  struct Shift {};

  // Has room for `most_values` values.
  WholeView(const Plan& plan, size_t most_values)
      : ranks_(plan.rank_count()),
        values_(ranks_, most_values),
        clocks_(plan.ranks.size(), queue_count(plan)),
        first_queue_(plan.ranks.size()) {
    for (const int rank : by_place_in_node(plan)) {
      first_queue_[static_cast<size_t>(rank)] = static_cast<int>(queues_.size());
      for (size_t i = 0; i < plan.ranks[static_cast<size_t>(rank)].queues.size(); ++i) {
        queues_.push_back({rank, static_cast<int>(i), -1});
      }
    }
  }

  bool is_there(int) const { return true; }
  int standing(int rank) const { return rank; }
  ValueTable& values() { return values_; }
  const ValueTable& values() const { return values_; }

  // The place of a chunk of an operation, `offset` chunks after the operation's first.
  struct Located {
    Place place;
    int chunk;
    Shift shift;
  };
  Located located(Place place, int chunk, int offset) const {
    if (has_slots(place.buffer)) place.slot += offset;
    return {place, chunk, {}};
  }
  Value brought(Value value, Shift) const { return value; }
  Value taken(Value value, Shift) const { return value; }
  // Whence and as which chunk a message of `sender` brings a chunk.
  Located sent_from(int, int chunk) const { return {{}, chunk, {}}; }

  // Clocks have a component for each rank, and then one for each queue. Levels between nodes join ranks that have the
  // same place in their nodes, so queues of such ranks lie side by side: then what a level hands on is in few pages.
  int component_of_rank(int rank) const { return rank; }
  int component_from(int component, Shift) const { return component; }
  int component_to(int component, Shift) const { return component; }
  OperationId queue_at(int component) const {
    return component < ranks_ ? OperationId{component, -1, -1} : queues_[static_cast<size_t>(component - ranks_)];
  }
  // The clock of a queue of a rank, or of its caller (-1).
  Clock clock_of(int rank, int queue) {
    return {clocks_, rank, queue < 0 ? -1 : ranks_ + first_queue_[static_cast<size_t>(rank)] + queue};
  }
  void hear(Clock& clock, Clock other, int) const { clock.hear(std::move(other)); }
  int first_unknown(const Clock& clock) const { return clock.first_unknown(ranks_); }
  size_t held_clock_bytes() const { return clocks_.held_bytes(); }

  template <class Visit>
  void for_each_generator(const Visit&) const {}
  int chunk_before(int chunk, Shift) const { return chunk; }
  int image_of_rank(int rank, Shift) const { return rank; }

 private:
  static size_t queue_count(const Plan& plan) {
    size_t queues = 0;
    for (const RankPlan& rank : plan.ranks) queues += rank.queues.size();
    return queues;
  }
  // The first ranks of all nodes, then the second ones, …
  static std::vector<int> by_place_in_node(const Plan& plan) {
    std::vector<int> ranks(plan.ranks.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    std::map<int, int> ranks_of_node;
    std::vector<int> places;
    for (const int node : plan.node_of) places.push_back(ranks_of_node[node]++);
    std::ranges::stable_sort(ranks, {}, [&](int rank) { return places[static_cast<size_t>(rank)]; });
    return ranks;
  }

  const int ranks_;
  ValueTable values_;
  ClockStore clocks_;
  std::vector<int> first_queue_;  // of each rank
  std::vector<OperationId> queues_;
};

}  // namespace plait
