// The symbolic execution behind verify().
#include "plan/verifier.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "plan/conditions.hpp"
#include "plan/text.hpp"
#include "plan/values.hpp"

namespace plait {
namespace {

// Time is a vector clock with one component a lane and one a rank; the rank's component is 1 from its call on.
using Clock = std::vector<int32_t>;

void merge(Clock& into, const Clock& other) {
  for (size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], other[i]);
}

// One access: the lane's component of the clock, its time there, and who did it (lane -1: the caller of the rank).
struct Access {
  int component = -1;
  int32_t time = 0;
  int rank = -1;
  int lane = -1;
  int operation = -1;
};

struct Cell {
  ValueTable::Id value = ValueTable::kNothing;
  bool written = false;
  Access writer;
  std::vector<Access> readers;  // since the last write
};

struct InFlight {  // a signal or message on its way
  bool sent = false;
  bool taken = false;
  Clock clock;
  int depth = 0;
  int from_rank = -1, from_lane = -1;
  int to_lane = -1;
  int chunk = 0, chunks = 0;                // messages
  std::vector<ValueTable::Id> values;       // messages
};

class Execution {
 public:
  Execution(const Plan& plan, bool in_place);
  PlanReport run();

 private:
  struct LaneState {
    int rank = 0, lane = 0;
    size_t next = 0;
    int component = 0;
    int depth = 0;
    Clock clock;
  };

  // Performs the lane's next operation; false where it has to wait.
  bool advance(LaneState& lane);
  void fold(LaneState& lane, const Operation& operation);
  void send(LaneState& lane, const Operation& operation);
  bool receive(LaneState& lane, const Operation& operation);
  void signal(LaneState& lane, const Operation& operation);
  bool wait(LaneState& lane, const Operation& operation);

  void check_bounds(const LaneState& lane, const Operation& operation, const Place& place, bool store) const;
  void check_peer(const LaneState& lane, const Operation& operation, int count_at_peer, const char* what) const;
  Cell& cell(const Place& place, const Operation& operation, int offset);
  ValueTable::Id read(LaneState& lane, const Operation& operation, const Place& place, int offset);
  void write(LaneState& lane, const Operation& operation, const Place& place, int offset, ValueTable::Id value);
  bool before(const Access& access, const Clock& clock) const { return clock[access.component] >= access.time; }
  void count_traffic(const LaneState& lane, const Operation& operation);
  void finish();
  void check_output(int rank, const Clock& end);
  void report_deadlock() const;

  template <class... Parts>
  [[noreturn]] void refuse(const LaneState& lane, const Parts&... parts) const {
    const Lane& in_plan = plan_.ranks[lane.rank].lanes[lane.lane];
    fail(ErrorCode::kInvalidPlan, "plan ", plan_.algorithm, in_place_ ? " (in place)" : "", ", rank ", lane.rank,
         ", lane ", lane.lane, " (", name(in_plan.engine), "), operation ", lane.next, " `",
         to_text(in_plan.operations[lane.next]), "`: ", parts...);
  }
  std::string who(const Access& access) const {
    if (access.lane < 0) return join("the caller of rank ", access.rank);
    return join("rank ", access.rank, " lane ", access.lane, " operation ", access.operation);
  }

