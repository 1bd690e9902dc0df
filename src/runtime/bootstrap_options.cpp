#include "runtime/bootstrap_options.hpp"

#include <utility>

#include "runtime/waiting.hpp"

namespace plait {

Deadline BootstrapOptions::deadline(std::function<std::string()> whom) const {
  if (!log.shows(LogLevel::kWarn)) return deadline();
  WaitClock clock;
  clock.look();
  return Deadline::after(
      timeout_seconds, [clock, wait = LongWait(notice_seconds), whom = std::move(whom), options = *this]() mutable {
        if (options.interrupt_check) options.interrupt_check();
        clock.look();
        if (const auto seconds = wait.notice(clock.waited())) {
          options.log.warn("has waited ", *seconds, " s for ", whom(), "; fails after ", options.timeout_seconds,
                           " s (PLAIT_BOOTSTRAP_TIMEOUT_SEC)", options.about_ranks);
        }
      });
}

}  // namespace plait
