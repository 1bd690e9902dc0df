// Functions that take turns in one thread, each on its own stack.
//
// swapcontext() makes a system call for the signal mask each time; that took two thirds of the time of tests with
// millions of short turns. So a fiber only starts with a context, and then uses __builtin_setjmp, where compilers save
// and restore what they have to. Functions that jump are hidden from the address sanitizer, which would otherwise
// forget what it knows about the stack.
#pragma once

#include <ucontext.h>

#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#endif
#ifndef ASAN_UNPOISON_MEMORY_REGION
#define ASAN_UNPOISON_MEMORY_REGION(start, bytes) (static_cast<void>(start), static_cast<void>(bytes))
#endif

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace plait::test {

// A stack that another fiber of this thread may have used before. Tests make millions of fibers, and fresh memory costs
// system calls and page faults: under the address sanitizer those took four fifths of the time.
class FiberStack {
 public:
  explicit FiberStack(size_t bytes) : bytes_(bytes), memory_(take(bytes)) {}
  ~FiberStack() { unused_.emplace_back(bytes_, std::move(memory_)); }
  FiberStack(const FiberStack&) = delete;
  FiberStack& operator=(const FiberStack&) = delete;

  std::span<char> get() const { return {memory_.get(), bytes_}; }

 private:
  using Memory = std::unique_ptr<char[]>;

  static Memory take(size_t bytes) {
    if (unused_.empty() || unused_.back().first != bytes) return std::make_unique_for_overwrite<char[]>(bytes);
    Memory memory = std::move(unused_.back().second);
    unused_.pop_back();
    ASAN_UNPOISON_MEMORY_REGION(memory.get(), bytes);  // a fiber may have ended in the midst of a function
    return memory;
  }

  static inline thread_local std::vector<std::pair<size_t, Memory>> unused_;
  const size_t bytes_;
  Memory memory_;
};

class Fiber {
 public:
  // `body` starts with the first turn. After it has returned, there must be no other turn.
  Fiber(void (*body)(), size_t stack_bytes) : body_(body), stack_(stack_bytes) { prepare(); }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  std::span<const char> stack() const { return stack_.get(); }

  // Gives the fiber a turn, until it pauses or returns.
  [[gnu::noinline, gnu::no_sanitize("address")]] void resume() {
    running_ = this;
    if (__builtin_setjmp(resumed_from_) == 0) enter();
  }

  // Ends the turn of the running fiber.
  [[gnu::noinline, gnu::no_sanitize("address")]] static void pause() {
    Fiber* const self = running_;
    if (__builtin_setjmp(self->paused_at_) == 0) self->leave();
  }

 private:
  using Registers = void* [5];

  // A separate function, because compilers know that getcontext() may return twice, and warn about variables around it.
  void prepare() {
    getcontext(&beginning_);
    beginning_.uc_stack.ss_sp = stack_.get().data();
    beginning_.uc_stack.ss_size = stack_.get().size();
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
  const FiberStack stack_;
  ucontext_t beginning_{};
  bool has_begun_ = false;
  Registers resumed_from_{}, paused_at_{};
};

}  // namespace plait::test
