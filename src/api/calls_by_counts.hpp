// A communicator's memory for calls by counts.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "runtime/bound_plan.hpp"
#include "runtime/buffer_blocks.hpp"

namespace plait {

class CallsByCounts {
 public:
  // Returns the plan of a call, bound to its blocks, from make() unless the last call was the same: counts often differ
  // from call to call, and binding is cheap. It stays until the next call of this.
  template <class Make>
  const BoundPlan& bound(const CallByCounts& call, const Make& make) {
    if (is_bound_ && last_ == call) return bound_;
    is_bound_ = false;
    bound_ = make();
    last_ = call;
    is_bound_ = true;
    return bound_;
  }
  void forget() { is_bound_ = false; }

  // Copies the blocks of an input, so that what comes may take their place, and returns where they are. The copy stays
  // until the next one. Throws kResources if the system has no memory.
  const void* copy(const Call& call, std::span<const BufferBlock> blocks, const void* input);
  // Frees a copy that is too large to keep its memory for the next one.
  void release();

 private:
  static constexpr size_t kMostKeptBytes = 4 << 20;
  CallByCounts last_;
  BoundPlan bound_;
  bool is_bound_ = false;
  std::unique_ptr<std::byte[]> copy_;
  size_t capacity_ = 0;
};

}  // namespace plait
