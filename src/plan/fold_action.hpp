// How shifts of nodes move the chunks and slots of a folded plan, so that it can be proved by the few ranks it has.
//
// Ranks that look alike work on other chunks. Where a ring's next rank sends the next piece, a shift by one takes each
// piece to the next. So a shift that adds to a digit of nodes also adds to a digit of chunks, chunk / weight mod
// factor, or leaves chunks alone. Slots are moved in blocks. The largest range of chunks that is ever put at
// neighbouring slots makes a block of them. The block stays where it is, and inside of it slots move as the chunks of
// such a range do. Weights and blocks are found on the operations of the ranks that are there, and of those that shifts
// by one take them to. A second fold, which compares every operation (PlanFold), finds out whether the whole plan is
// invariant under this action.
#pragma once

#include <vector>

#include "plan/node_shifts.hpp"
#include "plan/plan.hpp"

namespace plait {

struct FoldedPlan;

class FoldAction {
 public:
  // Finds it. Throws NotSymmetric where there is none of this form.
  explicit FoldAction(const FoldedPlan& folded);

  // The chunk to which the shift to node `like` takes a chunk, and the chunk that it takes there.
  int chunk(int chunk, int like) const { return moved(chunk, 1, chunks_, like, true); }
  int chunk_before(int chunk, int like) const { return moved(chunk, 1, chunks_, like, false); }
  // The first chunk of the range that the shift takes to this one. Throws NotSymmetric where that is no range.
  int range_before(int chunk, int chunks, int like) const;
  // The slot of the rank that stands for `rank` which the shift takes to that slot of `rank`; and the first of several.
  int slot_before(const Place& place) const;
  int slots_before(const Place& place, int chunks) const;

 private:
  struct ChunkDigit {
    size_t digit;  // of nodes
    int weight, factor;
  };
  struct SlotBlock {
    int first = 0, count = 0;
  };
  struct SlotRange {
    int first = 0, count = 0;
  };
  using SlotRanges = std::vector<SlotRange>;

  void find_weights(const FoldedPlan& folded);
  int weight_of(const FoldedPlan& folded, size_t digit, int generator) const;
  void check_nested() const;
  void find_blocks(const Plan& plan);
  void lay_blocks(SlotRanges ranges, std::vector<SlotBlock>& blocks) const;
  const SlotBlock& block_of(const Place& place) const;
  // Moves the digits that are whole within `of` positions and no smaller than `by` of them.
  int moved(int position, int by, int of, int like, bool forward) const;

  const NodeShifts shifts_;
  const int chunks_;
  std::vector<ChunkDigit> digits_;                      // by weight
  std::vector<std::vector<SlotBlock>> scratch_, host_;  // of each rank that is there: of each slot
};

}  // namespace plait
