// Runs the queues of a plan symbolically. Every signal and message has one sender and one receiver. So what a queue has
// heard of when it goes on does not depend on the order in which the queues are taken here, and one execution stands
// for all.
#include "plan/execution.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include "plan/folded_view.hpp"
#include "plan/memory.hpp"
#include "plan/proof_size.hpp"
#include "plan/whole_view.hpp"

namespace plait {
namespace {

template <class View>
struct InFlight {  // a signal or message under way
  bool sent = false;
  typename View::Clock clock;
  int depth = 0;
  std::vector<typename View::Value> values;  // messages
};

template <class View>
struct SymbolicQueue {
  int rank = 0, queue = 0;
  int next = 0;
  int depth = 0;
  bool blocked = false;
  typename View::Clock clock;
};

// All queues of the ranks that are there, each at its start.
template <class View>
std::vector<SymbolicQueue<View>> queues_of(const Plan& plan, View& view) {
  std::vector<SymbolicQueue<View>> queues;
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    if (!view.is_there(rank)) continue;
    for (size_t queue = 0; queue < plan.ranks[rank].queues.size(); ++queue) {
      SymbolicQueue<View>& state = queues.emplace_back();
      state.rank = rank;
      state.queue = static_cast<int>(queue);
      state.clock = view.clock_of(rank, state.queue);
    }
  }
  return queues;
}

template <class View>
class Execution {
 public:
  using Value = typename View::Value;
  using SymbolicQueue = plait::SymbolicQueue<View>;
  using InFlight = plait::InFlight<View>;
  using Actor = plait::Actor<View>;

  Execution(const Plan& plan, const Pairing& pairing, View& view, size_t most_clock_bytes);
  PlanReport run();

 private:
  // Performs the queue's next operation. Returns false if it has to wait.
  bool advance(SymbolicQueue& queue);
  void reduce(SymbolicQueue& queue, const Operation& operation);
  void send(SymbolicQueue& queue, const Operation& operation);
  bool receive(SymbolicQueue& queue, const Operation& operation);
  void signal(SymbolicQueue& queue, const Operation& operation);
  bool wait(SymbolicQueue& queue, const Operation& operation);

  struct Folded {
    Value value = View::kNothing;
    ReduceFacts facts;
  };
  Folded combine_sources(const Actor& actor, const Operation& operation, int offset);
  void check_widths(const SymbolicQueue& queue, const Operation& operation, const ReduceFacts& facts) const;
  void launch(SymbolicQueue& queue, InFlight& it, const OperationId& to);
  void wake(SymbolicQueue& queue, int by_rank);
  void arrive(SymbolicQueue& queue, InFlight& it, const Operation& operation);
  void report_deadlock() const;
  void finish();

  Actor actor_of(const SymbolicQueue& queue) const { return {id_of(queue), &queue.clock}; }
  OperationId id_of(const SymbolicQueue& queue) const { return {queue.rank, queue.queue, queue.next}; }
  const std::vector<Operation>& operations_of(const SymbolicQueue& queue) const {
    return plan_.ranks[queue.rank].queues[queue.queue].operations;
  }
  SymbolicQueue& queue_of(const OperationId& id) { return queues_[first_queue_[id.rank] + id.queue]; }
  ReduceFacts& facts_of(const SymbolicQueue& queue) { return report_.facts[queue.rank][queue.queue][queue.next]; }
  template <class... Parts>
  [[noreturn]] void refuse(const SymbolicQueue& queue, const Parts&... parts) const {
    refuse_operation(plan_, false, id_of(queue), parts...);
  }

  const Plan& plan_;
  const Pairing& pairing_;
  View& view_;
  const size_t most_clock_bytes_;
  std::vector<SymbolicQueue> queues_;
  Memory<View> memory_;
  std::vector<size_t> first_queue_;                        // of each rank in queues_
  std::deque<SymbolicQueue*> ready_;                       // those that can go on
  std::vector<std::vector<InFlight>> signals_, messages_;  // [receiving rank][number]
  PlanReport report_;
};

template <class View>
Execution<View>::Execution(const Plan& plan, const Pairing& pairing, View& view, size_t most_clock_bytes)
    : plan_(plan),
      pairing_(pairing),
      view_(view),
      most_clock_bytes_(most_clock_bytes),
      queues_(queues_of(plan, view)),
      memory_(plan, view) {
  size_t queues = 0;
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    const RankPlan& it = plan.ranks[rank];
    const bool is_there = view.is_there(rank);
    first_queue_.push_back(queues);
    signals_.emplace_back(is_there ? it.signals : 0);
    messages_.emplace_back(is_there ? it.messages : 0);
    auto& facts = report_.facts.emplace_back();
    if (!is_there) continue;
    queues += it.queues.size();
    for (const Queue& queue : it.queues) facts.emplace_back(queue.operations.size());
  }
  for (SymbolicQueue& queue : queues_) ready_.push_back(&queue);
}

