// The network interfaces of this host, and which of them ranks of other hosts are to use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/internet_address.hpp"

namespace plait {

struct InterfaceAddress {
  std::string interface;
  InternetAddress address;
};

// Addresses of the interfaces that are up, in the system's order.
std::vector<InterfaceAddress> interface_addresses();

// Whether `list` takes an interface, in the syntax of NCCL_SOCKET_IFNAME: names separated by commas. "eth" takes all
// names that begin so, "=eth0" only that one, "^docker,lo" all that do not begin so, "^=eth0" all but that one.
bool takes_interface(std::string_view list, std::string_view interface);

// The address at which ranks of other hosts reach this one, of the interfaces that `list` takes. If it is empty, the
// first of these kinds that has an address counts: ib…; all others; docker… and virbr…; lo. IPv4 before IPv6, and
// loopback last. Throws kInvalidInput, which lists the interfaces, if `list` takes none that has an address.
InternetAddress choose_address(const std::vector<InterfaceAddress>& all, const std::string& list);

}  // namespace plait
