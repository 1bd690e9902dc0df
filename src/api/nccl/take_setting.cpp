// Reading PLAIT_NCCL_TAKE.
#include "api/nccl/take_setting.hpp"

#include "base/error.hpp"

namespace plait::nccl {
namespace {

constexpr std::string_view kGraphs = ",graphs";
constexpr const char* kModes[] = {"none", "wins", "all"};

}  // namespace

TakeSetting TakeSetting::parse(std::string_view text) {
  TakeSetting setting;
  std::string_view mode = text;
  if (mode.ends_with(kGraphs)) {
    setting.graphs = true;
    mode.remove_suffix(kGraphs.size());
  }
  if (text.empty()) return setting;
  for (const TakeMode candidate : {TakeMode::kNone, TakeMode::kWins, TakeMode::kAll}) {
    if (mode != kModes[static_cast<size_t>(candidate)]) continue;
    setting.mode = candidate;
    return setting;
  }
  fail(ErrorCode::kInvalidInput, "environment variable PLAIT_NCCL_TAKE is \"", text,
       "\"; expected none, wins or all, perhaps with ,graphs");
}

std::string TakeSetting::text() const {
  return join(kModes[static_cast<size_t>(mode)], graphs ? kGraphs : std::string_view());
}

}  // namespace plait::nccl
