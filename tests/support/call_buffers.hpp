// The buffers of one rank for one call, laid out as oddly as the interface allows. Afterwards they tell whether
// anything was written that must not be. The address sanitizer finds reads outside of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "bench/exact_input.hpp"
#include "runtime/call.hpp"
#include "support/forbidden_memory.hpp"
#include "support/outcome.hpp"

namespace plait::test {

// How a rank lays out its buffers.
struct BufferLayout {
  bool in_place = false;
  size_t input_offset = 0;  // bytes by which the buffers miss their alignment
  size_t output_offset = 0;
  bool null_where_unused = false;
};

class CallBuffers {
 public:
  CallBuffers(const Call& call, int ranks, int rank, const BufferLayout& layout)
      : output_bytes_(output_elements(call, ranks, rank) * size_of(call.type)), in_place_(layout.in_place) {
    const size_t block = call.count * size_of(call.type);
    const size_t whole = block * (has_rank_blocks(call.collective) ? static_cast<size_t>(ranks) : 1);
    const size_t own_block = static_cast<size_t>(rank) * block;
    const bool one_in = gathers(call.collective), one_out = scatters(call.collective);
    if (layout.in_place) {
      std::byte* both = first_.make(whole, layout.input_offset, true);
      input_ = one_in ? both + own_block : both;
      output_ = one_out ? both + own_block : both;
    } else {
      const bool has_input = input_elements(call, ranks, rank) > 0, has_output = output_bytes_ > 0;
      const bool no_input = !has_input && layout.null_where_unused;
      const bool no_output = !has_output && layout.null_where_unused;
      if (!no_input) input_ = first_.make(one_in ? block : whole, layout.input_offset, has_input);
      if (!no_output) output_ = second_.make(one_out ? block : whole, layout.output_offset, has_output);
    }
  }

  std::byte* input() { return input_; }
  std::byte* output() { return output_; }
  size_t output_bytes() const { return output_bytes_; }
  // All buffers, with the guards around them.
  std::array<std::span<const std::byte>, 2> memory() const { return {first_.all(), second_.all()}; }

  // To be used just before the call, when the input is filled.
  void remember() {
    first_.remember();
    second_.remember();
  }

  // Everything except the output must be unchanged.
  void require_untouched_surroundings() const {
    const Memory &its = in_place_ ? first_ : second_, &other = in_place_ ? second_ : first_;
    require(other.is_as_before(), "the input was written");
    require(its.is_as_before(output_, output_bytes_), "bytes around the output were written");
  }

  // Everything must be unchanged.
  void require_untouched() const { require(first_.is_as_before() && second_.is_as_before(), "a buffer was written"); }

 private:
  // One buffer, or both in place, with guards around.
  class Memory {
   public:
    Memory() = default;
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory() { allow_memory(all_.data(), all_.size()); }

    std::byte* make(size_t bytes, size_t offset, bool is_used) {
      all_.resize(bytes + offset + 2 * kGuardBytes);
      for (size_t i = 0; i < all_.size(); ++i) all_[i] = static_cast<std::byte>(i * 37 + 11);
      first_ = kGuardBytes + offset;
      last_ = first_ + (is_used ? bytes : 0);
      forbid_guards();
      return all_.data() + first_;
    }

    std::span<const std::byte> all() const { return all_; }

    void remember() {
      allow_memory(all_.data(), all_.size());
      before_ = all_;
      forbid_guards();
    }

    // Whether everything is unchanged, except these bytes.
    bool is_as_before(const std::byte* but = nullptr, size_t but_bytes = 0) const {
      allow_memory(all_.data(), all_.size());
      const auto first = but_bytes == 0 ? 0 : but - all_.data();
      const auto last = first + static_cast<std::ptrdiff_t>(but_bytes);
      const bool is_same = all_.size() == before_.size() &&
                           std::equal(all_.begin(), all_.begin() + first, before_.begin()) &&
                           std::equal(all_.begin() + last, all_.end(), before_.begin() + last);
      forbid_guards();
      return is_same;
    }

   private:
    static constexpr size_t kGuardBytes = 320;

    // Makes the address sanitizer report accesses to the guards.
    void forbid_guards() const {
      forbid_memory(all_.data(), first_);
      forbid_memory(all_.data() + last_, all_.size() - last_);
    }

    std::vector<std::byte> all_, before_;
    size_t first_ = 0, last_ = 0;  // begin and end of the buffer
  };

  const size_t output_bytes_;
  const bool in_place_;
  Memory first_, second_;
  std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
};

}  // namespace plait::test
