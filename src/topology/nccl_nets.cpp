#include "topology/nccl_nets.hpp"

#include <algorithm>
#include <sstream>

namespace plait::internal {

void NcclNets::collect(const XmlElement& cpu, int node) {
  for (const XmlElement& child : cpu.children) {
    const std::string* name = child.name == "net" ? child.find("name") : nullptr;
    if (name) listed_.insert({node, *name});
    collect(child, node);
  }
}

std::vector<std::string> NcclNets::choose() {
  std::vector<std::string> names;
  for (const auto& [node, whole] : listed_) {
    if (whole.find('+') == std::string::npos) continue;
    std::vector<std::string> parts;
    std::istringstream text(whole);
    for (std::string part; std::getline(text, part, '+');) parts.push_back(part);
    const size_t all = parts.size();
    std::erase_if(parts, [&, at = node](const std::string& part) { return listed_.count({at, part}) == 0; });
    if (parts.empty()) continue;
    if (parts.size() == all) parts = {whole};
    for (std::string& name : parts) {
      if (left_out_.insert({node, name}).second) names.push_back(std::move(name));
    }
  }
  return names;
}

bool NcclNets::counts(int node, const XmlElement& nic) const {
  return nic.children.empty() || std::any_of(nic.children.begin(), nic.children.end(), [&](const XmlElement& net) {
           const std::string* name = net.name == "net" ? net.find("name") : nullptr;
           return name == nullptr || counts(node, *name);
         });
}

}  // namespace plait::internal
