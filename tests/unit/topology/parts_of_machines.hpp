// What tests of readers look up in the machines that were read.
#pragma once

#include <string>

#include "topology/topology.hpp"

namespace plait {

// The link between the devices of these names, in either direction; null where there is none.
inline const Link* find_link(const Topology& topology, const std::string& a, const std::string& b) {
  const int first = device_named(topology, a), second = device_named(topology, b);
  for (const Link& link : topology.links) {
    if ((link.a == first && link.b == second) || (link.a == second && link.b == first)) return &link;
  }
  return nullptr;
}

inline std::string notes_of(const Topology& topology) {
  std::string all;
  for (const std::string& note : topology.notes) all += note + "\n";
  return all;
}

}  // namespace plait
