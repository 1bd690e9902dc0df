// The view of a folded plan for the symbolic execution (whole_view.hpp has that of a whole one).
//
// The ranks that stand for all are there. Each step of one of them is at the same time that of all ranks for which it
// stands. A plan may be performed in this order, since no operation can have heard of an image of its own. So what
// another rank holds and knows is the image of what the rank that stands for it holds and knows. Places of other ranks
// lead to cells of ranks that are there. Cells keep what they hold, who wrote it and who reads it, in the frame of
// their own rank. A shift brings that into the frame of whoever looks.
//
// Since no shift but zero leaves a rank where it is, an expression is the image of one that begins with the input of a
// rank that is there, in one way. So few expressions stand for those of all chunks and ranks, and two are the same only
// if they are images of the same by the same shift.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "plan/clock.hpp"
#include "plan/fault.hpp"
#include "plan/fold.hpp"
#include "plan/fold_action.hpp"
#include "plan/plan.hpp"

namespace plait {

// The symbolic values of ranks that are there (values.hpp), and their images.
class FoldedValues {
 public:
  struct Value {
    int32_t expression = -1;  // that it is the image of
    int32_t shift = 0;        // to this node
    int32_t chunk = -1;

    friend bool operator==(const Value&, const Value&) = default;
  };

  explicit FoldedValues(const NodeShifts& shifts);

  // The untouched contribution of a rank that is there.
  Value contribution(int rank, int chunk);
  struct Combination {
    Value value;
    int repeated_rank = -1;
  };
  Combination combine(const Value& left, const Value& right);

  int chunk(const Value& value) const { return value.chunk; }
  int count(const Value& value) const { return counts_[static_cast<size_t>(value.expression)]; }
  std::pair<int32_t, int32_t> expression(const Value& value) const { return {value.expression, value.shift}; }
  int first_missing(const Value& value) const;
  bool is_partial(const Value& value) const { return count(value) > 1 && count(value) < shifts_.ranks(); }
  size_t held_bytes() const { return bits_.size() * sizeof(uint64_t); }

 private:
  using Pair = std::tuple<int32_t, int32_t, int32_t>;  // left, the shift from its frame to right's, right
  struct PairHash {
    size_t operator()(const Pair& it) const {
      const auto [left, shift, right] = it;
      uint64_t hash = static_cast<uint32_t>(left);
      for (const int32_t part : {shift, right}) hash = (hash ^ static_cast<uint32_t>(part)) * 0x9e3779b97f4a7c15ULL;
      return hash ^ hash >> 32;
    }
  };
  bool has(int32_t expression, int rank) const {
    return (bits_[static_cast<size_t>(expression) * words_ + static_cast<size_t>(rank / 64)] >> (rank % 64) & 1) != 0;
  }
  // Calls visit(rank) for each rank that contributed.
  template <class Visit>
  void for_each_rank(int32_t expression, const Visit& visit) const;
  int32_t add(int count);

  const NodeShifts& shifts_;
  const size_t words_;
  std::vector<int> counts_;     // contributions of each expression
  std::vector<uint64_t> bits_;  // whose
  std::unordered_map<int, int32_t> inputs_;
  std::unordered_map<Pair, int32_t, PairHash> combined_;
};

// Vector clocks over the ranks and queues of all nodes, node by node.
class FoldedTimes {
 public:
  explicit FoldedTimes(size_t components) : times_(components) {}

  int32_t time(size_t component) const { return times_[component]; }
  void raise(size_t component, int32_t time) { times_[component] = std::max(times_[component], time); }
  int32_t* from(size_t component) { return &times_[component]; }
  const int32_t* from(size_t component) const { return &times_[component]; }

 private:
  std::vector<int32_t> times_;
};

class FoldedClock : public OwnClock<FoldedTimes> {
 public:
  using OwnClock::OwnClock;

 private:
  friend class FoldedView;
};

class FoldedView {
 public:
  using Value = FoldedValues::Value;
  static constexpr Value kNothing = {};
  using Clock = FoldedClock;
  using Shift = int;  // to a node

  FoldedView(const Plan& plan, const NodeShifts& shifts, const FoldAction& action);

  bool is_there(int rank) const { return shifts_.is_representative(rank); }
  int standing(int rank) const { return shifts_.representative(rank); }
  FoldedValues& values() { return values_; }
  const FoldedValues& values() const { return values_; }

  struct Located {
    Place place;
    int chunk;
    Shift shift;
  };
  Located located(Place place, int chunk, int offset) const;
  Value brought(const Value& value, Shift shift) const;
  Value taken(const Value& value, Shift shift) const;
  Located sent_from(int sender, int chunk) const;

  int component_of_rank(int rank) const { return component(rank, -1); }
  int component_from(int component, Shift shift) const;
  int component_to(int component, Shift shift) const;
  OperationId queue_at(int component) const;
  Clock clock_of(int rank, int queue) const;
  void hear(Clock& clock, const Clock& other, int sender);
  int first_unknown(const Clock& clock) const;
  size_t held_clock_bytes() const { return *held_bytes_ + values_.held_bytes(); }

  template <class Visit>
  void for_each_generator(const Visit& visit) const {
    for (const int generator : shifts_.generators()) visit(generator);
  }
  int chunk_before(int chunk, Shift shift) const { return action_.chunk_before(chunk, shift); }
  int image_of_rank(int rank, Shift shift) const { return shifts_.shifted(rank, shift * shifts_.ranks_per_node()); }

 private:
  int component(int rank, int queue) const {
    const int place = rank % shifts_.ranks_per_node();
    return shifts_.node_of(rank) * of_node_ + place * of_rank_ + queue + 1;
  }
  std::shared_ptr<FoldedTimes> new_times(const FoldedTimes* like) const;
  void merge(FoldedTimes& times, const FoldedTimes& others, Shift shift) const;

  const NodeShifts& shifts_;
  const FoldAction& action_;
  FoldedValues values_;
  int of_rank_ = 1, of_node_ = 1;  // components
  std::shared_ptr<size_t> held_bytes_;
};

}  // namespace plait
