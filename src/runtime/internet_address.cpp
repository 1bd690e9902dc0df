#include "runtime/internet_address.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/error.hpp"

namespace plait {

InternetAddress InternetAddress::loopback() { return {Family::kIpv4, {127, 0, 0, 1}}; }

InternetAddress InternetAddress::any(Family family) { return {family, {}}; }

std::optional<InternetAddress> InternetAddress::of(const sockaddr* address) {
  if (address == nullptr) return std::nullopt;
  InternetAddress result;
  if (address->sa_family == AF_INET) {
    result.family = Family::kIpv4;
    std::memcpy(result.bytes.data(), &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, 4);
    return result;
  }
  if (address->sa_family != AF_INET6) return std::nullopt;
  const in6_addr& six = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  if (IN6_IS_ADDR_LINKLOCAL(&six)) return std::nullopt;
  if (IN6_IS_ADDR_V4MAPPED(&six)) {  // as a socket for both families has it
    result.family = Family::kIpv4;
    std::memcpy(result.bytes.data(), six.s6_addr + 12, 4);
    return result;
  }
  result.family = Family::kIpv6;
  std::memcpy(result.bytes.data(), &six, 16);
  return result;
}

bool InternetAddress::is_loopback() const {
  if (family == Family::kIpv4) return bytes[0] == 127;
  return family == Family::kIpv6 && std::memcmp(bytes.data(), &in6addr_loopback, 16) == 0;
}

std::string InternetAddress::text() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (is_there()) ::inet_ntop(family == Family::kIpv4 ? AF_INET : AF_INET6, bytes.data(), text, sizeof text);
  return text;
}

std::vector<InternetAddress> resolve(const std::string& host, const std::string& source) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &first);
  if (error != 0) {
    fail(ErrorCode::kSystem, "the host of rank 0, \"", host, "\" (", source,
         "), has no address here: ", error == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(error),
         "; give its name or address in PLAIT_MASTER_ADDR on all ranks");
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(first, ::freeaddrinfo);
  std::vector<InternetAddress> addresses;
  for (const addrinfo* it = first; it != nullptr; it = it->ai_next) {
    if (const auto address = InternetAddress::of(it->ai_addr)) addresses.push_back(*address);
  }
  std::stable_sort(addresses.begin(), addresses.end(),
                   [](const auto& a, const auto& b) { return a.family < b.family; });
  if (addresses.empty()) {
    fail(ErrorCode::kSystem, "the host of rank 0, \"", host, "\" (", source,
         "), has no address that other hosts reach");
  }
  return addresses;
}

}  // namespace plait
