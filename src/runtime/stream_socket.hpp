// Stream sockets between processes, of one host or several, at a port or at a name. SocketAddress decides which of the
// two. After connect_to() and accept_from() both work alike, except for peer_of() and descriptors. Every socket here is
// non-blocking and closes on exec. To wait is to poll() with a Deadline.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "base/deadline.hpp"
#include "base/unique_fd.hpp"
#include "runtime/internet_address.hpp"

namespace plait {

// The address at which a socket listens.
//   name  in the abstract namespace of unix(7). It is never in a file system, and it is free again when its last holder
//         ends, in whatever way. The kernel vouches for the process at the other end, and passes descriptors.
//   port  of an address. Of 127.0.0.1 no other host reaches it, and any process of this host may connect; of others
//         any process that finds a way.
class SocketAddress {
 public:
  static SocketAddress at_name(const std::string& name);                   // 1 to 100 bytes
  static SocketAddress at(const InternetAddress& address, uint16_t port);  // 0, to listen: any free port
  // The address at which `socket` is bound, of whatever family.
  static SocketAddress of(int socket);

  uint16_t port() const;     // 0 if it has none
  std::string text() const;  // "10.0.0.1 port 4000"; empty if it has no port
  int family() const { return storage_.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t length() const { return length_; }

  friend bool operator==(const SocketAddress& a, const SocketAddress& b);

 private:
  sockaddr_storage storage_{};
  socklen_t length_ = 0;
};

// Whether 127.0.0.1 can be reached. It cannot if the loopback interface is missing or down, as in a network namespace
// in which nobody has brought it up.
bool has_loopback();

// Whether this host knows a way to that address. Nothing is sent.
bool has_way_to(const InternetAddress& address);

// Makes a socket that is neither bound nor connected. Throws kResources if too many files are open.
UniqueFd new_socket(int family);

// Empty if another socket already listens there, or no port is free.
UniqueFd listen_at(const SocketAddress& address);

// The same at all addresses of this host, of both families where it has both.
UniqueFd listen_everywhere(uint16_t port);

// Whether `descriptor` is a socket that listens; listens_at() also checks the address. Any number may be passed.
bool is_listening(int descriptor);
bool listens_at(int descriptor, const SocketAddress& address);

// A socket, or an errno value that says why there is none. The caller may want to try again.
struct SocketOrError {
  UniqueFd socket;
  int error = 0;
};

// ECONNREFUSED: no socket listens at `address`. EAGAIN: too many are waiting there, or nobody answers. ENETUNREACH,
// EHOSTUNREACH: no way leads there; to 127.0.0.1, has_loopback() is false. Throws anything else.
SocketOrError connect_to(const SocketAddress& address);

// EAGAIN: no connection is waiting. EMFILE, ENFILE, ENOMEM: the system has no descriptor or memory left. Throws
// anything else.
SocketOrError accept_from(int listener);

// The process that connected, or that listens if this side connected. Its id is as this process would write it, or 0 if
// this process cannot see it. No value over TCP, where the kernel does not tell.
struct PeerCredentials {
  pid_t process_id = 0;
  uid_t user_id = 0;
};
std::optional<PeerCredentials> peer_of(int socket);

enum class Progress {
  kDone,  // all bytes were moved
  kMore,  // not all yet: wait (functions with a deadline: it has passed)
  kGone,  // the other side closed or ended
};

// Moves the bytes that can move now. `rest` becomes those that are left.
Progress receive_some(int socket, std::span<std::byte>& rest);
Progress send_some(int socket, std::span<const std::byte>& rest);

// Moves all bytes, waiting until `deadline` at the longest.
Progress receive_all(int socket, std::span<std::byte> bytes, const Deadline& deadline);
Progress send_all(int socket, std::span<const std::byte> bytes, const Deadline& deadline);

// Whether descriptors can travel over this connection.
bool passes_descriptors(int socket);

// Like send_some, with a duplicate of `descriptor` attached to the first byte.
Progress send_some_with_descriptor(int socket, std::span<const std::byte>& rest, int descriptor);

// Like send_all, with a duplicate of `descriptor` attached to the first byte.
Progress send_all_with_descriptor(int socket, std::span<const std::byte> bytes, int descriptor,
                                  const Deadline& deadline);

// Like receive_some. `descriptor` becomes the descriptor that came along, if any. Throws kResources if one was sent but
// this process cannot hold another.
Progress receive_some_with_descriptor(int socket, std::span<std::byte>& rest, UniqueFd& descriptor);

// Like receive_all, with `descriptor` as above.
Progress receive_all_with_descriptor(int socket, std::span<std::byte> bytes, UniqueFd& descriptor,
                                     const Deadline& deadline);

// Has the kernel ask now and then whether the other host is still there. Then a connection to one that is not fails
// after some 20 s, although nothing is said over it. Does nothing within a host.
void notice_silence(int socket);

// The bytes of a plain struct, which travels as it is in memory: both ends are of one version, as checked, and little
// endian.
template <class Message>
std::span<const std::byte> bytes_of(const Message& message) {
  static_assert(std::is_trivially_copyable_v<Message>);
  return std::as_bytes(std::span(&message, 1));
}
template <class Message>
std::span<std::byte> writable_bytes_of(Message& message) {
  static_assert(std::is_trivially_copyable_v<Message>);
  return std::as_writable_bytes(std::span(&message, 1));
}

}  // namespace plait
