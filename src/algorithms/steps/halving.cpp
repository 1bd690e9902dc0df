// The phases of Rabenseifner's algorithm.
#include "algorithms/steps/halving.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace plait {

std::vector<int> core_factors(const std::vector<int>& given, int queues) {
  if (given.empty()) return std::vector<int>(static_cast<size_t>(std::bit_width(static_cast<unsigned>(queues))) - 1, 2);
  std::vector<int> factors;
  int64_t core = 1;
  for (const int factor : given) {
    core *= factor;
    if (factor < 1 || core > queues) return {};
    if (factor > 1) factors.push_back(factor);
  }
  return 2 * core > queues ? factors : std::vector<int>{};
}

HalvingSteps::HalvingSteps(PlanBuilder& builder, Carrier& carrier, Shape shape)
    : builder_(builder), carrier_(carrier), shape_(std::move(shape)), arrivals_(builder.rank_count()) {
  for (const int factor : shape_.factors) {
    rounds_.push_back({factor, core_});
    core_ *= factor;
  }
  if (shape_.order == Order::kFarFirst) std::reverse(rounds_.begin(), rounds_.end());
  std::vector<int> pieces(core_, 1);
  for (int member = 0; member < core_; ++member) {
    if (shape_.extras_have_pieces && has_extra(member)) pieces[position(member)] = 2;
  }
  first_piece_ = {0};
  for (const int count : pieces) first_piece_.push_back(first_piece_.back() + count);
  fresh_.resize(core_);
}

// --- who has what ---

int HalvingSteps::position(int member) const {
  int position = 0;
  for (const Round& round : rounds_) position = position * round.factor + member / round.stride % round.factor;
  return position;
}

ChunkRange HalvingSteps::range(int first_position, int positions) const {
  const int first = first_piece_[first_position], end = first_piece_[first_position + positions];
  return {shape_.first_chunk + first * shape_.piece_chunks, (end - first) * shape_.piece_chunks};
}

ChunkRange HalvingSteps::around(int member, int count) const { return range(position(member) / count * count, count); }

ChunkRange HalvingSteps::own_piece(int member) const { return {around(member, 1).first, shape_.piece_chunks}; }

ChunkRange HalvingSteps::extra_piece(int member) const {
  if (!shape_.extras_have_pieces) return {range(0, core_).end(), 0};
  return {own_piece(member).end(), shape_.piece_chunks};
}

ChunkRange HalvingSteps::piece_of(int x) const {
  if (x >= 2 * extras()) return own_piece(x - extras());
  return x % 2 == 0 ? own_piece(x / 2) : extra_piece(x / 2);
}

// The other members of the group, the next one first.
std::vector<int> HalvingSteps::peers(int member, const Round& round) const {
  const int digit = member / round.stride % round.factor;
  std::vector<int> others;
  for (int d = 1; d < round.factor; ++d) {
    others.push_back(member + ((digit + d) % round.factor - digit) * round.stride);
  }
  return others;
}

// Those of them that lack what the member has.
std::vector<int> HalvingSteps::takers_from(int member, const Round& round) const {
  std::vector<int> takers = peers(member, round);
  std::erase_if(takers, [&](int peer) { return has_all(peer); });
  return takers;
}

void HalvingSteps::await(QueueId queue) {
  for (const SignalId& signal : std::exchange(arrivals_[queue.rank], {})) builder_.wait(signal);
}

// --- reduce_scatter ---

void HalvingSteps::reduce_scatter(HeldByRank& held) {
  fold_in(held);
  int count = core_;
  for (const Round& round : rounds_) halve(round, count /= round.factor, held);
  if (shape_.extras_have_pieces) hand_out_extra_pieces(held);
}

void HalvingSteps::fold_in(HeldByRank& held) {
  const ChunkRange all = range(0, core_);
  for (int member = 0; member < extras(); ++member) {
    const QueueId from = extra(member), to = queue(member);
    const Place landing = carrier_.take_landing(from.rank, to.rank, all.count);
    const Arrival arrival = carrier_.put(from, places_at(held[from.rank], all.first), {}, to, landing, all);
    arrivals_[to.rank].push_back(arrival.signal);
    held[to.rank].insert(held[to.rank].begin(), {landing, all.first});
  }
}

