// Calls by counts for `plait bench`, whose blocks differ in size as much as is asked for.
#pragma once

#include <vector>

#include "bench/measure.hpp"
#include "runtime/buffer_blocks.hpp"

namespace plait {

// Elements of the blocks of each rank: that of rank 0 has `imbalance` times the mean, which is `count`, and the others
// share the rest evenly. `imbalance` is from 1 to the number of ranks.
std::vector<size_t> uneven_counts(int ranks, size_t count, double imbalance);

// Every rank gives rank r a block of that size, or rank r gives one to all or to the root. `count` and root as in Call.
CallByCounts uneven_call(const Call& call, double imbalance, int ranks, int rank);

// As measure(), for such a call. all_to_all in place is not measured: blocks that two ranks exchange differ in size.
std::vector<Measurement> measure_uneven(Communicator& communicator, const std::vector<PeerLibrary*>& peers,
                                        const Call& call, double imbalance, const MeasureOptions& options);

}  // namespace plait
