// A work request (NVG-39): the reduce that a CPU asks a persistent kernel for, while the CPU does all else of a plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/reductions.hpp"
#include "base/types.hpp"

namespace plait {

// The actions of the papers' Algorithm 1. TERMINATE (NVG-49) is none of them: it belongs to the queue.
enum class WorkAction : uint8_t {
  kToLocal,         // NVG-45: the sum of GPU buffers goes to a buffer of one GPU
  kToCpu,           // NVG-46: the sum of GPU buffers, and of host memory, goes to host memory
  kToGroup,         // NVG-47: the same goes to buffers of several GPUs
  kGroupBroadcast,  // NVG-48: host memory goes to buffers of GPUs
};
inline constexpr int kWorkActions = 4;
std::string_view name(WorkAction action);

// destinations <- the combination of sources, in their order, over so many elements. Its number is that of the request
// (NVG-40), and its offsets are in the addresses. A kernel copies it as words of 64 bits.
struct alignas(16) WorkRequest {
  static constexpr int kMostPlaces = 32;

  WorkAction action = WorkAction::kToLocal;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  uint8_t destinations = 0;
  uint8_t sources = 0;
  uint8_t result_is_wide = 0;  // 1: the result is a partial one, in elements of the accumulator
  uint16_t divisor = 0;        // of an average, by which the result is divided; 0: none
  uint32_t wide_sources = 0;   // a bit for each source that is such a partial result
  uint32_t unused = 0;
  uint64_t elements = 0;
  std::byte* places[kMostPlaces] = {};  // as the GPU addresses them: destinations, then sources
  uint64_t unused_end = 0;

  std::byte* const* source_places() const { return places + destinations; }
};

// The action that a reduce is, from where its places lie.
struct WorkPlaces {
  int gpu_destinations = 0, host_destinations = 0;
  int gpu_sources = 0, host_sources = 0;
};
WorkAction action_of(const WorkPlaces& places);

}  // namespace plait
