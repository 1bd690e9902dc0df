// Measures the network of a communicator over hosts before the first call whose plan may depend on it
// (PLAIT_NETWORK_GBITS=auto).
//
// Where Linux lists no RDMA device, nothing tells how fast the network is. Some messages do, in some milliseconds,
// while a plan that sends too many bytes costs as much in each long call. Ranks that make short calls alone never pay,
// nor does who makes a communicator.
//
// The first rank of each host sends a train of messages to that of the next host, all at once, and ranks agree on the
// slowest. All of it are calls of all ranks, so it fails as calls do.
#pragma once

#include <functional>
#include <span>

#include "base/log.hpp"
#include "base/settings.hpp"
#include "runtime/call.hpp"
#include "runtime/host/message_train.hpp"
#include "runtime/hosts.hpp"
#include "tuner/network_rounds.hpp"
#include "tuner/tuner.hpp"

namespace plait {

class MeasuredNetwork {
 public:
  struct Hooks {
    // HostRank::exchange_train().
    std::function<TrainTime(const Call& call, int to, int from, size_t bytes)> exchange;
    // The greatest of each number on all ranks, in its place.
    std::function<void(std::span<double> numbers)> greatest;
  };

  MeasuredNetwork(Tuner& tuner, const Hosts& hosts, int rank, const Logger& log, Hooks hooks);

  // Whether the call's plan may depend on the rate.
  bool is_wanted_for(const Call& call) const;
  // Measures, and tells the tuner. Once is enough.
  void measure(const Call& call);

 private:
  Tuner& tuner_;
  const Logger log_;
  const Hooks hooks_;
  int to_ = -1, from_ = -1;  // of the train of this rank, if it has one
};

// Whether a communicator measures its network: auto is what is asked for, and no device tells.
bool measures_network(const Tuner& tuner, const Hosts& hosts, const Settings& settings);
// Tells the tuner of a rate that the user gave, if there is one for these hosts.
void take_given_network(Tuner& tuner, const Hosts& hosts, const Settings& settings);

}  // namespace plait
