#include "runtime/net/port_guard.hpp"

#include <linux/filter.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <tuple>

#include "base/error.hpp"
#include "runtime/host_identity.hpp"
#include "runtime/interfaces.hpp"

namespace plait {
namespace {

// The kernel takes filters of some 2,500 instructions, of which a block has up to 13.
constexpr size_t kMostBlocks = 64;

using Machine = decltype(HostIdentity::digest);

struct HostAddresses {
  Machine machine{};  // and network namespace
  std::vector<InternetAddress> addresses;
};

HostAddresses read_addresses(const std::string& text) {
  HostAddresses host;
  if (text.size() < sizeof host.machine) return host;
  std::memcpy(&host.machine, text.data(), sizeof host.machine);
  host.addresses.resize((text.size() - sizeof host.machine) / sizeof(InternetAddress));
  if (host.addresses.empty()) return host;
  std::memcpy(host.addresses.data(), text.data() + sizeof host.machine,
              host.addresses.size() * sizeof(InternetAddress));
  return host;
}

int bits_of(const InternetAddress& address) { return address.family == InternetAddress::Family::kIpv4 ? 32 : 128; }

// The address with all but its first `bits` bits set to 0.
InternetAddress first_of_block(InternetAddress address, int bits) {
  for (int byte = 0; byte < static_cast<int>(address.bytes.size()); ++byte) {
    const int kept = std::clamp(bits - 8 * byte, 0, 8);
    address.bytes[static_cast<size_t>(byte)] &= static_cast<uint8_t>(0xff00 >> kept);
  }
  return address;
}

void keep_one_of_each(std::vector<InternetAddress>& addresses) {
  std::ranges::sort(addresses, [](const InternetAddress& a, const InternetAddress& b) {
    return std::tie(a.family, a.bytes) < std::tie(b.family, b.bytes);
  });
  addresses.erase(std::ranges::unique(addresses).begin(), addresses.end());
}

// A program for the kernel's packet filter (BPF, as in tcpdump). It sees a packet from the header of TCP on.
class Filter {
 public:
  explicit Filter(InternetAddress::Family family)
      : source_(SKF_NET_OFF + (family == InternetAddress::Family::kIpv4 ? 12 : 8)) {
    constexpr uint32_t kFlags = 13, kSyn = 2;
    add(BPF_LD | BPF_B | BPF_ABS, kFlags);
    add(BPF_JMP | BPF_JSET | BPF_K, kSyn, 1, 0);
    let_pass();  // of a connection that exists
  }

  // Lets packets pass that come from this block.
  void add_block(const InternetAddress& first, int bits) {
    const int words = (bits + 31) / 32;
    std::vector<sock_filter> block;
    for (int word = 0; word < words; ++word) {
      const int kept = std::min(bits - 32 * word, 32);
      block.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(source_ + 4 * word)));
      if (kept < 32) block.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~uint32_t{0} << (32 - kept)));
      block.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, word_of(first, word), 0, 0));
    }
    // Each comparison that fails leads behind the block.
    for (size_t i = 0; i < block.size(); ++i) {
      if (BPF_CLASS(block[i].code) == BPF_JMP) block[i].jf = static_cast<uint8_t>(block.size() - i);
    }
    instructions_.insert(instructions_.end(), block.begin(), block.end());
    let_pass();
  }

  // Drops all else, from now on.
  void attach_to(int socket) {
    add(BPF_RET | BPF_K, 0);
    const sock_fprog program{static_cast<unsigned short>(instructions_.size()), instructions_.data()};
    if (::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0) return;
    fail_system(errno, "the kernel takes no packet filter for UCX's port");
  }

 private:
  static uint32_t word_of(const InternetAddress& address, int word) {
    uint32_t value = 0;
    for (size_t byte = 0; byte < 4; ++byte) value = value << 8 | address.bytes[4 * static_cast<size_t>(word) + byte];
    return value;
  }

  void add(int code, uint32_t value, uint8_t on_true = 0, uint8_t on_false = 0) {
    instructions_.push_back({static_cast<uint16_t>(code), on_true, on_false, value});
  }
  void let_pass() { add(BPF_RET | BPF_K, ~uint32_t{0}); }

  const int source_;  // where a packet has the address that it comes from
  std::vector<sock_filter> instructions_;
};

