// Ranks of a test as threads: the sanitizers see all of them at once. A rank that hangs is ended by the communicator's
// own timeout, or by the limit that ctest sets.
#pragma once

#include <thread>

#include "api/communicator.hpp"
#include "support/outcome.hpp"

namespace plait::test {

// Calls the body once for each rank, each time in a thread of its own.
inline Outcomes run_threads(int ranks, const RankBody& body) {
  Outcomes outcomes(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] { outcomes[static_cast<size_t>(rank)] = outcome_of(body, rank); });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

// Gives each rank its communicator, which it closes at the end, since ranks that returned have made the same calls.
inline Outcomes run_threads(int ranks, const Settings& settings, const std::function<void(Communicator&)>& body) {
  std::vector<Communicator> communicators = Communicator::in_process(ranks, settings);
  return run_threads(ranks, [&](int rank) {
    Communicator own = std::move(communicators[static_cast<size_t>(rank)]);
    body(own);
    own.close();
  });
}

}  // namespace plait::test
