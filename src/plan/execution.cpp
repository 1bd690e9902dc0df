// Runs the queues of a plan symbolically. Every signal and message has one sender and one receiver. So what a queue has
// heard of when it goes on does not depend on the order in which the queues are taken here, and one execution stands
// for all.
#include "plan/execution.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include "plan/memory.hpp"
#include "plan/proof_size.hpp"

namespace plait {
namespace {

struct InFlight {  // a signal or message under way
  bool sent = false;
  Clock clock;
  int depth = 0;
  std::vector<ValueTable::Id> values;  // messages
};

struct SymbolicQueue {
  int rank = 0, queue = 0;
  int next = 0;
  int depth = 0;
  bool blocked = false;
  Clock clock;
};

size_t queue_count(const Plan& plan) {
  size_t queues = 0;
  for (const RankPlan& rank : plan.ranks) queues += rank.queues.size();
  return queues;
}

// All queues, each at its start.
std::vector<SymbolicQueue> queues_of(const Plan& plan, ClockStore& clocks) {
  std::vector<SymbolicQueue> queues;
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    for (size_t queue = 0; queue < plan.ranks[rank].queues.size(); ++queue) {
      SymbolicQueue state;
      state.rank = rank;
      state.queue = static_cast<int>(queue);
      state.clock = Clock(clocks, rank, plan.rank_count() + static_cast<int>(queues.size()));
      queues.push_back(std::move(state));
    }
  }
  return queues;
}

std::vector<OperationId> names_of(const std::vector<SymbolicQueue>& queues) {
  std::vector<OperationId> names;
  for (const SymbolicQueue& queue : queues) names.push_back({queue.rank, queue.queue, -1});
  return names;
}

class Execution {
 public:
  Execution(const Plan& plan, const Pairing& pairing, size_t most_clock_bytes);
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
    ValueTable::Id value = ValueTable::kNothing;
    ReduceFacts facts;
  };
  Folded combine_sources(const Actor& actor, const Operation& operation, int offset);
  void check_widths(const SymbolicQueue& queue, const Operation& operation, const ReduceFacts& facts) const;
  void launch(SymbolicQueue& queue, InFlight& it, const OperationId& to);
  void arrive(SymbolicQueue& queue, InFlight& it, const OperationId& from);
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
  ValueTable values_;
  ClockStore clocks_;
  const size_t most_clock_bytes_;
  std::vector<SymbolicQueue> queues_;
  const std::vector<OperationId> queue_names_;
  Memory memory_;
  std::vector<size_t> first_queue_;                        // of each rank in queues_
  std::deque<SymbolicQueue*> ready_;                       // those that can go on
  std::vector<std::vector<InFlight>> signals_, messages_;  // [receiving rank][number]
  PlanReport report_;
};

Execution::Execution(const Plan& plan, const Pairing& pairing, size_t most_clock_bytes)
    : plan_(plan),
      pairing_(pairing),
      values_(plan.rank_count(), static_cast<size_t>(most_values(plan))),
      clocks_(plan.ranks.size(), queue_count(plan)),
      most_clock_bytes_(most_clock_bytes),
      queues_(queues_of(plan, clocks_)),
      queue_names_(names_of(queues_)),
      memory_(plan, values_, queue_names_) {
  size_t queues = 0;
  for (const RankPlan& rank : plan.ranks) {
    first_queue_.push_back(queues);
    queues += rank.queues.size();
    signals_.emplace_back(rank.signals);
    messages_.emplace_back(rank.messages);
    auto& facts = report_.facts.emplace_back();
    for (const Queue& queue : rank.queues) facts.emplace_back(queue.operations.size());
  }
  for (SymbolicQueue& queue : queues_) ready_.push_back(&queue);
}

PlanReport Execution::run() {
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
  static_cast<PlanCounts&>(report_) = count(plan_, pairing_);
  return std::move(report_);
}

