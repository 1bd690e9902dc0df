// Lanes that run through a plan symbolically. Since every signal and message has one sender and one receiver, what a
// lane has heard of when it goes on does not depend on the order in which the lanes are taken here: one execution
// stands for all.
#include "plan/execution.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "plan/memory.hpp"
#include "plan/proof_size.hpp"

namespace plait {
namespace {

struct InFlight {  // a signal or message on its way
  bool sent = false;
  Clock clock;
  int depth = 0;
  std::vector<ValueTable::Id> values;  // messages
};

struct LaneState {
  int rank = 0, lane = 0;
  int next = 0;
  int depth = 0;
  bool blocked = false;
  Clock clock;
};

size_t lane_count(const Plan& plan) {
  size_t lanes = 0;
  for (const RankPlan& rank : plan.ranks) lanes += rank.lanes.size();
  return lanes;
}

// All lanes, each at the start.
std::vector<LaneState> lanes_of(const Plan& plan, ClockStore& clocks) {
  std::vector<LaneState> lanes;
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    for (size_t lane = 0; lane < plan.ranks[rank].lanes.size(); ++lane) {
      LaneState state;
      state.rank = rank;
      state.lane = static_cast<int>(lane);
      state.clock = Clock(clocks, rank, plan.rank_count() + static_cast<int>(lanes.size()));
      lanes.push_back(std::move(state));
    }
  }
  return lanes;
}

std::vector<OperationId> names_of(const std::vector<LaneState>& lanes) {
  std::vector<OperationId> names;
  for (const LaneState& lane : lanes) names.push_back({lane.rank, lane.lane, -1});
  return names;
}

class Execution {
 public:
  Execution(const Plan& plan, const Pairing& pairing, size_t most_clocks);
  PlanReport run();

 private:
  // Performs the lane's next operation; false where it has to wait.
  bool advance(LaneState& lane);
  void fold(LaneState& lane, const Operation& operation);
  void send(LaneState& lane, const Operation& operation);
  bool receive(LaneState& lane, const Operation& operation);
  void signal(LaneState& lane, const Operation& operation);
  bool wait(LaneState& lane, const Operation& operation);

  struct Folded {
    ValueTable::Id value = ValueTable::kNothing;
    FoldFacts facts;
  };
  Folded combine_sources(const Actor& actor, const Operation& operation, int offset);
  void check_widths(const LaneState& lane, const Operation& operation, const FoldFacts& facts) const;
  void launch(LaneState& lane, InFlight& it, const OperationId& to);
  void arrive(LaneState& lane, InFlight& it, const OperationId& from);
  void count_fold(const LaneState& lane, const Operation& operation);
  void count_traffic(const LaneState& lane, const Operation& operation);
  void report_deadlock() const;
  void finish();

  Actor actor_of(const LaneState& lane) const { return {id_of(lane), &lane.clock}; }
  OperationId id_of(const LaneState& lane) const { return {lane.rank, lane.lane, lane.next}; }
  const std::vector<Operation>& operations_of(const LaneState& lane) const {
    return plan_.ranks[lane.rank].lanes[lane.lane].operations;
  }
  LaneState& lane_of(const OperationId& id) { return lanes_[first_lane_[id.rank] + id.lane]; }
  FoldFacts& facts_of(const LaneState& lane) { return report_.facts[lane.rank][lane.lane][lane.next]; }
  template <class... Parts>
  [[noreturn]] void refuse(const LaneState& lane, const Parts&... parts) const {
    refuse_operation(plan_, false, id_of(lane), parts...);
  }

