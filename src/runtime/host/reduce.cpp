#include "runtime/host/reduce.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace plait {

// Each namespace is reduce_kernels.hpp, compiled with the flags that cmake/ReduceKernels.cmake gives its file.
namespace reduce_baseline {
ReduceFunction find_reduce(DataType type, ReduceOp op);
}
#if defined(__x86_64__)
namespace reduce_avx2 {
ReduceFunction find_reduce(DataType type, ReduceOp op);
}
namespace reduce_avx512 {
ReduceFunction find_reduce(DataType type, ReduceOp op);
}
#endif

namespace {

struct Variant {
  const char* name;
  bool (*is_supported)();
  ReduceFunction (*find)(DataType, ReduceOp);
};

bool always() { return true; }

#if defined(__x86_64__)
// The compilers' flags for x86-64-v3 and v4 allow all of these. Some compilers' __builtin_cpu_supports does not know
// F16C and the two others. The operating system needs to support AVX for them, which avx2 covers.
bool has_avx2() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kNeeded = bit_F16C | bit_MOVBE;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & kNeeded) != kNeeded) return false;
  if (__get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx) == 0 || (ecx & bit_LZCNT) == 0) return false;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
         __builtin_cpu_supports("fma");
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

// The best one comes first.
constexpr Variant kVariants[] = {
#if defined(__x86_64__)
    {"avx512", has_avx512, reduce_avx512::find_reduce},
    {"avx2", has_avx2, reduce_avx2::find_reduce},
#endif
#if defined(__aarch64__)
    {"neon", always, reduce_baseline::find_reduce},
#else
    {"baseline", always, reduce_baseline::find_reduce},
#endif
};

// Determined once: the check traps in virtual machines, where it costs microseconds.
const Variant& best_variant() {
  static const Variant& best = []() -> const Variant& {
    const Variant* variant = kVariants;
    while (!variant->is_supported()) ++variant;
    return *variant;
  }();
  return best;
}

}  // namespace

ReduceFunction find_reduce(DataType type, ReduceOp op) { return best_variant().find(type, op); }

const char* instruction_set() { return best_variant().name; }

ReduceFunction find_reduce_variant(std::string_view instruction_set, DataType type, ReduceOp op) {
  for (const Variant& variant : kVariants) {
    if (instruction_set == variant.name) return variant.is_supported() ? variant.find(type, op) : nullptr;
  }
  return nullptr;
}

}  // namespace plait