// After this, a member is responsible for `count` positions.
void HalvingSteps::halve(const Round& round, int count, HeldByRank& held) {
  HeldByRank news(held.size());
  std::vector<std::vector<SignalId>> arrivals(arrivals_.size());
  for (int member = 0; member < core_; ++member) {
    const QueueId from = queue(member);
    await(from);
    for (const int peer : peers(member, round)) {
      const QueueId to = queue(peer);
      const ChunkRange theirs = around(peer, count);
      const Place landing = carrier_.take_landing(from.rank, to.rank, theirs.count);
      const auto sources = places_at(held[from.rank], theirs.first);
      arrivals[to.rank].push_back(carrier_.put(from, sources, {}, to, landing, theirs).signal);
      news[to.rank].push_back({landing, theirs.first});
    }
  }
  for (int member = 0; member < core_; ++member) {
    const int rank = queue(member).rank;
    held[rank].insert(held[rank].begin(), news[rank].begin(), news[rank].end());
    arrivals_[rank] = std::move(arrivals[rank]);
  }
}

void HalvingSteps::hand_out_extra_pieces(HeldByRank& held) {
  for (int member = 0; member < extras(); ++member) {
    const QueueId from = queue(member), to = extra(member);
    const ChunkRange piece = extra_piece(member);
    await(from);
    const Place landing = carrier_.take_landing(from.rank, to.rank, piece.count);
    const auto sources = places_at(held[from.rank], piece.first);
    arrivals_[to.rank].push_back(carrier_.put(from, sources, {}, to, landing, piece).signal);
    held[to.rank] = {{landing, piece.first}};
  }
}

void HalvingSteps::settle() {
  for (const QueueId& queue : shape_.queues) await(queue);
}

void HalvingSteps::store(const HeldByRank& held, const Finish& finish) {
  for (int x = 0; x < size(); ++x) {
    const QueueId queue = shape_.queues[x];
    await(queue);
    const ChunkRange piece = piece_of(x);
    if (piece.count > 0) keep(queue, {places_at(held[queue.rank], piece.first), piece}, finish);
  }
}

// --- all_gather ---

void HalvingSteps::all_gather(const HeldByRank& held, const Finish& finish) {
  for (const QueueId queue : shape_.queues) homes_[queue.rank] = finish.places(queue.rank)[0];
  if (shape_.first_has_all) homes_[queue(0).rank] = held[queue(0).rank][0];
  for (int member = 0; member < core_; ++member) begin_gathering(member, held, finish);
  int count = 1;
  for (auto round = rounds_.rbegin(); round != rounds_.rend(); ++round) {
    double_up(*round, count, finish);
    count *= round->factor;
  }
  for (int member = 0; member < core_; ++member) fold_out(member, finish);
}

Held HalvingSteps::landing(QueueId from, QueueId to, ChunkRange range) {
  // A message is stored by its receiver, and a rank may always store to its own output.
  if (shape_.stores_to_peers || !carrier_.together(from.rank, to.rank)) return homes_.at(to.rank);
  return {carrier_.take_landing(from.rank, to.rank, range.count), range.first};
}

void HalvingSteps::keep(QueueId queue, const Segment& segment, const Finish& finish) {
  const ChunkRange& it = segment.range;
  const std::vector<Place> places = beside(segment.sources, places_at(finish.places(queue.rank), it.first));
  if (!places.empty()) builder_.reduce(queue, places, segment.sources, it.first, it.count);
  if (finish.stored) finish.stored(queue.rank, it);
}

// The member has its piece to store, and the extra queue's piece, which the latter stores as well.
void HalvingSteps::begin_gathering(int member, const HeldByRank& held, const Finish& finish) {
  const QueueId to = queue(member);
  const ChunkRange own = own_piece(member), other = extra_piece(member);
  if (!has_all(member)) fresh_[member] = {{places_at(held[to.rank], own.first), own}};
  if (!has_extra(member) || other.count == 0) return;
  const QueueId from = extra(member);
  await(from);
  if (has_all(member)) return keep(from, {places_at(held[from.rank], other.first), other}, finish);
  const Held place = landing(from, to, other);
  const auto kept = places_at(finish.places(from.rank), other.first);
  const auto sources = places_at(held[from.rank], other.first);
  const auto arrival = carrier_.put(from, sources, beside(sources, kept), to, place.at(other.first), other);
  if (finish.stored) finish.stored(from.rank, other);
  arrivals_[to.rank].push_back(arrival.signal);
  fresh_[member].push_back({{arrival.place}, other});
}

// The data of the member, in the order of the message: fresh parts, and its output between them.
std::vector<HalvingSteps::Segment> HalvingSteps::segments(int member, ChunkRange all) const {
  const int rank = queue(member).rank;
  std::vector<Segment> found;
  const auto add_old = [&](int first, int end) {
    if (first == end) return;
    if (found.empty() || !is_home(found.back(), rank)) found.push_back({{homes_.at(rank).at(first)}, {first, 0}});
    found.back().range.count += end - first;
  };
  int at = all.first;
  for (const Segment& it : fresh_[member]) {
    add_old(at, it.range.first);
    at = it.range.end();
    if (is_home(it, rank)) {
      add_old(it.range.first, at);
    } else {
      found.push_back(it);
    }
  }
  add_old(at, all.end());
  return found;
}

