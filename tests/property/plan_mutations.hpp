// Ways to break a plan. Each changes one thing at random and says whether it found anything to change.
#pragma once

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "plan/plan.hpp"

namespace plait::test {

using Random = std::mt19937_64;

inline int pick(Random& random, size_t count) { return static_cast<int>(random() % count); }

// Where an operation is; found by walking, so that every operation is equally likely.
struct Spot {
  int rank = 0, queue = 0, operation = 0;
};

inline Operation& at(Plan& plan, const Spot& s) { return plan.ranks[s.rank].queues[s.queue].operations[s.operation]; }
inline std::vector<Operation>& queue_at(Plan& plan, const Spot& s) {
  return plan.ranks[s.rank].queues[s.queue].operations;
}

template <class Wanted>
bool find_spot(Plan& plan, Random& random, Spot& spot, Wanted wanted) {
  std::vector<Spot> spots;
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    for (size_t queue = 0; queue < plan.ranks[rank].queues.size(); ++queue) {
      const auto& operations = plan.ranks[rank].queues[queue].operations;
      for (size_t i = 0; i < operations.size(); ++i) {
        if (wanted(operations[i])) spots.push_back({rank, static_cast<int>(queue), static_cast<int>(i)});
      }
    }
  }
  if (spots.empty()) return false;
  spot = spots[pick(random, spots.size())];
  return true;
}

inline bool moves_data(const Operation& o) { return o.kind != OpKind::kSignal && o.kind != OpKind::kWait; }
inline bool is_reduce(const Operation& o) { return o.kind == OpKind::kReduce; }
inline bool is_signal(const Operation& o) { return o.kind == OpKind::kSignal; }
inline bool is_wait(const Operation& o) { return o.kind == OpKind::kWait; }
inline bool has_slots(const Place& p) { return p.buffer == Buffer::kScratch || p.buffer == Buffer::kHost; }

// A place of an operation, source or destination, that `wanted` likes.
template <class Wanted>
Place* find_place(Plan& plan, Random& random, Wanted wanted) {
  std::vector<Place*> places;
  for (RankPlan& rank : plan.ranks) {
    for (Queue& queue : rank.queues) {
      for (Operation& operation : queue.operations) {
        for (Place& place : operation.sources) places.push_back(&place);
        for (Place& place : operation.destinations) places.push_back(&place);
      }
    }
  }
  std::erase_if(places, [&](const Place* place) { return !wanted(*place); });
  return places.empty() ? nullptr : places[pick(random, places.size())];
}

inline void erase(Plan& plan, const Spot& s) { queue_at(plan, s).erase(queue_at(plan, s).begin() + s.operation); }

// The other end of a signal or message; false where there is none.
inline bool find_partner(Plan& plan, Random& random, const Operation& o, int rank, Spot& partner) {
  const bool sends = o.kind == OpKind::kSignal || o.kind == OpKind::kSend;
  const OpKind other = o.kind == OpKind::kSignal ? OpKind::kWait
                       : o.kind == OpKind::kWait ? OpKind::kSignal
                       : o.kind == OpKind::kSend ? OpKind::kReceive
                                                 : OpKind::kSend;
  const int receiver = sends ? o.peer_rank : rank;
  return find_spot(plan, random, partner,
                   [&](const Operation& p) {
                     if (p.kind != other || p.number != o.number) return false;
                     return sends ? true : p.peer_rank == receiver;
                   }) &&
         (sends ? partner.rank == receiver : at(plan, partner).peer_rank == receiver);
}

// Removes signal `number` of `rank` from the numbering.
inline void close_gap(Plan& plan, int rank, int number) {
  for (int r = 0; r < plan.rank_count(); ++r) {
    for (Queue& queue : plan.ranks[r].queues) {
      for (Operation& o : queue.operations) {
        const bool concerns = (is_signal(o) && o.peer_rank == rank) || (is_wait(o) && r == rank);
        if (concerns && o.number > number) --o.number;
      }
    }
  }
  --plan.ranks[rank].signals;
}

// --- signals and waits ---