bool Execution::advance(SymbolicQueue& queue) {
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

Execution::Folded Execution::combine_sources(const Actor& actor, const Operation& operation, int offset) {
  Folded reduced;
  bool source_was_finished = false;
  for (const Place& place : operation.sources) {
    const ValueTable::Id value = memory_.read(actor, place, offset);
    reduced.facts.source_is_partial.push_back(values_.is_partial(value));
    source_was_finished |= values_.count(value) == plan_.rank_count();
    if (reduced.value == ValueTable::kNothing) {
      reduced.value = value;
      continue;
    }
    const auto combined = values_.combine(reduced.value, value);
    if (combined.repeated_rank >= 0) {
      refuse_operation(plan_, false, actor.id, "adds the contribution of rank ", combined.repeated_rank, " to chunk ",
                       operation.chunk + offset, " twice (again from ", to_text(place), ")");
    }
    reduced.value = combined.value;
  }
  reduced.facts.result_is_partial = values_.is_partial(reduced.value);
  reduced.facts.finishes = !source_was_finished && values_.count(reduced.value) == plan_.rank_count();
  return reduced;
}

void Execution::reduce(SymbolicQueue& queue, const Operation& operation) {
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
void Execution::check_widths(const SymbolicQueue& queue, const Operation& operation, const ReduceFacts& facts) const {
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

void Execution::launch(SymbolicQueue& queue, InFlight& it, const OperationId& to) {
  it.sent = true;
  it.clock = queue.clock;
  it.depth = queue.depth;
  SymbolicQueue& receiver = queue_of(to);
  if (receiver.blocked && receiver.next == to.operation) {
    receiver.blocked = false;
    ready_.push_back(&receiver);
  }
}

void Execution::arrive(SymbolicQueue& queue, InFlight& it, const OperationId& from) {
  queue.clock.hear(std::exchange(it.clock, Clock()));
  if (clocks_.held_bytes() > most_clock_bytes_) refuse_clocks(plan_);
  queue.depth = std::max(queue.depth, it.depth + (from.rank != queue.rank ? 1 : 0));
}

void Execution::send(SymbolicQueue& queue, const Operation& operation) {
  InFlight& message = messages_[operation.peer_rank][operation.number];
  for (int offset = 0; offset < operation.chunks; ++offset) {
    message.values.push_back(memory_.read(actor_of(queue), operation.sources[0], offset));
    if (values_.is_partial(message.values.back()) != values_.is_partial(message.values[0])) {
      refuse(queue, "chunk ", operation.chunk + offset, " is at another stage of its reduction than chunk ",
             operation.chunk, "; split the message");
    }
  }
  if (operation.chunks > 0) {
    const bool partial = values_.is_partial(message.values[0]);
    facts_of(queue) = {{partial}, partial, false};
  }
  launch(queue, message, pairing_.messages[operation.peer_rank][operation.number].to);
}

bool Execution::receive(SymbolicQueue& queue, const Operation& operation) {
  InFlight& message = messages_[queue.rank][operation.number];
  if (!message.sent) return false;
  const OperationId& from = pairing_.messages[queue.rank][operation.number].from;
  arrive(queue, message, from);
  for (int offset = 0; offset < operation.chunks; ++offset) {
    memory_.write(actor_of(queue), operation.destinations[0], offset, message.values[offset]);
  }
  if (operation.chunks > 0) {
    const bool partial = values_.is_partial(message.values[0]);
    facts_of(queue) = {{partial}, partial, false};
  }
  message.values = {};
  return true;
}

void Execution::signal(SymbolicQueue& queue, const Operation& operation) {
  launch(queue, signals_[operation.peer_rank][operation.number],
         pairing_.signals[operation.peer_rank][operation.number].to);
}

bool Execution::wait(SymbolicQueue& queue, const Operation& operation) {
  InFlight& signal = signals_[queue.rank][operation.number];
  if (!signal.sent) return false;
  arrive(queue, signal, pairing_.signals[queue.rank][operation.number].from);
  return true;
}

void Execution::report_deadlock() const {
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

void Execution::finish() {
  for (const SymbolicQueue& queue : queues_) report_.steps = std::max(report_.steps, queue.depth);
  report_.synchronizes = true;
  for (int rank = 0; rank < plan_.rank_count(); ++rank) {
    Clock end(clocks_, rank, -1);
    for (size_t queue = 0; queue < plan_.ranks[rank].queues.size(); ++queue) {
      end.hear(queues_[first_queue_[rank] + queue].clock);
    }
    const int missed = end.first_unknown(plan_.rank_count());
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
  return Execution(plan, pairing, most_clock_bytes).run();
}

}  // namespace plait
