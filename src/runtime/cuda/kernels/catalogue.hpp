// The catalogue of kernels: every family, and every variant of those that perform calls.
//
// What else would be spelled in many places follows from it: instantiations (call_kernels_*.cu), the way from a call to
// its kernel (call_kernel()), what a rank loads when it is made, what tests perform on a CPU
// (tests/property/cuda/kernel_bodies.hpp), and what tools/check_kernels.py demands of the machine code.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.hpp"

namespace plait {

// X(family, symbol, "phases x mechanism", most threads of a CTA, whether PDL may launch it, "machine code").
//
// A kernel belongs to the first family whose symbol its mangled name contains, so longer symbols come first. Words of
// the machine code, as tools/check_kernels.py knows them:
//   wide     plain loads and stores of 16 bytes (NVG-44)
//   shared   loads and stores of 16 bytes in memory that peers write
//   release  the fence before a flag or a signal at a peer
//   last     two fences that order the stores of all CTAs before the signal of the last one
#define PLAIT_KERNEL_FAMILIES(X)                                                                                      \
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

// Its launch bound: registers of a thread are few enough for it (NVG-51).
constexpr uint32_t most_threads(KernelFamily family) {
  constexpr uint32_t kThreads[] = {
#define PLAIT_THREADS(family, symbol, what, threads, ...) threads,
      PLAIT_KERNEL_FAMILIES(PLAIT_THREADS)
#undef PLAIT_THREADS
  };
  return kThreads[static_cast<size_t>(family)];
}

// X(variant, launch argument, kernel...): the variants of the families that perform calls, each made for every `type`.
//
// Names end with what the variant is for. Aligned: user buffers consist of, and begin at multiples of, vectors of 16
// bytes (Simple) or words of 8 (two-shot); Any takes the rest, a little slower. Two-shot kernels only add, and sums of
// integers are the same with and without a sign: both share the kernel of unsigned ones (SumType), as types of 8 bytes
// share the aligned ones (kIsWord). LL: words of a thread. LL128: lines of a thread and places of each under way at
// once (kLinesAtOnce).
#define PLAIT_CALL_KERNELS(X)                                                                                     \
  X(kSimpleAligned, SimpleLaunch, run_simple<type, true>)                                                         \
  X(kSimpleAny, SimpleLaunch, run_simple<type, false>)                                                            \
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

// What cudaLaunchKernel takes, with the launch argument of the catalogue.
const void* call_kernel(CallKernel kernel, DataType type);

// The variant for a thread of 1, 2 or 4 words.
CallKernel two_shot_ll(int words_of_thread, bool is_aligned);
// The variant with number `number` of kLinesAtOnce.
CallKernel two_shot_ll128(size_t number, bool is_aligned);

}  // namespace plait
