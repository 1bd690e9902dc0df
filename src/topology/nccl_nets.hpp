// Decides which of the <net> elements of an NCCL topology file count. NCCL uses several ports as one, "mlx5_0+mlx5_1",
// and lists that beside its parts, but their bandwidth exists once.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "topology/xml.hpp"

namespace plait::internal {

class NcclNets {
 public:
  // Collects all of a <cpu>. Call it for each before choose().
  void collect(const XmlElement& cpu, int node);
  // Decides, and returns the names of those that do not count. If all parts of a whole are listed, the whole does not
  // count, since the parts have places of their own on the bus. Otherwise the listed parts do not count.
  std::vector<std::string> choose();
  bool counts(int node, const std::string& name) const { return left_out_.count({node, name}) == 0; }
  // Whether anything of a <nic> counts. A <nic> without a <net> is a NIC all the same.
  bool counts(int node, const XmlElement& nic) const;

 private:
  using Net = std::pair<int, std::string>;  // node, name
  std::set<Net> listed_, left_out_;
};

}  // namespace plait::internal
