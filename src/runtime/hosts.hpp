// The hosts that the ranks of a communicator are on, and how the ranks of each of them meet.
#pragma once

#include <string>
#include <vector>

#include "runtime/bootstrap.hpp"
#include "runtime/host_identity.hpp"
#include "runtime/internet_address.hpp"

namespace plait {

class Hosts {
 public:
  // Ranks that are all on one host.
  explicit Hosts(int ranks) : names_(1), addresses_(1), node_of_(static_cast<size_t>(ranks), 0) {}
  // Collective over the ranks of `bootstrap`. Each says where it is.
  static Hosts meet(Bootstrap& bootstrap, const HostIdentity& own);

  // Hosts have numbers from 0, in the order of their first ranks. They are the nodes of plans.
  int count() const { return static_cast<int>(names_.size()); }
  bool are_one() const { return count() == 1; }
  int node_of(int rank) const { return node_of_[static_cast<size_t>(rank)]; }
  const std::vector<int>& node_of_rank() const { return node_of_; }
  std::vector<int> ranks_of(int node) const;
  // The host's name, for messages to people. Two hosts may have one name.
  const std::string& name(int node) const { return names_[static_cast<size_t>(node)]; }
  // Where other hosts reach it, as ranks have met there; none if they have not.
  const InternetAddress& address(int node) const { return addresses_[static_cast<size_t>(node)]; }

  // Returns a bootstrap of the ranks of this rank's host, in their order, which can pass descriptors. Collective over
  // the ranks of `bootstrap`. In its errors ranks have their numbers among those of the host, and it says so.
  Bootstrap meet_on_host(Bootstrap& bootstrap) const;

 private:
  std::vector<std::string> names_;
  std::vector<InternetAddress> addresses_;
  std::vector<int> node_of_;
};

}  // namespace plait
