// Blocks signals while a thread is started, so that the program's handlers run on the program's own threads.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace plait {

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

}  // namespace plait