  const Plan& plan_;
  const bool in_place_;
  const int chunks_;
  ValueTable values_;
  std::vector<LaneState> lanes_;
  std::vector<size_t> first_cell_;  // of each rank: input, output, scratch, host follow one another
  std::vector<Cell> cells_;
  std::vector<std::vector<InFlight>> signals_, messages_;  // [receiving rank][number]
  std::map<std::pair<Endpoint, Endpoint>, int64_t> traffic_;
  PlanReport report_;
};

Execution::Execution(const Plan& plan, bool in_place)
    : plan_(plan), in_place_(in_place), chunks_(plan.chunk_count()), values_(plan.rank_count()) {
  const int ranks = plan.rank_count();
  int component = ranks;
  size_t cells = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const RankPlan& rank_plan = plan.ranks[rank];
    for (size_t lane = 0; lane < rank_plan.lanes.size(); ++lane) {
      lanes_.push_back({rank, static_cast<int>(lane), 0, component++, 0, {}});
    }
    if (rank_plan.scratch_slots < 0 || rank_plan.host_slots < 0 || rank_plan.signals < 0 || rank_plan.messages < 0) {
      fail(ErrorCode::kInvalidPlan, "plan ", plan.algorithm, ", rank ", rank, ": a count of slots, signals or messages",
           " is negative");
    }
    first_cell_.push_back(cells);
    cells += 2 * static_cast<size_t>(chunks_) + rank_plan.scratch_slots + rank_plan.host_slots;
    signals_.emplace_back(rank_plan.signals);
    messages_.emplace_back(rank_plan.messages);
  }
  for (LaneState& lane : lanes_) {
    lane.clock.assign(component, 0);
    lane.clock[lane.rank] = 1;
  }
  cells_.resize(cells);
  for (int rank = 0; rank < ranks; ++rank) {
    const Access caller{rank, 1, rank, -1, -1};
    const ChunkRange input = input_window(plan, rank);
    const ChunkRange output = output_window(plan, rank);
    // Both buffers belong to the caller until the call: whoever touches them has to know that the call was made.
    for (int chunk = output.first; chunk < output.end(); ++chunk) {
      Cell& c = cells_[first_cell_[rank] + chunks_ + chunk];
      c.writer = caller;
    }
    for (int chunk = input.first; chunk < input.end(); ++chunk) {
      const bool shared = in_place && output.contains(chunk);
      Cell& c = cells_[first_cell_[rank] + (shared ? chunks_ : 0) + chunk];
      c.writer = caller;
      c.written = true;
      c.value = values_.contribution(rank, chunk);
    }
  }
  report_.chunks_read.assign(ranks, 0);
  report_.chunks_written.assign(ranks, 0);
  report_.facts.resize(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    for (const Lane& lane : plan.ranks[rank].lanes) report_.facts[rank].emplace_back(lane.operations.size());
  }
}

PlanReport Execution::run() {
  bool moved = true;
  while (moved) {
    moved = false;
    for (LaneState& lane : lanes_) {
      const size_t count = plan_.ranks[lane.rank].lanes[lane.lane].operations.size();
      while (lane.next < count && advance(lane)) {
        ++lane.next;
        moved = true;
      }
    }
  }
  report_deadlock();
  finish();
  for (const auto& [ends, chunks] : traffic_) report_.traffic.push_back({ends.first, ends.second, chunks});
  return std::move(report_);
}

bool Execution::advance(LaneState& lane) {
  const Operation& operation = plan_.ranks[lane.rank].lanes[lane.lane].operations[lane.next];
  ++lane.clock[lane.component];
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
  refuse(lane, "unknown kind of operation");
}

void Execution::check_bounds(const LaneState& lane, const Operation& operation, const Place& place,
                             bool store) const {
  if (place.rank < 0 || place.rank >= plan_.rank_count()) {
    refuse(lane, "rank ", place.rank, " of ", to_text(place), " does not exist");
  }
  if (operation.chunks < 1 || operation.chunk < 0 || operation.chunk > chunks_ - operation.chunks) {
    refuse(lane, "chunk ", operation.chunk, " (and ", operation.chunks - 1, " more) is not within the ", chunks_,
           " chunks of the message");
  }
  const RankPlan& owner = plan_.ranks[place.rank];
  if (place.buffer == Buffer::kScratch || place.buffer == Buffer::kHost) {
    const int slots = place.buffer == Buffer::kScratch ? owner.scratch_slots : owner.host_slots;
    if (place.slot < 0 || place.slot > slots - operation.chunks) {
      refuse(lane, "slot ", place.slot, " (and ", operation.chunks - 1, " more) of ", to_text(place),
             " is not within its ", slots, " slots");
    }
  } else {
    if (place.slot != 0) refuse(lane, "only scratch and host have slots, but ", to_text(place), " names ", place.slot);
    if (store && place.buffer == Buffer::kInput) refuse(lane, "stores to ", to_text(place), ", which is only ever read");
    const ChunkRange window =
        place.buffer == Buffer::kInput ? input_window(plan_, place.rank) : output_window(plan_, place.rank);
    if (!window.contains(operation.chunk) || !window.contains(operation.chunk + operation.chunks - 1)) {
      refuse(lane, "chunk ", window.contains(operation.chunk) ? operation.chunk + operation.chunks - 1 : operation.chunk,
             " is not in ", to_text(place), ", which holds ",
             window.count == 0 ? "none" : join("chunks ", window.first, "..", window.end() - 1));
    }
  }
  if (plan_.node_of[place.rank] != plan_.node_of[lane.rank]) {
    refuse(lane, to_text(place), " is on node ", plan_.node_of[place.rank], ", out of load and store reach of node ",
           plan_.node_of[lane.rank], "; use send and receive");
  }
  const bool callers = place.buffer == Buffer::kInput || place.buffer == Buffer::kOutput;
  if (callers && plan_.reach == Reach::kStaged && place.rank != lane.rank) {
    refuse(lane, to_text(place), " belongs to another rank's caller, out of reach in a staged plan");
  }
}

