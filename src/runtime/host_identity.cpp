#include "runtime/host_identity.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "base/process.hpp"
#include "base/sha256.hpp"

namespace plait {

HostIdentity own_host(const std::string& host_id) {
  HostIdentity identity;
  const std::string host_name = own_host_name();
  // Without /proc the kernel says neither; then the name of the host has to do.
  const std::string boot = own_boot_id();
  const std::string text = join(boot.empty() ? host_name : boot, '\n', own_network_namespace(), '\n', host_id);
  const Sha256Digest digest = sha256(std::as_bytes(std::span(text)));
  std::copy_n(digest.begin(), identity.digest.size(), identity.digest.begin());
  const std::string shown = host_id.empty() ? host_name : join(host_id, " of ", host_name);
  std::strncpy(identity.name, shown.c_str(), sizeof(identity.name) - 1);
  return identity;
}

uint64_t own_kernel() {
  const std::string boot = own_boot_id();
  if (boot.empty()) return 0;
  const Sha256Digest digest = sha256(std::as_bytes(std::span(boot)));
  uint64_t number = 0;
  std::memcpy(&number, digest.data(), sizeof number);
  return number;
}

std::string to_text(const HostIdentity& identity) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : identity.digest) (text += kDigits[byte >> 4]) += kDigits[byte & 15];
  return text;
}

}  // namespace plait
