#include "model/closed_forms/temucin.hpp"

#include <algorithm>

namespace plait::closed_forms {

double two_paths_seconds(double bytes, double host_share, const LinkCost& direct, const StagedPath& host) {
  const double by_link = host_share < 1 ? direct.seconds(bytes * (1 - host_share)) : 0;
  const double by_host = host_share > 0 ? host.seconds(bytes * host_share) : 0;
  return std::max(by_link, by_host);
}

double best_host_share(double bytes, const LinkCost& direct, const StagedPath& host) {
  if (bytes <= 0) return 0;
  // Both paths end together there.
  const double direct_seconds = bytes / direct.bandwidth;
  const double host_seconds = bytes * (host.parts + 1) / host.parts / host.link.bandwidth;
  const double even =
      (direct.start_seconds - host.link.start_seconds + direct_seconds) / (direct_seconds + host_seconds);
  if (even > 0 && even < 1) return even;
  return two_paths_seconds(bytes, 0, direct, host) <= two_paths_seconds(bytes, 1, direct, host) ? 0 : 1;
}

}  // namespace plait::closed_forms
