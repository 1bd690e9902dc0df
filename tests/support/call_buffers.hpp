// The buffers of one rank for one call, laid out as oddly as the interface allows, which know afterwards whether
// anything was written that should not have been.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include "bench/exact_input.hpp"
#include "runtime/call.hpp"
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
      std::byte* both = make(first_, whole, layout.input_offset);
      input_ = one_in ? both + own_block : both;
      output_ = one_out ? both + own_block : both;
    } else {
      const bool no_input = input_elements(call, ranks, rank) == 0 && layout.null_where_unused;
      const bool no_output = output_elements(call, ranks, rank) == 0 && layout.null_where_unused;
      if (!no_input) input_ = make(first_, one_in ? block : whole, layout.input_offset);
      if (!no_output) output_ = make(second_, one_out ? block : whole, layout.output_offset);
    }
  }

  std::byte* input() { return input_; }
  std::byte* output() { return output_; }
  size_t output_bytes() const { return output_bytes_; }

  // Call with the input filled, just before the call.
  void remember() {
    first_before_ = first_;
    second_before_ = second_;
  }

  // Everything but the output must be as it was.
  void require_untouched_surroundings() {
    std::vector<std::byte>& holder = in_place_ ? first_ : second_;
    std::vector<std::byte>& before = in_place_ ? first_before_ : second_before_;
    if (output_bytes_ > 0) {
      const size_t at = static_cast<size_t>(output_ - holder.data());
      std::memcpy(before.data() + at, output_, output_bytes_);
    }
    require(first_ == first_before_, in_place_ ? "bytes around the output were written" : "the input was written");
    require(second_ == second_before_, "bytes around the output were written");
  }

 private:
  static constexpr size_t kGuardBytes = 320;

  static std::byte* make(std::vector<std::byte>& storage, size_t bytes, size_t offset) {
    storage.resize(bytes + offset + 2 * kGuardBytes);
    for (size_t i = 0; i < storage.size(); ++i) storage[i] = static_cast<std::byte>(i * 37 + 11);
    return storage.data() + kGuardBytes + offset;
  }

  const size_t output_bytes_;
  const bool in_place_;
  std::vector<std::byte> first_, second_, first_before_, second_before_;
  std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
};

}  // namespace plait::test
