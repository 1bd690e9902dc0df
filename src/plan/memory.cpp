// Checks reads and writes, and finds the races between them.
#include "plan/memory.hpp"

#include <algorithm>

#include "base/figures.hpp"
#include "plan/folded_view.hpp"
#include "plan/whole_view.hpp"

namespace plait {

template <class View>
double Memory<View>::most_bytes(const Plan& plan, const View& view, double reads) {
  constexpr double kReaderBytes = 1.25 * sizeof(Reader);  // with what the deque and the allocator add
  double cells = 0;
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    if (!view.is_there(rank)) continue;
    const double outputs = output_window(plan, rank).count();
    cells += input_window(plan, rank).count() + (plan.in_place ? 2 : 1) * outputs;
    cells += static_cast<double>(plan.ranks[rank].scratch_slots) + plan.ranks[rank].host_slots;
  }
  return sizeof(Cell) * cells + (plan.in_place ? 2 : 1) * kReaderBytes * reads +
         2.0 * sizeof(ChunkWindow) * plan.rank_count();
}

template <class View>
Memory<View>::Memory(const Plan& plan, View& view) : plan_(plan), view_(view) {
  size_t cells = 0;
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    inputs_.push_back(view.is_there(rank) ? input_window(plan, rank) : ChunkWindow{});
    outputs_.push_back(view.is_there(rank) ? output_window(plan, rank) : ChunkWindow{});
    first_cell_.push_back(cells);
    cells = shared(rank) + (plan.in_place ? outputs_[rank].count() : 0);
  }
  cells_.resize(cells);
  give_inputs();
}

template <class View>
void Memory<View>::give_inputs() {
  for (int rank = 0; rank < plan_.rank_count(); ++rank) {
    const AccessRecord call{view_.component_of_rank(rank), 1, -1};
    // Both buffers belong to the user until the call: any operation that touches them has to know that the call was
    // made.
    for (int position = 0; position < outputs_[rank].count(); ++position) {
      cells_[outputs(rank) + position].writer = call;
      if (plan_.in_place) cells_[shared(rank) + position].writer = call;
    }
    for (int position = 0; position < inputs_[rank].count(); ++position) {
      const int chunk = inputs_[rank].chunk_at(position);
      Cell& cell = cells_[first_cell_[rank] + position];
      cell.writer = call;
      cell.written = true;
      cell.value = view_.values().contribution(rank, chunk);
      if (Cell* both = shared_cell({rank, Buffer::kInput, 0}, chunk)) *both = cell;
    }
  }
}

template <class View>
void Memory<View>::add_reader(Cell& cell, const AccessRecord& access) {
  int32_t added = spare_reader_;
  if (added == kNone) {
    added = static_cast<int32_t>(readers_.size());
    readers_.emplace_back();
  } else {
    spare_reader_ = readers_[static_cast<size_t>(added)].next;
  }
  readers_[static_cast<size_t>(added)] = {access, kNone};
  if (cell.first_reader == kNone) {
    cell.first_reader = added;
  } else {
    readers_[static_cast<size_t>(cell.last_reader)].next = added;
  }
  cell.last_reader = added;
}

template <class View>
void Memory<View>::clear_readers(Cell& cell) {
  if (cell.first_reader == kNone) return;
  readers_[static_cast<size_t>(cell.last_reader)].next = spare_reader_;
  spare_reader_ = cell.first_reader;
  cell.first_reader = cell.last_reader = kNone;
}

template <class View>
const typename Memory<View>::AccessRecord* Memory<View>::unheard_reader(const Cell& cell, const Clock& clock,
                                                                        const Shift& shift) const {
  for (int32_t at = cell.first_reader; at != kNone; at = readers_[static_cast<size_t>(at)].next) {
    const AccessRecord& access = readers_[static_cast<size_t>(at)].access;
    if (!before(access, clock, shift)) return &access;
  }
  return nullptr;
}

template <class View>
size_t Memory<View>::index(const Place& place, int chunk) const {
  switch (place.buffer) {
    case Buffer::kInput:
      return first_cell_[place.rank] + inputs_[place.rank].position_of(chunk);
    case Buffer::kOutput:
      return outputs(place.rank) + outputs_[place.rank].position_of(chunk);
    case Buffer::kScratch:
      return slots(place.rank) + place.slot;
    case Buffer::kHost:
      return slots(place.rank) + plan_.ranks[place.rank].scratch_slots + place.slot;
  }
  fail(ErrorCode::kInternal, "unknown buffer ", static_cast<int>(place.buffer));
}

