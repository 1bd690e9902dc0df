// Images of values and clocks.
#include "plan/folded_view.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace plait {

FoldedValues::FoldedValues(const NodeShifts& shifts)
    : shifts_(shifts), words_((static_cast<size_t>(shifts.ranks()) + 63) / 64) {}

int32_t FoldedValues::add(int count) {
  counts_.push_back(count);
  bits_.resize(bits_.size() + words_);
  return static_cast<int32_t>(counts_.size()) - 1;
}

FoldedValues::Value FoldedValues::contribution(int rank, int chunk) {
  const auto [found, is_new] = inputs_.try_emplace(rank, 0);
  if (is_new) {
    found->second = add(1);
    bits_[static_cast<size_t>(found->second) * words_ + static_cast<size_t>(rank / 64)] |= uint64_t{1} << (rank % 64);
  }
  return {found->second, 0, chunk};
}

template <class Visit>
void FoldedValues::for_each_rank(int32_t expression, const Visit& visit) const {
  for (size_t word = 0; word < words_; ++word) {
    for (uint64_t bits = bits_[static_cast<size_t>(expression) * words_ + word]; bits != 0; bits &= bits - 1) {
      visit(static_cast<int>(word) * 64 + std::countr_zero(bits));
    }
  }
}

// The image, by the left one's shift, of what both are in its frame.
FoldedValues::Combination FoldedValues::combine(const Value& left, const Value& right) {
  const int between = shifts_.unshifted_node(right.shift, left.shift);
  const auto [found, is_new] = combined_.try_emplace({left.expression, between, right.expression}, -1);
  const int each = shifts_.ranks_per_node();
  if (is_new) {
    int repeated = -1;
    for_each_rank(right.expression, [&](int rank) {
      const int image = shifts_.shifted(rank, between * each);
      if (has(left.expression, image)) repeated = image;
    });
    if (repeated >= 0) {
      combined_.erase(found);
      return {{}, shifts_.shifted(repeated, left.shift * each)};
    }
    const int32_t added = add(count(left) + count(right));
    std::copy_n(bits_.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(left.expression) * words_), words_,
                bits_.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(added) * words_));
    for_each_rank(right.expression, [&](int rank) {
      const int image = shifts_.shifted(rank, between * each);
      bits_[static_cast<size_t>(added) * words_ + static_cast<size_t>(image / 64)] |= uint64_t{1} << (image % 64);
    });
    found->second = added;
  }
  return {{found->second, left.shift, left.chunk}, -1};
}

int FoldedValues::first_missing(const Value& value) const {
  for (int rank = 0; rank < shifts_.ranks(); ++rank) {
    if (!has(value.expression, shifts_.unshifted(rank, value.shift * shifts_.ranks_per_node()))) return rank;
  }
  return -1;
}

FoldedView::FoldedView(const Plan& plan, const NodeShifts& shifts, const FoldAction& action)
    : shifts_(shifts), action_(action), values_(shifts), held_bytes_(std::make_shared<size_t>(0)) {
  size_t queues = 0;
  for (const RankPlan& rank : plan.ranks) queues = std::max(queues, rank.queues.size());
  of_rank_ = 1 + static_cast<int>(queues);
  of_node_ = of_rank_ * shifts.ranks_per_node();
}

FoldedView::Located FoldedView::located(Place place, int chunk, int offset) const {
  const int node = shifts_.node_of(place.rank);
  if (has_slots(place.buffer)) {
    place.slot += offset;
    place.slot = action_.slot_before(place);
  }
  place.rank = shifts_.representative(place.rank);
  return {place, action_.chunk_before(chunk, node), node};
}

FoldedView::Value FoldedView::brought(const Value& value, Shift shift) const {
  if (value.expression < 0) return value;
  return {value.expression, shifts_.shifted_node(value.shift, shift), action_.chunk(value.chunk, shift)};
}

FoldedView::Value FoldedView::taken(const Value& value, Shift shift) const {
  return {value.expression, shifts_.unshifted_node(value.shift, shift), action_.chunk_before(value.chunk, shift)};
}

FoldedView::Located FoldedView::sent_from(int sender, int chunk) const {
  const int node = shifts_.node_of(sender);
  return {{}, action_.chunk_before(chunk, node), node};
}

int FoldedView::component_from(int component, Shift shift) const {
  const int node = component / of_node_;
  return component + (shifts_.shifted_node(node, shift) - node) * of_node_;
}

int FoldedView::component_to(int component, Shift shift) const {
  const int node = component / of_node_;
  return component + (shifts_.unshifted_node(node, shift) - node) * of_node_;
}

OperationId FoldedView::queue_at(int component) const {
  const int place = component % of_node_;
  return {component / of_node_ * shifts_.ranks_per_node() + place / of_rank_, place % of_rank_ - 1, -1};
}

FoldedView::Clock FoldedView::clock_of(int rank, int queue) const {
  return {component_of_rank(rank), queue < 0 ? -1 : component(rank, queue)};
}

std::shared_ptr<FoldedTimes> FoldedView::new_times(const FoldedTimes* like) const {
  const size_t components = static_cast<size_t>(of_node_) * static_cast<size_t>(shifts_.nodes());
  const size_t bytes = components * sizeof(int32_t);
  *held_bytes_ += bytes;
  return {like != nullptr ? new FoldedTimes(*like) : new FoldedTimes(components),
          [held = held_bytes_, bytes](FoldedTimes* times) {
            *held -= bytes;
            delete times;
          }};
}

// Node by node: what was heard of a node is now heard of its image.
void FoldedView::merge(FoldedTimes& times, const FoldedTimes& others, Shift shift) const {
  for (int node = 0; node < shifts_.nodes(); ++node) {
    const int image = shifts_.shifted_node(node, shift);
    int32_t* mine = times.from(static_cast<size_t>(image) * static_cast<size_t>(of_node_));
    const int32_t* theirs = others.from(static_cast<size_t>(node) * static_cast<size_t>(of_node_));
    for (int i = 0; i < of_node_; ++i) mine[i] = std::max(mine[i], theirs[i]);
  }
}

void FoldedView::hear(Clock& clock, const Clock& other, int sender) {
  const int shift = shifts_.node_of(sender);
  const int component = component_from(other.component_, shift);
  // A queue that has heard of an operation has heard of all that the operation's queue had heard of by then.
  if (clock.knows(component, other.time_)) return;
  if (!clock.heard_) {
    clock.heard_ = new_times(nullptr);
  } else if (clock.heard_.use_count() != 1) {
    clock.heard_ = new_times(clock.heard_.get());
  }
  if (other.heard_) merge(*clock.heard_, *other.heard_, shift);
  clock.heard_->raise(static_cast<size_t>(component_from(other.rank_, shift)), 1);
  clock.heard_->raise(static_cast<size_t>(component), other.time_);
}

int FoldedView::first_unknown(const Clock& clock) const {
  int rank = 0;
  while (rank < shifts_.ranks() && clock.knows(component_of_rank(rank), 1)) ++rank;
  return rank;
}

}  // namespace plait
