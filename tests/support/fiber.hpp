// Functions that take turns in one thread, each on a stack of its own.
//
// swapcontext() has the kernel set the signal mask each time, which took two thirds of the time of tests with millions
// of short turns. So a fiber only begins with a context; from then on compilers save and restore what they have to
// (__builtin_setjmp). What jumps is hidden from the address sanitizer, which would forget what it knows of the stack.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <memory>
#include <span>

namespace plait::test {

class Fiber {
 public:
  // `body` begins with the first turn. Once it has returned, there is no other one.
  Fiber(void (*body)(), size_t stack_bytes)
      : body_(body), stack_bytes_(stack_bytes), stack_(std::make_unique_for_overwrite<char[]>(stack_bytes)) {
    prepare();
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  std::span<const char> stack() const { return {stack_.get(), stack_bytes_}; }

  // Lets it take a turn, until it pauses or returns.
  [[gnu::noinline, gnu::no_sanitize("address")]] void resume() {
    running_ = this;
    if (__builtin_setjmp(resumed_from_) == 0) enter();
  }

  // For the one that runs: the turn is over.
  [[gnu::noinline, gnu::no_sanitize("address")]] static void pause() {
    Fiber* const self = running_;
    if (__builtin_setjmp(self->paused_at_) == 0) self->leave();
  }

 private:
  using Registers = void* [5];

  // By itself, for compilers take getcontext() for a function that returns twice, and warn of variables around it.
  void prepare() {
    getcontext(&beginning_);
    beginning_.uc_stack.ss_sp = stack_.get();
    beginning_.uc_stack.ss_size = stack_bytes_;
    makecontext(&beginning_, &Fiber::run, 0);
  }
  [[gnu::no_sanitize("address")]] static void run() {
    Fiber* const self = running_;
    self->body_();
    self->leave();
  }
  [[noreturn, gnu::noinline, gnu::no_sanitize("address")]] void enter() {
    if (has_begun_) __builtin_longjmp(paused_at_, 1);
    has_begun_ = true;
    setcontext(&beginning_);
    __builtin_unreachable();
  }
  [[noreturn, gnu::noinline, gnu::no_sanitize("address")]] void leave() { __builtin_longjmp(resumed_from_, 1); }

  static inline thread_local Fiber* running_ = nullptr;
  void (*const body_)();
  const size_t stack_bytes_;
  const std::unique_ptr<char[]> stack_;
  ucontext_t beginning_{};
  bool has_begun_ = false;
  Registers resumed_from_{}, paused_at_{};
};

}  // namespace plait::test
