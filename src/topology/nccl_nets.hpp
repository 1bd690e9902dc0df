// Which of the <net> elements of an NCCL topology file count. NCCL uses several ports as one, "mlx5_0+mlx5_1", and
// lists that beside its parts; their bandwidth is there once.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "topology/xml.hpp"

namespace plait::internal {

class NcclNets {
 public:
  // All of a <cpu>. To be called for each before choose().
  void collect(const XmlElement& cpu, int node);
  // Decides, and gives the names of those that do not count: the whole where all its parts are listed, since they have
  // places of their own on the bus; else the parts that are.
  std::vector<std::string> choose();
  bool counts(int node, const std::string& name) const { return left_out_.count({node, name}) == 0; }
  // Whether anything of a <nic> counts; one without a <net> is a NIC all the same.
  bool counts(int node, const XmlElement& nic) const;

 private:
  using Net = std::pair<int, std::string>;  // node, name
  std::set<Net> listed_, left_out_;
};

}  // namespace plait::internal
