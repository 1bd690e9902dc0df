// The edge between C++ and C: exceptions become results here, and nowhere else.
#pragma once

#include <pthread.h>

#include <stdexcept>
#include <string>

#include "base/error.hpp"
#include "plait/plait.h"

namespace plait::c {

// The answer of a function of the C interface: a result, and a sentence for plaitGetLastError.
struct Answer {
  plaitResult_t result = plaitSuccess;
  std::string text;
  bool is_echo = false;  // the failure happened on another rank, whose own message is better
};

// Thrown where the C interface itself refuses a call.
class Refusal : public std::runtime_error {
 public:
  Refusal(plaitResult_t result, const std::string& text, bool is_echo = false)
      : std::runtime_error(text), result_(result), is_echo_(is_echo) {}
  plaitResult_t result() const { return result_; }
  bool is_echo() const { return is_echo_; }

 private:
  plaitResult_t result_;
  bool is_echo_;
};

template <class... Parts>
[[noreturn]] void refuse(plaitResult_t result, const Parts&... parts) {
  throw Refusal(result, join(parts...));
}

template <class Pointer>
void require(Pointer pointer, const char* argument) {
  if (pointer == nullptr) refuse(plaitInvalidArgument, argument, " is NULL");
}

// The result that tells a C caller of this error.
plaitResult_t result_of(ErrorCode code);

// The answer for the exception at hand, with the function's name before its message. Call it in a catch block.
Answer answer_of_exception(const char* function);

// Runs the body of the C function `function`.
template <class Body>
Answer attempt(const char* function, const Body& body) {
  try {
    body();
    return {};
  } catch (...) {
    return answer_of_exception(function);
  }
}

// This thread's last error in words.
const char* last_error();
// Keeps the words of a failure for last_error().
void remember_failure(const Answer& answer) noexcept;
// Passes the result on; a failure's words are kept.
inline plaitResult_t remember(const Answer& answer) noexcept {
  if (answer.result != plaitSuccess) remember_failure(answer);
  return answer.result;
}

// While it lives, pthread_cancel does not end the thread. That would unwind code that must not be unwound, while other
// ranks are in the middle of a call.
class Uncancelled {
 public:
  Uncancelled() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~Uncancelled() { pthread_setcancelstate(before_, nullptr); }
  Uncancelled(const Uncancelled&) = delete;
  Uncancelled& operator=(const Uncancelled&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

// The whole of a C function.
template <class Body>
plaitResult_t at_edge(const char* function, const Body& body) noexcept {
  const Uncancelled uncancelled;
  try {
    return remember(attempt(function, body));
  } catch (...) {
    return remember({plaitSystemError, ""});  // no memory for the words
  }
}

}  // namespace plait::c
