// Prepares launches of a reduce between two barriers.
#include "runtime/cuda/zero_copy/barrier_reduce_kernel.hpp"

#include <algorithm>

#include "runtime/cuda/kernels/by_type.hpp"
#include "runtime/cuda/zero_copy/barrier_launch.hpp"
#include "tuner/choice.hpp"

namespace plait {

template <DataType type>
const void* barrier_reduce_kernel_of(bool is_aligned);  // defined in the .cu files

const void* barrier_reduce_kernel(DataType type, bool is_aligned) {
  return by_type(type, [&]<DataType known>() { return barrier_reduce_kernel_of<known>(is_aligned); });
}

unsigned prepare_reduce(const DeviceReduce& reduce, const Call& call, uint64_t agreement,
                        std::span<const std::byte* const> inputs, std::byte* output, int sm_count,
                        BarrierReduceLaunch& launch) {
  for (const CopyQueue& queue : reduce.barriers) add_barriers(queue, agreement, launch);
  launch.op = call.op;
  launch.divisor = reduce.divisor;
  for (const DeviceSource& source : reduce.sources) {
    launch.from[launch.sources++] = inputs[static_cast<size_t>(source.rank)] + source.input_offset;
  }
  launch.to = output + reduce.output_offset;
  launch.elements = reduce.elements;
  constexpr uint64_t kWorthACta = 32 << 10;
  const auto most = static_cast<uint64_t>(std::clamp(sm_count, 1, kReduceSms));
  return static_cast<unsigned>(std::clamp<uint64_t>(reduce.elements * size_of(call.type) / kWorthACta, 1, most));
}

bool is_all_aligned(const BarrierReduceLaunch& launch) {
  auto all = reinterpret_cast<uintptr_t>(launch.to);
  for (uint32_t s = 0; s < launch.sources; ++s) all |= reinterpret_cast<uintptr_t>(launch.from[s]);
  return all % kVectorBytes == 0;
}

}  // namespace plait
