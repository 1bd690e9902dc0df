#include "api/meet_peers.hpp"

#include <algorithm>

namespace plait {
namespace {

// All are in one process namespace, as far as the kernel tells: alike on all ranks.
bool see_each_other(const std::vector<Handshake>& all) {
  return std::ranges::all_of(all, [&](const Handshake& rank) {
    return rank.process_namespace != 0 && rank.process_namespace == all[0].process_namespace;
  });
}

// By rank; empty for the ranks of this rank's own host.
std::vector<std::string> other_hosts(const Hosts& hosts, int rank) {
  std::vector<std::string> names;
  for (const int node : hosts.node_of_rank()) names.push_back(node == hosts.node_of(rank) ? "" : hosts.name(node));
  return names;
}

}  // namespace

Peers meet_peers(Bootstrap& on_host, const Hosts& hosts, int rank, const std::vector<Handshake>& all) {
  const std::vector<int> ranks = hosts.ranks_of(hosts.node_of(rank));
  std::vector<Handshake> here;
  for (const int it : ranks) here.push_back(all[static_cast<size_t>(it)]);
  const std::vector<int> ids_here = process_ids(all[static_cast<size_t>(rank)], here, on_host.process_ids());
  std::vector<int> ids(all.size(), 0), own_ids;
  for (size_t i = 0; i < ranks.size(); ++i) ids[static_cast<size_t>(ranks[i])] = ids_here[i];
  for (const Handshake& it : all) own_ids.push_back(it.process_id);
  Peers peers = see_each_other(here) ? Peers(std::move(ids)) : Peers::meet(on_host, ranks, std::move(ids), own_ids);
  if (!hosts.are_one()) peers.set_hosts(other_hosts(hosts, rank), std::move(own_ids));
  return peers;
}

}  // namespace plait
