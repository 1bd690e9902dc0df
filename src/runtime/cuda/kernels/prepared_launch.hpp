// A call with everything decided but the buffers: the kernels that may perform it, and their arguments.
#pragma once

#include <cuda_runtime.h>

#include <optional>
#include <variant>
#include <vector>

#include "runtime/bound_plan.hpp"
#include "runtime/call.hpp"
#include "runtime/cuda/kernels/queue_kernel.hpp"
#include "runtime/cuda/kernels/two_shot_kernel.hpp"
#include "tuner/launch_shape.hpp"

namespace plait {

// What the launch of a call's HostPath has to know besides.
struct HostPathLaunch {
  HostBlocks blocks;
  double bytes_per_second = 0;  // see HostPath; 0: as fast as it goes
  int ctas_beside = 0;          // that must have room on the GPU at the same time
};

class PreparedLaunch {
 public:
  // For the rank `self`, which shares its GPU with so many others, itself included; the GPU is current. With 0 there is
  // no GPU, and room for any launch, as in tests that run kernels on a CPU. Throws kResources where the plan is too
  // long for a launch or the GPU has no room for it, kInvalidPlan where the protocol cannot serve it. `ending`: as
  // make_queue_program() takes it, with signals.
  PreparedLaunch(const BoundPlan& bound, const Call& call, const LaunchShape& shape, const DeviceRank& self,
                 int ranks_per_device, const BoundPlan* ending = nullptr, const HostPathLaunch* host_path = nullptr);

  // What cudaLaunchKernel takes but for the argument.
  struct Kernel {
    const void* function = nullptr;
    dim3 grid, block;

    int ctas() const { return static_cast<int>(grid.x * grid.y); }
  };
  // The kernel for these buffers, and its argument, which is right until the next call of this.
  struct Launch {
    const Kernel& kernel;
    void* argument;
  };

  const Call& call() const { return call_; }
  int ctas() const { return kernel_.ctas(); }
  Launch launch(const void* input, void* output);
  // Throws kSystem where CUDA refuses. A captured launch has copied all that it needs of this. `early`: see
  // pdl.hpp.
  void start(const void* input, void* output, cudaStream_t stream, bool pdl);

 private:
  struct Ll {
    LlProgram program;
    LlLaunch argument;
  };
  struct TwoShot {
    std::vector<TwoShotProgram::UserPlace> user_places;
    TwoShotLaunch argument;
    Kernel any, aligned;      // the latter where TwoShotProgram::is_whole and buffers begin at multiples of eight bytes
    bool is_aligned = false;  // if they do
    bool has_ll = false;      // else lines
  };
  struct Buffers;

  std::optional<TwoShot> two_shot_of(const QueueProgram& program, const LlProgram& ll, const LaunchShape& shape,
                                     const DeviceRank& self) const;
  bool is_resident(const Kernel& kernel, int ctas_beside = 0) const;
  static int resident_ctas(const Kernel& kernel);

  void set(const Buffers& buffers, SimpleLaunch& launch) const;
  void set(const Buffers& buffers, Ll& ll) const;
  void set(const Buffers& buffers, TwoShot& it, bool is_aligned) const;

  const Call call_;
  const int ranks_per_device_;
  Kernel kernel_;                            // for buffers of any alignment, but with signals aligned to vectors
  Kernel unaligned_;                         // with signals, for others
  std::variant<SimpleLaunch, Ll> argument_;  // of both
  std::optional<TwoShot> two_shot_;          // better
};

}  // namespace plait
