#include "runtime/cuda/copier.hpp"

#include <optional>

#include "base/error.hpp"
#include "runtime/cuda/copy_kernel.hpp"
#include "runtime/cuda/driver.hpp"
#include "runtime/cuda/gate_launch.hpp"
#include "runtime/cuda/gated_copy_kernel.hpp"
#include "runtime/cuda/gated_fold_kernel.hpp"

namespace plait {
namespace {

// What a rank copies to itself.
void put(Branch& branch, const PlacedCopy& copy, bool by_kernel) {
  if (by_kernel) {
    PlacedCopy argument = copy;
    branch.launch(copy_kernel(), dim3(kCopyCtas), dim3(kCopyThreads), &argument, "copying");
  } else {
    branch.copy(copy.to, copy.from, copy.bytes);
  }
}

}  // namespace

Copier::Copier(const DeviceRank& self, StrandFailure* failures, int processors)
    : self_(self), failures_(failures), processors_(processors) {
  load_kernel(gate_kernel());
  load_kernel(copy_kernel());
  load_kernel(gated_copy_kernel());
  for (int type = 0; type < kDataTypeCount; ++type) {
    for (const bool aligned : {false, true}) load_kernel(gated_fold_kernel(static_cast<DataType>(type), aligned));
  }
}

void Copier::enqueue(const CopyLanes& copies, std::span<const uint64_t> agreements,
                     std::span<const std::byte* const> sources, std::byte* output, cudaStream_t stream) {
  if (copies.by_one_kernel) {
    launch_in_one(copies, agreements, sources, output, stream);
    return;
  }
  std::optional<Branch> beside;  // of copies that wait for nobody
  for (const CopyLane& lane : copies.lanes) {
    if (lane.before.count > 0) continue;
    for (const PlacedCopy& copy : place(lane, sources, output)) {
      if (!beside) beside.emplace(beside_, stream);
      put(*beside, copy, lane.by_kernel);
    }
  }
  launch_gate(copies, &CopyLane::before, agreements, stream);
  for (const CopyLane& lane : copies.lanes) {
    if (lane.before.count == 0) continue;
    for (const PlacedCopy& copy : place(lane, sources, output)) {
      check_cuda(cudaMemcpyAsync(copy.to, copy.from, copy.bytes, cudaMemcpyDeviceToDevice, stream), "copying");
    }
  }
  if (beside) beside->join();
  launch_gate(copies, &CopyLane::after, agreements, stream);
}

void Copier::enqueue_fold(const DeviceFold& fold, const Call& call, uint64_t agreement,
                          std::span<const std::byte* const> inputs, std::byte* output, cudaStream_t stream) const {
  GatedFoldLaunch launch = {};
  fill(launch);
  const unsigned ctas = prepare_fold(fold, call, agreement, inputs, output, processors_, launch);
  void* arguments[] = {&launch};
  check_cuda(cudaLaunchKernel(gated_fold_kernel(call.type, is_all_aligned(launch)), dim3(ctas), dim3(kGatedFoldThreads),
                              arguments, 0, stream),
             "launching a fold");
}

void Copier::launch_in_one(const CopyLanes& copies, std::span<const uint64_t> agreements,
                           std::span<const std::byte* const> sources, std::byte* output, cudaStream_t stream) const {
  GatedCopyLaunch launch = {};
  fill(launch);
  const GatedCopyGrid grid = prepare_copies(copies, agreements, sources, output, processors_, launch);
  if (grid.ctas == 0) return;
  void* arguments[] = {&launch};
  check_cuda(
      cudaLaunchKernel(gated_copy_kernel(), dim3(grid.ctas, grid.rows), dim3(kGatedCopyThreads), arguments, 0, stream),
      "launching copies");
}

void Copier::launch_gate(const CopyLanes& copies, GateLane CopyLane::* gate, std::span<const uint64_t> agreements,
                         cudaStream_t stream) const {
  GateLaunch launch = {};
  const unsigned lanes = prepare_gates(copies, gate, agreements, launch);
  if (lanes == 0) return;
  fill(launch);
  void* arguments[] = {&launch};
  check_cuda(cudaLaunchKernel(gate_kernel(), dim3(1), dim3(lanes * kWarpThreads), arguments, 0, stream),
             "launching a gate");
}

void Copier::fill(GateEnd& end) const {
  end.self = self_;
  end.state = state_.get();
  end.failures = failures_;
}

}  // namespace plait