template <class View>
PlanReport Execution<View>::run() {
  while (!ready_.empty()) {
    SymbolicQueue& queue = *ready_.front();
    ready_.pop_front();
    const int count = static_cast<int>(operations_of(queue).size());
    while (queue.next < count && !queue.blocked) {
      if (advance(queue)) {
        ++queue.next;
      } else {
        queue.blocked = true;
      }
    }
  }
  report_deadlock();
  finish();
  return std::move(report_);
}

template <class View>
bool Execution<View>::advance(SymbolicQueue& queue) {
  const Operation& operation = operations_of(queue)[queue.next];
  queue.clock.set_time(queue.next + 1);
  switch (operation.kind) {
    case OpKind::kReduce:
      reduce(queue, operation);
      return true;
    case OpKind::kSend:
      send(queue, operation);
      return true;
    case OpKind::kReceive:
      return receive(queue, operation);
    case OpKind::kSignal:
      signal(queue, operation);
      return true;
    case OpKind::kWait:
      return wait(queue, operation);
  }
  fail(ErrorCode::kInternal, "unknown kind of operation ", static_cast<int>(operation.kind));
}

template <class View>
typename Execution<View>::Folded Execution<View>::combine_sources(const Actor& actor, const Operation& operation,
                                                                  int offset) {
  Folded reduced;
  bool source_was_finished = false;
  for (const Place& place : operation.sources) {
    const Value value = memory_.read(actor, place, offset);
    reduced.facts.source_is_partial.push_back(view_.values().is_partial(value));
    source_was_finished |= view_.values().count(value) == plan_.rank_count();
    if (reduced.value == View::kNothing) {
      reduced.value = value;
      continue;
    }
    const auto combined = view_.values().combine(reduced.value, value);
    if (combined.repeated_rank >= 0) {
      refuse_operation(plan_, false, actor.id, "adds the contribution of rank ", combined.repeated_rank, " to chunk ",
                       operation.chunk + offset, " twice (again from ", to_text(place), ")");
    }
    reduced.value = combined.value;
  }
  reduced.facts.result_is_partial = view_.values().is_partial(reduced.value);
  reduced.facts.finishes = !source_was_finished && view_.values().count(reduced.value) == plan_.rank_count();
  return reduced;
}

template <class View>
void Execution<View>::reduce(SymbolicQueue& queue, const Operation& operation) {
  const Actor actor = actor_of(queue);
  ReduceFacts facts;
  for (int offset = 0; offset < operation.chunks; ++offset) {
    const Folded reduced = combine_sources(actor, operation, offset);
    if (offset == 0) {
      facts = reduced.facts;
      check_widths(queue, operation, facts);
    } else if (reduced.facts != facts) {
      refuse(queue, "chunk ", operation.chunk + offset, " is at another stage of its reduction than chunk ",
             operation.chunk, "; split the operation");
    }
    for (const Place& place : operation.destinations) memory_.write(actor, place, offset, reduced.value);
  }
  facts_of(queue) = std::move(facts);
}

// Elements of an unfinished reduction may be wider than the user's type. Then element i of the result is not where
// element i of the source was, and a reduce onto its own source would overwrite elements that are still to be read.
template <class View>
void Execution<View>::check_widths(const SymbolicQueue& queue, const Operation& operation,
                                   const ReduceFacts& facts) const {
  std::vector<Place> changed;  // sources whose elements may differ in width from the result's
  for (size_t i = 0; i < operation.sources.size(); ++i) {
    if ((facts.source_is_partial[i] != 0) != facts.result_is_partial) changed.push_back(operation.sources[i]);
  }
  std::sort(changed.begin(), changed.end());
  for (const Place& place : operation.destinations) {
    if (!std::binary_search(changed.begin(), changed.end(), place)) continue;
    refuse(queue, "writes chunk ", operation.chunk, " onto its source ", to_text(place),
           ", but one of them is an unfinished reduction and the other is not, so that their elements may differ in ",
           "width; use another slot");
  }
}

template <class View>
void Execution<View>::launch(SymbolicQueue& queue, InFlight& it, const OperationId& to) {
  it.sent = true;
  it.clock = queue.clock;
  it.depth = queue.depth;
  SymbolicQueue& receiver = queue_of(to);
  if (receiver.blocked && receiver.next == to.operation) {
    wake(receiver, queue.rank);
  }
}

// A rank goes on as far as it can before the next one's turn: then what it works on is in the caches, while all ranks
// together have more than fits there. In a ring each rank finds what the one before it has sent, and takes many steps.
template <class View>
void Execution<View>::wake(SymbolicQueue& queue, int by_rank) {
  queue.blocked = false;
  if (queue.rank == by_rank) {
    ready_.push_front(&queue);
  } else {
    ready_.push_back(&queue);
  }
}

template <class View>
void Execution<View>::arrive(SymbolicQueue& queue, InFlight& it, const Operation& operation) {
  view_.hear(queue.clock, std::exchange(it.clock, {}), operation.peer_rank);
  if (view_.held_clock_bytes() > most_clock_bytes_) refuse_clocks(plan_);
  queue.depth = std::max(queue.depth, it.depth + (operation.peer_rank != queue.rank ? 1 : 0));
}