template <class View>
typename Memory<View>::Cell* Memory<View>::shared_cell(const Place& place, int chunk) {
  if (!plan_.in_place || place.buffer == Buffer::kScratch || place.buffer == Buffer::kHost) return nullptr;
  const int position = place.buffer == Buffer::kInput ? shared_position(plan_, place.rank, chunk)
                                                      : outputs_[place.rank].position_of(chunk);
  return position < 0 ? nullptr : &cells_[shared(place.rank) + position];
}

template <class View>
const typename Memory<View>::Cell& Memory<View>::output_cell(int rank, int chunk) const {
  return cells_[outputs(rank) + outputs_[rank].position_of(chunk)];
}

template <class View>
typename Memory<View>::AccessRecord Memory<View>::access_by(const Actor& actor, const Shift& shift) const {
  return {view_.component_to(actor.clock->component(), shift), actor.clock->time(), actor.id.operation};
}

template <class View>
OperationId Memory<View>::id_of(const AccessRecord& access) const {
  OperationId id = view_.queue_at(access.component);
  if (id.queue >= 0) id.operation = access.operation;
  return id;
}

template <class View>
OperationId Memory<View>::id_of(const AccessRecord& access, const Shift& shift) const {
  return id_of({view_.component_from(access.component, shift), access.time, access.operation});
}

template <class View>
typename Memory<View>::Value Memory<View>::read(const Actor& actor, const Place& place, int offset) {
  const int chunk = operation_at(plan_, actor.id).chunk + offset;
  const auto at = view_.located(place, chunk, offset);
  const Value value = read(actor, {cells_[index(at.place, at.chunk)], place, chunk, at.shift, false});
  Cell* shared = shared_cell(at.place, at.chunk);
  if (shared == nullptr) return value;
  const Touched touched{*shared, place, chunk, at.shift, true};
  if (read(actor, touched) != value) {
    refuse(actor, touched, "reads chunk ", chunk, " from ", to_text(place), " after ",
           to_text(id_of(shared->writer, at.shift)), " wrote the output over it");
  }
  return value;
}

template <class View>
typename Memory<View>::Value Memory<View>::read(const Actor& actor, const Touched& it) {
  Cell& cell = it.cell;
  if (!cell.written) {
    refuse(actor, it, "reads chunk ", it.chunk, " from ", to_text(it.place), " before anything was written there");
  }
  if (!before(cell.writer, *actor.clock, it.shift)) {
    refuse(actor, it, "reads chunk ", it.chunk, " from ", to_text(it.place), " without having heard of ",
           cell.writer.operation < 0 ? "the call by " : "the write by ", to_text(id_of(cell.writer, it.shift)));
  }
  const Value value = view_.brought(cell.value, it.shift);
  if (view_.values().chunk(value) != it.chunk) {
    refuse(actor, it, "takes ", to_text(it.place), " for chunk ", it.chunk, ", but it holds chunk ",
           view_.values().chunk(value));
  }
  add_reader(cell, access_by(actor, it.shift));
  return value;
}

template <class View>
void Memory<View>::write(const Actor& actor, const Place& place, int offset, const Value& value) {
  const int chunk = operation_at(plan_, actor.id).chunk + offset;
  const auto at = view_.located(place, chunk, offset);
  write(actor, {cells_[index(at.place, at.chunk)], place, chunk, at.shift, false}, value);
  Cell* shared = shared_cell(at.place, at.chunk);
  if (shared == nullptr || is_left_out(actor, place, *shared, chunk)) return;
  write(actor, {*shared, place, chunk, at.shift, true}, value);
}

template <class View>
bool Memory<View>::is_left_out(const Actor& actor, const Place& destination, const Cell& cell, int chunk) {
  const Operation& operation = operation_at(plan_, actor.id);
  const Engine engine = plan_.ranks[actor.id.rank].queues[actor.id.queue].engine;
  const bool copies = operation.kind == OpKind::kReduce && operation.sources.size() == 1;
  if (plan_.access != Access::kZeroCopy || (engine != Engine::kCopy && engine != Engine::kSm) || !copies) return false;
  const Place& source = operation.sources[0];
  if (source.rank != destination.rank || has_slots(source.buffer)) return false;
  const auto at = view_.located(source, chunk, 0);
  return shared_cell(at.place, at.chunk) == &cell;
}

