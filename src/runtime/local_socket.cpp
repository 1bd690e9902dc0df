#include "runtime/local_socket.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"

namespace plait {
namespace {

// An abstract name begins with a zero byte and ends where the address's length says, not at a zero byte.
struct Address {
  explicit Address(const std::string& name) {
    if (name.empty() || name.size() > 100) fail(ErrorCode::kInternal, "bad socket name \"", name, "\"");
    unix.sun_family = AF_UNIX;
    std::memcpy(unix.sun_path + 1, name.data(), name.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&unix); }

  sockaddr_un unix{};
  socklen_t length = 0;
};

UniqueFd new_socket() {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) fail_system(errno, "cannot make a local socket");
  return socket;
}

// Errors that mean "the other side is not there any more".
bool means_gone(int error) { return error == ECONNRESET || error == EPIPE || error == ENOTCONN; }

bool means_wait(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

Progress failed_progress(const char* what) {
  if (means_wait(errno)) return Progress::kMore;
  if (means_gone(errno)) return Progress::kGone;
  fail_system(errno, what);
}

// False once the deadline has passed.
bool wait_for(int socket, short events, const Deadline& deadline) {
  if (deadline.passed()) return false;
  pollfd entry{socket, events, 0};
  if (::poll(&entry, 1, deadline.poll_milliseconds()) < 0 && errno != EINTR) fail_system(errno, "cannot poll a socket");
  return true;
}

// Room for one descriptor, aligned as the kernel wants it.
union DescriptorMessage {
  cmsghdr header;
  char space[CMSG_SPACE(sizeof(int))];
};

// Takes every descriptor of a message; keeps the last.
void take_descriptors(msghdr& message, UniqueFd& descriptor) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    int number = -1;
    std::memcpy(&number, CMSG_DATA(part), sizeof number);
    descriptor.reset(number);
  }
  if (message.msg_flags & MSG_CTRUNC) {
    fail(ErrorCode::kResources, "no file descriptor left for one that another rank sent; raise the limit (ulimit -n)");
  }
}

}  // namespace

UniqueFd listen_at(const std::string& name) {
  UniqueFd socket = new_socket();
  const Address address(name);
  if (::bind(socket.get(), address.get(), address.length) < 0) {
    if (errno == EADDRINUSE) return {};
    fail_system(errno, "cannot bind a local socket");
  }
  if (::listen(socket.get(), SOMAXCONN) < 0) fail_system(errno, "cannot listen at a local socket");
  return socket;
}

std::string listening_name(int descriptor) {
  int listening = 0;
  socklen_t length = sizeof listening;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) < 0 || !listening) return "";
  sockaddr_un address{};
  length = sizeof address;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) < 0) return "";
  constexpr size_t kBegin = offsetof(sockaddr_un, sun_path) + 1;
  if (address.sun_family != AF_UNIX || length <= kBegin || address.sun_path[0] != '\0') return "";
  return std::string(address.sun_path + 1, length - kBegin);
}

SocketOrError connect_to(const std::string& name) {
  UniqueFd socket = new_socket();
  const Address address(name);
  if (::connect(socket.get(), address.get(), address.length) == 0) return {std::move(socket), 0};
  if (errno == ECONNREFUSED || errno == EAGAIN) return {{}, errno};
  if (errno == EINTR) return {{}, EAGAIN};
  fail_system(errno, "cannot connect to a local socket");
}

SocketOrError accept_from(int listener) {
  UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket) return {std::move(socket), 0};
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ECONNABORTED) return {{}, EAGAIN};
  if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) return {{}, errno};
  fail_system(errno, "cannot accept a local connection");
}

PeerCredentials peer_of(int socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) < 0) {
    fail_system(errno, "cannot ask who is at the other end of a local socket");
  }
  return {credentials.pid, credentials.uid};
}

Progress receive_some(int socket, std::span<std::byte>& rest) {
  while (!rest.empty()) {
    const ssize_t count = ::recv(socket, rest.data(), rest.size(), 0);
    if (count < 0) return failed_progress("cannot receive from a local socket");
    if (count == 0) return Progress::kGone;
    rest = rest.subspan(static_cast<size_t>(count));
  }
  return Progress::kDone;
}

Progress send_some(int socket, std::span<const std::byte>& rest) {
  while (!rest.empty()) {
    const ssize_t count = ::send(socket, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (count < 0) return failed_progress("cannot send to a local socket");
    rest = rest.subspan(static_cast<size_t>(count));
  }
  return Progress::kDone;
}

Progress receive_all(int socket, std::span<std::byte> bytes, const Deadline& deadline) {
  for (;;) {
    const Progress progress = receive_some(socket, bytes);
    if (progress != Progress::kMore || !wait_for(socket, POLLIN, deadline)) return progress;
  }
}

Progress send_all(int socket, std::span<const std::byte> bytes, const Deadline& deadline) {
  for (;;) {
    const Progress progress = send_some(socket, bytes);
    if (progress != Progress::kMore || !wait_for(socket, POLLOUT, deadline)) return progress;
  }
}

Progress send_some_with_descriptor(int socket, std::span<const std::byte>& rest, int descriptor) {
  DescriptorMessage control{};
  iovec data{const_cast<std::byte*>(rest.data()), rest.size()};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = &control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  const ssize_t count = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  if (count < 0) return failed_progress("cannot send a descriptor");
  rest = rest.subspan(static_cast<size_t>(count));
  return send_some(socket, rest);
}

Progress receive_all_with_descriptor(int socket, std::span<std::byte> bytes, UniqueFd& descriptor,
                                     const Deadline& deadline) {
  while (!bytes.empty()) {
    DescriptorMessage control{};
    iovec data{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    const ssize_t count = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (count > 0) {
      take_descriptors(message, descriptor);
      bytes = bytes.subspan(static_cast<size_t>(count));
      continue;
    }
    const Progress progress = count == 0 ? Progress::kGone : failed_progress("cannot receive a descriptor");
    if (progress != Progress::kMore || !wait_for(socket, POLLIN, deadline)) return progress;
  }
  return Progress::kDone;
}

}  // namespace plait
