// The GPUs that a library has kernels for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plait {

// Compute capabilities are numbers such as 90 for 9.0. The oldest that kernels can be compiled for is that of Turing.
inline constexpr int kLeastCapability = 75;
std::string capability_text(int capability);  // "9.0"

class KernelTargets {
 public:
  // The targets of this library; none where it was built without CUDA.
  static KernelTargets built();
  // Reads targets as CMake names them, with commas between: "75-virtual,80-real,90". Throws kInvalidArgument.
  static KernelTargets parse(std::string_view names);

  bool empty() const { return targets_.empty(); }
  // Machine code runs on GPUs of that capability and of later ones with the same first number. PTX the driver compiles
  // for all later ones.
  bool serve(int capability) const;
  // "machine code for 8.0 and 9.0, and PTX for all from 7.5 on"
  std::string text() const;

 private:
  struct Target {
    int capability = 0;
    char only = ' ';  // 'a': for this capability, 'f': for those with the same first number
    bool has_code = false, has_ptx = false;
  };
  std::vector<Target> targets_;
};

// The message to a user whose GPU the library has no kernels for.
std::string no_kernels_text(std::string_view gpu, int capability, const KernelTargets& targets);

}  // namespace plait
