// Says in words how the calls of two ranks differ, as far as their logs tell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/call.hpp"
#include "runtime/host/segment.hpp"

namespace plait {

// Selects one of the two logs of a status: calls on host memory, or calls on GPUs.
using LogOfStatus = CallLog RankStatus::*;

inline constexpr const char* kSameCalls = "all ranks must make the same calls in the same order";

// Describes the first call that two ranks have made differently, among those that both logs still have.
std::optional<std::string> first_difference(const Segment& segment, LogOfStatus log, int rank, int peer);
// Describes the difference at call `number` alone.
std::optional<std::string> difference_at(const Segment& segment, LogOfStatus log, int rank, int peer, uint64_t number);
// Describes the difference of two ranks at one call.
std::string describe_difference(uint64_t number, int rank, const Call& own, int peer, const Call& theirs);
// Describes the difference of two ranks that have made different calls. If their logs no longer tell which calls, it
// says that.
std::string describe_difference(const Segment& segment, LogOfStatus log, int rank, int peer);

// "call 5, barrier": the last call of a rank that has made at least one.
std::string last_call(const CallLog& log);

}  // namespace plait
