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

bool stays_on_node(const Plan& plan, int rank, const Operation& message) {
  return plan.node_of[message.peer_rank] == plan.node_of[rank];
}

template <class Visit>
void for_each_place(const Operation& operation, const Visit& visit) {
  for (const Place& it : operation.destinations) visit(it);
  for (const Place& it : operation.sources) visit(it);
}

template <class Visit>
void for_each_operation(const Plan& plan, const Visit& visit) {
  for (const RankPlan& rank : plan.ranks) {
    const auto number = static_cast<int>(&rank - plan.ranks.data());
    for (const Queue& queue : rank.queues) {
      for (const Operation& it : queue.operations) visit(number, it);
    }
  }
}

class HostDetour {
 public:
  explicit HostDetour(const Plan& plan) : plan_(plan), result_(plan), moved_(plan.ranks.size()) {
    for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
      moved_[rank].assign(static_cast<size_t>(plan.ranks[rank].scratch_slots), false);
    }
    find_moved();
    number_slots();
    number_messages();
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
  // A send goes on while its queue copies for the next one, so sends take turns at two areas. What has arrived is
  // copied before the queue receives again.
  static constexpr int kAreasOfSends = 2, kAreasOfReceives = 1;

  // Host slots through which messages of a queue pass.
  struct Areas {
    int first = 0, slots = 0, count = 0, taken = 0;

    int take() { return first + taken++ % count * slots; }
  };

  // The slots of one operation stay together: where one of them moves, so do all.
  void find_moved() {
    for_each_operation(plan_, [&](int rank, const Operation& it) {
      if (!is_message(it) || stays_on_node(plan_, rank, it)) return;
      const Place* const end = end_of(it);
      if (end != nullptr && end->buffer == Buffer::kScratch) move(*end, it.chunks);
    });
    for (bool is_over = false; !is_over;) {
      is_over = true;
      for_each_operation(plan_, [&](int, const Operation& it) {
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

  // Messages of other nodes close ranks. One of this node gets an inbox and a signal.
  void number_messages() {
    messages_.resize(plan_.ranks.size());
    for (size_t rank = 0; rank < plan_.ranks.size(); ++rank) {
      messages_[rank].resize(static_cast<size_t>(plan_.ranks[rank].messages));
      result_.ranks[rank].messages = 0;
    }
    for_each_operation(plan_, [&](int rank, const Operation& it) {
      if (it.kind != OpKind::kReceive) return;
      RankPlan& its = result_.ranks[static_cast<size_t>(rank)];
      Message& message = messages_[static_cast<size_t>(rank)][static_cast<size_t>(it.number)];
      if (!stays_on_node(plan_, rank, it)) {
        message.number = its.messages++;
        return;
      }
      message = {its.signals++, {rank, Buffer::kScratch, its.scratch_slots}};
      its.scratch_slots += it.chunks;
    });
  }

  void rewrite_queue(int rank, const Queue& before, Queue& after) {
    Areas outgoing = areas_for(rank, before, OpKind::kSend, kAreasOfSends);
    Areas incoming = areas_for(rank, before, OpKind::kReceive, kAreasOfReceives);
    after.operations.clear();
    for (const Operation& it : before.operations) {
      Operation operation = it;
      for (Place& place : operation.destinations) place = new_place(place);
      for (Place& place : operation.sources) place = new_place(place);
      if (!is_message(it)) {
        after.operations.push_back(std::move(operation));
      } else if (stays_on_node(plan_, rank, it)) {
        pass_on_node(rank, operation, after);
      } else {
        operation.number = message_of(rank, it).number;
        Areas& areas = it.kind == OpKind::kSend ? outgoing : incoming;
        needs_copy(rank, it) ? pass_through(areas.take(), operation, after) : add(operation, after);
      }
    }
    const auto is_copy = [](const Operation& it) { return it.kind == OpKind::kReduce; };
    if (after.engine == Engine::kNet && std::ranges::any_of(after.operations, is_copy)) after.engine = Engine::kCpu;
  }

  static void add(Operation operation, Queue& queue) { queue.operations.push_back(std::move(operation)); }

  // A message by way of a host slot of its rank.
  static void pass_through(int slot, Operation message, Queue& queue) {
    const bool is_send = message.kind == OpKind::kSend;
    Place& end = is_send ? message.sources[0] : message.destinations[0];
    const Place user = std::exchange(end, Place{end.rank, Buffer::kHost, slot});
    const Operation by_way = is_send ? copy(message, end, user) : copy(message, user, end);
    if (is_send) add(by_way, queue);
    add(message, queue);
    if (!is_send) add(by_way, queue);
  }

  // A message within a node.
  void pass_on_node(int rank, const Operation& message, Queue& queue) const {
    const Message& it = message_of(rank, message);
    Operation signal;
    signal.kind = message.kind == OpKind::kSend ? OpKind::kSignal : OpKind::kWait;
    signal.peer_rank = message.peer_rank;
    signal.peer_queue = message.peer_queue;
    signal.number = it.number;
    if (message.kind == OpKind::kReceive) add(signal, queue);
    if (const Place* const end = end_of(message)) {
      add(message.kind == OpKind::kSend ? copy(message, it.inbox, *end) : copy(message, *end, it.inbox), queue);
    }
    if (message.kind == OpKind::kSend) add(signal, queue);
  }

  // At most so many as there are messages of that kind to copy.
  Areas areas_for(int rank, const Queue& queue, OpKind kind, int most) {
    Areas areas;
    for (const Operation& it : queue.operations) {
      if (it.kind != kind || !needs_copy(rank, it)) continue;
      areas.slots = std::max(areas.slots, it.chunks);
      areas.count = std::min(areas.count + 1, most);
    }
    int& slots = result_.ranks[static_cast<size_t>(rank)].host_slots;
    areas.first = std::exchange(slots, slots + areas.count * areas.slots);
    return areas;
  }

  // Whether it is a message between nodes that ends in a buffer of the user.
  bool needs_copy(int rank, const Operation& it) const {
    const Place* const end = is_message(it) && !stays_on_node(plan_, rank, it) ? end_of(it) : nullptr;
    return end != nullptr && !has_slots(end->buffer);
  }

  struct Message {
    int number = -1;  // now; within a node: of the signal that takes its place
    Place inbox;      // within a node
  };

  const Message& message_of(int rank, const Operation& it) const {
    const int receiver = it.kind == OpKind::kSend ? it.peer_rank : rank;
    return messages_[static_cast<size_t>(receiver)][static_cast<size_t>(it.number)];
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
  std::vector<std::vector<bool>> moved_;        // [rank][slot of scratch]
  std::vector<std::vector<int>> numbers_;       // the same: its number now
  std::vector<std::vector<Message>> messages_;  // [receiving rank][message]
};

}  // namespace

bool has_messages_in_host(const Plan& plan) {
  bool are_in_host = true;
  for_each_operation(plan, [&](int rank, const Operation& it) {
    if (!is_message(it)) return;
    const Place* const end = end_of(it);
    are_in_host &= !stays_on_node(plan, rank, it) && (end == nullptr || end->buffer == Buffer::kHost);
  });
  return are_in_host;
}

Plan through_host(const Plan& plan) { return HostDetour(plan).rewrite(); }

}  // namespace plait
