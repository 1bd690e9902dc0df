// Moves the ends of messages to host slots.
#include "plan/through_host.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace plait {
namespace {

bool is_message(const Operation& it) { return it.kind == OpKind::kSend || it.kind == OpKind::kReceive; }

// A message's place on this rank; a barrier's has none.
const Place* end_of(const Operation& message) {
  const std::vector<Place>& places = message.kind == OpKind::kSend ? message.sources : message.destinations;
  return places.empty() ? nullptr : &places[0];
}

template <class Visit>
void for_each_place(const Operation& operation, const Visit& visit) {
  for (const Place& it : operation.destinations) visit(it);
  for (const Place& it : operation.sources) visit(it);
}

template <class Visit>
void for_each_operation(const Plan& plan, const Visit& visit) {
  for (const RankPlan& rank : plan.ranks) {
    for (const Queue& queue : rank.queues) {
      for (const Operation& it : queue.operations) visit(it);
    }
  }
}

class Rewriter {
 public:
  explicit Rewriter(const Plan& plan) : plan_(plan), result_(plan), moved_(plan.ranks.size()) {
    for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
      moved_[rank].assign(static_cast<size_t>(plan.ranks[rank].scratch_slots), false);
    }
    find_moved();
    number_slots();
  }

  Plan rewrite() {
    for (size_t rank = 0; rank < plan_.ranks.size(); ++rank) {
      for (size_t queue = 0; queue < plan_.ranks[rank].queues.size(); ++queue) {
        rewrite_queue(static_cast<int>(rank), plan_.ranks[rank].queues[queue], result_.ranks[rank].queues[queue]);
      }
    }
    return std::move(result_);
  }

 private:
  // Copies of a queue take turns at two areas, so that the GPU copies one while the network has the other.
  static constexpr int kAreas = 2;

  struct Areas {
    int first = 0, slots = 0, taken = 0;

    int take() { return first + taken++ % kAreas * slots; }
  };

  // The slots of one operation stay together: where one of them moves, so do all.
  void find_moved() {
    for_each_operation(plan_, [&](const Operation& it) {
      const Place* const end = is_message(it) ? end_of(it) : nullptr;
      if (end != nullptr && end->buffer == Buffer::kScratch) move(*end, it.chunks);
    });
    for (bool is_over = false; !is_over;) {
      is_over = true;
      for_each_operation(plan_, [&](const Operation& it) {
        for_each_place(it, [&](const Place& place) {
          if (is_moved_in_part(place, it.chunks)) {
            move(place, it.chunks);
            is_over = false;
          }
        });
      });
    }
  }

  auto slots_of(const Place& place) { return moved_[static_cast<size_t>(place.rank)].begin() + place.slot; }

  void move(const Place& place, int slots) { std::fill_n(slots_of(place), slots, true); }

  bool is_moved_in_part(const Place& place, int slots) {
    if (place.buffer != Buffer::kScratch) return false;
    const auto moved = std::count(slots_of(place), slots_of(place) + slots, true);
    return moved > 0 && moved < slots;
  }

  // Scratch that stays closes ranks, and scratch that moves comes behind the host slots that there are.
  void number_slots() {
    for (size_t rank = 0; rank < plan_.ranks.size(); ++rank) {
      RankPlan& its = result_.ranks[rank];
      its.scratch_slots = 0;
      std::vector<int>& numbers = numbers_.emplace_back();
      for (const bool is_moved : moved_[rank]) numbers.push_back(is_moved ? its.host_slots++ : its.scratch_slots++);
    }
  }

  void rewrite_queue(int rank, const Queue& before, Queue& after) {
    Areas outgoing = areas_for(rank, before, OpKind::kSend), incoming = areas_for(rank, before, OpKind::kReceive);
    if ((outgoing.slots > 0 || incoming.slots > 0) && after.engine == Engine::kNet) after.engine = Engine::kCpu;
    after.operations.clear();
    for (const Operation& it : before.operations) {
      Operation operation = it;
      for (Place& place : operation.destinations) place = new_place(place);
      for (Place& place : operation.sources) place = new_place(place);
      if (!needs_copy(it)) {
        after.operations.push_back(std::move(operation));
      } else if (it.kind == OpKind::kSend) {
        const Place area{rank, Buffer::kHost, outgoing.take()};
        after.operations.push_back(copy(it, area, operation.sources[0]));
        operation.sources[0] = area;
        after.operations.push_back(std::move(operation));
      } else {
        const Place area{rank, Buffer::kHost, incoming.take()};
        const Operation out = copy(it, operation.destinations[0], area);
        operation.destinations[0] = area;
        after.operations.push_back(std::move(operation));
        after.operations.push_back(out);
      }
    }
  }

  // Takes host slots for the copies of a queue's sends or receives.
  Areas areas_for(int rank, const Queue& queue, OpKind kind) {
    Areas areas;
    int copies = 0;
    for (const Operation& it : queue.operations) {
      if (it.kind != kind || !needs_copy(it)) continue;
      areas.slots = std::max(areas.slots, it.chunks);
      ++copies;
    }
    areas.first = result_.ranks[static_cast<size_t>(rank)].host_slots;
    result_.ranks[static_cast<size_t>(rank)].host_slots += std::min(copies, kAreas) * areas.slots;
    return areas;
  }

  static bool needs_copy(const Operation& it) {
    const Place* const end = is_message(it) ? end_of(it) : nullptr;
    return end != nullptr && !has_slots(end->buffer);
  }

  Place new_place(const Place& place) const {
    if (place.buffer != Buffer::kScratch) return place;
    const auto rank = static_cast<size_t>(place.rank), slot = static_cast<size_t>(place.slot);
    return {place.rank, moved_[rank][slot] ? Buffer::kHost : Buffer::kScratch, numbers_[rank][slot]};
  }

  static Operation copy(const Operation& message, const Place& destination, const Place& source) {
    Operation copy;
    copy.chunk = message.chunk;
    copy.chunks = message.chunks;
    copy.destinations = {destination};
    copy.sources = {source};
    return copy;
  }

  const Plan& plan_;
  Plan result_;
  std::vector<std::vector<bool>> moved_;   // [rank][slot of scratch]
  std::vector<std::vector<int>> numbers_;  // the same: its number now
};

}  // namespace

bool has_messages_in_host(const Plan& plan) {
  bool are_in_host = true;
  for_each_operation(plan, [&](const Operation& it) {
    const Place* const end = is_message(it) ? end_of(it) : nullptr;
    are_in_host &= end == nullptr || end->buffer == Buffer::kHost;
  });
  return are_in_host;
}

Plan through_host(const Plan& plan) { return Rewriter(plan).rewrite(); }

}  // namespace plait
