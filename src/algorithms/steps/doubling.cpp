// Recursive doubling of whole messages.
#include "algorithms/steps/doubling.hpp"

#include <bit>
#include <utility>

namespace plait {

DoublingSteps::DoublingSteps(PlanBuilder& builder, Carrier& carrier, Shape shape)
    : builder_(builder),
      carrier_(carrier),
      shape_(std::move(shape)),
      core_(static_cast<int>(std::bit_floor(shape_.queues.size()))) {}

void DoublingSteps::all_reduce(const HeldByRank& held, const Finish& finish) {
  if (size() == 1) {
    reduce(0, places_at(finish.places(shape_.queues[0].rank), shape_.range.first), data_of(0, held));
  } else {
    reduce_in(held);
    for (int distance = 1; distance < core_; distance *= 2) exchange(distance, finish);
    reduce_out(finish);
  }
  for (int x = 0; x < size() && finish.stored; ++x) finish.stored(shape_.queues[x].rank, shape_.range);
}

void DoublingSteps::reduce(int x, const std::vector<Place>& places, const std::vector<Place>& sources) {
  builder_.reduce(shape_.queues[x], places, sources, shape_.range.first, shape_.range.count);
}

Place DoublingSteps::publish(int x, const std::vector<Place>& sources) {
  if (shape_.is_published && sources.size() == 1) return sources[0];
  const Place published = take_slots(x);
  reduce(x, {published}, sources);
  return published;
}

void DoublingSteps::reduce_in(const HeldByRank& held) {
  for (int x = 0; x < core_; ++x) {
    std::vector<Place> sources = data_of(x, held);
    if (has_extra(x)) {
      const int extra = x + core_;
      std::vector<Place> theirs = data_of(extra, held);
      if (together(extra, x) || theirs.size() > 1) theirs = {publish(extra, theirs)};
      const Arrival arrival = carrier_.expose(shape_.queues[extra], theirs[0], shape_.queues[x], shape_.range);
      carrier_.await(arrival);
      sources.push_back(arrival.place);
    }
    sums_.push_back(publish(x, sources));
  }
}

void DoublingSteps::exchange(int distance, const Finish& finish) {
  std::vector<Arrival> arrivals;  // at the partner of each queue
  for (int x = 0; x < core_; ++x) {
    arrivals.push_back(carrier_.expose(shape_.queues[x], sums_[x], shape_.queues[x ^ distance], shape_.range));
  }
  for (int x = 0; x < core_; ++x) {
    const int partner = x ^ distance;
    const Place theirs = arrivals[partner].place;
    carrier_.await(arrivals[partner]);
    const bool lower = x < partner;
    const std::vector<Place> sources = {lower ? sums_[x] : theirs, lower ? theirs : sums_[x]};
    // It must not use the same slot: the partner may still read it.
    reduce(x, 2 * distance < core_ ? next_sum(x) : results(x, finish), sources);
  }
  std::swap(sums_, next_sums_);
  next_sums_.clear();
}

std::vector<Place> DoublingSteps::next_sum(int x) {
  next_sums_.push_back(take_slots(x));
  return {next_sums_.back()};
}

// The places that get the finished reduction. An extra queue's output may be stored to, because that rank has signalled
// that it was called.
std::vector<Place> DoublingSteps::results(int x, const Finish& finish) {
  std::vector<Place> places = places_at(finish.places(shape_.queues[x].rank), shape_.range.first);
  handed_on_.push_back(places[0]);
  const int extra = x + core_;
  if (!has_extra(x) || !together(x, extra)) return places;
  handed_on_.back() = shape_.stores_to_peers ? own(extra, finish) : take_slots(x);
  places.push_back(handed_on_.back());
  return places;
}

void DoublingSteps::reduce_out(const Finish& finish) {
  for (int extra = core_; extra < size(); ++extra) {
    const QueueId from = shape_.queues[extra - core_], to = shape_.queues[extra];
    const Arrival arrival = carrier_.expose(from, handed_on_[extra - core_], to, shape_.range, own(extra, finish));
    carrier_.await(arrival);
    const auto places = beside({arrival.place}, places_at(finish.places(to.rank), shape_.range.first));
    if (!places.empty()) reduce(extra, places, {arrival.place});
  }
}

}  // namespace plait
