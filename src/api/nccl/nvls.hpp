// Where NCCL may use NVLS (NVLink SHARP: switches that reduce and multicast). A table that was measured without it says
// nothing about those calls.
//
// Facts of NCCL's sources (github.com/NVIDIA/nccl, every tag from v2.27.3-1 to v2.30.7-1), for communicators of one
// host whose buffers are in no window:
//   - ncclNvlsInit (src/transport/nvls.cc) needs GPUs with multicast, and more than two of them until 2.28.3, two from
//     2.28.7 on;
//   - ncclTopoTuneModel (src/graph/tuning.cc) has broadcast and reduce go by rings alone;
//   - taskAppend (src/enqueue.cc) makes messages of all_to_all, gather and scatter; copy engines and symmetric kernels
//     want windows, or a variable NCCL_SYM_*;
//   - ncclNvlsSupported (src/include/device.h) names types and operations that switches reduce: sum, max and min of
//     integers of 32 and 64 bits, float16 and bfloat16, and sum of float32 and float64. hostToDevRedOp (src/enqueue.cc)
//     makes other operations of avg and of pre-multiplied sums.
#pragma once

#include "api/nccl/nccl_call.hpp"

namespace plait::nccl {

enum class NvlsUse {
  kNoCall,     // NCCL cannot use it
  kSomeCalls,  // NCCL may use it for what switches can do
  kAnyCall,    // nobody has read what this NCCL does
};

// What NCCL of this version (22809 is 2.28.9) may do on a communicator of so many GPUs with multicast.
NvlsUse nvls_use(int nccl_version, int ranks);

// `op` counts only where it reduces; ncclNumOps stands for pre-multiplied sums.
bool may_use_nvls(NvlsUse use, CallKind kind, ncclDataType_t type, ncclRedOp_t op);

}  // namespace plait::nccl