Cell& Execution::cell(const Place& place, const Operation& operation, int offset) {
  size_t index = first_cell_[place.rank];
  const int chunk = operation.chunk + offset;
  switch (place.buffer) {
    case Buffer::kInput:
      index += (in_place_ && output_window(plan_, place.rank).contains(chunk) ? chunks_ : 0) + chunk;
      break;
    case Buffer::kOutput:
      index += chunks_ + chunk;
      break;
    case Buffer::kScratch:
      index += 2 * static_cast<size_t>(chunks_) + place.slot + offset;
      break;
    case Buffer::kHost:
      index += 2 * static_cast<size_t>(chunks_) + plan_.ranks[place.rank].scratch_slots + place.slot + offset;
      break;
  }
  return cells_[index];
}

ValueTable::Id Execution::read(LaneState& lane, const Operation& operation, const Place& place, int offset) {
  Cell& c = cell(place, operation, offset);
  const int chunk = operation.chunk + offset;
  if (!c.written) refuse(lane, "reads chunk ", chunk, " from ", to_text(place), " before anything was written there");
  if (!before(c.writer, lane.clock)) {
    refuse(lane, "reads chunk ", chunk, " from ", to_text(place), " without having heard of the write by ",
           who(c.writer));
  }
  if (values_.chunk(c.value) != chunk) {
    refuse(lane, "takes ", to_text(place), " for chunk ", chunk, ", but it holds chunk ", values_.chunk(c.value));
  }
  c.readers.push_back({lane.component, lane.clock[lane.component], lane.rank, lane.lane, static_cast<int>(lane.next)});
  return c.value;
}

void Execution::write(LaneState& lane, const Operation& operation, const Place& place, int offset,
                      ValueTable::Id value) {
  Cell& c = cell(place, operation, offset);
  const int chunk = operation.chunk + offset;
  if (c.writer.component >= 0 && !before(c.writer, lane.clock)) {
    refuse(lane, "writes chunk ", chunk, " to ", to_text(place), " without having heard of ",
           c.writer.lane < 0 ? "the call by " : "the earlier write by ", who(c.writer));
  }
  for (const Access& reader : c.readers) {
    if (!before(reader, lane.clock)) {
      refuse(lane, "writes chunk ", chunk, " to ", to_text(place), " while ", who(reader), " may still read it");
    }
  }
  const bool callers = place.buffer == Buffer::kOutput;
  if (callers && reduces(plan_.collective) && values_.is_partial(value)) {
    refuse(lane, "puts an unfinished reduction of chunk ", chunk, " (", values_.count(value), " of ",
           plan_.rank_count(), " ranks) into ", to_text(place), "; unfinished reductions belong into scratch or host");
  }
  c.readers.clear();
  c.writer = {lane.component, lane.clock[lane.component], lane.rank, lane.lane, static_cast<int>(lane.next)};
  c.written = true;
  c.value = value;
}

