// Derives bandwidths that a description does not state from what it states. All are in 10^9 bytes/s per direction.
#pragma once

#include <string_view>

namespace plait {

// The bandwidth of a PCIe link of `lanes` lanes at `gigatransfers` per second and lane, less its line code. That is
// 8b/10b up to 5 GT/s, 128b/130b up to 32 GT/s, and 242 of 256 bytes of a flit above. 16 lanes at 16 GT/s carry 31.5.
double pcie_gbps(double gigatransfers, int lanes);

// The assumed PCIe link if nothing is known: 16 lanes at 16 GT/s.
inline constexpr int kAssumedPcieLanes = 16;
inline constexpr double kAssumedPcieGigatransfers = 16;

// The bandwidth of one NVLink lane of a GPU of compute capability `sm` (70 is 7.0), as vendors state it. It is 20 on
// P100, 25 on V100 and A100 (NVG 2.1), 26.5625 on Hopper, and 53.125 later. GPUs with bridges, of compute capability
// 8.6 to 8.9, have 14.0625.
double nvlink_lane_gbps(int sm);
// The assumed lane if the GPU is not known.
inline constexpr double kAssumedNvlinkLaneGbps = 25;
// The most lanes of any GPU so far, and the most that join two GPUs without a switch (three bridges).
inline constexpr int kMostNvlinkLanes = 18;
inline constexpr int kMostBridgeLanes = 12;

// One xGMI link of an AMD GPU of architecture "942", "gfx90a" and the like, as the vendor states it: 46 up to MI100, 50
// on MI200, 64 on MI300, 76.8 on MI350.
double xgmi_link_gbps(std::string_view architecture);

// The speed of the PCIe link of a GPU of compute capability `sm`, per second and lane: generation 3 up to Turing, 4 up
// to Ada, 5 from Hopper on. If the GPU is not known, the assumption above.
double pcie_gigatransfers(int sm);

// All links between two CPU sockets, from the vendor text of /proc/cpuinfo or the architecture. It is a middling value
// of the vendor's machines (X-bus 64, UPI and QPI about 40, Infinity Fabric about 50), since nothing reports the real
// one.
double socket_gbps(std::string_view vendor_or_architecture);

// The memory of a CPU socket if Linux does not report it. Eight channels of DDR4-3200 carry 204.8, about half of that
// each way.
inline constexpr double kAssumedMemoryGbps = 100;

// The port of a host with no known NIC: 100 Gbit/s.
inline constexpr double kAssumedNicGbps = 12.5;

}  // namespace plait
