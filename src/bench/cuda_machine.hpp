// The GPUs that a benchmark runs on, for its report.
#pragma once

#include <string>
#include <vector>

namespace plait {

struct CudaDevice {
  std::string name;    // "NVIDIA H200"
  std::string bus_id;  // "0000:1b:00.0"
  int capability = 0;  // compute capability: 90 for 9.0
};

struct CudaMachine {
  int driver_version = 0;   // the newest CUDA that the driver serves: 13000 for 13.0
  int runtime_version = 0;  // the CUDA that Plait was built with
  std::vector<CudaDevice> devices;
};

// The GPUs that this process sees. Throws kInvalidArgument if there are none: one line says why, and what to do.
CudaMachine look_at_cuda();

}  // namespace plait
