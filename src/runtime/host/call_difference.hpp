// Where ranks have made different calls, in words: as far as their logs tell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/call.hpp"
#include "runtime/host/segment.hpp"

namespace plait {

// One of the two of a status: of calls on host memory, or on GPUs.
using LogOfStatus = CallLog RankStatus::*;

inline constexpr const char* kSameCalls = "all ranks must make the same calls in the same order";

// The first call that two ranks have made differently, of those that both their logs still have.
std::optional<std::string> first_difference(const Segment& segment, LogOfStatus log, int rank, int peer);
// The same of call `number` alone.
std::optional<std::string> difference_at(const Segment& segment, LogOfStatus log, int rank, int peer, uint64_t number);
// The same of two ranks that have made different calls: where their logs no longer tell which, it says that.
std::string describe_difference(const Segment& segment, LogOfStatus log, int rank, int peer);

// "call 5, barrier": the last call of the log's rank, which has made one.
std::string last_call(const CallLog& log);

}  // namespace plait
