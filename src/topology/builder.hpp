// Builds a machine for the readers, from facts in any order. It names and orders the devices and adds up lanes. It also
// adds what no source reports (links between sockets, the network between nodes), as stated assumptions, if it is
// missing.
#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "topology/topology.hpp"

namespace plait::internal {

class MachineBuilder {
 public:
  MachineBuilder(std::string name, std::string source);

  size_t size() const { return found_.size(); }
  // Adds a remark on the source to the topology's source text.
  void note(const std::string& text);
  // Adds a note that a user has to know before believing the figures.
  void warn(std::string text);
  // Adds a note about several things at once, with their number and the first few: "left out: NVLinks to GPUs that are
  // not in the file: 4 (a, b, c, ...)". `what` is "NVLinks to GPUs that are not in the file".
  void leave_out(const std::string& what, const std::string& which);
  // Adds a device of `node`, and returns a number that names it in the calls below. `number` is its system's number
  // (GPU 3, NUMA node 1), or negative. GPUs are named by their numbers, all others by their order.
  int add(DeviceKind kind, int node, int number, Device facts);
  // Sets the maker of a CPU, for the assumed bandwidth between sockets.
  void set_vendor(int cpu, std::string vendor) { found_[static_cast<size_t>(cpu)].vendor = std::move(vendor); }
  // Sets the system's number of a device, if it was unknown at add().
  void set_number(int device, int number) { found_[static_cast<size_t>(device)].number = number; }
  void join(int a, int b, LinkKind kind, int width, double gbps, std::string source);
  // Adds lanes between two GPUs, NVLink or xGMI, as one of them reports them. Both report each link, so the sides are
  // not added up.
  void add_gpu_link_side(LinkKind kind, int from, int to, int lanes, double lane_gbps, const std::string& source);
  // Adds a lane from a GPU to one that is not visible.
  void add_open_lanes(int gpu, const std::string& bus_id, int lanes, double lane_gbps, const std::string& source);
  void add_open_link(OpenLink link) { open_links_.push_back(std::move(link)); }
  // Adds lanes that only one side reports, from a GPU to a CPU. They are added up.
  void add_nvlink(int gpu, int cpu, int lanes, double lane_gbps, const std::string& source);
  // Adds lanes from a GPU to the switch chip named `chip`. All chips of a node are one device, since NVLink spreads
  // over them. So are all chips of one `domain`, which are outside of all nodes and join GPUs of several. An empty
  // domain means the GPU's node.
  void add_nvswitch_lanes(int gpu, const std::string& chip, int lanes, double lane_gbps, const std::string& source,
                          const std::string& domain = "");

  // Returns the machine, which is valid. The builder is used up.
  Topology finish();

 private:
  struct Found {
    Device device;
    int number;
    std::string vendor;
  };
  struct Lanes {
    int width = 0;
    double gbps = 0;
    std::string source;
    void add(int lanes, double lane_gbps, const std::string& where);
  };
  struct LeftOut {
    std::string what;
    int count = 0;
    std::string examples;
  };
  void close_nvlinks();
  void close_left_out();
  void join_sockets();
  std::vector<int> order_devices() const;
  void name_devices(const std::vector<int>& order);

  Topology topology_;
  std::vector<Found> found_;
  std::vector<Link> links_;                                // between indices of found_
  std::map<std::tuple<LinkKind, int, int>, Lanes> sides_;  // kind, from, to
  std::map<std::pair<int, int>, Lanes> nvlinks_;           // GPU, CPU
  using SwitchPlace = std::pair<int, std::string>;         // node, or kNoNode and the domain
  std::map<int, std::pair<SwitchPlace, Lanes>> switched_;  // GPU
  std::map<SwitchPlace, std::set<std::string>> chips_;
  std::map<std::pair<int, std::string>, Lanes> open_lanes_;  // GPU, bus id
  std::vector<OpenLink> open_links_;                         // of indices of found_
  std::vector<LeftOut> left_out_;
};

}  // namespace plait::internal
