#include "runtime/hosts.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "runtime/bootstrap_messages.hpp"

namespace plait {

Hosts Hosts::meet(Bootstrap& bootstrap, const HostIdentity& own) {
  const std::vector<HostIdentity> all = bootstrap.all_gather(own);
  const std::vector<InternetAddress> addresses = bootstrap.all_gather(bootstrap.own_address());
  Hosts hosts(0);
  hosts.names_.clear();
  hosts.addresses_.clear();
  std::vector<HostIdentity> known;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const HostIdentity& host = all[rank];
    const auto found = std::ranges::find_if(known, [&](const auto& it) { return it.is_of_one_host_with(host); });
    const auto node = static_cast<size_t>(found - known.begin());
    hosts.node_of_.push_back(static_cast<int>(node));
    if (found == known.end()) {
      known.push_back(host);
      hosts.names_.push_back(host.name);
      hosts.addresses_.emplace_back();
    }
    if (!hosts.addresses_[node].is_there()) hosts.addresses_[node] = addresses[rank];
  }
  return hosts;
}

std::vector<int> Hosts::ranks_of(int node) const {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < node_of_.size(); ++rank) {
    if (node_of_[rank] == node) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

Bootstrap Hosts::meet_on_host(Bootstrap& bootstrap) const {
  const std::vector<int> ranks = ranks_of(node_of(bootstrap.rank()));
  const auto own = static_cast<int>(std::ranges::find(ranks, bootstrap.rank()) - ranks.begin());
  const auto size = static_cast<int>(ranks.size());
  std::optional<RendezvousPoint> point;
  UniqueId id;
  if (own == 0 && size > 1) {
    point = RendezvousPoint::create_at_name();
    id = point->id();
  }
  const std::vector<UniqueId> ids = bootstrap.all_gather(id);
  if (size == 1) return Bootstrap::alone();
  BootstrapOptions options = bootstrap.options();
  options.about_ranks =
      join(" (numbers count on ", name(node_of(bootstrap.rank())), ", which has ", list_ranks(ranks), ")");
  if (point) return Bootstrap::lead(std::move(*point), size, options);
  return Bootstrap::create(ids[static_cast<size_t>(ranks.front())], own, size, options);
}

}  // namespace plait