inline bool drop_signal(Plan& plan, Random& random) {
  Spot s;
  if (!find_spot(plan, random, s, is_signal)) return false;
  erase(plan, s);
  return true;
}
inline bool drop_wait(Plan& plan, Random& random) {
  Spot s;
  if (!find_spot(plan, random, s, is_wait)) return false;
  erase(plan, s);
  return true;
}
// Both ends, so that the form stays right and only the order is lost.
inline bool drop_signal_and_wait(Plan& plan, Random& random) {
  Spot w;
  if (!find_spot(plan, random, w, is_wait)) return false;
  const Operation wait = at(plan, w);
  if (wait.peer_rank >= plan.rank_count() || plan.ranks[w.rank].signals == 0) return false;
  for (int queue = 0; queue < static_cast<int>(plan.ranks[wait.peer_rank].queues.size()); ++queue) {
    auto& operations = plan.ranks[wait.peer_rank].queues[queue].operations;
    std::erase_if(operations,
                  [&](const Operation& o) { return is_signal(o) && o.peer_rank == w.rank && o.number == wait.number; });
  }
  auto& operations = plan.ranks[w.rank].queues[w.queue].operations;
  std::erase_if(operations, [&](const Operation& o) { return is_wait(o) && o.number == wait.number; });
  close_gap(plan, w.rank, wait.number);
  return true;
}
template <class Wanted>
bool duplicate(Plan& plan, Random& random, Wanted wanted) {
  Spot s;
  if (!find_spot(plan, random, s, wanted)) return false;
  const Operation copy = at(plan, s);
  auto& operations = queue_at(plan, s);
  operations.insert(operations.begin() + s.operation + pick(random, operations.size() - s.operation + 1), copy);
  return true;
}
inline bool duplicate_signal(Plan& plan, Random& random) { return duplicate(plan, random, is_signal); }
inline bool duplicate_wait(Plan& plan, Random& random) { return duplicate(plan, random, is_wait); }

// Two signals to one rank come in each other's stead; with their peers, so that the form stays right where it can.
inline bool swap_signals(Plan& plan, Random& random) {
  Spot a, b;
  if (!find_spot(plan, random, a, is_signal)) return false;
  const int receiver = at(plan, a).peer_rank;
  if (receiver >= plan.rank_count()) return false;
  if (!find_spot(plan, random, b, [&](const Operation& o) { return is_signal(o) && o.peer_rank == receiver; })) {
    return false;
  }
  std::swap(at(plan, a).number, at(plan, b).number);
  std::swap(at(plan, a).peer_queue, at(plan, b).peer_queue);
  if (pick(random, 2) == 0) return true;
  for (Queue& queue : plan.ranks[receiver].queues) {  // and the waits know
    for (Operation& o : queue.operations) {
      if (!is_wait(o)) continue;
      for (const Spot& s : {a, b}) {
        if (o.number == at(plan, s).number) {
          o.peer_rank = s.rank;
          o.peer_queue = s.queue;
        }
      }
    }
  }
  return true;
}
inline bool retarget_peer(Plan& plan, Random& random) {
  Spot s;
  if (!find_spot(plan, random, s, [](const Operation& o) { return o.kind != OpKind::kReduce; })) return false;
  Operation& o = at(plan, s);
  switch (pick(random, 3)) {
    case 0:
      o.peer_rank = pick(random, plan.ranks.size() + 1);
      break;
    case 1:
      o.peer_queue = pick(random, 3);
      break;
    default:
      o.number = pick(random, 8) - 1;
  }
  return true;
}
// The wait moves to another queue of its rank, and the signal knows.
inline bool wait_in_other_queue(Plan& plan, Random& random) {
  Spot w, s;
  if (!find_spot(plan, random, w, is_wait)) return false;
  const Operation wait = at(plan, w);
  auto& queues = plan.ranks[w.rank].queues;
  if (queues.size() < 2 || !find_partner(plan, random, wait, w.rank, s)) return false;
  const int to = (w.queue + 1 + pick(random, queues.size() - 1)) % static_cast<int>(queues.size());
  at(plan, s).peer_queue = to;
  erase(plan, w);
  auto& operations = queues[to].operations;
  operations.insert(operations.begin() + pick(random, operations.size() + 1), wait);
  return true;
}
// Within its queue, to any other position.
template <class Wanted>
bool move_within_queue(Plan& plan, Random& random, Wanted wanted) {
  Spot s;
  if (!find_spot(plan, random, s, wanted)) return false;
  auto& operations = queue_at(plan, s);
  if (operations.size() < 2) return false;
  const Operation moved = at(plan, s);
  erase(plan, s);
  int to = pick(random, operations.size());
  if (to >= s.operation) ++to;
  operations.insert(operations.begin() + to, moved);
  return true;
}
inline bool move_signal(Plan& plan, Random& random) { return move_within_queue(plan, random, is_signal); }
inline bool move_wait(Plan& plan, Random& random) { return move_within_queue(plan, random, is_wait); }

