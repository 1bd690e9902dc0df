// A Communicator as Python's threads may treat it.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <utility>

#include "api/communicator.hpp"
#include "base/error.hpp"

namespace plait::python {

namespace nb = nanobind;

// Hears Ctrl-C, most of the time: throws it. For a thread without the interpreter's lock.
inline void hear_python_signals() {
  const nb::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

// Hears Ctrl-C, and calls a function of Python, which may raise, too. None: only the former.
inline InterruptCheck interrupt_check_of(nb::handle function) {
  if (function.is_none()) return &hear_python_signals;
  // The last copy may go in a thread without the interpreter's lock.
  const std::shared_ptr<PyObject> owned(function.inc_ref().ptr(), [](PyObject* object) {
    const nb::gil_scoped_acquire acquire;
    Py_DECREF(object);
  });
  return [owned] {
    hear_python_signals();
    const nb::gil_scoped_acquire acquire;
    nb::handle(owned.get())();
  };
}

// Lives while a call is under way, also where Python closes it meanwhile; refuses two calls at once.
class CommunicatorHandle {
 public:
  explicit CommunicatorHandle(Communicator communicator, InterruptCheck check = &hear_python_signals)
      : communicator_(std::make_shared<Communicator>(std::move(communicator))) {
    communicator_->set_interrupt_check(std::move(check));
  }

  // Throws kInvalidArgument once it is closed.
  std::shared_ptr<Communicator> open() const {
    if (!communicator_) fail(ErrorCode::kInvalidArgument, "this communicator is closed");
    return communicator_;
  }
  bool closed() const { return !communicator_; }

  // Runs function(Communicator&) without the interpreter's lock: for everything that may wait.
  template <class Function>
  auto use(Function function) {
    const std::shared_ptr<Communicator> communicator = open();
    const Claim claim(*this);
    const nb::gil_scoped_release release;
    return function(*communicator);
  }

  void abort(const std::string& reason) {
    if (communicator_) communicator_->abort(reason);
  }
  void abort(const Error& failure) {
    if (communicator_) communicator_->abort(failure);
  }

  // Closed also where it throws, as Communicator::close() does.
  void close() {
    if (busy_) fail(ErrorCode::kInvalidArgument, "this communicator is in a call of another thread; abort() ends that");
    const std::shared_ptr<Communicator> leaving = std::exchange(communicator_, nullptr);
    if (!leaving) return;
    const nb::gil_scoped_release release;
    leaving->close();
  }

 private:
  struct Claim {
    explicit Claim(CommunicatorHandle& of) : handle(of) {
      if (handle.busy_.exchange(true)) {
        fail(ErrorCode::kInvalidArgument,
             "this communicator is in a call of another thread; a rank makes one call at a ",
             "time, and ranks that are threads need a communicator each (plait.in_process)");
      }
    }
    ~Claim() { handle.busy_ = false; }
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    CommunicatorHandle& handle;
  };

  std::shared_ptr<Communicator> communicator_;
  std::atomic<bool> busy_ = false;
};

}  // namespace plait::python
