// The memory on which the verifier lets a plan work. It records what each place holds, who wrote it and who reads it,
// and checks whether the next operation that touches it has heard of them.
//
// It sees ranks, chunks and clocks through a view (whole_view.hpp, folded_view.hpp), so that it serves whole plans and
// folded ones.
//
// If a plan claims to be right in place, each access to a user buffer is checked twice: with input and output in
// separate memory, and with both in the same memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "plan/conditions.hpp"
#include "plan/fault.hpp"
#include "plan/plan.hpp"

namespace plait {

// The operation that touches memory, and all that its queue has heard of.
template <class View>
struct Actor {
  OperationId id;
  const typename View::Clock* clock = nullptr;
};

template <class View>
class Memory {
 public:
  using Value = typename View::Value;
  using Clock = typename View::Clock;
  using Shift = typename View::Shift;
  using Actor = plait::Actor<View>;

  // Keeps references to both.
  Memory(const Plan& plan, View& view);

  // An upper bound on its memory if so many chunks are read from places.
  static double most_bytes(const Plan& plan, const View& view, double reads);

  // Returns what `place` holds of the operation's chunk number `offset`. Refuses a place to which nothing was written,
  // that holds another chunk, that in place no longer holds the input, or whose last write the actor has not heard of.
  Value read(const Actor& actor, const Place& place, int offset);
  // Puts `value` into `place`. Refuses if the actor has not heard of the last write or of a read since then. Also
  // refuses an unfinished reduction in a user's output.
  void write(const Actor& actor, const Place& place, int offset, const Value& value);
  // Checks the end of `rank`: all accesses to its user buffers are over at `end`, and the output is what the collective
  // demands.
  void check_end(int rank, const Clock& end) const;
  // At the end: an operation that has stored in another rank's slots what nobody reads, if there is one.
  std::optional<OperationId> unread_store() const;

 private:
  // In the frame of the rank whose memory it is.
  struct AccessRecord {
    int32_t component = -1;
    int32_t time = 0;
    int32_t operation = -1;
  };
  struct Cell {
    Value value = View::kNothing;
    bool written = false;
    AccessRecord writer;
    int32_t first_reader = kNone, last_reader = kNone;  // since the last write: in readers_
  };
  // One entry of the list of a cell. Most cells have a reader or two, and there are millions of cells.
  struct Reader {
    AccessRecord access;
    int32_t next = kNone;
  };
  static constexpr int32_t kNone = -1;

  // Checks and makes the accesses to one cell, for one of the two ways in which the buffers may lie. `shift` leads from
  // the frame of the rank whose memory it is to the actor's.
  struct Touched {
    Cell& cell;
    const Place& place;
    int chunk;
    Shift shift;
    bool in_place;
  };
  Value read(const Actor& actor, const Touched& it);
  void write(const Actor& actor, const Touched& it, const Value& value);

  void give_inputs();
  void add_reader(Cell& cell, const AccessRecord& access);
  void clear_readers(Cell& cell);
  // Returns the first reader that `clock` has not heard of, or null if it has heard of all.
  const AccessRecord* unheard_reader(const Cell& cell, const Clock& clock, const Shift& shift) const;
  // `place` is that of a rank that is there, with the slot of the chunk.
  size_t index(const Place& place, int chunk) const;
  // A rank's cells: the index at which those of each buffer begin.
  size_t outputs(int rank) const { return first_cell_[rank] + inputs_[rank].count(); }
  size_t slots(int rank) const { return outputs(rank) + outputs_[rank].count(); }
  size_t shared(int rank) const { return slots(rank) + slot_count(rank); }
  size_t slot_count(int rank) const {
    if (!view_.is_there(rank)) return 0;
    return static_cast<size_t>(plan_.ranks[rank].scratch_slots) + static_cast<size_t>(plan_.ranks[rank].host_slots);
  }
  // If input and output share memory: the cell that is in both, or null if the chunk of the place is not shared.
  Cell* shared_cell(const Place& place, int chunk);
  // True if an engine of a GPU would copy a chunk onto itself in a zero-copy plan: such copies are left out. Other
  // engines may store the same bits.
  bool is_left_out(const Actor& actor, const Place& destination, const Cell& cell, int chunk);
  void check_buffer(int rank, size_t first_cell, const ChunkWindow& window, const char* buffer, bool in_place,
                    const Clock& end) const;
  void check_output(int rank, int chunk) const;
  bool before(const AccessRecord& access, const Clock& clock, const Shift& shift) const {
    return clock.knows(view_.component_from(access.component, shift), access.time);
  }
  AccessRecord access_by(const Actor& actor, const Shift& shift) const;
  // Whether another rank than the memory's own stored here, and nobody has read it.
  bool is_unread_store(const Cell& cell, int rank) const {
    return cell.writer.operation >= 0 && cell.first_reader == kNone && id_of(cell.writer).rank != rank;
  }
  OperationId id_of(const AccessRecord& access) const;
  // The operation as the actor sees it.
  OperationId id_of(const AccessRecord& access, const Shift& shift) const;
  const Cell& output_cell(int rank, int chunk) const;

  template <class... Parts>
  [[noreturn]] void refuse(const Actor& actor, const Touched& it, const Parts&... parts) const {
    refuse_operation(plan_, it.in_place, actor.id, parts...);
  }

  const Plan& plan_;
  View& view_;
  std::vector<ChunkWindow> inputs_, outputs_;  // the chunks that the user buffers of each rank hold
  std::vector<size_t> first_cell_;             // of each rank: input, output, scratch, host, and those shared in place
  std::vector<Cell> cells_;
  std::optional<OperationId> overwritten_unread_;  // the first such store that another one came after
  std::deque<Reader> readers_;
  int32_t spare_reader_ = kNone;  // the first of those that no cell has
};

}  // namespace plait