void Execution::fold(LaneState& lane, const Operation& operation) {
  if (operation.sources.empty() || operation.destinations.empty()) {
    refuse(lane, "a fold needs at least one source and one destination");
  }
  if (plan_.ranks[lane.rank].lanes[lane.lane].engine == Engine::kCopy &&
      (operation.sources.size() != 1 || operation.destinations.size() != 1)) {
    refuse(lane, "a copy engine copies from one place to one place");
  }
  for (const Place& place : operation.sources) check_bounds(lane, operation, place, false);
  for (const Place& place : operation.destinations) check_bounds(lane, operation, place, true);
  if (operation.sources.size() > 1 && !reduces(plan_.collective)) {
    refuse(lane, "combines ", operation.sources.size(), " sources, but ", name(plan_.collective), " reduces nothing");
  }
  FoldFacts facts;
  for (int offset = 0; offset < operation.chunks; ++offset) {
    FoldFacts here;
    ValueTable::Id result = ValueTable::kNothing;
    bool source_was_finished = false;
    for (const Place& place : operation.sources) {
      const ValueTable::Id value = read(lane, operation, place, offset);
      here.source_is_partial.push_back(values_.is_partial(value));
      source_was_finished |= values_.count(value) == plan_.rank_count();
      if (result == ValueTable::kNothing) {
        result = value;
        continue;
      }
      const auto combined = values_.combine(result, value);
      if (combined.repeated_rank >= 0) {
        refuse(lane, "adds the contribution of rank ", combined.repeated_rank, " to chunk ", operation.chunk + offset,
               " twice (again from ", to_text(place), ")");
      }
      result = combined.value;
    }
    here.result_is_partial = values_.is_partial(result);
    here.finishes = !source_was_finished && values_.count(result) == plan_.rank_count();
    for (const Place& place : operation.destinations) write(lane, operation, place, offset, result);
    if (offset > 0 && (here.source_is_partial != facts.source_is_partial ||
                       here.result_is_partial != facts.result_is_partial || here.finishes != facts.finishes)) {
      refuse(lane, "chunk ", operation.chunk + offset, " is at another stage of its reduction than chunk ",
             operation.chunk, "; split the operation");
    }
    facts = std::move(here);
  }
  report_.facts[lane.rank][lane.lane][lane.next] = std::move(facts);
  count_traffic(lane, operation);
}

void Execution::count_traffic(const LaneState& lane, const Operation& operation) {
  report_.chunks_read[lane.rank] += static_cast<int64_t>(operation.sources.size()) * operation.chunks;
  report_.chunks_written[lane.rank] += static_cast<int64_t>(operation.destinations.size()) * operation.chunks;
  const Engine engine = plan_.ranks[lane.rank].lanes[lane.lane].engine;
  const auto endpoint = [](const Place& place) { return Endpoint{place.rank, place.buffer == Buffer::kHost}; };
  const auto add = [&](Endpoint from, Endpoint to) {
    if (from != to) traffic_[{from, to}] += operation.chunks;
  };
  if (engine == Engine::kCopy) {  // the bytes do not pass through the rank's own memory
    add(endpoint(operation.sources[0]), endpoint(operation.destinations[0]));
    return;
  }
  const Endpoint processor{lane.rank, false};
  for (const Place& place : operation.sources) add(endpoint(place), processor);
  for (const Place& place : operation.destinations) add(processor, endpoint(place));
}

void Execution::check_peer(const LaneState& lane, const Operation& operation, int count_at_peer,
                           const char* what) const {
  if (operation.peer_rank < 0 || operation.peer_rank >= plan_.rank_count()) {
    refuse(lane, "rank ", operation.peer_rank, " does not exist");
  }
  const int lanes = static_cast<int>(plan_.ranks[operation.peer_rank].lanes.size());
  if (operation.peer_lane < 0 || operation.peer_lane >= lanes) {
    refuse(lane, "lane ", operation.peer_lane, " of rank ", operation.peer_rank, " does not exist");
  }
  if (operation.number < 0 || operation.number >= count_at_peer) {
    refuse(lane, what, " ", operation.number, " is not one of the ", count_at_peer, " that the receiver knows");
  }
}

void Execution::send(LaneState& lane, const Operation& operation) {
  if (operation.sources.size() != 1) refuse(lane, "a send has one source");
  check_bounds(lane, operation, operation.sources[0], false);
  const bool peer_exists = operation.peer_rank >= 0 && operation.peer_rank < plan_.rank_count();
  check_peer(lane, operation, peer_exists ? plan_.ranks[operation.peer_rank].messages : 0, "message");
  InFlight& message = messages_[operation.peer_rank][operation.number];
  if (message.sent) refuse(lane, "message ", operation.number, " of rank ", operation.peer_rank, " is sent twice");
  message = {true, false, {}, lane.depth, lane.rank, lane.lane, operation.peer_lane, operation.chunk,
             operation.chunks, {}};
  for (int offset = 0; offset < operation.chunks; ++offset) {
    const ValueTable::Id value = read(lane, operation, operation.sources[0], offset);
    if (reduces(plan_.collective) && values_.is_partial(value) != values_.is_partial(message.values.empty()
                                                                                          ? value
                                                                                          : message.values[0])) {
      refuse(lane, "chunk ", operation.chunk + offset, " is at another stage of its reduction; split the message");
    }
    message.values.push_back(value);
  }
  message.clock = lane.clock;
  FoldFacts facts;
  facts.source_is_partial = {values_.is_partial(message.values[0])};
  facts.result_is_partial = values_.is_partial(message.values[0]);
  report_.facts[lane.rank][lane.lane][lane.next] = facts;
  report_.chunks_read[lane.rank] += operation.chunks;
}

