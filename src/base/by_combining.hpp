// Takes an operation, which is known when a call is made, to the code compiled for its kind of combining.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include "base/combining.hpp"
#include "base/host_device.hpp"
#include "base/reductions.hpp"

namespace plait {

// Whether `op` combines by this kind.
template <class Kind>
PLAIT_HOST_DEVICE constexpr bool combines_by(ReduceOp op) {
#define PLAIT_OR(value, constant, Combining, ...) || (std::is_same_v<Combining, Kind> && op == ReduceOp::value)
  return false PLAIT_REDUCTIONS(PLAIT_OR);
#undef PLAIT_OR
}

// The combining of `op`, if it is of this kind.
template <class Kind>
PLAIT_HOST_DEVICE constexpr Kind combining_of(ReduceOp op) {
  if constexpr (std::is_empty_v<Kind>) {
    return {};
  } else {
    return {op};
  }
}

namespace of_rows {

#define PLAIT_KIND(value, constant, Combining, ...) Combining{},
using Kinds = decltype(std::tuple{PLAIT_REDUCTIONS(PLAIT_KIND)});
#undef PLAIT_KIND
template <int row>
using Kind = std::tuple_element_t<row, Kinds>;

// Whether code for the kind of this row is due here, of numbers of type T: the first row of a kind stands for all.
template <class T, class Except, int row>
inline constexpr bool kIsDue = []<int... before>(std::integer_sequence<int, before...>) {
  return (std::is_integral_v<T> || kReductions[row].types == ReducedTypes::kAll) &&
         !std::is_same_v<Kind<row>, Except> && (!std::is_same_v<Kind<row>, Kind<before>> && ...);
}(std::make_integer_sequence<int, row>());

template <class T, class Except, int row>
inline constexpr bool kIsLast = []<int... behind>(std::integer_sequence<int, behind...>) {
  return (!kIsDue<T, Except, row + 1 + behind> && ...);
}(std::make_integer_sequence<int, kReduceOpCount - 1 - row>());

}  // namespace of_rows

// use(the combining of `op`), an operation that numbers of type T have. Reductions of one kind share its code, and the
// last kind is not asked for. `Except`: a kind that the caller knows it is not.
template <class T, class Except = void, int row = 0, class Use>
PLAIT_HOST_DEVICE constexpr auto with_combining(ReduceOp op, const Use& use) {
  using Kind = of_rows::Kind<row>;
  if constexpr (!of_rows::kIsDue<T, Except, row>) {
    return with_combining<T, Except, row + 1>(op, use);
  } else if constexpr (of_rows::kIsLast<T, Except, row>) {
    return use(combining_of<Kind>(op));
  } else {
    if (combines_by<Kind>(op)) return use(combining_of<Kind>(op));
    return with_combining<T, Except, row + 1>(op, use);
  }
}

// a (op) b, of two numbers of a type that has the operation.
template <class T>
PLAIT_HOST_DEVICE constexpr T combine_numbers(ReduceOp op, T a, T b) {
  return with_combining<T>(op, [&](auto combining) { return combine_numbers(combining, a, b); });
}

}  // namespace plait
