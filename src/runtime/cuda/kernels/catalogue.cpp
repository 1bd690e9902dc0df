// Finds the kernel of a variant and a type.
#include "runtime/cuda/kernels/catalogue.hpp"

#include "runtime/cuda/kernels/by_type.hpp"
#include "runtime/cuda/kernels/two_shot_kernel.hpp"

namespace plait {

// Instantiated in call_kernels_*.cu.
template <DataType type>
const void* call_kernel_of(CallKernel kernel);

namespace {

CallKernel nth_after(CallKernel first, size_t n) { return static_cast<CallKernel>(static_cast<size_t>(first) + n); }

}  // namespace

static_assert(most_threads(KernelFamily::kSimple) == kMostThreads && most_threads(KernelFamily::kLl) == kMostThreads &&
              most_threads(KernelFamily::kLl128) == kMostThreads &&
              most_threads(KernelFamily::kTwoShotLl) == kMostThreads &&
              most_threads(KernelFamily::kTwoShotLl128) == kMostThreads);

const char* name(CallKernel kernel) {
  constexpr const char* kNames[] = {
#define PLAIT_NAME(variant, ...) #variant,
      PLAIT_CALL_KERNELS(PLAIT_NAME)
#undef PLAIT_NAME
  };
  return kNames[static_cast<size_t>(kernel)];
}

const void* call_kernel(CallKernel kernel, DataType type) {
  return by_type(type, [&]<DataType known>() { return call_kernel_of<known>(kernel); });
}

CallKernel two_shot_ll(int words_of_thread, bool is_aligned) {
  const size_t row = words_of_thread == 1 ? 0 : words_of_thread == 2 ? 1 : 2;
  return nth_after(is_aligned ? CallKernel::kTwoShotLl1Aligned : CallKernel::kTwoShotLl1Any, row);
}

CallKernel two_shot_ll128(size_t number, bool is_aligned) {
  static_assert(std::size(kLinesAtOnce) == 4 && kLinesAtOnce[0].lines == 1 && kLinesAtOnce[1].lines == 2 &&
                kLinesAtOnce[2].lines == 3 && kLinesAtOnce[3].lines == 5);
  return nth_after(is_aligned ? CallKernel::kTwoShotLl128Lines1Aligned : CallKernel::kTwoShotLl128Lines1Any, number);
}

}  // namespace plait
