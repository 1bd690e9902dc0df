// Making the drop-in, and the line by which it introduces itself.
#include "api/nccl/drop_in.hpp"

#include <dlfcn.h>

#include <algorithm>

#include "base/error.hpp"

namespace plait::nccl {
namespace {

// PLAIT_LOG, or "info" where NCCL_DEBUG asks NCCL for as much. A variable that cannot be read is no reason to keep a
// program from NCCL.
LogLevel level_of(const Environment& environment) {
  LogLevel level = LogLevel::kWarn;
  try {
    level = Settings::from_environment(environment).log_level;
  } catch (const Error& error) {
    Logger(level).warn(error.what());
  }
  const auto debug = environment.find("NCCL_DEBUG");
  const std::string asked = debug == environment.end() ? "" : debug->second;
  const bool is_info = asked == "INFO" || asked == "TRACE" || asked == "info" || asked == "trace";
  return is_info ? std::max(level, LogLevel::kInfo) : level;
}

std::string own_path() {
  Dl_info info{};
  return dladdr(reinterpret_cast<void*>(&level_of), &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "Plait";
}

}  // namespace

DropIn& DropIn::of_this_process() {
  static DropIn* const drop_in = new DropIn(process_environment());
  return *drop_in;
}

DropIn::DropIn(const Environment& environment) : log_(level_of(environment)), real_(environment) { introduce(); }

void DropIn::introduce() const {
  if (!real_.is_open()) {
    log_.error(real_.error());
    return;
  }
  log_.info(own_path(), " (Plait " PLAIT_VERSION ") stands in for NCCL and passes every call on to NCCL ",
            real_.version_text(), " (", real_.path(),
            "); it takes over none, since it has no measurements by which Plait is faster");
}

}  // namespace plait::nccl
