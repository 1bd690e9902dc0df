// The kernels of one type, for the files that instantiate them.
#pragma once

#include "runtime/cuda/kernels/catalogue.hpp"
#include "runtime/cuda/kernels/queue_kernel.cuh"
#include "runtime/cuda/kernels/two_shot_kernel.cuh"

namespace plait {

template <DataType type>
const void* call_kernel_of(CallKernel kernel) {
  switch (kernel) {
#define PLAIT_KERNEL(variant, launch, ...) \
  case CallKernel::variant:                \
    return reinterpret_cast<const void*>(&__VA_ARGS__);
    PLAIT_CALL_KERNELS(PLAIT_KERNEL)
#undef PLAIT_KERNEL
  }
  fail(ErrorCode::kInternal, "no kernel number ", static_cast<int>(kernel));
}

}  // namespace plait