template <class View>
void Memory<View>::write(const Actor& actor, const Touched& it, const Value& value) {
  Cell& cell = it.cell;
  if (cell.writer.component >= 0 && !before(cell.writer, *actor.clock, it.shift)) {
    refuse(actor, it, "writes chunk ", it.chunk, " to ", to_text(it.place), " without having heard of ",
           cell.writer.operation < 0 ? "the call by " : "the earlier write by ", to_text(id_of(cell.writer, it.shift)));
  }
  if (const AccessRecord* reader = unheard_reader(cell, *actor.clock, it.shift)) {
    refuse(actor, it, "writes chunk ", it.chunk, " to ", to_text(it.place), " while ",
           to_text(id_of(*reader, it.shift)), " may still read it");
  }
  if (it.place.buffer == Buffer::kOutput && reduces(plan_.collective) && view_.values().is_partial(value)) {
    refuse(actor, it, "puts an unfinished reduction of chunk ", it.chunk, " (", view_.values().count(value), " of ",
           counted(plan_.rank_count(), "rank"), ") into ", to_text(it.place),
           "; unfinished reductions belong in scratch or host");
  }
  if (!overwritten_unread_ && !it.in_place && is_unread_store(cell, view_.standing(it.place.rank))) {
    overwritten_unread_ = id_of(cell.writer);
  }
  clear_readers(cell);
  cell.writer = access_by(actor, it.shift);
  cell.written = true;
  cell.value = view_.taken(value, it.shift);
}

template <class View>
void Memory<View>::check_end(int rank, const Clock& end) const {
  check_buffer(rank, first_cell_[rank], inputs_[rank], "input", false, end);
  check_buffer(rank, outputs(rank), outputs_[rank], "output", false, end);
  if (plan_.in_place) check_buffer(rank, shared(rank), outputs_[rank], "output", true, end);
  for (int position = 0; position < outputs_[rank].count(); ++position) {
    check_output(rank, outputs_[rank].chunk_at(position));
  }
}

template <class View>
std::optional<OperationId> Memory<View>::unread_store() const {
  if (overwritten_unread_) return overwritten_unread_;
  for (int rank = 0; rank < plan_.rank_count(); ++rank) {
    for (size_t cell = slots(rank); cell < shared(rank); ++cell) {
      if (is_unread_store(cells_[cell], rank)) return id_of(cells_[cell].writer);
    }
  }
  return std::nullopt;
}

template <class View>
void Memory<View>::check_buffer(int rank, size_t first_cell, const ChunkWindow& window, const char* buffer,
                                bool in_place, const Clock& end) const {
  for (int position = 0; position < window.count(); ++position) {
    const Cell& cell = cells_[first_cell + position];
    const auto refuse_early = [&](const AccessRecord& late, const char* verb) {
      refuse_operation(plan_, in_place, id_of(late), "rank ", rank, " may return before this ", verb, " chunk ",
                       window.chunk_at(position), " of its ", buffer);
    };
    if (const AccessRecord* reader = unheard_reader(cell, end, Shift{})) refuse_early(*reader, "reads");
    if (cell.writer.component >= 0 && !before(cell.writer, end, Shift{})) refuse_early(cell.writer, "writes");
  }
}

template <class View>
void Memory<View>::check_output(int rank, int chunk) const {
  const Cell& cell = output_cell(rank, chunk);
  const auto refuse_output = [&](const auto&... parts) {
    fail(ErrorCode::kInvalidPlan, "plan ", plan_.algorithm, ", rank ", rank, ", chunk ", chunk, ": its output",
         cell.written ? join(", last written by ", to_text(id_of(cell.writer)), ",") : "", " ", parts...);
  };
  if (!cell.written) refuse_output("was never written");
  // read() lets no chunk pass for another. So if nothing is reduced, the only possible value here is the one input that
  // holds this chunk.
  if (!reduces(plan_.collective)) return;
  const auto& values = view_.values();
  if (values.count(cell.value) != plan_.rank_count()) {
    refuse_output("lacks the contribution of rank ", values.first_missing(cell.value));
  }
  // Compare with the first rank that has this chunk: the same expression means the same bits.
  const auto check_order = [&](const Cell& other, int other_rank, const Value& expected) {
    if (values.expression(expected) == values.expression(cell.value)) return;
    refuse_output("was combined in another order than that of rank ", other_rank, " (by ", to_text(id_of(other.writer)),
                  "), so the bits may differ");
  };
  for (int other = 0; other < rank; ++other) {
    if (!outputs_[other].contains(chunk)) continue;
    check_order(output_cell(other, chunk), other, output_cell(other, chunk).value);
    break;
  }
  // Ranks for which this one stands have the images of its values.
  view_.for_each_generator([&](const Shift& shift) {
    const int from = view_.chunk_before(chunk, shift);
    if (!outputs_[rank].contains(from)) return;
    check_order(output_cell(rank, from), view_.image_of_rank(rank, shift),
                view_.brought(output_cell(rank, from).value, shift));
  });
}

template class Memory<WholeView>;
template class Memory<FoldedView>;

}  // namespace plait
