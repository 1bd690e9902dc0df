// Stream sockets between processes of one host, at a port or at a name. Which of the two decides SocketAddress, and
// nothing after connect_to() and accept_from() differs, but for peer_of() and descriptors. Every socket here is
// non-blocking and closes on exec; waiting is poll() with a Deadline.
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

namespace plait {

// Where a socket listens.
//   name  of the abstract namespace of unix(7): never in a file system, and free again when its last holder ends,
//   however
//         it ends. The kernel vouches for who is at the other end, and passes descriptors.
//   port  of 127.0.0.1, so that no other host reaches it. The kernel finds a free one; any process of this host may
//   call.
class SocketAddress {
 public:
  static SocketAddress at_name(const std::string& name);  // 1 to 100 bytes
  static SocketAddress at_port(uint16_t port);            // 0, to listen: any that is free
  // Where `socket` is bound, of whatever family it is.
  static SocketAddress of(int socket);

  uint16_t port() const;  // 0 where this is no port of IPv4
  int family() const { return storage_.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t length() const { return length_; }

  friend bool operator==(const SocketAddress& a, const SocketAddress& b);

 private:
  sockaddr_storage storage_{};
  socklen_t length_ = 0;
};

// Whether 127.0.0.1 can be reached. It cannot where the loopback interface is missing or down, as in a network
// namespace in which nobody has brought it up.
bool has_loopback();

// Neither bound nor connected. Throws kResources where too many files are open.
UniqueFd new_socket(int family);

// Empty where another socket already listens there, or no port is free.
UniqueFd listen_at(const SocketAddress& address);

// Whether `descriptor` is a socket that listens, and at `address`. Any number will do.
bool is_listening(int descriptor);
bool listens_at(int descriptor, const SocketAddress& address);

// A socket, or the reason why there is none: an errno value that the caller may want to wait out.
struct SocketOrError {
  UniqueFd socket;
  int error = 0;
};

// ECONNREFUSED: nobody listens at `address`. EAGAIN: too many are waiting there. ENETUNREACH: has_loopback() is false.
// Anything else is thrown.
SocketOrError connect_to(const SocketAddress& address);

// EAGAIN: nobody is waiting. EMFILE, ENFILE, ENOMEM: the system has no descriptor or memory left. Else thrown.
SocketOrError accept_from(int listener);

// Who connected, or who listens where this side connected; the process id as this process would write it, 0 where it
// cannot see that process. None over TCP, where the kernel does not say.
struct PeerCredentials {
  pid_t process_id = 0;
  uid_t user_id = 0;
};
std::optional<PeerCredentials> peer_of(int socket);

enum class Progress {
  kDone,  // all bytes were moved
  kMore,  // not all yet: wait (in the functions with a deadline: it passed)
  kGone,  // the other side closed or ended
};

// Moves what can be moved now; `rest` is what is left to move.
Progress receive_some(int socket, std::span<std::byte>& rest);
Progress send_some(int socket, std::span<const std::byte>& rest);

// Moves everything, waiting until `deadline` at the longest.
Progress receive_all(int socket, std::span<std::byte> bytes, const Deadline& deadline);
Progress send_all(int socket, std::span<const std::byte> bytes, const Deadline& deadline);

// Whether descriptors can travel over this connection.
bool passes_descriptors(int socket);

// Like send_some, with a duplicate of `descriptor` attached to the first byte.
Progress send_some_with_descriptor(int socket, std::span<const std::byte>& rest, int descriptor);

// Like send_all, in the same way.
Progress send_all_with_descriptor(int socket, std::span<const std::byte> bytes, int descriptor,
                                  const Deadline& deadline);

// Like receive_some; `descriptor` becomes the one that came along, if any. Throws kResources where one was sent but
// this process cannot hold another.
Progress receive_some_with_descriptor(int socket, std::span<std::byte>& rest, UniqueFd& descriptor);

// Like receive_all, in the same way.
Progress receive_all_with_descriptor(int socket, std::span<std::byte> bytes, UniqueFd& descriptor,
                                     const Deadline& deadline);

// The bytes of a plain struct that travels as it is in memory: both ends are one host and, as checked, one version.
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
