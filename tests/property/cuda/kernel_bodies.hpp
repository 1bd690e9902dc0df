// Finds the source of a kernel of the library, to run it on a CPU. Include this after support/simt_world.hpp.
#pragma once

#include <array>
#include <functional>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "runtime/cuda/kernels/call_kernels.cuh"

namespace plait::test {

// Types with two, four, eight and one elements per word. Partial results of bfloat16 are float32.
inline constexpr std::array kTypes = {DataType::kInt32, DataType::kBfloat16, DataType::kInt8, DataType::kFloat64};

template <class Launch>
Launch copy_of(const void* argument) {
  return *static_cast<const Launch*>(argument);
}

// A body with the source of the library's kernel `function`, which runs with the same argument.
template <DataType type>
std::function<void()> body_of(const void* function, const void* argument) {
#define PLAIT_BODY(variant, launch_type, ...)                                  \
  if (function == call_kernel(CallKernel::variant, type)) {                    \
    return [launch = copy_of<launch_type>(argument)] { __VA_ARGS__(launch); }; \
  }
  PLAIT_CALL_KERNELS(PLAIT_BODY)
#undef PLAIT_BODY
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

inline bool is_simple(CallKernel kernel) {
  return kernel == CallKernel::kSimpleAligned || kernel == CallKernel::kSimpleAny;
}

inline bool is_long(CallKernel kernel) { return kernel == CallKernel::kLongAligned || kernel == CallKernel::kLongAny; }

inline bool is_two_shot(DataType type, const void* function) {
  const auto is_this = [&](CallKernel kernel) { return function == call_kernel(kernel, type); };
  return !is_this(CallKernel::kSimpleAligned) && !is_this(CallKernel::kSimpleAny) &&
         !is_this(CallKernel::kLongAligned) && !is_this(CallKernel::kLongAny) && !is_this(CallKernel::kLl) &&
         !is_this(CallKernel::kLl128);
}

// How often each kernel was launched, by the number of queues per rank.
using Uses = std::map<std::pair<const void*, unsigned>, int>;

// The kernels that `uses` lacks, one per line.
inline std::string never_launched(const Uses& uses) {
  std::string names;
  for (const DataType type : kTypes) {
    for (const CallKernel kernel : kCallKernels) {
      if (is_long(kernel)) continue;  // see long_plans_on_cpu_test.cpp
      for (unsigned queues = 1; queues <= (is_simple(kernel) ? 3u : 1u); ++queues) {
        if (uses.contains({call_kernel(kernel, type), queues})) continue;
        names += std::string(name(type)) + ", " + name(kernel) + ", queues: " + std::to_string(queues) + "\n";
      }
    }
  }
  return names;
}

}  // namespace plait::test
