// The ranks of a new communicator vote before Plait takes calls of it over. Either all ranks of a communicator take the
// same calls over, or none does.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/sha256.hpp"
#include "plait/plait.h"

namespace plait::nccl {

// A text of fixed size, cut to fit.
template <size_t room>
struct ShortText {
  char letters[room] = {};

  void set(std::string_view text) {
    const size_t length = text.copy(letters, room - 1);
    for (size_t i = length; i < room; ++i) letters[i] = '\0';
  }
  const char* c_str() const { return letters; }
  friend bool operator==(const ShortText&, const ShortText&) = default;
};

using Reason = ShortText<384>;

// The vote of one rank, sent as bytes to other processes of this host.
struct Vote {
  int32_t yes = 0;
  int32_t rank = -1;
  int32_t process = 0;   // its number
  int32_t version = 0;   // of Plait
  ShortText<16> take;    // PLAIT_NCCL_TAKE
  ShortText<64> gpu;     // its name
  Sha256Digest table{};  // of wins
  Reason reason;         // of a no
  plaitUniqueId id{};    // rank 0's, for Plait's communicator
};
static_assert(std::is_trivially_copyable_v<Vote>);

struct VoteResult {
  int32_t yes = 0;
  Reason reason;
  plaitUniqueId id{};

  static VoteResult no(std::string_view why);
};
static_assert(std::is_trivially_copyable_v<VoteResult>);

// Yes where all say so, and would take the same calls over.
VoteResult count_votes(std::span<const Vote> votes);

}  // namespace plait::nccl
