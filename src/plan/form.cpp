// Checks the form of a plan.
#include "plan/form.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>

#include "base/figures.hpp"
#include "plan/conditions.hpp"
#include "plan/fold.hpp"
#include "plan/proof_size.hpp"

namespace plait {
namespace {

// Calls `visit(id, operation)` for every operation.
template <class Visit>
void for_each_operation(const Plan& plan, Visit visit) {
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    const auto& queues = plan.ranks[rank].queues;
    for (size_t queue = 0; queue < queues.size(); ++queue) {
      for (size_t i = 0; i < queues[queue].operations.size(); ++i) {
        visit(OperationId{rank, static_cast<int>(queue), static_cast<int>(i)}, queues[queue].operations[i]);
      }
    }
  }
}

// Checks one operation by itself.
class OperationCheck {
 public:
  OperationCheck(const Plan& plan, const OperationId& at)
      : plan_(plan),
        at_(at),
        operation_(operation_at(plan, at)),
        engine_(plan.ranks[at.rank].queues[at.queue].engine) {}

  void run() const {
    for (const auto* places : {&operation_.sources, &operation_.destinations}) {
      for (const Place& place : *places) {
        if (place.buffer > Buffer::kHost) refuse_nameless("unknown buffer");
      }
    }
    switch (operation_.kind) {
      case OpKind::kReduce:
        return reduce();
      case OpKind::kSend:
        if (carries_nothing()) return empty_message();
        if (operation_.sources.size() != 1 || !operation_.destinations.empty()) refuse("a send has one source");
        return message();
      case OpKind::kReceive:
        if (carries_nothing()) return empty_message();
        if (operation_.destinations.size() != 1 || !operation_.sources.empty()) {
          refuse("a receive has one destination");
        }
        return message();
      case OpKind::kSignal:
      case OpKind::kWait:
        return signal();
    }
    refuse_nameless("unknown kind of operation");
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    refuse_operation(plan_, false, at_, parts...);
  }
  // Refuses an operation that has no text form.
  [[noreturn]] void refuse_nameless(const char* what) const { refuse_plan(plan_, to_text(at_), ": ", what); }

  void reduce() const {
    if (operation_.sources.empty() || operation_.destinations.empty()) {
      refuse("a reduce needs at least one source and one destination");
    }
    if (operation_.peer_rank != -1 || operation_.peer_queue != -1 || operation_.number != -1) {
      refuse(
          "names a rank, a queue or a number, which a reduce has not; its places say whose memory it reads and stores "
          "to");
    }
    if (engine_ == Engine::kNet) refuse("a net queue only sends, receives, signals and waits");
    if (engine_ == Engine::kCopy && (operation_.sources.size() != 1 || operation_.destinations.size() != 1)) {
      refuse("a copy engine copies from one place to one place");
    }
    if (operation_.sources.size() > 1 && !reduces(plan_.collective)) {
      refuse("combines ", operation_.sources.size(), " sources, but ", name(plan_.collective), " reduces nothing");
    }
    places();
    overlaps();
  }

  void message() const {
    check_can_carry();
    places();
    peer();
  }

  bool names_data() const {
    return !operation_.sources.empty() || !operation_.destinations.empty() || operation_.chunk != 0 ||
           operation_.chunks != 0;
  }

  // A barrier moves no data, so messages between its ranks are empty.
  bool carries_nothing() const { return plan_.collective == Collective::kBarrier; }
  void empty_message() const {
    check_can_carry();
    if (names_data()) refuse("a barrier's messages carry nothing, but this one names places or chunks");
    peer();
  }

  void check_can_carry() const {
    if (engine_ == Engine::kSm) refuse("an sm queue cannot send or receive; that takes a net, copy or cpu queue");
  }

  void signal() const {
    if (names_data()) refuse("moves no data, but names places or chunks");
    peer();
    if (plan_.node_of[operation_.peer_rank] != plan_.node_of[at_.rank]) {
      refuse("rank ", operation_.peer_rank, " is on another node; a message signals there");
    }
  }

  void places() const {
    const int64_t last = static_cast<int64_t>(operation_.chunk) + operation_.chunks - 1;
    if (operation_.chunks < 1) refuse("covers ", counted(operation_.chunks, "chunk"), "; at least one is needed");
    if (operation_.chunk < 0 || last >= plan_.chunk_count()) {
      refuse("chunks ", operation_.chunk, "..", last, " are not within the ", counted(plan_.chunk_count(), "chunk"),
             " of the message");
    }
    for (const Place& place : operation_.sources) bounds(place, false);
    for (const Place& place : operation_.destinations) bounds(place, true);
  }

