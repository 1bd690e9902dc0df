// The memory that the verifier lets a plan work on: what each place holds, who wrote it and who reads it, and whether
// the next to touch it has heard of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/fault.hpp"
#include "plan/plan.hpp"
#include "plan/values.hpp"

namespace plait {

// Time is a vector clock with one component a rank and one a lane. A rank's component is 1 from its call on; a lane's
// counts its operations. What happened at (component, time) is known to whoever's clock is at least there.
using Clock = std::vector<int32_t>;
void merge(Clock& into, const Clock& other);

// Who touches memory: one operation, the component of its lane, and all that it has heard of.
struct Actor {
  OperationId id;
  int component = 0;
  const Clock* clock = nullptr;
};

class Memory {
 public:
  // `lane_of` names the lane of each component of the clock behind those of the ranks. Keeps references to all three.
  Memory(const Plan& plan, bool in_place, ValueTable& values, const std::vector<OperationId>& lane_of);

  // What `place` holds of the operation's chunk number `offset`. Refuses places that nothing was written to, that hold
  // another chunk, or whose last write the actor has not heard of.
  ValueTable::Id read(const Actor& actor, const Place& place, int offset);
  // Puts `value` there. Refuses where the actor has not heard of the last write or of a read since then, and refuses
  // unfinished reductions in a caller's output.
  void write(const Actor& actor, const Place& place, int offset, ValueTable::Id value);
  // The end of `rank`: all accesses to the caller's buffers are over at `end`, and the output is the demanded one.
  void check_end(int rank, const Clock& end) const;

 private:
  struct Access {
    int32_t component = -1;
    int32_t time = 0;
    int32_t operation = -1;
  };
  struct Cell {
    ValueTable::Id value = ValueTable::kNothing;
    bool written = false;
    Access writer;
    std::vector<Access> readers;  // since the last write
  };

  void give_inputs();
  size_t index(const Place& place, int chunk, int slot_offset) const;
  void check_output(int rank, int chunk) const;
  bool before(const Access& access, const Clock& clock) const { return clock[access.component] >= access.time; }
  Access access_by(const Actor& actor) const;
  OperationId id_of(const Access& access) const;
  const Cell& output_cell(int rank, int chunk) const { return cells_[first_cell_[rank] + plan_.chunk_count() + chunk]; }

  template <class... Parts>
  [[noreturn]] void refuse(const Actor& actor, const Parts&... parts) const {
    refuse_operation(plan_, in_place_, actor.id, parts...);
  }

  const Plan& plan_;
  const bool in_place_;
  ValueTable& values_;
  const std::vector<OperationId>& lane_of_;
  std::vector<size_t> first_cell_;  // of each rank: input, output, scratch, host follow one another
  std::vector<Cell> cells_;
};

}  // namespace plait
