// Exchanges by load and by store.
#include "algorithms/steps/exchange.hpp"

#include <utility>

namespace plait {

PieceExchange::PieceExchange(PlanBuilder& builder, Stages& stages, Shape shape)
    : builder_(builder), stages_(stages), shape_(shape) {
  builder_.expect(int64_t{2} * size() * (size() - 1));  // a signal of each member to each other, and a wait
  if (by_store()) {
    if (shape_.scatters) inboxes_ = take_inboxes();
    if (shape_.gathers) results_ = take_inboxes();
    return;
  }
  for (int x = 0; x < size(); ++x) {
    if (shape_.scatters) {
      published_.push_back({builder_.take_scratch(rank(x), size() * shape_.piece_chunks), shape_.first_chunk});
      shared_.push_back(published_[x]);
    } else if (size() > 1) {
      shared_.push_back({builder_.take_scratch(rank(x), shape_.piece_chunks), piece(x).first});
    }
  }
}

std::vector<std::vector<Held>> PieceExchange::take_inboxes() {
  std::vector<std::vector<Held>> inboxes(size(), std::vector<Held>(size()));
  for (int to = 0; to < size(); ++to) {
    for (int from = 0; from < size(); ++from) {
      if (from != to) inboxes[to][from].place = builder_.take_scratch(rank(to), shape_.piece_chunks);
    }
  }
  return inboxes;
}

void PieceExchange::publish_all_but_own(int x, const std::vector<Held>& held) {
  const auto publish = [&](int first, int chunks) {
    if (chunks == 0) return;
    builder_.reduce(stages_.queue(x, steps_), {published_[x].at(first)}, places_at(held, first), first, chunks);
  };
  publish(shape_.first_chunk, x * shape_.piece_chunks);
  publish(piece(x).end(), (size() - x - 1) * shape_.piece_chunks);
}

void PieceExchange::store_at_others(int x, const std::vector<Held>& held) {
  for (int d = 1; d < size(); ++d) {
    const int to = (x + d) % size();
    const ChunkRange it = piece(to);
    inboxes_[to][x].first = it.first;
    builder_.reduce(stages_.queue(x, steps_), {inboxes_[to][x].place}, places_at(held, it.first), it.first, it.count);
  }
}

void PieceExchange::reduce_scatter(HeldByRank& held) {
  for (int x = 0; x < size(); ++x) {
    by_store() ? store_at_others(x, held[rank(x)]) : publish_all_but_own(x, held[rank(x)]);
  }
  arrivals_ = stages_.tell_all(steps_++);
  is_awaited_.assign(size(), false);
  for (int x = 0; x < size(); ++x) {
    std::vector<Held> all;
    for (int from = 0; from < size(); ++from) {
      if (from == x) {
        all.insert(all.end(), held[rank(x)].begin(), held[rank(x)].end());
      } else {
        all.push_back(by_store() ? inboxes_[x][from] : published_[from]);
      }
    }
    held[rank(x)] = std::move(all);
  }
}

void PieceExchange::await(int x) {
  if (arrivals_.empty() || is_awaited_[x]) return;
  wait_all(builder_, arrivals_, x);
  is_awaited_[x] = true;
}

void PieceExchange::store(const HeldByRank& held, const Finish& finish) {
  for (int x = 0; x < size(); ++x) {
    const ChunkRange it = piece(x);
    await(x);
    builder_.reduce(stages_.queue(x, steps_), places_at(finish.places(rank(x)), it.first),
                    places_at(held[rank(x)], it.first), it.first, it.count);
    if (finish.stored) finish.stored(rank(x), it);
  }
}

void PieceExchange::share(const HeldByRank& held, const Finish& finish) {
  for (int x = 0; x < size(); ++x) {
    const ChunkRange it = piece(x);
    await(x);
    const std::vector<Place> sources = places_at(held[rank(x)], it.first);
    std::vector<Place> places = beside(sources, places_at(finish.places(rank(x)), it.first));
    if (!by_store() && size() > 1) places.push_back(shared_[x].at(it.first));
    for (int d = 1; d < size() && by_store(); ++d) places.push_back(results_[(x + d) % size()][x].place);
    if (!places.empty()) builder_.reduce(stages_.queue(x, steps_), places, sources, it.first, it.count);
    if (finish.stored) finish.stored(rank(x), it);
  }
  shares_ = stages_.tell_all(steps_++);
}

// By store, a member waits for all at once. A wait for each would cost more than it gains if all come at about the same
// time.
void PieceExchange::collect(const Finish& finish) {
  for (int x = 0; x < size(); ++x) {
    if (by_store()) wait_all(builder_, shares_, x);
    for (int d = 1; d < size(); ++d) {
      const int from = (x + d) % size();
      const ChunkRange it = piece(from);
      if (!by_store()) wait_one(builder_, shares_, x, from);
      const Place source = by_store() ? results_[x][from].place : shared_[from].at(it.first);
      builder_.reduce(stages_.queue(x, steps_), places_at(finish.places(rank(x)), it.first), {source}, it.first,
                      it.count);
      if (finish.stored) finish.stored(rank(x), it);
    }
  }
}

void exchange_all_reduce(PlanBuilder& builder, Stages& stages, Direction direction, int parts) {
  const int pieces = stages.members();
  std::vector<PieceExchange> exchanges;
  for (int part = 0; part < parts; ++part) {
    exchanges.emplace_back(builder, stages, PieceExchange::Shape{.first_chunk = part * pieces, .direction = direction});
  }
  std::vector<HeldByRank> held(parts, all_inputs(builder.rank_count()));
  for (int turn = 0; turn < parts + 2; ++turn) {
    if (turn < parts) exchanges[turn].reduce_scatter(held[turn]);
    if (turn >= 1 && turn <= parts) exchanges[turn - 1].share(held[turn - 1], to_outputs());
    if (turn >= 2) exchanges[turn - 2].collect(to_outputs());
  }
}

std::vector<Place> inputs_of(const std::vector<QueueId>& queues) {
  std::vector<Place> places;
  for (const QueueId& queue : queues) places.push_back(input_of(queue.rank));
  return places;
}

std::vector<Place> outputs_from(const std::vector<QueueId>& queues, int x) {
  std::vector<Place> places;
  for (size_t d = 0; d < queues.size(); ++d) places.push_back(output_of(queues[(x + d) % queues.size()].rank));
  return places;
}

void zero_copy_all_reduce(PlanBuilder& builder, const std::vector<QueueId>& queues) {
  barrier_among(builder, queues);
  for (int x = 0; x < static_cast<int>(queues.size()); ++x) {
    builder.reduce(queues[x], outputs_from(queues, x), inputs_of(queues), x);
  }
  barrier_among(builder, queues);
}

}  // namespace plait
