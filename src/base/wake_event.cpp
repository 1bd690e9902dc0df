#include "base/wake_event.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/error.hpp"

namespace plait {
namespace {

UniqueFd new_event() {
  UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) fail_system(errno, "cannot make an event for a thread");
  return event;
}

}  // namespace

WakeEvent::WakeEvent() : descriptor_(new_event()) {}

void WakeEvent::set() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t count = ::write(descriptor_.get(), &one, sizeof one);
}

void WakeEvent::clear() const {
  uint64_t count;
  [[maybe_unused]] const ssize_t bytes = ::read(descriptor_.get(), &count, sizeof count);
}

}  // namespace plait