  void bounds(const Place& place, bool store) const {
    if (place.rank < 0 || place.rank >= plan_.rank_count()) {
      refuse("rank ", place.rank, " of ", to_text(place), " does not exist");
    }
    if (has_slots(place.buffer)) {
      slots(place);
    } else {
      window(place, store);
    }
    if (plan_.node_of[place.rank] != plan_.node_of[at_.rank]) {
      refuse(to_text(place), " is on node ", plan_.node_of[place.rank], ", which node ", plan_.node_of[at_.rank],
             " cannot load from or store to; use send and receive");
    }
    if (!has_slots(place.buffer) && plan_.access == Access::kStaged && place.rank != at_.rank) {
      refuse(to_text(place), " is a user buffer of another rank, which a staged plan must not access");
    }
  }

  static std::string text(const ChunkWindow& window) {
    if (window.count() == 0) return "none";
    const int last = window.chunk_at(window.count() - 1);
    if (window.stride == 1 || window.blocks == 1) return join("chunks ", window.first, "..", last);
    return join(window.chunks_per_block, " of every ", window.stride * window.chunks_per_block, " chunks from chunk ",
                window.first, " on");
  }

  void slots(const Place& place) const {
    const RankPlan& owner = plan_.ranks[place.rank];
    const int slots = place.buffer == Buffer::kScratch ? owner.scratch_slots : owner.host_slots;
    const int64_t last = static_cast<int64_t>(place.slot) + operation_.chunks - 1;
    if (place.slot < 0 || last >= slots) {
      refuse("slots ", place.slot, "..", last, " of ", to_text(place), " are not within its ", counted(slots, "slot"),
             " (chunk ", operation_.chunk, " on)");
    }
  }

  void window(const Place& place, bool store) const {
    if (place.slot != 0) refuse("only scratch and host have slots, but ", to_text(place), " names ", place.slot);
    if (store && place.buffer == Buffer::kInput) refuse("stores to ", to_text(place), ", which is only ever read");
    const ChunkWindow window =
        place.buffer == Buffer::kInput ? input_window(plan_, place.rank) : output_window(plan_, place.rank);
    const int missing = window.first_missing(operation_.chunk, operation_.chunks);
    if (missing >= 0) refuse("chunk ", missing, " is not in ", to_text(place), ", which holds ", text(window));
  }

  // The elements of a reduce are processed in any order, so a place may share memory only with itself. The same place
  // may be source and destination, but places that overlap in part would be read after they were written.
  void overlaps() const {
    std::vector<Place> stores = operation_.destinations;
    std::sort(stores.begin(), stores.end());
    for (size_t i = 1; i < stores.size(); ++i) {
      if (!share_slots(stores[i - 1], stores[i])) continue;
      refuse("writes chunk ", operation_.chunk, " on to ", to_text(stores[i - 1]), " and ", to_text(stores[i]),
             ", which ", stores[i - 1] == stores[i] ? "are the same place" : "overlap");
    }
    for (const Place& source : operation_.sources) {
      const auto next = std::lower_bound(stores.begin(), stores.end(), source);
      if (next != stores.end() && *next == source) continue;
      if (next != stores.end()) check_apart(source, *next);
      if (next != stores.begin()) check_apart(source, *std::prev(next));
    }
  }

  void check_apart(const Place& source, const Place& destination) const {
    if (!share_slots(source, destination)) return;
    refuse("source ", to_text(source), " and destination ", to_text(destination), " overlap in part for the ",
           counted(operation_.chunks, "chunk"), " from chunk ", operation_.chunk, " on");
  }

  bool share_slots(const Place& a, const Place& b) const {
    if (a.rank != b.rank || a.buffer != b.buffer) return false;
    const int64_t distance = static_cast<int64_t>(a.slot) - b.slot;
    return std::max(distance, -distance) < operation_.chunks;
  }

  void peer() const {
    const int rank = operation_.peer_rank;
    if (rank < 0 || rank >= plan_.rank_count()) refuse("its peer, rank ", rank, ", does not exist");
    const int queues = static_cast<int>(plan_.ranks[rank].queues.size());
    if (operation_.peer_queue < 0 || operation_.peer_queue >= queues) {
      refuse("queue ", operation_.peer_queue, " of rank ", rank, " does not exist");
    }
  }

  const Plan& plan_;
  const OperationId at_;
  const Operation& operation_;
  const Engine engine_;
};

void check_counts(const Plan& plan, int64_t operations) {
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    const RankPlan& it = plan.ranks[rank];
    for (const auto& [count, what] : {std::pair{it.scratch_slots, "scratch slots"},
                                      {it.host_slots, "host slots"},
                                      {it.signals, "signals"},
                                      {it.messages, "messages"}}) {
      if (count < 0) refuse_plan(plan, "rank ", rank, " counts ", count, " ", what);
    }
    if (std::max(it.signals, it.messages) > operations) {
      refuse_plan(plan, "rank ", rank, " counts ", counted(it.signals, "signal"), " and ",
                  counted(it.messages, "message"), ", more than there are operations in the plan (", operations, ")");
    }
    for (const Queue& queue : it.queues) {
      if (queue.engine > Engine::kNet) refuse_plan(plan, "rank ", rank, " has a queue of an unknown engine");
    }
  }
}

