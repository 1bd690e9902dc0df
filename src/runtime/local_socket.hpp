// Stream sockets between processes of one host, at names of the abstract namespace of unix(7): nothing is ever in a
// file system, and a name is free again when its last holder ends, however it ends. The kernel vouches for who is at
// the other end. Every socket here is non-blocking and closes on exec; waiting is poll() with a Deadline.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>

#include "base/deadline.hpp"
#include "base/unique_fd.hpp"

namespace plait {

// Listens at `name` (1 to 100 bytes). Empty where another socket already has the name.
UniqueFd listen_at(const std::string& name);

// The name at which `descriptor` listens; empty where it is no listening socket of this kind.
std::string listening_name(int descriptor);

// A socket, or the reason why there is none: an errno value that the caller may want to wait out.
struct SocketOrError {
  UniqueFd socket;
  int error = 0;
};

// ECONNREFUSED: nobody listens at `name`. EAGAIN: too many are waiting there. Anything else is thrown.
SocketOrError connect_to(const std::string& name);

// EAGAIN: nobody is waiting. EMFILE, ENFILE, ENOMEM: the system has no descriptor or memory left. Else thrown.
SocketOrError accept_from(int listener);

// Who connected, or who listens where this side connected; the process id as this process would write it.
struct PeerCredentials {
  pid_t process_id = 0;
  uid_t user_id = 0;
};
PeerCredentials peer_of(int socket);

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

// Like send_some, with a duplicate of `descriptor` attached to the first byte.
Progress send_some_with_descriptor(int socket, std::span<const std::byte>& rest, int descriptor);

// Like receive_all; `descriptor` becomes the one that came along, if any. Throws kResources where one was sent but this
// process cannot hold another.
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
