// The catalogue of kernels: every family, and every variant of those that perform calls.
//
// Everything that lists kernels follows from it: instantiations (call_kernels_*.cu), the way from a call to its kernel
// (call_kernel()) and the kernels that a new rank loads. So do the kernels that tests run on a CPU
// (tests/property/cuda/kernel_bodies.hpp), the requirements of tools/check_kernels.py, and the table in
// docs/dev/kernels.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.hpp"

namespace plait {

// X(family, symbol, "phases x mechanism", most threads of a CTA, whether PDL may launch it, "machine code").
//
// A kernel belongs to the first family whose symbol is in its mangled name, so longer symbols come first. The last
// column lists what its machine code must have, in the words of tools/check_kernels.py:
//   wide     plain loads and stores of 16 bytes (NVG-44)
//   shared   loads and stores of 16 bytes in memory that peers write
//   release  the fence before a flag or a signal at a peer
//   last     two fences that order the stores of all CTAs before the signal of the last one
#define PLAIT_KERNEL_FAMILIES(X)                                                                                      \
  X(kPersistent, run_persistent, "one-shot x LL, served", 512, false, "shared release last")                          \
  X(kWork, run_work, "work request x load and store", 512, false, "wide release last")                                \
  X(kSimple, run_simple, "any queue x Simple", 512, true, "wide release")                                             \
  X(kLl, LlPrimitives, "any queue x LL", 512, true, "shared")                                                         \
  X(kLl128, Ll128Primitives, "any queue x LL128", 512, true, "shared")                                                \
  X(kTwoShotLl128, TwoShotLl128, "one-shot or two-shot x LL128", 512, true, "shared")                                 \
  X(kTwoShotLl, TwoShotLl, "one-shot x LL", 512, true, "shared")                                                      \
  X(kP2p, run_p2p, "send and receive x FIFO", 544, true, "wide release")                                              \
  X(kScale, scale_elements, "multiply x local", 512, false, "wide")                                                   \
  X(kBarrierCopy, run_barrier_copy, "barrier, copy, barrier x zero-copy load", 512, false, "wide release")            \
  X(kBarrierReduce, run_barrier_reduce, "barrier, reduce, barrier x zero-copy load", 512, false, "wide release last") \
  X(kBarrier, run_barrier, "barrier x signal and wait", 480, false, "release")                                        \
  X(kCopy, run_copy, "copy x local", 1024, false, "wide")

enum class KernelFamily {
#define PLAIT_FAMILY(family, ...) family,
  PLAIT_KERNEL_FAMILIES(PLAIT_FAMILY)
#undef PLAIT_FAMILY
};

// The launch bound of a family: its kernels use few enough registers for so many threads (NVG-51).
constexpr uint32_t most_threads(KernelFamily family) {
  constexpr uint32_t kThreads[] = {
#define PLAIT_THREADS(family, symbol, what, threads, ...) threads,
      PLAIT_KERNEL_FAMILIES(PLAIT_THREADS)
#undef PLAIT_THREADS
  };
  return kThreads[static_cast<size_t>(family)];
}

// X(variant, launch argument, kernel...): the variants of the families that perform calls. Each exists for every
// `type`.
//
// The end of a name says what the variant is for. Aligned: all pieces of user buffers begin and end at multiples of 16
// bytes (Simple, long) or 8 bytes (two-shot). Any: other buffers, a little slower. A number: words of a thread (LL), or
// lines of a thread that are under way at once (LL128, see kLinesAtOnce). Two-shot kernels only add, and sums of signed
// and unsigned integers have the same bits, so both use the kernel of the unsigned type (kSumType). Types of 8 bytes
// use only aligned two-shot kernels (kIsWord).
#define PLAIT_CALL_KERNELS(X)                                                                                     \
  X(kSimpleAligned, SimpleLaunch, run_simple<type, true>)                                                         \
  X(kSimpleAny, SimpleLaunch, run_simple<type, false>)                                                            \
  X(kLongAligned, LongLaunch, run_simple<type, true, LongLaunch>)                                                 \
  X(kLongAny, LongLaunch, run_simple<type, false, LongLaunch>)                                                    \
  X(kLl, LlLaunch, run_ll<LlPrimitives<type>>)                                                                    \
  X(kLl128, LlLaunch, run_ll<Ll128Primitives<type>>)                                                              \
  X(kTwoShotLl1Aligned, TwoShotLaunch, run_two_shot<TwoShotLl<kSumType<type>, 1, true>>)                          \
  X(kTwoShotLl2Aligned, TwoShotLaunch, run_two_shot<TwoShotLl<kSumType<type>, 2, true>>)                          \
  X(kTwoShotLl4Aligned, TwoShotLaunch, run_two_shot<TwoShotLl<kSumType<type>, 4, true>>)                          \
  X(kTwoShotLl1Any, TwoShotLaunch, run_two_shot<TwoShotLl<kSumType<type>, 1, kIsWord<type>>>)                     \
  X(kTwoShotLl2Any, TwoShotLaunch, run_two_shot<TwoShotLl<kSumType<type>, kIsWord<type> ? 2 : 4, kIsWord<type>>>) \
  X(kTwoShotLl4Any, TwoShotLaunch, run_two_shot<TwoShotLl<kSumType<type>, 4, kIsWord<type>>>)                     \
  X(kTwoShotLl128Lines1Aligned, TwoShotLaunch, run_two_shot<TwoShotLl128Of<type, 0, true>>)                       \
  X(kTwoShotLl128Lines2Aligned, TwoShotLaunch, run_two_shot<TwoShotLl128Of<type, 1, true>>)                       \
  X(kTwoShotLl128Lines3Aligned, TwoShotLaunch, run_two_shot<TwoShotLl128Of<type, 2, true>>)                       \
  X(kTwoShotLl128Lines5Aligned, TwoShotLaunch, run_two_shot<TwoShotLl128Of<type, 3, true>>)                       \
  X(kTwoShotLl128Lines1Any, TwoShotLaunch, run_two_shot<TwoShotLl128Of<type, 0, false>>)                          \
  X(kTwoShotLl128Lines2Any, TwoShotLaunch, run_two_shot<TwoShotLl128Of<type, 1, false>>)                          \
  X(kTwoShotLl128Lines3Any, TwoShotLaunch, run_two_shot<TwoShotLl128Of<type, 2, false>>)                          \
  X(kTwoShotLl128Lines5Any, TwoShotLaunch, run_two_shot<TwoShotLl128Of<type, 3, false>>)

enum class CallKernel {
#define PLAIT_VARIANT(variant, ...) variant,
  PLAIT_CALL_KERNELS(PLAIT_VARIANT)
#undef PLAIT_VARIANT
};

inline constexpr CallKernel kCallKernels[] = {
#define PLAIT_VARIANT(variant, ...) CallKernel::variant,
    PLAIT_CALL_KERNELS(PLAIT_VARIANT)
#undef PLAIT_VARIANT
};

const char* name(CallKernel kernel);  // "kLl128"

// The kernel for cudaLaunchKernel. It takes the launch argument that the catalogue names.
const void* call_kernel(CallKernel kernel, DataType type);

// The variant for 1, 2 or 4 words of a thread.
CallKernel two_shot_ll(int words_of_thread, bool is_aligned);
// The variant for entry `number` of kLinesAtOnce.
CallKernel two_shot_ll128(size_t number, bool is_aligned);

}  // namespace plait
