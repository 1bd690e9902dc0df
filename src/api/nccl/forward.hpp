// The way of a call to the real NCCL: one pointer a function, found at its first call.
#pragma once

#include <atomic>
#include <string_view>
#include <type_traits>

#include "api/nccl/abi_types.h"
#include "api/nccl/thread_state.hpp"

namespace plait::nccl {

enum class Symbol : int;  // every function, in nccl_functions.hpp

struct SymbolFacts {
  const char* name;
  int major, minor;  // the version of NCCL that it came with
};

// The function of the real NCCL; null until its first call. No lock is on a call's way.
std::atomic<void*>& target_of(Symbol symbol);

// Finds it. Null, and this thread's last error says why, where there is no NCCL, or where its version lacks the
// function. `result` then becomes what the call returns.
void* find_target(Symbol symbol, ncclResult_t& result) noexcept;

// A failure of the real NCCL: ncclGetLastError is about it from now on.
void forget_own_error() noexcept;
// A failure of the drop-in or of Plait: ncclGetLastError says `text`.
void remember_own_error(std::string_view text) noexcept;

// Marks calls of this thread as NCCL's own for as long as it lives. They go to NCCL.
class InsideNccl {
 public:
  InsideNccl() { ++thread_state.inside; }
  ~InsideNccl() { --thread_state.inside; }
  InsideNccl(const InsideNccl&) = delete;
  InsideNccl& operator=(const InsideNccl&) = delete;
};
inline bool is_inside_nccl() { return thread_state.inside > 0; }

// The result of a call without a target.
template <class Result>
Result refusal(ncclResult_t result) {
  if constexpr (std::is_same_v<Result, ncclResult_t>) return result;
  if constexpr (std::is_same_v<Result, const char*>) return "";
  if constexpr (!std::is_void_v<Result>) return Result{};
}

template <class Function>
struct Forward;

template <class Result, class... Arguments>
struct Forward<Result(Arguments...)> {
  static Result call(Symbol symbol, Arguments... arguments) {
    void* target = target_of(symbol).load(std::memory_order_acquire);
    if (target == nullptr) [[unlikely]] {
      ncclResult_t result = ncclSuccess;
      target = find_target(symbol, result);
      if (target == nullptr) return refusal<Result>(result);
    }
    const auto function = reinterpret_cast<Result (*)(Arguments...)>(target);
    const InsideNccl inside;
    if constexpr (std::is_same_v<Result, ncclResult_t>) {
      const ncclResult_t result = function(arguments...);
      if (result != ncclSuccess && result != ncclInProgress) [[unlikely]]
        forget_own_error();
      return result;
    } else {
      return function(arguments...);
    }
  }
};

template <class Function, class... Arguments>
auto forward(Symbol symbol, Arguments... arguments) {
  return Forward<Function>::call(symbol, arguments...);
}

}  // namespace plait::nccl
