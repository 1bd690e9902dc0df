#include "base/library_thread.hpp"

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <utility>

#include "base/error.hpp"

namespace plait {
namespace {

// While it lives, this thread takes no signals, and threads that it starts inherit that.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

std::thread start_library_thread(std::string_view purpose, std::function<void()> run) {
  const SignalsBlocked blocked;
  try {
    return std::thread(std::move(run));
  } catch (const std::system_error& error) {
    fail(ErrorCode::kResources, "no thread can be started for ", purpose, ": ", error.what(),
         "; raise the limit of processes (ulimit -u)");
  }
}

}  // namespace plait
