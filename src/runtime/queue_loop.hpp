// The loop that performs a queue. All machines share one source (NVG-50 with the repairs of the papers' Algorithm 1).
// The host runtime and the sanitizers run it on CPUs, and the CUDA runtime compiles it into its kernel.
//
// An Engine knows how to reduce, signal and wait; one over several nodes also knows how to send and receive. An
// Operation knows its kind. The loop itself keeps the one rule that makes plans right: operations of a queue happen in
// order, and nothing after a wait happens before its signal has come.
#pragma once

#include <concepts>

#include "base/host_device.hpp"
#include "plan/plan.hpp"

namespace plait {

enum class QueueState : int {
  kDone,     // the queue has performed all its operations
  kBlocked,  // it waits for a signal or message that has not come; call again
};

// Performs operations[next], operations[next + 1], … and advances `next`, until the queue ends or has to wait. The
// Engine has void reduce(const Operation&), void signal(const Operation&) and bool wait(const Operation&). On the host,
// wait() returns at once and tells whether the signal has come. On CUDA it waits for a bounded time and returns false
// if the collective is aborted. One of the network also has bool send() and bool receive(), which return at once and
// tell whether the queue may go on. So does a reduce() that returns bool.
template <class Operation, class Engine>
PLAIT_HOST_DEVICE inline QueueState advance_queue(const Operation* operations, int count, int& next, Engine& engine) {
  for (; next < count; ++next) {
    const Operation& operation = operations[next];
    switch (operation.kind) {
      case OpKind::kReduce:
        if constexpr (requires {
                        { engine.reduce(operation) } -> std::same_as<bool>;
                      }) {
          if (!engine.reduce(operation)) return QueueState::kBlocked;
        } else {
          engine.reduce(operation);
        }
        break;
      case OpKind::kSignal:
        engine.signal(operation);
        break;
      case OpKind::kWait:
        if (!engine.wait(operation)) return QueueState::kBlocked;
        break;
      case OpKind::kSend:  // lowered to reduces and signals before a queue runs where the engine has no network
        if constexpr (requires { engine.send(operation); }) {
          if (!engine.send(operation)) return QueueState::kBlocked;
        }
        break;
      case OpKind::kReceive:
        if constexpr (requires { engine.receive(operation); }) {
          if (!engine.receive(operation)) return QueueState::kBlocked;
        }
        break;
    }
  }
  return QueueState::kDone;
}

}  // namespace plait
