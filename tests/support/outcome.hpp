// How one rank of a test ended, and what a test says about that.
#pragma once

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace plait::test {

struct Outcome {
  enum class End {
    kReturned,    // its function returned
    kError,       // it threw a plait::Error
    kOtherError,  // it threw something else: a test's own require(), or a defect
    kKilled,      // a signal ended the process before it could tell
    kHung,        // it was still running at the limit, and the harness killed it
  };
  End end = End::kReturned;
  ErrorCode code = ErrorCode::kInternal;  // of a plait::Error
  std::string text;                       // of the error
  double seconds = 0;                     // from its start to its end

  bool well() const { return end == End::kReturned; }
};
using Outcomes = std::vector<Outcome>;
using RankBody = std::function<void(int rank)>;

inline std::string describe(const Outcome& outcome) {
  constexpr const char* kEnds[] = {"returned", "error", "other error", "killed by a signal", "hung"};
  std::string text = kEnds[static_cast<int>(outcome.end)];
  if (outcome.end == Outcome::End::kError) text += join(" (", name(outcome.code), ")");
  return join(text, " after ", outcome.seconds, " s: ", outcome.text);
}

inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Calls the body of one rank and catches what it throws.
inline Outcome outcome_of(const RankBody& body, int rank) {
  const auto begin = std::chrono::steady_clock::now();
  Outcome outcome;
  try {
    body(rank);
  } catch (const Error& error) {
    outcome = {Outcome::End::kError, error.code(), error.what()};
  } catch (const std::exception& error) {
    outcome = {Outcome::End::kOtherError, ErrorCode::kInternal, error.what()};
  }
  outcome.seconds = seconds_since(begin);
  return outcome;
}

// Throws if a rank sees an error: assertions of GoogleTest do not leave a forked process.
template <class... Parts>
void require(bool good, const Parts&... what) {
  if (!good) throw std::runtime_error(join("requirement failed: ", what...));
}
// Throws unless `call` throws kInvalidArgument with these words.
template <class MadeCall>
void require_refusal(const std::string& words, const MadeCall& call) {
  try {
    call();
  } catch (const Error& error) {
    require(error.code() == ErrorCode::kInvalidArgument, error.what());
    return require(std::string(error.what()).find(words) != std::string::npos, error.what());
  }
  require(false, "not refused: ", words);
}

// Why this is not an Error with this code and with all of these parts in its text; empty if it is.
inline std::string objection(const Outcome& outcome, ErrorCode code, const std::vector<std::string>& parts) {
  if (outcome.end != Outcome::End::kError) return "is no error: " + describe(outcome);
  if (outcome.code != code) return join("should be '", name(code), "': ", describe(outcome));
  for (const std::string& part : parts) {
    if (outcome.text.find(part) == std::string::npos) return join("does not say \"", part, "\": ", describe(outcome));
  }
  return "";
}

}  // namespace plait::test
