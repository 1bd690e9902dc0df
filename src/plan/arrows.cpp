// Finds and thins out the arrows of pictures.
#include "plan/arrows.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace plait {
namespace {

// A queue with more arrows than that in one gap has a bus.
constexpr size_t kMostOfAFan = 4;

// The memory of a place, as slots or chunks: a range that may overlap with another operation's.
ChunkRange memory(const Place& place, const Operation& o) {
  return {has_slots(place.buffer) ? place.slot : o.chunk, o.chunks};
}

bool overlap(const Place& a, const Operation& of_a, const Place& b, const Operation& of_b) {
  if (a.rank != b.rank || a.buffer != b.buffer) return false;
  const ChunkRange one = memory(a, of_a), two = memory(b, of_b);
  return one.first < two.end() && two.first < one.end();
}

class ArrowFinder {
 public:
  ArrowFinder(const Plan& plan, const PlanLayout& layout) : plan_(plan), layout_(layout) {}

  std::vector<Arrow> find() {
    for (int rank = 0; rank < plan_.rank_count(); ++rank) {
      for (size_t queue = 0; queue < plan_.ranks[rank].queues.size(); ++queue) {
        const auto& operations = plan_.ranks[rank].queues[queue].operations;
        for (size_t i = 0; i < operations.size(); ++i) {
          add({rank, static_cast<int>(queue), static_cast<int>(i)}, operations[i]);
        }
      }
    }
    return std::move(found_);
  }

 private:
  void add(const OperationId& id, const Operation& o) {
    const int at = layout_.at(id);
    const PictureColumn here{id.rank, id.queue};
    const auto to_queue = [&](ArrowKind kind, const OperationId& to, int first_gap) {
      found_.push_back({kind, id, o.chunk, here, {to.rank, to.queue}, first_gap, layout_.at(to)});
    };
    switch (o.kind) {
      case OpKind::kWait:
        return;
      case OpKind::kSignal:
        return to_queue(ArrowKind::kSignal, layout_.pairing.signals[o.peer_rank][o.number].to, at);
      case OpKind::kSend:
        return to_queue(ArrowKind::kMessage, layout_.pairing.messages[o.peer_rank][o.number].to, at + 1);
      case OpKind::kReduce:
      case OpKind::kReceive:
        break;
    }
    for (const Place& place : o.sources) {
      if (place.rank == id.rank) continue;
      found_.push_back({ArrowKind::kLoaded, id, o.chunk, beside(place, o, at, Touch::kWroteLast), here, at, at});
    }
    for (const Place& place : o.destinations) {
      if (place.rank == id.rank) continue;
      found_.push_back(
          {ArrowKind::kStored, id, o.chunk, here, beside(place, o, at, Touch::kReadsNext), at + 1, at + 1});
    }
  }

  // Where a rank's arrow begins or ends at the memory of another: at the queue of that rank that reads the place next,
  // below `row`, or that wrote it last, above. Else at queue 0.
  enum class Touch { kReadsNext, kWroteLast };
  PictureColumn beside(const Place& place, const Operation& o, int row, Touch touch) const {
    int queue = 0, nearest = layout_.gaps + 1;
    const auto& queues = plan_.ranks[place.rank].queues;
    for (size_t l = 0; l < queues.size(); ++l) {
      const auto& operations = queues[l].operations;
      for (size_t i = 0; i < operations.size(); ++i) {
        const int at = layout_.position[place.rank][l][i];
        const int distance = touch == Touch::kReadsNext ? at - row : row - at;
        if (distance <= 0 || distance >= nearest) continue;
        const auto& places = touch == Touch::kReadsNext ? operations[i].sources : operations[i].destinations;
        const bool touches = std::any_of(places.begin(), places.end(),
                                         [&](const Place& it) { return overlap(it, operations[i], place, o); });
        if (!touches) continue;
        nearest = distance;
        queue = static_cast<int>(l);
      }
    }
    return {place.rank, queue};
  }

  const Plan& plan_;
  const PlanLayout& layout_;
  std::vector<Arrow> found_;
};

// Arrows of one kind in one gap, at the queue whose operations make them.
using Fan = std::tuple<ArrowKind, int, PictureColumn>;

Fan fan_of(const Arrow& it) { return {it.kind, it.first_gap, {it.operation.rank, it.operation.queue}}; }

bool is_signal(const Arrow& it) { return it.kind == ArrowKind::kSignal; }

// Without the signals that say nothing new: those inside of a rank, and those that go where data goes meanwhile.
std::vector<Arrow> without_companions(const std::vector<Arrow>& arrows) {
  std::map<std::pair<int, int>, std::set<int>> gaps_of_data;  // between two ranks
  for (const Arrow& it : arrows) {
    if (!is_signal(it)) gaps_of_data[{it.from.rank, it.to.rank}].insert({it.first_gap, it.last_gap});
  }
  std::vector<Arrow> left;
  for (const Arrow& it : arrows) {
    const std::set<int>& gaps = gaps_of_data[{it.from.rank, it.to.rank}];
    const auto with_data = gaps.lower_bound(it.first_gap);
    const bool goes_with_data = with_data != gaps.end() && *with_data <= it.last_gap;
    if (!is_signal(it) || (it.from.rank != it.to.rank && !goes_with_data)) left.push_back(it);
  }
  return left;
}

}  // namespace

std::vector<Arrow> arrows_of(const Plan& plan, const PlanLayout& layout) { return ArrowFinder(plan, layout).find(); }

FewArrows thinned_out(const std::vector<Arrow>& all) {
  FewArrows few;
  std::map<Fan, std::vector<const Arrow*>> fans;
  const std::vector<Arrow> arrows = without_companions(all);
  for (const Arrow& it : arrows) {
    if (it.first_gap == it.last_gap) fans[fan_of(it)].push_back(&it);
  }
  std::erase_if(fans, [](const auto& fan) { return fan.second.size() <= kMostOfAFan; });
  for (const Arrow& it : arrows) {
    if (it.first_gap != it.last_gap || !fans.contains(fan_of(it))) few.arrows.push_back(it);
  }
  // A bus has arrows of one kind in one gap, with the same ranks at either end.
  std::map<std::tuple<ArrowKind, int, std::set<int>>, std::pair<std::set<PictureColumn>, std::set<PictureColumn>>>
      buses;
  for (const auto& [fan, own] : fans) {
    std::set<int> ranks;
    for (const Arrow* it : own) ranks.insert({it->from.rank, it->to.rank});
    auto& [from, to] = buses[{std::get<0>(fan), std::get<1>(fan), ranks}];
    for (const Arrow* it : own) {
      from.insert(it->from);
      to.insert(it->to);
    }
  }
  for (const auto& [key, ends] : buses) {
    const auto& [from, to] = ends;
    few.buses.push_back({std::get<0>(key), std::get<1>(key), {from.begin(), from.end()}, {to.begin(), to.end()}});
  }
  return few;
}

}  // namespace plait
