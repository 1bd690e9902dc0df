#include "topology/bandwidths.hpp"

namespace plait {

double pcie_gbps(double gigatransfers, int lanes) {
  const double code = gigatransfers <= 5 ? 8.0 / 10 : gigatransfers <= 32 ? 128.0 / 130 : 242.0 / 256;
  return gigatransfers * lanes * code / 8;
}

double nvlink_lane_gbps(int sm) {
  if (sm <= 0) return kAssumedNvlinkLaneGbps;
  if (sm < 70) return 20;
  if (sm <= 80) return 25;
  if (sm < 90) return 14.0625;
  if (sm < 100) return 26.5625;
  return 53.125;
}

double xgmi_link_gbps(std::string_view architecture) {
  const auto is = [&](std::string_view start) {
    if (architecture.substr(0, 3) == "gfx") architecture.remove_prefix(3);
    return architecture.substr(0, start.size()) == start;
  };
  if (is("90a")) return 50;
  if (is("94")) return 64;
  if (is("95")) return 76.8;
  return 46;
}

double pcie_gigatransfers(int sm) {
  if (sm <= 0) return kAssumedPcieGigatransfers;
  if (sm < 80) return 8;
  return sm < 90 ? 16 : 32;
}

double socket_gbps(std::string_view vendor_or_architecture) {
  if (vendor_or_architecture.find("AMD") != std::string_view::npos) return 50;
  if (vendor_or_architecture.find("IBM") != std::string_view::npos || vendor_or_architecture.substr(0, 3) == "ppc")
    return 64;
  return 40;
}

}  // namespace plait
