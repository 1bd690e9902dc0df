// A call for which everything is decided except the buffers: the kernels that may perform it, and their arguments.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "runtime/bound_plan.hpp"
#include "runtime/call.hpp"
#include "runtime/cuda/kernels/catalogue.hpp"
#include "runtime/cuda/kernels/program_memory.hpp"
#include "runtime/cuda/kernels/queue_kernel.hpp"
#include "runtime/cuda/kernels/two_shot_kernel.hpp"
#include "tuner/launch_shape.hpp"

namespace plait {

// Further arguments for the launch of a call's HostPath.
struct HostPathLaunch {
  HostBlocks blocks;
  double bytes_per_second = 0;  // see HostPath; 0: no limit
  int ctas_beside = 0;          // other CTAs that must have room on the GPU at the same time
};

class PreparedLaunch {
 public:
  // For the rank `self`; its GPU is current. `ranks_per_device`: how many ranks share that GPU, this one included; 0:
  // there is no GPU, and room for any launch, as in tests that run kernels on a CPU. `ending`: as for
  // make_queue_program(), Simple only. Throws kResources if the plan is too long for a launch or the GPU has no room
  // for it, kInvalidPlan if the protocol cannot serve it.
  PreparedLaunch(const BoundPlan& bound, const Call& call, const LaunchShape& shape, const DeviceRank& self,
                 int ranks_per_device, const BoundPlan* ending = nullptr, const HostPathLaunch* host_path = nullptr);

  // The arguments of cudaLaunchKernel, except the kernel's own argument.
  struct Kernel {
    const void* function = nullptr;
    dim3 grid, block;

    int ctas() const { return static_cast<int>(grid.x * grid.y); }
    int resident_ctas() const { return PreparedLaunch::resident_ctas(function, static_cast<int>(block.x)); }
  };
  // The kernel for these buffers, and its argument, which is valid until launch() is called again.
  struct Launch {
    const Kernel& kernel;
    void* argument;
  };

  // How many CTAs of a kernel fit on the current GPU at once.
  static int resident_ctas(const void* kernel, int threads);

  const Call& call() const { return call_; }
  int ctas() const { return kernel_.ctas(); }
  int threads() const { return static_cast<int>(kernel_.block.x); }  // of a CTA
  LaunchGrid grid() const { return {static_cast<int>(kernel_.grid.x), static_cast<int>(kernel_.grid.y)}; }
  Launch launch(const void* input, void* output);
  // For the persistent kernel: the variant and the argument of a launch of a two-shot kernel with LL. None: it is no
  // such launch.
  struct TwoShotLlLaunch {
    CallKernel kernel;
    const TwoShotLaunch& argument;  // valid as above
  };
  bool is_two_shot_ll() const;
  std::optional<TwoShotLlLaunch> two_shot_ll_launch(const void* input, void* output);
  // Launches the kernel for these buffers. A captured launch copies everything that it needs. `pdl`: see pdl.hpp.
  // Throws kSystem if CUDA refuses.
  void start(const void* input, void* output, cudaStream_t stream, bool pdl);
  // The memory that a captured launch still reads; null: none.
  std::shared_ptr<const ProgramMemory> program_memory() const;

 private:
  struct Ll {
    LlProgram program;
    LlLaunch argument;
  };
  struct Long {
    std::shared_ptr<const ProgramMemory> program;
    LongLaunch argument;
  };
  struct TwoShot {
    std::vector<TwoShotProgram::UserPlace> user_places;
    TwoShotLaunch argument;
    Kernel any, aligned;      // `aligned` is used if is_aligned and the buffers are 8-byte aligned
    bool is_aligned = false;  // as in TwoShotProgram
    int words_of_thread = 0;  // with LL; 0: LL128

    bool has_ll() const { return words_of_thread > 0; }
  };
  struct Buffers;

  std::optional<TwoShot> two_shot_of(const QueueProgram& program, const LlProgram& ll, const LaunchShape& shape,
                                     const DeviceRank& self) const;
  Long long_launch(const QueueProgram& program, const DeviceRank& self) const;
  bool is_resident(const Kernel& kernel, int ctas_beside = 0) const;

  template <class LaunchArgument>
  void set(const Buffers& buffers, LaunchArgument& launch) const;
  void set(const Buffers& buffers, Ll& ll) const;
  void set(const Buffers& buffers, TwoShot& it, bool is_aligned) const;

  const Call call_;
  const int ranks_per_device_;
  Kernel kernel_;                                  // for any buffers; Simple: for buffers aligned to vectors
  Kernel unaligned_;                               // Simple: for other buffers
  std::variant<SimpleLaunch, Ll, Long> argument_;  // of both kernels
  std::optional<TwoShot> two_shot_;                // used instead of both, if there is one
};

}  // namespace plait