template <class View>
void Execution<View>::send(SymbolicQueue& queue, const Operation& operation) {
  const int receiver = view_.standing(operation.peer_rank);
  InFlight& message = messages_[receiver][operation.number];
  for (int offset = 0; offset < operation.chunks; ++offset) {
    message.values.push_back(memory_.read(actor_of(queue), operation.sources[0], offset));
    if (view_.values().is_partial(message.values.back()) != view_.values().is_partial(message.values[0])) {
      refuse(queue, "chunk ", operation.chunk + offset, " is at another stage of its reduction than chunk ",
             operation.chunk, "; split the message");
    }
  }
  if (operation.chunks > 0) {
    const bool partial = view_.values().is_partial(message.values[0]);
    facts_of(queue) = {{partial}, partial, false};
  }
  launch(queue, message, pairing_.messages[receiver][operation.number].to);
}

template <class View>
bool Execution<View>::receive(SymbolicQueue& queue, const Operation& operation) {
  InFlight& message = messages_[queue.rank][operation.number];
  if (!message.sent) return false;
  arrive(queue, message, operation);
  const int sent_chunk = operation_at(plan_, pairing_.messages[queue.rank][operation.number].from).chunk;
  for (int offset = 0; offset < operation.chunks; ++offset) {
    const auto sent = view_.sent_from(operation.peer_rank, operation.chunk + offset);
    const Value& value = message.values.at(static_cast<size_t>(sent.chunk - sent_chunk));
    memory_.write(actor_of(queue), operation.destinations[0], offset, view_.brought(value, sent.shift));
  }
  if (operation.chunks > 0) {
    const bool partial = view_.values().is_partial(message.values[0]);
    facts_of(queue) = {{partial}, partial, false};
  }
  message.values = {};
  return true;
}

template <class View>
void Execution<View>::signal(SymbolicQueue& queue, const Operation& operation) {
  const int waiter = view_.standing(operation.peer_rank);
  launch(queue, signals_[waiter][operation.number], pairing_.signals[waiter][operation.number].to);
}

template <class View>
bool Execution<View>::wait(SymbolicQueue& queue, const Operation& operation) {
  InFlight& signal = signals_[queue.rank][operation.number];
  if (!signal.sent) return false;
  arrive(queue, signal, operation);
  return true;
}

template <class View>
void Execution<View>::report_deadlock() const {
  for (const SymbolicQueue& queue : queues_) {
    if (!queue.blocked) continue;
    const Operation& operation = operations_of(queue)[queue.next];
    const auto& pairs = operation.kind == OpKind::kWait ? pairing_.signals : pairing_.messages;
    const OperationId& from = pairs[queue.rank][operation.number].from;
    const SymbolicQueue& sender = queues_[first_queue_[from.rank] + from.queue];
    if (&sender == &queue) refuse(queue, "waits for ever: what it waits for comes only later, from ", to_text(from));
    refuse(queue, "waits for ever: what it waits for comes from ", to_text(from), ", whose queue waits for ever at `",
           to_text(operations_of(sender)[sender.next]), "`, operation ", sender.next);
  }
}

template <class View>
void Execution<View>::finish() {
  for (const SymbolicQueue& queue : queues_) report_.steps = std::max(report_.steps, queue.depth);
  report_.synchronizes = true;
  for (int rank = 0; rank < plan_.rank_count(); ++rank) {
    if (!view_.is_there(rank)) continue;
    typename View::Clock end = view_.clock_of(rank, -1);
    for (size_t queue = 0; queue < plan_.ranks[rank].queues.size(); ++queue) {
      view_.hear(end, queues_[first_queue_[rank] + queue].clock, rank);
    }
    const int missed = view_.first_unknown(end);
    if (missed < plan_.rank_count()) {
      report_.synchronizes = false;
      if (plan_.collective == Collective::kBarrier) {
        refuse_plan(plan_, "rank ", rank, " may leave the barrier before rank ", missed, " has come");
      }
    }
    memory_.check_end(rank, end);
  }
  report_.unread_store = memory_.unread_store();
}

}  // namespace

PlanReport execute_symbolically(const Plan& plan, const Pairing& pairing, size_t most_clock_bytes) {
  WholeView view(plan, static_cast<size_t>(most_values(plan)));
  PlanReport report = Execution<WholeView>(plan, pairing, view, most_clock_bytes).run();
  static_cast<PlanCounts&>(report) = count(plan, pairing);
  return report;
}

PlanReport execute_symbolically(const FoldedPlan& folded, const FoldAction& action, size_t most_clock_bytes) {
  FoldedView view(folded.plan, folded.fold.shifts(), action);
  return Execution<FoldedView>(folded.plan, folded.fold.pairing(), view, most_clock_bytes).run();
}

}  // namespace plait
