// The drop-in of this process: the real NCCL behind it, and what it says of itself. Made at the first call of NCCL, and
// never destroyed: programs make calls until they end.
#pragma once

#include <string>

#include "api/nccl/real_library.hpp"
#include "base/log.hpp"

namespace plait::nccl {

class DropIn {
 public:
  static DropIn& of_this_process();

  const RealLibrary& real() const { return real_; }
  const Logger& log() const { return log_; }

 private:
  explicit DropIn(const Environment& environment);
  void introduce() const;

  Logger log_;
  RealLibrary real_;
};

}  // namespace plait::nccl
