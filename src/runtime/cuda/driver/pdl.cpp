#include "runtime/cuda/driver/pdl.hpp"

#include "runtime/cuda/driver/driver.hpp"

namespace plait {

bool can_use_pdl(const void* kernel) {
  constexpr int kLeastArchitecture = 90, kLeastDriver = 12030;
  cudaFuncAttributes attributes;
  int driver = 0;
  check_cuda(cudaFuncGetAttributes(&attributes, kernel), "looking at a kernel");
  check_cuda(cudaDriverGetVersion(&driver), "asking for the driver's version");
  return attributes.ptxVersion >= kLeastArchitecture && driver >= kLeastDriver;
}

void launch_kernel(const void* kernel, dim3 grid, dim3 block, void* argument, cudaStream_t stream, bool pdl,
                   const char* what) {
  void* arguments[] = {argument};
  if (!pdl) {
    check_cuda(cudaLaunchKernel(kernel, grid, block, arguments, 0, stream), what);
    return;
  }
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t launch = {};
  launch.gridDim = grid;
  launch.blockDim = block;
  launch.stream = stream;
  launch.attrs = &attribute;
  launch.numAttrs = 1;
  check_cuda(cudaLaunchKernelExC(&launch, kernel, arguments), what);
}

}  // namespace plait
