#include "runtime/interfaces.hpp"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.hpp"

namespace plait {
namespace {

// A list of names to leave out takes the loopback interface too, which other hosts do not reach.
std::optional<InternetAddress> first_address(const std::vector<InterfaceAddress>& all, std::string_view list) {
  const auto rank_of = [](const InternetAddress& it) { return std::pair(it.is_loopback(), it.family); };
  std::optional<InternetAddress> chosen;
  for (const InterfaceAddress& it : all) {
    if (!takes_interface(list, it.interface)) continue;
    if (!chosen || rank_of(it.address) < rank_of(*chosen)) chosen = it.address;
  }
  return chosen;
}

[[noreturn]] void fail_without_interface(const std::vector<InterfaceAddress>& all, const std::string& list) {
  std::string there;
  for (const InterfaceAddress& it : all) {
    there += join(there.empty() ? "" : ", ", it.interface, " (", it.address.text(), ")");
  }
  fail(ErrorCode::kInvalidInput, "PLAIT_SOCKET_IFNAME is \"", list,
       "\", but no network interface of this host that is up and has an address fits; there are: ",
       there.empty() ? "none" : there);
}

}  // namespace

std::vector<InterfaceAddress> interface_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) fail_system(errno, "cannot list the network interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(first, ::freeifaddrs);
  std::vector<InterfaceAddress> all;
  for (const ifaddrs* it = first; it != nullptr; it = it->ifa_next) {
    const auto address = InternetAddress::of(it->ifa_addr);
    if (address && (it->ifa_flags & IFF_UP) != 0) all.push_back({it->ifa_name, *address});
  }
  return all;
}

bool takes_interface(std::string_view list, std::string_view interface) {
  const bool excludes = list.starts_with('^');
  if (excludes) list.remove_prefix(1);
  const bool exactly = list.starts_with('=');
  if (exactly) list.remove_prefix(1);
  bool is_listed = false;
  while (!list.empty()) {
    const std::string_view name = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), name.size() + 1));
    if (!name.empty()) is_listed |= exactly ? interface == name : interface.starts_with(name);
  }
  return is_listed != excludes;
}

InternetAddress choose_address(const std::vector<InterfaceAddress>& all, const std::string& list) {
  if (!list.empty()) {
    if (const auto address = first_address(all, list)) return *address;
    fail_without_interface(all, list);
  }
  for (const char* kind : {"ib", "^ib,docker,virbr,lo", "docker,virbr", "lo"}) {
    if (const auto address = first_address(all, kind)) return *address;
  }
  return InternetAddress::loopback();
}

}  // namespace plait
