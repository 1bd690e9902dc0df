// An IPv4 or IPv6 address of a host.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plait {

// Plain bytes of a fixed size.
struct InternetAddress {
  enum class Family : uint16_t { kNone = 0, kIpv4 = 4, kIpv6 = 6 };
  Family family = Family::kNone;
  std::array<uint8_t, 16> bytes{};  // in network order; of IPv4 the first four

  static InternetAddress loopback();          // 127.0.0.1
  static InternetAddress any(Family family);  // to listen: all addresses of this host
  // No value for another family, and for an IPv6 address that means something only on one link (fe80::/10).
  static std::optional<InternetAddress> of(const sockaddr* address);

  bool is_there() const { return family != Family::kNone; }
  bool is_loopback() const;
  std::string text() const;  // "10.0.0.1", "fd00::1"

  friend bool operator==(const InternetAddress&, const InternetAddress&) = default;
};

// The addresses of a host by its name, or of an address as a text; IPv4 before IPv6, else in the system's order. Throws
// kSystem if there is none, and says that `source` named the host.
std::vector<InternetAddress> resolve(const std::string& host, const std::string& source);

}  // namespace plait
