// Steps that may fail on one rank and then have to fail on all. Each rank tries the step and keeps how it went. The
// ranks exchange that, and all throw the failure of the lowest rank. So no rank goes on where another one has given up.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <vector>

namespace plait {

// How a step went on one rank. Plain bytes of a fixed size, as a bootstrap exchanges them.
struct StepResult {
  int32_t failure = -1;    // an ErrorCode; -1: none
  char reason[1024] = {};  // of the failure, for users of all ranks

  bool has_failed() const { return failure >= 0; }
};

// Tries a step and writes how it went to `result`. A reason begins with `context`, which names the rank, and a colon.
// Returns what the step threw, for a caller that has something else to do with it; null: it succeeded.
std::exception_ptr try_step(StepResult& result, const std::string& context, const std::function<void()>& step);

// Throws the failure, if there is one.
void throw_failure(const StepResult& result);

// The failed result of the lowest rank; null: none has failed. Results may have more fields of their own.
template <class Result>
const Result* first_failure(const std::vector<Result>& results) {
  for (const Result& result : results) {
    if (result.has_failed()) return &result;
  }
  return nullptr;
}

template <class Result>
void throw_first_failure(const std::vector<Result>& results) {
  if (const Result* failed = first_failure(results)) throw_failure(*failed);
}

}  // namespace plait