// Where a socket listens for TCP. No value if it does not: another thread may have closed it just now.
std::optional<SocketAddress> listening_place(int descriptor) {
  if (!is_listening(descriptor)) return std::nullopt;
  try {
    const SocketAddress place = SocketAddress::of(descriptor);
    if (place.family() == AF_INET || place.family() == AF_INET6) return place;
  } catch (const Error&) {
  }
  return std::nullopt;
}

std::vector<int> descriptors() {
  std::vector<int> all;
  std::error_code error;
  using Files = std::filesystem::directory_iterator;
  for (Files it("/proc/self/fd", error); !error && it != Files(); it.increment(error)) {
    const std::string name = it->path().filename();
    int descriptor = -1;
    std::from_chars(name.data(), name.data() + name.size(), descriptor);
    all.push_back(descriptor);
  }
  return all;
}

// Whether UCX's address has this port. Another thread of the program may have opened a socket at the same time.
bool names_port(const std::string& address, uint16_t port) {
  const char bytes[] = {static_cast<char>(port >> 8), static_cast<char>(port & 0xff)};
  return address.find(std::string(bytes, sizeof bytes)) != std::string::npos;
}

InternetAddress::Family family_of(const SocketAddress& place) {
  return place.family() == AF_INET ? InternetAddress::Family::kIpv4 : InternetAddress::Family::kIpv6;
}

Filter filter_for(InternetAddress::Family family, const std::vector<InternetAddress>& callers) {
  std::vector<InternetAddress> of_family;
  std::ranges::copy_if(callers, std::back_inserter(of_family), [&](const auto& it) { return it.family == family; });
  const AddressBlocks blocks = blocks_of(of_family, kMostBlocks);
  Filter filter(family);
  for (const InternetAddress& first : blocks.first) filter.add_block(first, blocks.bits);
  return filter;
}

}  // namespace

std::string own_addresses() {
  const Machine machine = own_host("").digest;
  std::string text(reinterpret_cast<const char*>(machine.data()), machine.size());
  try {
    for (const InterfaceAddress& it : interface_addresses()) {
      text.append(reinterpret_cast<const char*>(&it.address), sizeof it.address);
    }
  } catch (const Error&) {
    text.resize(machine.size());
  }
  return text;
}

std::optional<std::vector<InternetAddress>> callers_of(int rank, const std::vector<std::string>& texts,
                                                       const std::vector<int>& node_of) {
  const auto at = [](int index) { return static_cast<size_t>(index); };
  const Machine machine = read_addresses(texts[at(rank)]).machine;
  std::vector<InternetAddress> callers;
  for (size_t other = 0; other < texts.size(); ++other) {
    if (node_of[other] == node_of[at(rank)]) continue;
    const HostAddresses host = read_addresses(texts[other]);
    if (host.addresses.empty()) return std::nullopt;
    for (const InternetAddress& address : host.addresses) {
      if (!address.is_loopback() || host.machine == machine) callers.push_back(address);
    }
  }
  keep_one_of_each(callers);
  return callers;
}

AddressBlocks blocks_of(const std::vector<InternetAddress>& addresses, size_t most) {
  AddressBlocks blocks{addresses.empty() ? 0 : bits_of(addresses.front()), addresses};
  keep_one_of_each(blocks.first);
  while (blocks.first.size() > most) {
    --blocks.bits;
    for (InternetAddress& address : blocks.first) address = first_of_block(address, blocks.bits);
    keep_one_of_each(blocks.first);
  }
  return blocks;
}

PortGuard::PortGuard() : before_(listening()) {}

std::vector<PortGuard::Port> PortGuard::listening() {
  std::vector<Port> ports;
  for (const int descriptor : descriptors()) {
    if (const auto place = listening_place(descriptor)) ports.push_back({descriptor, *place});
  }
  return ports;
}

void PortGuard::admit_only(const std::vector<InternetAddress>& callers, const std::string& address) {
  for (const Port& port : listening()) {
    const bool is_earlier = std::ranges::find(before_, port) != before_.end();
    if (is_earlier || !names_port(address, port.place.port())) continue;
    filter_for(family_of(port.place), callers).attach_to(port.socket);
    ports_.push_back(port);
  }
}

void PortGuard::admit_nobody() const {
  for (const Port& port : ports_) {
    if (listens_at(port.socket, port.place)) filter_for(family_of(port.place), {}).attach_to(port.socket);
  }
}

}  // namespace plait