  const Plan& plan_;
  const Pairing& pairing_;
  ValueTable values_;
  ClockStore clocks_;
  const size_t most_clocks_;
  std::vector<LaneState> lanes_;
  const std::vector<OperationId> lane_names_;
  Memory memory_;
  std::vector<size_t> first_lane_;                         // of each rank in lanes_
  std::deque<LaneState*> ready_;                           // lanes that can go on
  std::vector<std::vector<InFlight>> signals_, messages_;  // [receiving rank][number]
  std::map<std::pair<Endpoint, Endpoint>, int64_t> traffic_;
  PlanReport report_;
};

Execution::Execution(const Plan& plan, const Pairing& pairing, size_t most_clocks)
    : plan_(plan),
      pairing_(pairing),
      values_(plan.rank_count(), static_cast<size_t>(most_values(plan))),
      clocks_(plan.ranks.size(), lane_count(plan)),
      most_clocks_(most_clocks),
      lanes_(lanes_of(plan, clocks_)),
      lane_names_(names_of(lanes_)),
      memory_(plan, values_, lane_names_) {
  size_t lanes = 0;
  for (const RankPlan& rank : plan.ranks) {
    first_lane_.push_back(lanes);
    lanes += rank.lanes.size();
    signals_.emplace_back(rank.signals);
    messages_.emplace_back(rank.messages);
    report_.chunks_read.push_back(0);
    report_.chunks_written.push_back(0);
    auto& facts = report_.facts.emplace_back();
    for (const Lane& lane : rank.lanes) facts.emplace_back(lane.operations.size());
  }
  for (LaneState& lane : lanes_) ready_.push_back(&lane);
}

PlanReport Execution::run() {
  while (!ready_.empty()) {
    LaneState& lane = *ready_.front();
    ready_.pop_front();
    const int count = static_cast<int>(operations_of(lane).size());
    while (lane.next < count && !lane.blocked) {
      if (advance(lane)) {
        ++lane.next;
      } else {
        lane.blocked = true;
      }
    }
  }
  report_deadlock();
  finish();
  for (const auto& [ends, chunks] : traffic_) report_.traffic.push_back({ends.first, ends.second, chunks});
  return std::move(report_);
}

bool Execution::advance(LaneState& lane) {
  const Operation& operation = operations_of(lane)[lane.next];
  lane.clock.set_time(lane.next + 1);
  switch (operation.kind) {
    case OpKind::kFold:
      fold(lane, operation);
      return true;
    case OpKind::kSend:
      send(lane, operation);
      return true;
    case OpKind::kReceive:
      return receive(lane, operation);
    case OpKind::kSignal:
      signal(lane, operation);
      return true;
    case OpKind::kWait:
      return wait(lane, operation);
  }
  fail(ErrorCode::kInternal, "unknown kind of operation ", static_cast<int>(operation.kind));
}

Execution::Folded Execution::combine_sources(const Actor& actor, const Operation& operation, int offset) {
  Folded folded;
  bool source_was_finished = false;
  for (const Place& place : operation.sources) {
    const ValueTable::Id value = memory_.read(actor, place, offset);
    folded.facts.source_is_partial.push_back(values_.is_partial(value));
    source_was_finished |= values_.count(value) == plan_.rank_count();
    if (folded.value == ValueTable::kNothing) {
      folded.value = value;
      continue;
    }
    const auto combined = values_.combine(folded.value, value);
    if (combined.repeated_rank >= 0) {
      refuse_operation(plan_, false, actor.id, "adds the contribution of rank ", combined.repeated_rank, " to chunk ",
                       operation.chunk + offset, " twice (again from ", to_text(place), ")");
    }
    folded.value = combined.value;
  }
  folded.facts.result_is_partial = values_.is_partial(folded.value);
  folded.facts.finishes = !source_was_finished && values_.count(folded.value) == plan_.rank_count();
  return folded;
}

void Execution::fold(LaneState& lane, const Operation& operation) {
  const Actor actor = actor_of(lane);
  FoldFacts facts;
  for (int offset = 0; offset < operation.chunks; ++offset) {
    const Folded folded = combine_sources(actor, operation, offset);
    if (offset == 0) {
      facts = folded.facts;
      check_widths(lane, operation, facts);
    } else if (folded.facts != facts) {
      refuse(lane, "chunk ", operation.chunk + offset, " is at another stage of its reduction than chunk ",
             operation.chunk, "; split the operation");
    }
    for (const Place& place : operation.destinations) memory_.write(actor, place, offset, folded.value);
  }
  facts_of(lane) = std::move(facts);
  count_fold(lane, operation);
}

// Unfinished reductions may be wider than the caller's type. Then element i of the result is not where element i of
// the source was, and a fold onto its own source would overwrite elements that are still to be read.
void Execution::check_widths(const LaneState& lane, const Operation& operation, const FoldFacts& facts) const {
  std::vector<Place> changed;  // sources whose elements may differ in width from those of the result
  for (size_t i = 0; i < operation.sources.size(); ++i) {
    if ((facts.source_is_partial[i] != 0) != facts.result_is_partial) changed.push_back(operation.sources[i]);
  }
  std::sort(changed.begin(), changed.end());
  for (const Place& place : operation.destinations) {
    if (!std::binary_search(changed.begin(), changed.end(), place)) continue;
    refuse(lane, "writes chunk ", operation.chunk, " onto its source ", to_text(place),
           ", but one of them is an unfinished reduction and the other is not, so that their elements may differ in ",
           "width; use another slot");
  }
}

void Execution::count_fold(const LaneState& lane, const Operation& operation) {
  report_.chunks_read[lane.rank] += static_cast<int64_t>(operation.sources.size()) * operation.chunks;
  report_.chunks_written[lane.rank] += static_cast<int64_t>(operation.destinations.size()) * operation.chunks;
  count_traffic(lane, operation);
}

void Execution::count_traffic(const LaneState& lane, const Operation& operation) {
  for (const Transfer& crossing : transfers(plan_, pairing_, id_of(lane))) {
    traffic_[{crossing.from, crossing.to}] += operation.chunks;
  }
}

void Execution::launch(LaneState& lane, InFlight& it, const OperationId& to) {
  it.sent = true;
  it.clock = lane.clock;
  it.depth = lane.depth;
  LaneState& receiver = lane_of(to);
  if (receiver.blocked && receiver.next == to.operation) {
    receiver.blocked = false;
    ready_.push_back(&receiver);
  }
}

void Execution::arrive(LaneState& lane, InFlight& it, const OperationId& from) {
  lane.clock.hear(std::exchange(it.clock, Clock()));
  if (clocks_.held() > most_clocks_) refuse_clocks(plan_, clocks_.held());
  lane.depth = std::max(lane.depth, it.depth + (from.rank != lane.rank ? 1 : 0));
}

void Execution::send(LaneState& lane, const Operation& operation) {
  InFlight& message = messages_[operation.peer_rank][operation.number];
  for (int offset = 0; offset < operation.chunks; ++offset) {
    message.values.push_back(memory_.read(actor_of(lane), operation.sources[0], offset));
    if (values_.is_partial(message.values.back()) != values_.is_partial(message.values[0])) {
      refuse(lane, "chunk ", operation.chunk + offset, " is at another stage of its reduction than chunk ",
             operation.chunk, "; split the message");
    }
  }
  if (operation.chunks > 0) {
    const bool partial = values_.is_partial(message.values[0]);
    facts_of(lane) = {{partial}, partial, false};
  }
  report_.chunks_read[lane.rank] += operation.chunks;
  launch(lane, message, pairing_.messages[operation.peer_rank][operation.number].to);
}

bool Execution::receive(LaneState& lane, const Operation& operation) {
  InFlight& message = messages_[lane.rank][operation.number];
  if (!message.sent) return false;
  const OperationId& from = pairing_.messages[lane.rank][operation.number].from;
  arrive(lane, message, from);
  for (int offset = 0; offset < operation.chunks; ++offset) {
    memory_.write(actor_of(lane), operation.destinations[0], offset, message.values[offset]);
  }
  if (operation.chunks > 0) {
    const bool partial = values_.is_partial(message.values[0]);
    facts_of(lane) = {{partial}, partial, false};
  }
  message.values = {};
  report_.chunks_written[lane.rank] += operation.chunks;
  count_traffic(lane, operation);
  return true;
}

void Execution::signal(LaneState& lane, const Operation& operation) {
  launch(lane, signals_[operation.peer_rank][operation.number],
         pairing_.signals[operation.peer_rank][operation.number].to);
}

bool Execution::wait(LaneState& lane, const Operation& operation) {
  InFlight& signal = signals_[lane.rank][operation.number];
  if (!signal.sent) return false;
  arrive(lane, signal, pairing_.signals[lane.rank][operation.number].from);
  return true;
}

void Execution::report_deadlock() const {
  for (const LaneState& lane : lanes_) {
    if (!lane.blocked) continue;
    const Operation& operation = operations_of(lane)[lane.next];
    const auto& pairs = operation.kind == OpKind::kWait ? pairing_.signals : pairing_.messages;
    const OperationId& from = pairs[lane.rank][operation.number].from;
    const LaneState& sender = lanes_[first_lane_[from.rank] + from.lane];
    if (&sender == &lane) refuse(lane, "waits for ever: what it waits for comes only later, from ", to_text(from));
    refuse(lane, "waits for ever: what it waits for comes from ", to_text(from), ", whose lane waits for ever at `",
           to_text(operations_of(sender)[sender.next]), "`, operation ", sender.next);
  }
}

void Execution::finish() {
  for (const LaneState& lane : lanes_) report_.steps = std::max(report_.steps, lane.depth);
  report_.synchronizes = true;
  for (int rank = 0; rank < plan_.rank_count(); ++rank) {
    Clock end(clocks_, rank, -1);
    for (size_t lane = 0; lane < plan_.ranks[rank].lanes.size(); ++lane) {
      end.hear(lanes_[first_lane_[rank] + lane].clock);
    }
    for (int other = 0; other < plan_.rank_count(); ++other) {
      if (end.knows(other, 1)) continue;
      report_.synchronizes = false;
      if (plan_.collective == Collective::kBarrier) {
        refuse_plan(plan_, "rank ", rank, " may leave the barrier before rank ", other, " has come");
      }
    }
    memory_.check_end(rank, end);
  }
}

}  // namespace

PlanReport execute_symbolically(const Plan& plan, const Pairing& pairing, size_t most_clocks) {
  return Execution(plan, pairing, most_clocks).run();
}

}  // namespace plait
