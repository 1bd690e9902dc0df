// The phases of a ring.
#include "algorithms/steps/ring.hpp"

#include <algorithm>
#include <utility>

#include "algorithms/steps/arguments.hpp"

namespace plait {
RingSteps::RingSteps(PlanBuilder& builder, Carrier& carrier, Shape shape)
    : builder_(builder), carrier_(carrier), shape_(std::move(shape)), landing_(size()) {
  const int64_t phases_of_all = (shape_.scatters ? 1 : 0) + (shape_.gathers ? 1 : 0);
  builder_.expect(phases_of_all * size() * (size() - 1) * shape_.parts *
                  2);  // who passes it on tells, and who gets it hears
  arrivals_.resize(size(), std::vector<std::optional<Arrival>>(shape_.parts));
  next_arrivals_ = arrivals_;
  for (int x = 0; x < size(); ++x) {
    const int phases = (shape_.scatters ? 1 : 0) + (shape_.gathers && lands_in_scratch(x) ? 1 : 0);
    const int pieces = std::min(phases * (size() - 1), size());
    if (pieces == 0 || has_all(x)) continue;
    const int from = shape_.queues[wrap(x - 1, size())].rank;
    landing_[x] = carrier_.take_landing(from, shape_.queues[x].rank, pieces * piece_chunks());
  }
}

ChunkRange RingSteps::range(int piece, int part) const {
  const int first =
      shape_.first_of_piece.empty() ? shape_.first_chunk + piece * piece_chunks() : shape_.first_of_piece[piece];
  return {first + part * shape_.part_chunks, shape_.part_chunks};
}

QueueId RingSteps::queue(int x, int steps) const {
  const int all = (size() - 1) * ((shape_.scatters ? 1 : 0) + (shape_.gathers ? 1 : 0));
  if (steps == all && !shape_.last_queues.empty()) return shape_.last_queues[x];
  return steps == 0 && !shape_.first_queues.empty() ? shape_.first_queues[x] : shape_.queues[x];
}

bool RingSteps::lands_in_scratch(int x) const {
  const int rank = shape_.queues[x].rank, previous = shape_.queues[wrap(x - 1, size())].rank;
  // The receiving rank stores a message itself, and it may always store to its own output.
  return !shape_.stores_to_peers && carrier_.together(previous, rank);
}

void RingSteps::reduce_scatter(HeldByRank& held) {
  for (int step = 0; step < size() - 1; ++step, ++steps_done_) {
    for (int part = 0; part < shape_.parts; ++part) {
      for (int x = 0; x < size(); ++x) {
        const ChunkRange it = range(wrap(x - 1 - step, size()), part);
        std::vector<Place> sources = places_at(held[shape_.queues[x].rank], it.first);
        await(x, part);
        if (arrivals_[x][part]) sources.insert(sources.begin(), arrivals_[x][part]->place);
        const Place landing =
            slot_after(landing_[next(x)], steps_done_ % size() * piece_chunks() + part * shape_.part_chunks);
        next_arrivals_[next(x)][part] =
            carrier_.put(queue(x, steps_done_), sources, {}, queue(next(x), steps_done_ + 1), landing, it);
      }
    }
    std::swap(arrivals_, next_arrivals_);
  }
  if (size() == 1) return;
  for (int x = 0; x < size(); ++x) {
    auto& mine = held[shape_.queues[x].rank];
    mine.insert(mine.begin(), {arrivals_[x][0]->place, range(x, 0).first});
  }
}

void RingSteps::await(int x, int part) {
  if (arrivals_[x][part]) carrier_.await(*arrivals_[x][part]);
}

void RingSteps::settle() {
  for (int x = 0; x < size(); ++x) {
    for (int part = 0; part < shape_.parts; ++part) {
      await(x, part);
      arrivals_[x][part].reset();
    }
  }
}

void RingSteps::call_previous() {
  std::vector<SignalId> calls;
  for (int x = 0; x < size(); ++x) {
    const QueueId previous = shape_.queues[wrap(x - 1, size())], mine = shape_.queues[x];
    if (!has_all(x) && previous.rank != mine.rank && carrier_.together(previous.rank, mine.rank)) {
      calls.push_back(builder_.signal(mine, previous));
    }
  }
  for (const SignalId& call : calls) builder_.wait(call);
}

void RingSteps::perform(HeldByRank held, const Finish& finish) {
  if (shape_.scatters) reduce_scatter(held);
  if (shape_.gathers) {
    all_gather(held, finish);
  } else {
    store(held, finish);
  }
}

void RingSteps::store(const HeldByRank& held, const Finish& finish) {
  for (int x = 0; x < size(); ++x) {
    const QueueId queue = this->queue(x, steps_done_);
    for (int part = 0; part < shape_.parts; ++part) {
      const ChunkRange it = range(x, part);
      await(x, part);
      builder_.reduce(queue, places_at(finish.places(queue.rank), it.first), places_at(held[queue.rank], it.first),
                      it.first, it.count);
      if (finish.stored) finish.stored(queue.rank, it);
    }
  }
}

void RingSteps::all_gather(const HeldByRank& held, const Finish& finish) {
  for (int step = 0; step < size(); ++step) {
    for (int part = 0; part < shape_.parts; ++part) {
      for (int x = 0; x < size(); ++x) {
        await(x, part);
        const int chunk = range(wrap(x - step, size()), part).first;
        const bool has_it = step == 0 || has_all(x);
        spread(x, step, part,
               has_it ? places_at(held[shape_.queues[x].rank], chunk) : std::vector{arrivals_[x][part]->place}, finish);
      }
    }
    std::swap(arrivals_, next_arrivals_);
    ++steps_done_;
  }
}

void RingSteps::spread(int x, int step, int part, const std::vector<Place>& sources, const Finish& finish) {
  const QueueId queue = this->queue(x, steps_done_);
  const ChunkRange it = range(wrap(x - step, size()), part);
  std::vector<Place> kept;
  if (!has_all(x)) kept = beside(sources, places_at(finish.places(queue.rank), it.first));
  const bool is_last = step == size() - 1 || has_all(next(x));
  if (!is_last) {
    const QueueId receiver = this->queue(next(x), steps_done_ + 1);
    const int slot = steps_done_ % size() * piece_chunks() + part * shape_.part_chunks;
    const Place landing =
        lands_in_scratch(next(x)) ? slot_after(landing_[next(x)], slot) : finish.places(receiver.rank)[0].at(it.first);
    next_arrivals_[next(x)][part] = carrier_.put(queue, sources, kept, receiver, landing, it);
  } else if (!kept.empty()) {
    builder_.reduce(queue, kept, sources, it.first, it.count);
  }
  if (finish.stored && !has_all(x)) finish.stored(queue.rank, it);
}

}  // namespace plait
