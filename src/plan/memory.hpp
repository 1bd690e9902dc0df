// The memory that the verifier lets a plan work on: what each place holds, who wrote it and who reads it, and whether
// the next to touch it has heard of them.
//
// Where a plan claims to be right in place, each access to a caller's buffer is judged twice: with input and output
// apart, and with both in the same memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "plan/clock.hpp"
#include "plan/conditions.hpp"
#include "plan/fault.hpp"
#include "plan/plan.hpp"
#include "plan/values.hpp"

namespace plait {

// Who touches memory: one operation, and all that its queue has heard of.
struct Actor {
  OperationId id;
  const Clock* clock = nullptr;
};

class Memory {
 public:
  // `queue_of` names the queue of each component of the clock behind those of the ranks. Keeps references to all three.
  Memory(const Plan& plan, ValueTable& values, const std::vector<OperationId>& queue_of);

  // An upper bound on its memory, where so many chunks are read from places.
  static double most_bytes(const Plan& plan, double reads);

  // What `place` holds of the operation's chunk number `offset`. Refuses places that nothing was written to, that hold
  // another chunk or, in place, no longer the input, or whose last write the actor has not heard of.
  ValueTable::Id read(const Actor& actor, const Place& place, int offset);
  // Puts `value` there. Refuses where the actor has not heard of the last write or of a read since then, and refuses
  // unfinished reductions in a caller's output.
  void write(const Actor& actor, const Place& place, int offset, ValueTable::Id value);
  // The end of `rank`: all accesses to the caller's buffers are over at `end`, and the output is the demanded one.
  void check_end(int rank, const Clock& end) const;
  // At the end: an operation that has stored in another rank's slots what nobody reads, if there is one.
  std::optional<OperationId> unread_store() const;

 private:
  struct AccessRecord {
    int32_t component = -1;
    int32_t time = 0;
    int32_t operation = -1;
  };
  struct Cell {
    ValueTable::Id value = ValueTable::kNothing;
    bool written = false;
    AccessRecord writer;
    std::vector<AccessRecord> readers;  // since the last write
  };

  // Judges and makes the accesses to one cell, in one of the two ways the buffers may lie.
  struct Touched {
    Cell& cell;
    const Place& place;
    int chunk;
    bool in_place;
  };
  ValueTable::Id read(const Actor& actor, const Touched& it);
  void write(const Actor& actor, const Touched& it, ValueTable::Id value);

  void give_inputs();
  size_t index(const Place& place, int chunk, int slot_offset) const;
  // A rank's cells: where those of each buffer begin.
  size_t outputs(int rank) const { return first_cell_[rank] + inputs_[rank].count(); }
  size_t slots(int rank) const { return outputs(rank) + outputs_[rank].count(); }
  size_t shared(int rank) const { return slots(rank) + plan_.ranks[rank].scratch_slots + plan_.ranks[rank].host_slots; }
  // Where input and output share memory: the cell of both, or null where the chunk of the place is not shared.
  Cell* shared_cell(const Place& place, int chunk);
  // True where an engine of a GPU that reaches into buffers would copy a chunk onto itself: nobody asks it to. Other
  // engines may store the same bits.
  bool is_left_out(const Actor& actor, const Cell& destination, int chunk);
  void check_buffer(int rank, size_t first_cell, const ChunkWindow& window, const char* buffer, bool in_place,
                    const Clock& end) const;
  void check_output(int rank, int chunk) const;
  bool before(const AccessRecord& access, const Clock& clock) const {
    return clock.knows(access.component, access.time);
  }
  AccessRecord access_by(const Actor& actor) const;
  // By another rank than that whose memory it is.
  bool is_unread_store(const Cell& cell, int rank) const {
    return cell.writer.operation >= 0 && cell.readers.empty() && id_of(cell.writer).rank != rank;
  }
  OperationId id_of(const AccessRecord& access) const;
  const Cell& output_cell(int rank, int chunk) const;

  template <class... Parts>
  [[noreturn]] void refuse(const Actor& actor, const Touched& it, const Parts&... parts) const {
    refuse_operation(plan_, it.in_place, actor.id, parts...);
  }

  const Plan& plan_;
  ValueTable& values_;
  const std::vector<OperationId>& queue_of_;
  std::vector<ChunkWindow> inputs_, outputs_;  // what the caller's buffers of each rank hold
  std::vector<size_t> first_cell_;             // of each rank: input, output, scratch, host, and in place the shared
  std::vector<Cell> cells_;
  std::optional<OperationId> overwritten_unread_;  // the first such store that another one came after
};

}  // namespace plait
