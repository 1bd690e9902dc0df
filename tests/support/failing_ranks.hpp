// Ranks that make calls until one fails, and look closely at how it fails.
#pragma once

#include <atomic>
#include <optional>

#include "api/communicator.hpp"
#include "support/call_buffers.hpp"
#include "support/rank_processes.hpp"

namespace plait::test {

inline constexpr double kFaultTimeout = 1.0;  // PLAIT_TIMEOUT_SEC of these tests
inline constexpr double kMargin = 20.0;       // what a busy machine may add
inline constexpr double kLimit = 60.0;        // the harness ends a test after that

inline Settings fault_settings() {
  Settings settings;
  settings.timeout_seconds = kFaultTimeout;
  settings.bootstrap_timeout_seconds = 30;
  settings.scratch_bytes = 64 * 1024;
  return settings;
}

// A body for ranks in processes of their own: it makes the communicator, calls `body`, and closes the communicator if
// that returns.
using CommunicatorBody = std::function<void(Communicator&)>;
inline RankBody with_communicator(int ranks, const Settings& settings, const CommunicatorBody& body) {
  const UniqueId id = new_id();
  return [=](int rank) {
    Communicator communicator = Communicator::create(id, rank, ranks, settings);
    body(communicator);
    communicator.close();
  };
}

// Makes one call and checks its result: the call may fail, but must not succeed with a wrong result.
inline void call_and_check(Communicator& communicator, const Call& call, int variant = 0) {
  CallBuffers buffers(call, communicator.size(), communicator.rank(), {});
  if (buffers.input() != nullptr) fill_input(call, communicator.size(), communicator.rank(), variant, buffers.input());
  communicator.run(call, buffers.input(), buffers.output());
  require(count_wrong(call, communicator.size(), communicator.rank(), variant, buffers.output()) == 0,
          "a call that succeeded gave a wrong result: ", to_text(call));
}

// The communicator has failed: every later call must fail at once and alike.
inline void require_dead(Communicator& communicator, const Error& failure) {
  for (int i = 0; i < 2; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    try {
      communicator.barrier();
    } catch (const Error& again) {
      require(again.code() == failure.code(), "the next call failed with another code: ", again.what());
      require(std::string(again.what()) == failure.what(), "the next call said '", again.what(), "' instead of '",
              failure.what(), "'");
      require(seconds_since(begin) < kFaultTimeout / 2, "the next call did not fail at once");
      continue;
    }
    require(false, "a call succeeded after: ", failure.what());
  }
}

// Makes calls until one fails in time; checks that the communicator is dead from then on; passes the error on.
inline void call_until_error(Communicator& communicator, const std::function<void(int)>& call) {
  for (int i = 0;; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    try {
      call(i);
    } catch (const Error& failure) {
      const double seconds = seconds_since(begin);
      require(seconds < kFaultTimeout + kMargin, "the error came only after ", seconds, " s: ", failure.what());
      require_dead(communicator, failure);
      throw;
    }
  }
}

// Makes calls until one fails; checks that `again`, which makes another one, fails alike; passes the error on.
inline void call_until_error(const std::function<void()>& again, const std::function<void(int)>& call) {
  for (int i = 0;; ++i) {
    try {
      call(i);
    } catch (const Error& failure) {
      try {
        again();
      } catch (const Error& later) {
        require(std::string(later.what()) == failure.what(), "the next call said '", later.what(), "' instead of '",
                failure.what(), "'");
        throw failure;
      }
      require(false, "a call succeeded after: ", failure.what());
    }
  }
}

// How far each rank is, for a harness that wants to interfere at a certain moment.
struct Progress {
  std::atomic<int> calls[64];
};

inline void sleep_seconds(double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  while (seconds_since(begin) < seconds) ::usleep(static_cast<useconds_t>(1e6 * std::min(0.01, seconds)));
}

inline void sleep_for_ever() {
  for (;;) ::pause();
}

// Waits until the rank has made so many calls, or has ended.
inline void await_calls(const RankProcesses& ranks, const Progress& progress, int rank, int calls) {
  while (progress.calls[rank] < calls && !ranks.has_ended(rank)) ::usleep(200);
}

}  // namespace plait::test
