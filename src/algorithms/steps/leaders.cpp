// Members and leaders.
#include "algorithms/steps/leaders.hpp"

#include <utility>

namespace plait {

LeaderSteps::LeaderSteps(PlanBuilder& builder, Carrier& carrier, Shape shape)
    : builder_(builder),
      carrier_(carrier),
      shape_(std::move(shape)),
      boxes_(size()),
      host_boxes_(size()),
      arrivals_(shape_.leaders, std::vector<std::optional<Arrival>>(size())),
      given_(size(), std::vector<std::vector<Given>>(shape_.leaders)) {
  for (int x = 0; x < size(); ++x) member_of_rank_[rank(x)] = x;
}

ChunkRange LeaderSteps::piece(int x) const {
  const int chunks = shape_.range.count / shape_.leaders;
  return {shape_.range.first + (leads(x) ? x : 0) * chunks, leads(x) ? chunks : 0};
}

Held LeaderSteps::box(int x) {
  if (!boxes_[x]) boxes_[x] = {builder_.take_scratch(rank(x), shape_.range.count), shape_.range.first};
  return *boxes_[x];
}

Held LeaderSteps::host_box(int leader) {
  const ChunkRange it = piece(leader);
  if (!host_boxes_[leader]) host_boxes_[leader] = {builder_.take_host(rank(leader), it.count), it.first};
  return *host_boxes_[leader];
}

// Returns where leaders find what the member has: there already if it is one place that they may read, else in its box.
Held LeaderSteps::published(int x, const std::vector<Held>& held) {
  bool has_near_leader = false;
  for (int leader = 0; leader < shape_.leaders; ++leader) has_near_leader |= leader != x && near(x, leader);
  if (held.size() == 1 && (!has_near_leader || shape_.reads_inputs || has_slots(held[0].place.buffer))) return held[0];
  const auto publish = [&](int first, int end) {
    if (end > first) {
      builder_.reduce(shape_.queues[x], {box(x).at(first)}, places_at(held, first), first, end - first);
    }
  };
  const int first_of_own = leads(x) ? piece(x).first : shape_.range.end();
  publish(shape_.range.first, first_of_own);
  publish(first_of_own + piece(x).count, shape_.range.end());
  return box(x);
}

void LeaderSteps::hand_to_leaders(int x, const std::vector<Held>& held) {
  if (shape_.leaders == 1 && leads(x)) return;
  const Held source = by_store() ? Held{} : published(x, held);
  for (int d = 1; d < size(); ++d) {
    const int leader = (x + d) % size();
    if (!leads(leader)) continue;
    const ChunkRange it = piece(leader);
    const QueueId from = shape_.queues[x], to = shape_.queues[leader];
    if (by_store()) {
      const Place landing = carrier_.take_landing(rank(x), rank(leader), it.count);
      arrivals_[leader][x] = carrier_.put(from, places_at(held, it.first), {}, to, landing, it);
    } else {
      arrivals_[leader][x] = carrier_.expose(from, source.at(it.first), to, it);
    }
  }
}

void LeaderSteps::reduce_scatter(HeldByRank& held) {
  for (int x = 0; x < size(); ++x) hand_to_leaders(x, held[rank(x)]);
  for (int x = 0; x < size(); ++x) {
    const std::vector<Held> own = std::exchange(held[rank(x)], {});
    if (!leads(x)) continue;
    std::vector<Held>& all = held[rank(x)];
    for (int from = 0; from < size(); ++from) {
      if (from == x) all.insert(all.end(), own.begin(), own.end());
      if (const auto& arrival = arrivals_[x][from]) all.push_back({arrival->place, piece(x).first});
    }
  }
}

void LeaderSteps::settle() {
  for (auto& of_leader : arrivals_) {
    for (auto& arrival : of_leader) {
      if (arrival) carrier_.await(*std::exchange(arrival, std::nullopt));
    }
  }
}

void LeaderSteps::store(const HeldByRank& held, const Finish& finish) {
  settle();
  for (int leader = 0; leader < shape_.leaders; ++leader) {
    const ChunkRange it = piece(leader);
    builder_.reduce(shape_.queues[leader], places_at(finish.places(rank(leader)), it.first),
                    places_at(held[rank(leader)], it.first), it.first, it.count);
    if (finish.stored) finish.stored(rank(leader), it);
  }
}

bool LeaderSteps::stores_to_outputs(const Finish& finish, int leader, int member) const {
  return shape_.stores_to_peers && near(leader, member) && !finish.stored && finish.places(rank(member)).size() == 1;
}

Finish LeaderSteps::ahead(const Finish& finish) {
  Finish wider;
  wider.places = [this, finish](int of_rank) {
    const int leader = member_of(of_rank);
    std::vector<Held> places = finish.places(of_rank);
    bool fetches = false, by_host = false;
    for (int d = 1; d < size(); ++d) {
      const int x = (leader + d) % size();
      if (!near(leader, x)) continue;
      if (stores_to_outputs(finish, leader, x)) {
        places.push_back(finish.places(rank(x))[0]);
      } else if (by_store() && carrier_.by_host(of_rank, rank(x))) {
        by_host = true;
      } else if (by_store()) {
        places.push_back(box(x));
      } else {
        fetches = true;
      }
    }
    if (fetches) places.push_back(box(leader));
    if (by_host) places.push_back(host_box(leader));
    return places;
  };
  wider.stored = [this, finish](int of_rank, ChunkRange range) {
    if (finish.stored) finish.stored(of_rank, range);
    hand_back(finish, member_of(of_rank), range);
  };
  return wider;
}

void LeaderSteps::hand_back(const Finish& finish, int leader, ChunkRange range) {
  for (int d = 1; d < size(); ++d) {
    const int x = (leader + d) % size();
    if (stores_to_outputs(finish, leader, x)) continue;
    Place source = finish.places(rank(leader))[0].at(range.first);  // of a message
    if (by_store() && carrier_.by_host(rank(leader), rank(x))) {
      source = host_box(leader).at(range.first);
    } else if (near(leader, x)) {
      source = box(by_store() ? x : leader).at(range.first);
    }
    const Place landing = finish.places(rank(x))[0].at(range.first);
    given_[x][leader].push_back(
        {range, carrier_.expose(shape_.queues[leader], source, shape_.queues[x], range, landing)});
  }
}

void LeaderSteps::follow(const Finish& finish) {
  for (int x = 0; x < size(); ++x) {
    for (int d = 1; d < size(); ++d) {
      const int leader = (x + d) % size();
      if (!leads(leader)) continue;
      for (const Given& it : std::exchange(given_[x][leader], {})) {
        carrier_.await(it.arrival);
        const auto places = beside({it.arrival.place}, places_at(finish.places(rank(x)), it.range.first));
        if (!places.empty()) {
          builder_.reduce(shape_.queues[x], places, {it.arrival.place}, it.range.first, it.range.count);
        }
        if (finish.stored) finish.stored(rank(x), it.range);
      }
    }
  }
  tell_members(finish);
}

// A member returns once its output is complete.
void LeaderSteps::tell_members(const Finish& finish) {
  std::vector<SignalId> signals;
  for (int leader = 0; leader < shape_.leaders; ++leader) {
    for (int d = 1; d < size(); ++d) {
      const int x = (leader + d) % size();
      if (stores_to_outputs(finish, leader, x)) {
        signals.push_back(builder_.signal(shape_.queues[leader], shape_.queues[x]));
      }
    }
  }
  for (const SignalId& signal : signals) builder_.wait(signal);
}

void LeaderSteps::all_gather(const HeldByRank& held, const Finish& finish) {
  const Finish wider = ahead(finish);
  settle();
  for (int leader = 0; leader < shape_.leaders; ++leader) {
    const ChunkRange it = piece(leader);
    const std::vector<Place> sources = places_at(held[rank(leader)], it.first);
    const std::vector<Place> places = beside(sources, places_at(wider.places(rank(leader)), it.first));
    if (!places.empty()) builder_.reduce(shape_.queues[leader], places, sources, it.first, it.count);
    wider.stored(rank(leader), it);
  }
  follow(finish);
}

}  // namespace plait
