// Ranks of one machine on several hosts, as PLAIT_HOST_ID makes them, for tests of what goes over the network.
#pragma once

#include <string>
#include <vector>

#include "runtime/net/open_transport.hpp"
#include "support/failing_ranks.hpp"
#include "support/seed.hpp"

namespace plait::test {

// Why this machine moves nothing between hosts; empty if it does. Asked in a process of its own, since UCX must not be
// in one that forks ranks.
inline std::string missing_network() {
  const Outcome outcome = run_processes(1, kLimit, [](int) { open_transport({"libucp.so.0"}); })[0];
  return outcome.well() ? "" : outcome.text;
}

// The host of each rank, by a number. There are at least two.
inline std::vector<int> random_hosts(Random& random, int ranks) {
  std::vector<int> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back(static_cast<int>(random() % 3));
  if (std::ranges::all_of(hosts, [&](int host) { return host == hosts[0]; })) hosts.back() = hosts[0] + 1;
  return hosts;
}

inline std::string host_name(int host) { return join("host", host); }

// with_communicator() on these hosts.
inline RankBody over_hosts(const std::vector<int>& hosts, Settings settings, const CommunicatorBody& body) {
  const UniqueId id = new_id();
  return [=](int rank) {
    Settings own = settings;
    own.host_id = host_name(hosts[static_cast<size_t>(rank)]);
    Communicator communicator = Communicator::create(id, rank, static_cast<int>(hosts.size()), own);
    body(communicator);
    communicator.close();
  };
}

}  // namespace plait::test
