#include "runtime/host/fold.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace plait {

// Each is fold_kernels.hpp, compiled with the flags that cmake/FoldKernels.cmake gives its file.
namespace fold_baseline {
FoldFunction find_fold(DataType type, ReduceOp op);
}
#if defined(__x86_64__)
namespace fold_avx2 {
FoldFunction find_fold(DataType type, ReduceOp op);
}
namespace fold_avx512 {
FoldFunction find_fold(DataType type, ReduceOp op);
}
#endif

namespace {

struct Variant {
  const char* name;
  bool (*is_supported)();
  FoldFunction (*find)(DataType, ReduceOp);
};

bool always() { return true; }

#if defined(__x86_64__)
// The compilers' flags for x86-64-v3 and v4 allow all of these. F16C and the two others are not known to
// __builtin_cpu_supports of every compiler; the operating system's part is that of AVX, which avx2 covers.
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

// Best first.
constexpr Variant kVariants[] = {
#if defined(__x86_64__)
    {"avx512", has_avx512, fold_avx512::find_fold},
    {"avx2", has_avx2, fold_avx2::find_fold},
#endif
#if defined(__aarch64__)
    {"neon", always, fold_baseline::find_fold},
#else
    {"baseline", always, fold_baseline::find_fold},
#endif
};

// Asked once: the question traps in virtual machines, where it costs microseconds.
const Variant& best_variant() {
  static const Variant& best = []() -> const Variant& {
    const Variant* variant = kVariants;
    while (!variant->is_supported()) ++variant;
    return *variant;
  }();
  return best;
}

}  // namespace

FoldFunction find_fold(DataType type, ReduceOp op) { return best_variant().find(type, op); }

const char* instruction_set() { return best_variant().name; }

FoldFunction find_fold_variant(std::string_view instruction_set, DataType type, ReduceOp op) {
  for (const Variant& variant : kVariants) {
    if (instruction_set == variant.name) return variant.is_supported() ? variant.find(type, op) : nullptr;
  }
  return nullptr;
}

}  // namespace plait
