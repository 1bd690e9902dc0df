// The profile that a user names in place of the one that fits the machine (PLAIT_PROFILE).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "model/profile.hpp"
#include "topology/topology.hpp"

namespace plait {

// The text of Settings::profile; empty where none is named. Throws kInvalidInput.
std::string given_profile_text(const Settings& settings);

// Reads it for ranks on these devices; null where none is named. Throws kInvalidInput where it cannot be read, and
// kInvalidArgument where it is for other machines.
std::shared_ptr<const Profile> given_profile(const Settings& settings, const Topology& topology,
                                             const std::vector<int>& device_of_rank);

}  // namespace plait
