// The few questions that the drop-in asks CUDA's driver. It asks the one that the program has loaded, and links none.
#pragma once

#include <string>

#include "api/nccl/abi_types.h"

namespace plait::nccl {

class CudaDriver {
 public:
  static const CudaDriver& of_this_process();

  // The device whose context is current on this thread; -1 where there is none.
  int current_device() const;
  std::string device_name(int device) const;  // "" where it is not known
  bool has_multicast(int device) const;       // so that NCCL may use NVLS

  // Whether calls on the stream go into a graph. True where that cannot be known.
  bool is_capturing(cudaStream_t stream) const;

 private:
  CudaDriver();

  int (*current_device_)(int* device) = nullptr;
  int (*name_)(char* name, int room, int device) = nullptr;
  int (*attribute_)(int* value, int attribute, int device) = nullptr;
  int (*is_capturing_)(cudaStream_t stream, int* status) = nullptr;
};

}  // namespace plait::nccl
