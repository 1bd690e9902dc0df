// PLAIT_NCCL_TAKE: which calls Plait may take over from NCCL.
#pragma once

#include <string>
#include <string_view>

namespace plait::nccl {

enum class TakeMode {
  kNone,  // every call goes to NCCL
  kWins,  // those that a table says Plait is faster at, on this machine
  kAll,   // all that Plait can perform
};

struct TakeSetting {
  TakeMode mode = TakeMode::kWins;
  bool graphs = false;  // also calls on streams that are being captured

  // "", "none", "wins" or "all", perhaps with ",graphs". Throws kInvalidInput for anything else.
  static TakeSetting parse(std::string_view text);
  std::string text() const;
};

}  // namespace plait::nccl
