// What each collective demands: which chunks a rank's buffers cover, and whose contributions must end up in the output.
#pragma once

#include "plan/plan.hpp"

namespace plait {

inline constexpr int kMaxRanks = 1 << 14;
inline constexpr int kMaxChunks = 1 << 24;

// The chunks that the input of `rank` holds. Empty where the rank gives nothing (broadcast: all but the root).
ChunkRange input_window(const Plan& plan, int rank);
// The chunks that the output of `rank` must hold at the end. Empty where it gets nothing (reduce: all but the root).
ChunkRange output_window(const Plan& plan, int rank);
// Checks the shape that the collective demands (blocks, root, ranks); throws kInvalidPlan.
void check_shape(const Plan& plan);

}  // namespace plait
