// The parts of a simulator's program that plans and launches share: routes, resources, and works of equal flows.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "model/machine_symmetry.hpp"
#include "model/routes.hpp"
#include "model/simulator/program.hpp"
#include "plan/fold.hpp"

namespace plait {

class ProgramBuilder {
 public:
  static constexpr uint32_t kNoRoute = ~uint32_t{0};

  // `routes` must outlive it.
  explicit ProgramBuilder(Routes& routes) : routes_(routes) {}
  // For the ranks that stand for all: what shifts take to each other is one resource. All three must outlive it.
  ProgramBuilder(Routes& routes, const NodeShifts& shifts, const MachineSymmetry& symmetry)
      : routes_(routes), shifts_(&shifts), symmetry_(&symmetry) {}

  SimulatorProgram& program() { return program_; }
  SimulatorProgram take() { return std::move(program_); }

  // The way between two devices; kNoRoute where no link is crossed.
  uint32_t route_between(int from, int to, Mover mover = Mover::kAny);
  // No way, but a limit: of what goes elsewhere at the same time.
  uint32_t pace_route(uint32_t pace);
  // Through the memory of a rank, for a queue that may have CTAs of its own.
  uint32_t memory_route(int rank, uint32_t ctas = kNoRoute);
  // By the CPU core of a rank with a GPU.
  uint32_t core_route(int rank);
  uint32_t numbered(const SimulatedResource& resource);

  // The work at hand: what crosses between the same devices goes together.
  void begin_work(bool combines);
  void add_flow(uint32_t route, int64_t chunks);
  // Its number. Most operations of a queue move what one before them moved.
  uint32_t end_work();

  // The narrowest kind of link between two ranks; kLocal where they share a device.
  uint8_t link_kind_between(int from_rank, int to_rank);

 private:
  void add_path(const Path& path, double share, Mover mover,
                std::map<std::pair<SimulatedResource, bool>, double>& shares);
  bool is_limiting_nic(int device);
  SimulatedRoute::Use use_of(SimulatedResource resource, double share, bool is_back = false);

  Routes& routes_;
  const NodeShifts* shifts_ = nullptr;  // null: the plan is whole
  const MachineSymmetry* symmetry_ = nullptr;
  SimulatorProgram program_;
  std::map<SimulatedWork, uint32_t> works_;
  std::map<std::tuple<int, int, Mover>, uint32_t> device_routes_;
  std::map<std::pair<int, uint32_t>, uint32_t> memory_routes_;
  std::map<uint32_t, uint32_t> pace_routes_;
  std::map<int, uint32_t> core_routes_;
  std::map<SimulatedResource, uint32_t> resources_;
  std::map<int, bool> limiting_nics_;
  SimulatedWork work_;
};

}  // namespace plait
