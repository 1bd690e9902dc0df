#include "api/cores.hpp"

namespace plait {

cpu_set_t own_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) {  // more cores than the set has room for: there are enough
    for (int core = 0; core < CPU_SETSIZE; ++core) CPU_SET(core, &set);
  }
  return set;
}

int lanes_for(const std::vector<cpu_set_t>& cores) {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (const cpu_set_t& it : cores) CPU_OR(&all, &all, &it);
  const int of_rank = CPU_COUNT(&all) / static_cast<int>(cores.size());
  return of_rank >= 2 * kMostLanesByCores ? kMostLanesByCores : 2;
}

bool is_crowded(const std::vector<cpu_set_t>& cores) {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (const cpu_set_t& rank : cores) CPU_OR(&all, &all, &rank);
  if (static_cast<int>(cores.size()) > CPU_COUNT(&all)) return true;
  for (const cpu_set_t& rank : cores) {
    int within = 0;
    for (const cpu_set_t& other : cores) {
      cpu_set_t common;
      CPU_AND(&common, &rank, &other);
      within += CPU_EQUAL(&common, &other) ? 1 : 0;
    }
    if (within > CPU_COUNT(&rank)) return true;
  }
  return false;
}

}  // namespace plait