// --- operations ---

inline bool drop_operation(Plan& plan, Random& random) {
  Spot s;
  if (!find_spot(plan, random, s, moves_data)) return false;
  erase(plan, s);
  return true;
}
inline bool duplicate_operation(Plan& plan, Random& random) { return duplicate(plan, random, moves_data); }
inline bool move_operation(Plan& plan, Random& random) { return move_within_queue(plan, random, moves_data); }
inline bool swap_neighbours(Plan& plan, Random& random) {
  Spot s;
  if (!find_spot(plan, random, s, [](const Operation&) { return true; })) return false;
  auto& operations = queue_at(plan, s);
  if (s.operation + 1 == static_cast<int>(operations.size())) return false;
  std::swap(operations[s.operation], operations[s.operation + 1]);
  return true;
}
inline bool operation_in_other_queue(Plan& plan, Random& random) {
  Spot s;
  if (!find_spot(plan, random, s, is_reduce)) return false;
  const int rank = pick(random, 2) == 0 ? s.rank : pick(random, plan.ranks.size());
  auto& queues = plan.ranks[rank].queues;
  if (queues.empty()) return false;
  const Operation moved = at(plan, s);
  erase(plan, s);
  auto& operations = queues[pick(random, queues.size())].operations;
  operations.insert(operations.begin() + pick(random, operations.size() + 1), moved);
  return true;
}

// --- sources and destinations ---

inline bool several_sources(const Operation& o) { return o.sources.size() > 1; }

inline bool duplicate_source(Plan& plan, Random& random) {
  Spot s;
  if (!find_spot(plan, random, s, is_reduce)) return false;
  auto& sources = at(plan, s).sources;
  if (sources.empty()) return false;
  const Place again = sources[pick(random, sources.size())];
  sources.insert(sources.begin() + pick(random, sources.size() + 1), again);
  return true;
}
inline bool lose_source(Plan& plan, Random& random) {
  Spot s;
  if (!find_spot(plan, random, s, several_sources)) return false;
  auto& sources = at(plan, s).sources;
  sources.erase(sources.begin() + pick(random, sources.size()));
  return true;
}
inline bool swap_sources(Plan& plan, Random& random) {
  Spot s;
  if (!find_spot(plan, random, s, several_sources)) return false;
  auto& sources = at(plan, s).sources;
  const int i = pick(random, sources.size() - 1);
  std::swap(sources[i], sources[i + 1]);
  return true;
}
inline bool replace_source(Plan& plan, Random& random) {
  Spot s;
  if (!find_spot(plan, random, s, [](const Operation& o) { return !o.sources.empty(); })) return false;
  const Place* other = find_place(plan, random, [](const Place&) { return true; });
  auto& sources = at(plan, s).sources;
  sources[pick(random, sources.size())] = *other;
  return true;
}
inline bool lose_destination(Plan& plan, Random& random) {
  Spot s;
  if (!find_spot(plan, random, s, [](const Operation& o) { return o.destinations.size() > 1; })) return false;
  auto& destinations = at(plan, s).destinations;
  destinations.erase(destinations.begin() + pick(random, destinations.size()));
  return true;
}
inline bool add_destination(Plan& plan, Random& random) {
  Spot s;
  if (!find_spot(plan, random, s, is_reduce)) return false;
  const Place* other = find_place(plan, random, [](const Place& p) { return p.buffer != Buffer::kInput; });
  if (other == nullptr) return false;
  const Place added = *other;
  at(plan, s).destinations.push_back(added);
  return true;
}

// --- chunks and places ---

