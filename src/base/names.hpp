// Names as people write them: in any case, with "-", "_" or nothing between words, with the prefix of their library, or
// misspelt.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace plait {

// Keeps small letters and digits, and drops the prefix of NCCL or MPI: "allreduce" for all_reduce, all-reduce,
// AllReduce, ncclAllReduce and MPI_Allreduce. Two names are the same if their simplified forms are.
std::string simplified(std::string_view name);
inline bool same_name(std::string_view a, std::string_view b) { return simplified(a) == simplified(b); }

// The one of `names` that `wanted` probably means: it is one slip of the hand away, or begins alike. Empty if none is
// near.
std::string_view nearest_name(std::string_view wanted, std::span<const std::string_view> names);
// For the end of an error: "; did you mean 'ring'?", or nothing.
std::string did_you_mean(std::string_view wanted, std::span<const std::string_view> names);

}  // namespace plait
