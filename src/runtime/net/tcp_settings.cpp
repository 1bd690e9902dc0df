#include "runtime/net/tcp_settings.hpp"

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <tuple>

#include "base/error.hpp"

namespace plait {
namespace {

bool is_empty(const std::string& folder) {
  std::error_code error;
  return std::filesystem::directory_iterator(folder, error) == std::filesystem::directory_iterator() || error;
}

bool is_set(const std::string& variable) { return std::getenv(variable.c_str()) != nullptr; }

std::vector<UcxSetting> without_those_of_users(std::vector<UcxSetting> settings) {
  std::erase_if(settings, [](const UcxSetting& it) {
    return is_set(join("UCX_", it.name)) || is_set(join("UCX_TCP_", it.name));
  });
  return settings;
}

}  // namespace

// Seen with 1.13 to 1.18, and 1.22.
std::string name_for_program(const UcxSetting& setting, const UcxVersion& version) {
  constexpr UcxVersion kFirstWithWholeNames{1, 17};
  const bool is_whole =
      std::tie(version.major, version.minor) >= std::tie(kFirstWithWholeNames.major, kFirstWithWholeNames.minor);
  return join(setting.is_of_tcp && is_whole ? "TCP_" : "", setting.name);
}

std::vector<UcxSetting> settings_for_tcp(const std::string& devices) {
  if (!is_empty(devices)) return {};
  return without_those_of_users({
      {"RNDV_THRESH", "inf", false},  // long messages go in parts that nobody asks for
      {"TX_SEG_SIZE", "64K"},         // a segment of TCP, as the kernel cuts it
      {"RX_SEG_SIZE", "256K"},        // a part of a long message, so that it is one call of the kernel
  });
}

std::vector<UcxSetting> settings_of_rank() { return without_those_of_users({{"CONN_NB", "y"}}); }

std::string to_text(const std::vector<UcxSetting>& settings) {
  std::string text;
  for (const UcxSetting& it : settings) text += join(it.name, "=", it.value, " ");
  return text;
}

}  // namespace plait
