// Temucin et al. (TEM): a message over two paths at once, the direct link and host memory. The paper prints no formula;
// these are ours.
#pragma once

#include "model/closed_forms/costs.hpp"

namespace plait::closed_forms {

// A path that goes through host memory in k parts: the first part takes both halves of the way, the others follow.
struct StagedPath {
  LinkCost link;  // of each half
  int parts = 1;  // k

  // t_h + x (k+1)/(k B_h).
  double seconds(double bytes) const { return link.seconds(bytes * (parts + 1) / parts); }
};

// A share f of M bytes goes through the host: max(t_d + (1-f) M/B_d, t_h + f M (k+1)/(k B_h)). A path with no share
// takes no time. Seconds.
double two_paths_seconds(double bytes, double host_share, const LinkCost& direct, const StagedPath& host);
// The f that makes it least, from 0 to 1. For k and M without limit it is B_h/(B_d + B_h), and both paths together have
// B_d + B_h: 150 GB/s on Mist, 66 GB/s on Cedar (TEM-28).
double best_host_share(double bytes, const LinkCost& direct, const StagedPath& host);

}  // namespace plait::closed_forms
