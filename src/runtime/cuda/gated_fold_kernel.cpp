// From a fold to its launch.
#include "runtime/cuda/gated_fold_kernel.hpp"

#include <algorithm>

#include "runtime/cuda/by_type.hpp"
#include "runtime/cuda/gate_launch.hpp"
#include "tuner/choice.hpp"

namespace plait {

template <DataType type>
const void* gated_fold_kernel_of(bool is_aligned);  // of the files with kernels

const void* gated_fold_kernel(DataType type, bool is_aligned) {
  return by_type(type, [&]<DataType known>() { return gated_fold_kernel_of<known>(is_aligned); });
}

unsigned prepare_fold(const DeviceFold& fold, const Call& call, uint64_t agreement,
                      std::span<const std::byte* const> inputs, std::byte* output, int processors,
                      GatedFoldLaunch& launch) {
  for (const CopyLane& lane : fold.gates) add_gates(lane, agreement, launch);
  launch.op = call.op;
  launch.divisor = fold.divisor;
  for (const DeviceSource& source : fold.sources) {
    launch.from[launch.sources++] = inputs[static_cast<size_t>(source.rank)] + source.input_offset;
  }
  launch.to = output + fold.output_offset;
  launch.elements = fold.elements;
  constexpr uint64_t kWorthACta = 32 << 10;
  const auto most = static_cast<uint64_t>(std::clamp(processors, 1, kFoldSms));
  return static_cast<unsigned>(std::clamp<uint64_t>(fold.elements * size_of(call.type) / kWorthACta, 1, most));
}

bool is_all_aligned(const GatedFoldLaunch& launch) {
  auto all = reinterpret_cast<uintptr_t>(launch.to);
  for (uint32_t s = 0; s < launch.sources; ++s) all |= reinterpret_cast<uintptr_t>(launch.from[s]);
  return all % kVectorBytes == 0;
}

}  // namespace plait