// Every member gives all that it has to the others of its group, and gets as much from each. Fresh data is read once:
// it goes to the output and to peers on the node at the same time.
void HalvingSteps::double_up(const Round& round, int count, const Finish& finish) {
  std::vector<std::vector<Segment>> news(core_);
  std::vector<std::vector<SignalId>> arrivals(arrivals_.size());
  for (int member = 0; member < core_; ++member) {
    const QueueId from = queue(member);
    const ChunkRange all = around(member, count);
    await(from);
    std::vector<Held> near;
    const std::vector<int> takers = takers_from(member, round);
    for (const int peer : takers) {
      const Held place = landing(from, queue(peer), all);
      if (carrier_.together(from.rank, queue(peer).rank)) near.push_back(place);
      news[peer].push_back({{place.at(all.first)}, all});
    }
    for (const Segment& it : fresh_[member]) {
      if (is_home(it, from.rank)) keep(from, it, finish);
    }
    for (const Segment& it : segments(member, all)) {
      const bool is_old = is_home(it, from.rank);
      std::vector<Place> places = places_at(near, it.range.first);
      if (!is_old) {
        const auto kept = beside(it.sources, places_at(finish.places(from.rank), it.range.first));
        places.insert(places.end(), kept.begin(), kept.end());
      }
      if (!places.empty()) builder_.reduce(from, places, it.sources, it.range.first, it.range.count);
    }
    if (finish.stored) {
      for (const Segment& it : fresh_[member]) {
        if (!is_home(it, from.rank)) finish.stored(from.rank, it.range);
      }
    }
    for (const int peer : takers) {
      const QueueId to = queue(peer);
      arrivals[to.rank].push_back(
          carrier_.expose(from, homes_.at(from.rank).at(all.first), to, all, homes_.at(to.rank).at(all.first)).signal);
    }
  }
  for (int member = 0; member < core_; ++member) {
    std::sort(news[member].begin(), news[member].end(),
              [](const Segment& a, const Segment& b) { return a.range.first < b.range.first; });
    fresh_[member] = std::move(news[member]);
    arrivals_[queue(member).rank] = std::move(arrivals[queue(member).rank]);
  }
}

// The member stores what came last. Its extra queue gets all but its own piece.
void HalvingSteps::fold_out(int member, const Finish& finish) {
  const QueueId from = queue(member);
  await(from);
  for (const Segment& it : fresh_[member]) keep(from, it, finish);
  if (!has_extra(member)) return;
  const QueueId to = extra(member);
  const ChunkRange all = range(0, core_), its = extra_piece(member);
  std::vector<Segment> arrived;
  for (const ChunkRange part :
       {ChunkRange{all.first, its.first - all.first}, ChunkRange{its.end(), all.end() - its.end()}}) {
    if (part.count == 0) continue;
    const Place place = landing(from, to, part).at(part.first);
    const Arrival arrival = carrier_.put(from, {homes_.at(from.rank).at(part.first)}, {}, to, place, part);
    arrivals_[to.rank].push_back(arrival.signal);
    arrived.push_back({{arrival.place}, part});
  }
  await(to);
  for (const Segment& it : arrived) keep(to, it, finish);
}

void HalvingSteps::call_peers() {
  std::vector<SignalId> calls;
  const auto call = [&](QueueId from, QueueId to) {
    if (shape_.first_has_all && from.rank == queue(0).rank) return;
    if (carrier_.together(from.rank, to.rank)) calls.push_back(builder_.signal(from, to));
  };
  for (int member = 0; member < core_; ++member) {
    for (const Round& round : rounds_) {
      for (const int peer : peers(member, round)) call(queue(member), queue(peer));
    }
    if (!has_extra(member)) continue;
    call(extra(member), queue(member));
    call(queue(member), extra(member));
  }
  for (const SignalId& signal : calls) builder_.wait(signal);
}

HalvingSteps::Shape halving_over(const std::vector<QueueId>& queues, ChunkRange range, bool stores_to_peers) {
  const auto members = static_cast<int>(queues.size());
  HalvingSteps::Shape shape;
  shape.queues = queues;
  shape.factors = core_factors({}, members);
  shape.first_chunk = range.first;
  shape.piece_chunks = range.count / members;
  shape.stores_to_peers = stores_to_peers;
  return shape;
}

}  // namespace plait
