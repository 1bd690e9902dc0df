// From a kernel of the library to its source, to be performed on a CPU. Include this after support/simt_world.hpp.
#pragma once

#include <array>
#include <functional>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "runtime/cuda/kernels/queue_kernel.cuh"
#include "runtime/cuda/kernels/two_shot_kernel.cuh"

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
  return [launch = copy_of<SimpleLaunch>(argument)] { run_simple<type, is_aligned>(launch); };
}
template <class Primitives>
std::function<void()> ll(const void* argument) {
  return [launch = copy_of<LlLaunch>(argument)] { run_ll<Primitives>(launch); };
}
template <class Primitives>
std::function<void()> two_shot_call(const void* argument) {
  return [launch = copy_of<TwoShotLaunch>(argument)] { run_two_shot<Primitives>(launch); };
}

template <DataType type, bool is_aligned>
std::function<void()> two_shot_body_of(const void* function, const void* argument) {
  if (function == two_shot_ll(type, 1, is_aligned)) return two_shot_call<TwoShotLl<type, 1, is_aligned>>(argument);
  if (is_aligned && function == two_shot_ll(type, 2, true)) return two_shot_call<TwoShotLl<type, 2, true>>(argument);
  if (function == two_shot_ll(type, 4, is_aligned)) return two_shot_call<TwoShotLl<type, 4, is_aligned>>(argument);
  if (function == two_shot_ll128(type, 0, is_aligned)) {
    return two_shot_call<typename LinesOf<type, 0, is_aligned>::Primitives>(argument);
  }
  if (function == two_shot_ll128(type, 1, is_aligned)) {
    return two_shot_call<typename LinesOf<type, 1, is_aligned>::Primitives>(argument);
  }
  if (function == two_shot_ll128(type, 2, is_aligned)) {
    return two_shot_call<typename LinesOf<type, 2, is_aligned>::Primitives>(argument);
  }
  if (function == two_shot_ll128(type, 3, is_aligned)) {
    return two_shot_call<typename LinesOf<type, 3, is_aligned>::Primitives>(argument);
  }
  return nullptr;
}

// The one with the source of the library's kernel `function`.
template <DataType type>
std::function<void()> body_of(const void* function, const void* argument) {
  if (function == queue_kernel(Protocol::kSimple, type)) return signals<type, true>(argument);
  if (function == unaligned_kernel(type)) return signals<type, false>(argument);
  if (function == queue_kernel(Protocol::kLl, type)) return ll<LlPrimitives<type>>(argument);
  if (function == queue_kernel(Protocol::kLl128, type)) return ll<Ll128Primitives<type>>(argument);
  if (const auto body = two_shot_body_of<type, true>(function, argument)) return body;
  if (const auto body = two_shot_body_of<type, false>(function, argument)) return body;
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

inline bool is_two_shot(DataType type, const void* function) {
  return function != queue_kernel(Protocol::kSimple, type) && function != unaligned_kernel(type) &&
         function != queue_kernel(Protocol::kLl, type) && function != queue_kernel(Protocol::kLl128, type);
}

// How often each kernel was launched, with so many queues a rank.
using Uses = std::map<std::pair<const void*, unsigned>, int>;

// The kernels that `uses` lacks, a line for each.
inline std::string never_launched(const Uses& uses) {
  std::string names;
  for (const DataType type : kTypes) {
    const auto look_for = [&](const void* kernel, unsigned queues, const std::string& what) {
      if (!uses.contains({kernel, queues})) names += std::string(name(type)) + ", " + what + "\n";
    };
    for (const unsigned queues : {1u, 2u, 3u}) {
      look_for(queue_kernel(Protocol::kSimple, type), queues, "signals, queues: " + std::to_string(queues));
      look_for(unaligned_kernel(type), queues, "unaligned signals, queues: " + std::to_string(queues));
    }
    look_for(queue_kernel(Protocol::kLl, type), 1, "packets of any plan");
    look_for(queue_kernel(Protocol::kLl128, type), 1, "lines of any plan");
    for (const bool is_aligned : {true, false}) {
      const std::string rest = is_aligned ? "" : ", not whole";
      for (const int words : {1, 2, 4}) {
        look_for(two_shot_ll(type, words, is_aligned), 1,
                 "packets of two-shot calls, words of a thread: " + std::to_string(words) + rest);
      }
      for (size_t i = 0; i < std::size(kLinesAtOnce); ++i) {
        look_for(two_shot_ll128(type, i, is_aligned), 1,
                 "lines of two-shot calls, number: " + std::to_string(i) + rest);
      }
    }
  }
  return names;
}

}  // namespace plait::test
