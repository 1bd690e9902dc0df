// From a kernel of the library to its source, to be performed on a CPU. Include this after support/simt_world.hpp.
#pragma once

#include <array>
#include <functional>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "runtime/cuda/lane_kernel.cuh"
#include "runtime/cuda/short_kernel.cuh"

namespace plait::test {

// Words of two, four, eight and one elements; those of bfloat16 are unfinished as float32.
inline constexpr std::array kTypes = {DataType::kInt32, DataType::kBfloat16, DataType::kInt8, DataType::kFloat64};

template <class Launch>
Launch copy_of(const void* argument) {
  return *static_cast<const Launch*>(argument);
}

// A kernel of ours, to be performed with the argument of the library's.
template <DataType type, bool is_aligned>
std::function<void()> signals(const void* argument) {
  return [launch = copy_of<SignalLaunch>(argument)] { run_signals<type, is_aligned>(launch); };
}
template <class Engine>
std::function<void()> flagged(const void* argument) {
  return [launch = copy_of<FlaggedLaunch>(argument)] { run_flagged<Engine>(launch); };
}
template <class Engine>
std::function<void()> short_call(const void* argument) {
  return [launch = copy_of<ShortLaunch>(argument)] { run_short<Engine>(launch); };
}

template <DataType type, bool is_whole>
std::function<void()> short_body_of(const void* function, const void* argument) {
  if (function == short_packets(type, 1, is_whole)) return short_call<ShortPackets<type, 1, is_whole>>(argument);
  if (is_whole && function == short_packets(type, 2, true)) return short_call<ShortPackets<type, 2, true>>(argument);
  if (function == short_packets(type, 4, is_whole)) return short_call<ShortPackets<type, 4, is_whole>>(argument);
  if (function == short_lines(type, 0, is_whole)) {
    return short_call<typename LinesOf<type, 0, is_whole>::Engine>(argument);
  }
  if (function == short_lines(type, 1, is_whole)) {
    return short_call<typename LinesOf<type, 1, is_whole>::Engine>(argument);
  }
  if (function == short_lines(type, 2, is_whole)) {
    return short_call<typename LinesOf<type, 2, is_whole>::Engine>(argument);
  }
  if (function == short_lines(type, 3, is_whole)) {
    return short_call<typename LinesOf<type, 3, is_whole>::Engine>(argument);
  }
  return nullptr;
}

// The one with the source of the library's kernel `function`.
template <DataType type>
std::function<void()> body_of(const void* function, const void* argument) {
  if (function == lane_kernel(Protocol::kSignals, type)) return signals<type, true>(argument);
  if (function == unaligned_kernel(type)) return signals<type, false>(argument);
  if (function == lane_kernel(Protocol::kPackets, type)) return flagged<PacketEngine<type>>(argument);
  if (function == lane_kernel(Protocol::kLines, type)) return flagged<LineEngine<type>>(argument);
  if (const auto body = short_body_of<type, true>(function, argument)) return body;
  if (const auto body = short_body_of<type, false>(function, argument)) return body;
  throw std::logic_error("a kernel that this test does not know");
}

inline std::function<void()> body_of(DataType type, const void* function, const void* argument) {
  switch (type) {
    case DataType::kInt32:
      return body_of<DataType::kInt32>(function, argument);
    case DataType::kBfloat16:
      return body_of<DataType::kBfloat16>(function, argument);
    case DataType::kInt8:
      return body_of<DataType::kInt8>(function, argument);
    case DataType::kFloat64:
      return body_of<DataType::kFloat64>(function, argument);
    default:
      throw std::logic_error("a type that this test does not know");
  }
}

inline bool is_short(DataType type, const void* function) {
  return function != lane_kernel(Protocol::kSignals, type) && function != unaligned_kernel(type) &&
         function != lane_kernel(Protocol::kPackets, type) && function != lane_kernel(Protocol::kLines, type);
}

// How often each kernel was launched, with so many lanes a rank.
using Uses = std::map<std::pair<const void*, unsigned>, int>;

// The kernels that `uses` lacks, a line for each.
inline std::string never_launched(const Uses& uses) {
  std::string names;
  for (const DataType type : kTypes) {
    const auto look_for = [&](const void* kernel, unsigned lanes, const std::string& what) {
      if (!uses.contains({kernel, lanes})) names += std::string(name(type)) + ", " + what + "\n";
    };
    for (const unsigned lanes : {1u, 2u, 3u}) {
      look_for(lane_kernel(Protocol::kSignals, type), lanes, "signals, lanes: " + std::to_string(lanes));
      look_for(unaligned_kernel(type), lanes, "unaligned signals, lanes: " + std::to_string(lanes));
    }
    look_for(lane_kernel(Protocol::kPackets, type), 1, "packets of any plan");
    look_for(lane_kernel(Protocol::kLines, type), 1, "lines of any plan");
    for (const bool is_whole : {true, false}) {
      const std::string rest = is_whole ? "" : ", not whole";
      for (const int words : {1, 2, 4}) {
        look_for(short_packets(type, words, is_whole), 1,
                 "packets of short calls, words of a thread: " + std::to_string(words) + rest);
      }
      for (size_t i = 0; i < std::size(kLinesAtOnce); ++i) {
        look_for(short_lines(type, i, is_whole), 1, "lines of short calls, number: " + std::to_string(i) + rest);
      }
    }
  }
  return names;
}

}  // namespace plait::test