const char* sender_verb(OpKind kind) { return kind == OpKind::kSignal ? "sent" : "sent as a message"; }

// Records one end of a signal or message in `pairs` of its receiver. Refuses numbers that are out of range or used
// twice.
void enter(const Plan& plan, const OperationId& at, std::vector<std::vector<Pair>>& pairs, const char* what) {
  const Operation& operation = operation_at(plan, at);
  const bool sends = operation.kind == OpKind::kSignal || operation.kind == OpKind::kSend;
  const int receiver = sends ? operation.peer_rank : at.rank;
  auto& known = pairs[receiver];
  if (operation.number < 0 || operation.number >= static_cast<int>(known.size())) {
    refuse_operation(plan, false, at, what, " ", operation.number, " is not one of the ", known.size(), " that rank ",
                     receiver, " counts");
  }
  OperationId& end = sends ? known[operation.number].from : known[operation.number].to;
  if (end.rank >= 0) {
    refuse_operation(plan, false, at, what, " ", operation.number, " of rank ", receiver, " is already ",
                     sends ? sender_verb(operation.kind) : "awaited", " by ", to_text(end));
  }
  end = at;
}

void check_pair(const Plan& plan, const Pair& pair, int receiver, size_t number, const char* what) {
  if (pair.from.rank < 0 && pair.to.rank < 0) {
    refuse_plan(plan, what, " ", number, " of rank ", receiver, " is counted but neither sent nor awaited");
  }
  if (pair.from.rank < 0) {
    refuse_operation(plan, false, pair.to, "waits for ever: ", what, " ", number, " of rank ", receiver,
                     " is never sent");
  }
  if (pair.to.rank < 0) {
    refuse_operation(plan, false, pair.from, what, " ", number, " of rank ", receiver, " is never awaited");
  }
  const Operation& sent = operation_at(plan, pair.from);
  const Operation& taken = operation_at(plan, pair.to);
  if (sent.peer_queue != pair.to.queue) {
    refuse_operation(plan, false, pair.from, what, " ", number, " is for queue ", sent.peer_queue, " of rank ",
                     receiver, ", but ", to_text(pair.to), " awaits it");
  }
  if (taken.peer_rank != pair.from.rank || taken.peer_queue != pair.from.queue) {
    refuse_operation(plan, false, pair.to, what, " ", number, " comes from ", to_text(pair.from), ", not from rank ",
                     taken.peer_rank, " queue ", taken.peer_queue);
  }
  if (taken.kind == OpKind::kReceive && (sent.chunk != taken.chunk || sent.chunks != taken.chunks)) {
    refuse_operation(plan, false, pair.to, what, " ", number, ", from ", to_text(pair.from), ", carries ",
                     counted(sent.chunks, "chunk"), " from chunk ", sent.chunk, " on, not ", taken.chunks,
                     " from chunk ", taken.chunk, " on");
  }
}

Pairing match(const Plan& plan) {
  Pairing pairing;
  for (const RankPlan& rank : plan.ranks) {
    pairing.signals.emplace_back(rank.signals);
    pairing.messages.emplace_back(rank.messages);
  }
  for_each_operation(plan, [&](const OperationId& at, const Operation& operation) {
    const bool signal = operation.kind == OpKind::kSignal || operation.kind == OpKind::kWait;
    if (signal) enter(plan, at, pairing.signals, "signal");
    if (!signal && operation.kind != OpKind::kReduce) enter(plan, at, pairing.messages, "message");
  });
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    const auto& signals = pairing.signals[rank];
    const auto& messages = pairing.messages[rank];
    for (size_t i = 0; i < signals.size(); ++i) check_pair(plan, signals[i], rank, i, "signal");
    for (size_t i = 0; i < messages.size(); ++i) check_pair(plan, messages[i], rank, i, "message");
  }
  return pairing;
}

void check_operations(const Plan& plan, int most_ranks = kMaxRanks) {
  check_shape(plan, most_ranks);
  int64_t operations = 0;
  for (const RankPlan& rank : plan.ranks) {
    for (const Queue& queue : rank.queues) operations += static_cast<int64_t>(queue.operations.size());
  }
  if (operations > std::numeric_limits<int>::max()) refuse_plan(plan, "has more than 2^31 operations");
  check_counts(plan, operations);
  for_each_operation(plan, [&](const OperationId& at, const Operation&) { OperationCheck(plan, at).run(); });
}

}  // namespace

Pairing check_form(const Plan& plan) {
  check_operations(plan);
  check_proof_size(plan);
  return match(plan);
}

void check_folded_form(const Plan& plan) { check_operations(plan, kMaxFoldedRanks); }

Pairing check_form_of_any_size(const Plan& plan) {
  check_operations(plan);
  return match(plan);
}

}  // namespace plait
