// Machines and costs that are made up at random.
#pragma once

#include <vector>

#include "base/error.hpp"
#include "model/profile.hpp"
#include "support/add_device.hpp"
#include "support/seed.hpp"
#include "topology/topology.hpp"

namespace plait::test {

inline double random_gbps(Random& random) {
  return static_cast<double>(between(random, 1, 20)) * (one_in(random, 3) ? 12.5 : 1);
}

class RandomMachine {
 public:
  explicit RandomMachine(Random& random) : random_(random) {}

  // Sockets with their GPUs and NICs, NVLink here and there, perhaps a switch; several nodes, perhaps in racks.
  Topology make() {
    make_node();
    if (one_in(random_, 2)) machine_.network.rack_nodes = 2;
    return replicated(static_cast<int>(between(random_, 1, 4)));
  }
  // So many nodes, in racks of so many; 0: without racks.
  Topology make(int nodes, int rack_nodes) {
    make_node();
    machine_.network.rack_nodes = rack_nodes;
    return replicated(nodes);
  }

 private:
  void make_node() {
    machine_.name = "random";
    const auto sockets = static_cast<int>(between(random_, 1, 2));
    for (int i = 0; i < sockets; ++i) {
      cpus_.push_back(add(DeviceKind::kCpu, i));
      if (i > 0) join(cpus_[0], cpus_[1], LinkKind::kSocket);
      add_nic(i);
    }
    const auto gpus = static_cast<int>(between(random_, 1, 6));
    for (int i = 0; i < gpus; ++i) {
      gpus_.push_back(add(DeviceKind::kGpu, i));
      join(gpus_.back(), cpus_[static_cast<size_t>(i % sockets)], LinkKind::kPcie);
    }
    one_in(random_, 4) ? add_switch() : add_nvlinks();
  }

  Topology replicated(int nodes) {
    machine_.network.bisection = one_in(random_, 2) ? 1 : 1.0 / 3;
    Topology made = replicate(machine_, nodes);
    validate(made);
    return made;
  }

  int add(DeviceKind kind, int number) { return test::add_device(machine_, kind, plait::join(name(kind), number)); }

  void join(int a, int b, LinkKind kind) { machine_.add_link({a, b, kind, 1, random_gbps(random_), ""}); }

  void add_nic(int socket) {
    if (socket > 0 && one_in(random_, 2)) return;
    const int nic = add(DeviceKind::kNic, socket);
    machine_.devices[static_cast<size_t>(nic)].port_gbps = random_gbps(random_);
    join(nic, cpus_[static_cast<size_t>(socket)], LinkKind::kPcie);
  }

  void add_switch() {
    const int nvswitch = add(DeviceKind::kNvSwitch, 0);
    for (const int gpu : gpus_) join(gpu, nvswitch, LinkKind::kNvlink);
  }

  void add_nvlinks() {
    for (size_t a = 0; a < gpus_.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        if (one_in(random_, 2)) join(gpus_[a], gpus_[b], LinkKind::kNvlink);
      }
    }
  }

  Random& random_;
  Topology machine_;
  std::vector<int> cpus_, gpus_;
};

inline Costs random_costs(Random& random) {
  const auto up_to = [&](double most) {
    return one_in(random, 3) ? 0 : most * static_cast<double>(between(random, 1, 100)) / 100;
  };
  Costs costs;
  costs.launch_seconds = up_to(1e-5);
  costs.operation_seconds = up_to(1e-6);
  costs.local_signal_seconds = up_to(1e-6);
  for (double& seconds : costs.signal_seconds) seconds = up_to(1e-5);
  if (one_in(random, 2)) costs.link_efficiency = 0.8;
  costs.memory_gbps = up_to(100);
  if (one_in(random, 3)) costs.ll = {0.5, 2};
  for (double& bytes : costs.half_bytes)
    bytes = one_in(random, 2) ? 0 : static_cast<double>(between(random, 1, 1 << 20));
  return costs;
}

}  // namespace plait::test