bool Execution::receive(LaneState& lane, const Operation& operation) {
  if (operation.destinations.size() != 1) refuse(lane, "a receive has one destination");
  check_bounds(lane, operation, operation.destinations[0], true);
  check_peer(lane, operation, plan_.ranks[lane.rank].messages, "message");
  InFlight& message = messages_[lane.rank][operation.number];
  if (!message.sent) return false;
  if (message.taken) refuse(lane, "message ", operation.number, " is received twice");
  if (message.from_rank != operation.peer_rank || message.from_lane != operation.peer_lane ||
      message.to_lane != lane.lane) {
    refuse(lane, "message ", operation.number, " comes from rank ", message.from_rank, " lane ", message.from_lane,
           " for lane ", message.to_lane);
  }
  if (message.chunk != operation.chunk || message.chunks != operation.chunks) {
    refuse(lane, "message ", operation.number, " carries ", message.chunks, " chunks from chunk ", message.chunk,
           " on, not ", operation.chunks, " from chunk ", operation.chunk, " on");
  }
  message.taken = true;
  merge(lane.clock, message.clock);
  lane.depth = std::max(lane.depth, message.depth + (message.from_rank != lane.rank ? 1 : 0));
  for (int offset = 0; offset < operation.chunks; ++offset) {
    write(lane, operation, operation.destinations[0], offset, message.values[offset]);
  }
  FoldFacts facts;
  facts.source_is_partial = {values_.is_partial(message.values[0])};
  facts.result_is_partial = values_.is_partial(message.values[0]);
  report_.facts[lane.rank][lane.lane][lane.next] = facts;
  report_.chunks_written[lane.rank] += operation.chunks;
  // Messages are counted where they arrive; the two memories are those the operations name.
  const Operation& sent_as = *std::find_if(
      plan_.ranks[message.from_rank].lanes[message.from_lane].operations.begin(),
      plan_.ranks[message.from_rank].lanes[message.from_lane].operations.end(), [&](const Operation& o) {
        return o.kind == OpKind::kSend && o.peer_rank == lane.rank && o.number == operation.number;
      });
  const Place& from = sent_as.sources[0];
  const Place& to = operation.destinations[0];
  traffic_[{Endpoint{from.rank, from.buffer == Buffer::kHost}, Endpoint{to.rank, to.buffer == Buffer::kHost}}] +=
      operation.chunks;
  return true;
}

void Execution::signal(LaneState& lane, const Operation& operation) {
  const bool peer_exists = operation.peer_rank >= 0 && operation.peer_rank < plan_.rank_count();
  check_peer(lane, operation, peer_exists ? plan_.ranks[operation.peer_rank].signals : 0, "signal");
  if (plan_.node_of[operation.peer_rank] != plan_.node_of[lane.rank]) {
    refuse(lane, "rank ", operation.peer_rank, " is on another node; a message signals there");
  }
  InFlight& signal = signals_[operation.peer_rank][operation.number];
  if (signal.sent) {
    refuse(lane, "signal ", operation.number, " of rank ", operation.peer_rank, " is already sent by rank ",
           signal.from_rank, " lane ", signal.from_lane);
  }
  signal.sent = true;
  signal.clock = lane.clock;
  signal.depth = lane.depth;
  signal.from_rank = lane.rank;
  signal.from_lane = lane.lane;
  signal.to_lane = operation.peer_lane;
}

bool Execution::wait(LaneState& lane, const Operation& operation) {
  check_peer(lane, operation, plan_.ranks[lane.rank].signals, "signal");
  InFlight& signal = signals_[lane.rank][operation.number];
  if (!signal.sent) return false;
  if (signal.taken) refuse(lane, "signal ", operation.number, " is waited for twice");
  if (signal.from_rank != operation.peer_rank || signal.from_lane != operation.peer_lane ||
      signal.to_lane != lane.lane) {
    refuse(lane, "signal ", operation.number, " comes from rank ", signal.from_rank, " lane ", signal.from_lane,
           " for lane ", signal.to_lane);
  }
  signal.taken = true;
  merge(lane.clock, signal.clock);
  signal.clock = Clock();
  lane.depth = std::max(lane.depth, signal.depth + (signal.from_rank != lane.rank ? 1 : 0));
  return true;
}

