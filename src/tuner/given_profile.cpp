// Profiles by their path.
#include "tuner/given_profile.hpp"

#include "base/error.hpp"
#include "topology/text_file.hpp"

namespace plait {
namespace {

constexpr size_t kMaxProfileBytes = size_t{4} << 20;

}  // namespace

std::string given_profile_text(const Settings& settings) {
  if (settings.profile.empty()) return "";
  try {
    return read_text_file(settings.profile, kMaxProfileBytes);
  } catch (const Error& error) {
    fail(error.code(), "PLAIT_PROFILE is '", settings.profile, "': ", error.what());
  }
}

std::shared_ptr<const Profile> given_profile(const Settings& settings, const Topology& topology,
                                             const std::vector<int>& device_of_rank) {
  if (settings.profile.empty()) return nullptr;
  auto profile = std::make_shared<const Profile>(parse_profile(given_profile_text(settings), settings.profile));
  if (fits(*profile, topology, device_of_rank)) return profile;
  fail(ErrorCode::kInvalidArgument, "profile ", profile->name, " (", settings.profile, ") is not for these ranks of ",
       topology.name, ": its \"fits\" says for which; name another, or leave PLAIT_PROFILE unset");
}

}  // namespace plait
