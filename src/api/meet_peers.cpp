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

}  // namespace

Peers meet_peers(Bootstrap& bootstrap, const Handshake& own, const std::vector<Handshake>& all) {
  std::vector<int> ids = process_ids(own, all, bootstrap.process_ids());
  if (see_each_other(all)) return Peers(std::move(ids));
  std::vector<int> own_ids;
  for (const Handshake& rank : all) own_ids.push_back(rank.process_id);
  return Peers::meet(bootstrap, std::move(ids), std::move(own_ids));
}

}  // namespace plait