void Execution::report_deadlock() const {
  for (const LaneState& lane : lanes_) {
    if (lane.next < plan_.ranks[lane.rank].lanes[lane.lane].operations.size()) {
      refuse(lane, "waits for ever: what it waits for is never sent, or only after this");
    }
  }
}

void Execution::finish() {
  for (const LaneState& lane : lanes_) report_.steps = std::max(report_.steps, lane.depth);
  const auto check_awaited = [&](const auto& in_flight, int rank, const char* what) {
    for (size_t number = 0; number < in_flight.size(); ++number) {
      const InFlight& it = in_flight[number];
      if (it.sent && it.taken) continue;
      fail(ErrorCode::kInvalidPlan, "plan ", plan_.algorithm, ": ", what, " ", number, " of rank ", rank,
           it.sent ? join(", sent by rank ", it.from_rank, " lane ", it.from_lane, ", is never awaited")
                   : std::string(" is counted but never sent"));
    }
  };
  report_.synchronizes = true;
  for (int rank = 0; rank < plan_.rank_count(); ++rank) {
    check_awaited(signals_[rank], rank, "signal");
    check_awaited(messages_[rank], rank, "message");
    Clock end(lanes_.empty() ? static_cast<size_t>(plan_.rank_count()) : lanes_[0].clock.size(), 0);
    end[rank] = 1;
    for (const LaneState& lane : lanes_) {
      if (lane.rank == rank) merge(end, lane.clock);
    }
    for (int other = 0; other < plan_.rank_count(); ++other) report_.synchronizes &= end[other] >= 1;
    check_output(rank, end);
  }
  if (plan_.collective == Collective::kBarrier && !report_.synchronizes) {
    fail(ErrorCode::kInvalidPlan, "plan ", plan_.algorithm, ": a rank may leave the barrier before all have come");
  }
}

void Execution::check_output(int rank, const Clock& end) {
  const auto refuse_at = [&](int chunk, const auto&... parts) {
    fail(ErrorCode::kInvalidPlan, "plan ", plan_.algorithm, in_place_ ? " (in place)" : "", ", rank ", rank,
         ", chunk ", chunk, ": ", parts...);
  };
  const ChunkRange output = output_window(plan_, rank);
  for (int chunk = 0; chunk < 2 * chunks_; ++chunk) {
    const Cell& c = cells_[first_cell_[rank] + chunk];
    const char* buffer = chunk < chunks_ ? "input" : "output";
    for (const Access& reader : c.readers) {
      if (!before(reader, end)) {
        refuse_at(chunk % chunks_, "the rank may return while ", who(reader), " still reads its ", buffer);
      }
    }
    if (c.writer.component >= 0 && !before(c.writer, end)) {
      refuse_at(chunk % chunks_, "the rank may return before ", who(c.writer), " wrote its ", buffer);
    }
  }
  for (int chunk = output.first; chunk < output.end(); ++chunk) {
    const Cell& c = cells_[first_cell_[rank] + chunks_ + chunk];
    if (!c.written) refuse_at(chunk, "nothing was written to its output");
    if (values_.chunk(c.value) != chunk) {
      refuse_at(chunk, "its output holds chunk ", values_.chunk(c.value), " instead");
    }
    const int source = required_source(plan_, chunk);
    if (source >= 0) {
      if (!values_.contains(c.value, source)) refuse_at(chunk, "its output is not the input of rank ", source);
      continue;
    }
    if (values_.count(c.value) != plan_.rank_count()) {
      refuse_at(chunk, "its output lacks the contribution of rank ", values_.first_missing(c.value));
    }
    // Compare with the first rank that has this chunk: the same expression means the same bits.
    for (int other = 0; other < rank; ++other) {
      if (!output_window(plan_, other).contains(chunk)) continue;
      const Cell& theirs = cells_[first_cell_[other] + chunks_ + chunk];
      if (values_.expression(theirs.value) != values_.expression(c.value)) {
        refuse_at(chunk, "its output was combined in another order than that of rank ", other,
                  ", so the bits may differ");
      }
      break;
    }
  }
}

}  // namespace

VerifiedPlan verify(Plan plan) {
  check_shape(plan);
  PlanReport report = Execution(plan, false).run();
  if (plan.in_place) Execution(plan, true).run();
  return VerifiedPlan(std::move(plan), std::move(report));
}

}  // namespace plait