inline bool shift_chunk(Plan& plan, Random& random) {
  Spot s;
  if (!find_spot(plan, random, s, moves_data)) return false;
  at(plan, s).chunk += pick(random, 2) == 0 ? 1 : -1;
  return true;
}
inline bool resize_range(Plan& plan, Random& random) {
  Spot s;
  if (!find_spot(plan, random, s, moves_data)) return false;
  at(plan, s).chunks += pick(random, 2) == 0 ? 1 : -1;
  return true;
}
inline bool shift_slot(Plan& plan, Random& random) {
  Place* place = find_place(plan, random, has_slots);
  if (place == nullptr) return false;
  place->slot += pick(random, 2) == 0 ? 1 : -1;
  return true;
}
// All that is in one slot of a rank goes to another: the plan needs an order between the two that it may not have.
inline bool alias_slots(Plan& plan, Random& random) {
  const Place* found = find_place(plan, random, has_slots);
  if (found == nullptr) return false;
  const Place from = *found;
  const RankPlan& owner = plan.ranks[from.rank];
  const int slots = from.buffer == Buffer::kScratch ? owner.scratch_slots : owner.host_slots;
  if (slots < 1) return false;
  const int to = pick(random, slots);
  for (RankPlan& rank : plan.ranks) {
    for (Queue& queue : rank.queues) {
      for (Operation& operation : queue.operations) {
        for (Place& place : operation.sources)
          if (place == from) place.slot = to;
        for (Place& place : operation.destinations)
          if (place == from) place.slot = to;
      }
    }
  }
  return to != from.slot;
}
// A slot is taken away and all behind it move up, so that ranges which lay side by side overlap.
inline bool close_slot(Plan& plan, Random& random) {
  const Place* found = find_place(plan, random, has_slots);
  if (found == nullptr) return false;
  const Place gone = *found;
  for (RankPlan& rank : plan.ranks) {
    for (Queue& queue : rank.queues) {
      for (Operation& operation : queue.operations) {
        for (auto* places : {&operation.sources, &operation.destinations}) {
          for (Place& place : *places) {
            if (place.rank == gone.rank && place.buffer == gone.buffer && place.slot > gone.slot) --place.slot;
          }
        }
      }
    }
  }
  return true;
}
inline bool wrong_buffer(Plan& plan, Random& random) {
  Place* place = find_place(plan, random, [](const Place&) { return true; });
  if (place == nullptr) return false;
  place->buffer = static_cast<Buffer>((static_cast<int>(place->buffer) + 1 + pick(random, 3)) % 4);
  if (!has_slots(*place)) place->slot = 0;
  return true;
}
inline bool wrong_rank(Plan& plan, Random& random) {
  Place* place = find_place(plan, random, [](const Place&) { return true; });
  if (place == nullptr) return false;
  place->rank = pick(random, plan.ranks.size());
  return true;
}
inline bool shrink_slots(Plan& plan, Random& random) {
  RankPlan& rank = plan.ranks[pick(random, plan.ranks.size())];
  int& slots = rank.scratch_slots > 0 ? rank.scratch_slots : rank.host_slots;
  if (slots == 0) return false;
  --slots;
  return true;
}
inline bool shrink_signals(Plan& plan, Random& random) {
  RankPlan& rank = plan.ranks[pick(random, plan.ranks.size())];
  if (rank.signals == 0) return false;
  --rank.signals;
  return true;
}
inline bool other_engine(Plan& plan, Random& random) {
  auto& queues = plan.ranks[pick(random, plan.ranks.size())].queues;
  if (queues.empty()) return false;
  queues[pick(random, queues.size())].engine = static_cast<Engine>(pick(random, 4));
  return true;
}
inline bool claim_in_place(Plan& plan, Random&) { return !std::exchange(plan.in_place, true); }

struct Mutation {
  const char* name;
  bool (*apply)(Plan&, Random&);
};

inline constexpr Mutation kMutations[] = {
    {"drop signal", drop_signal},
    {"drop wait", drop_wait},
    {"drop signal and wait", drop_signal_and_wait},
    {"duplicate signal", duplicate_signal},
    {"duplicate wait", duplicate_wait},
    {"swap signals", swap_signals},
    {"retarget peer", retarget_peer},
    {"wait in other queue", wait_in_other_queue},
    {"move signal", move_signal},
    {"move wait", move_wait},
    {"drop operation", drop_operation},
    {"duplicate operation", duplicate_operation},
    {"move operation", move_operation},
    {"swap neighbours", swap_neighbours},
    {"operation in other queue", operation_in_other_queue},
    {"duplicate source", duplicate_source},
    {"lose source", lose_source},
    {"swap sources", swap_sources},
    {"replace source", replace_source},
    {"lose destination", lose_destination},
    {"add destination", add_destination},
    {"shift chunk", shift_chunk},
    {"resize range", resize_range},
    {"shift slot", shift_slot},
    {"alias slots", alias_slots},
    {"close slot", close_slot},
    {"wrong buffer", wrong_buffer},
    {"wrong rank", wrong_rank},
    {"shrink slots", shrink_slots},
    {"shrink signals", shrink_signals},
    {"other engine", other_engine},
    {"claim in place", claim_in_place},
};

}  // namespace plait::test
