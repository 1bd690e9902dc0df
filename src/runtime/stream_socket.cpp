#include "runtime/stream_socket.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"

namespace plait {
namespace {

// Over loopback the kernel connects at once, or not at all if too many connections wait. It would then try again after
// a second, which is too slow for a rank. Another host may be far away.
constexpr double kConnectSeconds = 0.1;
constexpr double kFarConnectSeconds = 3;

// A host that answers none of these is gone, or what joins it to this one is.
constexpr int kSecondsBetweenProbes = 5;
constexpr int kProbes = 4;

// Returns how a pending connect() has ended: 0 or an errno value, or EAGAIN if it has not ended in time.
int end_of_connecting(int socket, double seconds) {
  const Deadline deadline = Deadline::after(seconds);
  pollfd entry{socket, POLLOUT, 0};
  int ready = 0;
  do {
    ready = ::poll(&entry, 1, deadline.poll_milliseconds());
  } while (ready < 0 && errno == EINTR);
  if (ready < 0) fail_system(errno, "cannot poll a socket");
  if (ready == 0) return EAGAIN;
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) < 0) fail_system(errno, "cannot ask about a socket");
  return error;
}

// Whether `error` means that the other side is not there any more.
bool means_gone(int error) {
  for (const int gone : {ECONNRESET, EPIPE, ENOTCONN, ETIMEDOUT, EHOSTUNREACH, ENETUNREACH, ENETDOWN}) {
    if (error == gone) return true;
  }
  return false;
}

bool means_wait(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

Progress failed_progress(const char* what) {
  if (means_wait(errno)) return Progress::kMore;
  if (means_gone(errno)) return Progress::kGone;
  fail_system(errno, what);
}

// Returns false once the deadline has passed. Throws what the deadline's interrupt check throws.
bool wait_for(int socket, short events, const Deadline& deadline) {
  if (deadline.passed()) return false;
  pollfd entry{socket, events, 0};
  const int ready = ::poll(&entry, 1, deadline.poll_milliseconds());
  if (ready < 0 && errno != EINTR) fail_system(errno, "cannot poll a socket");
  if (ready <= 0) deadline.hear_interrupts();
  return true;
}

// Space for one descriptor, aligned as the kernel requires.
union DescriptorMessage {
  cmsghdr header;
  char space[CMSG_SPACE(sizeof(int))];
};

// Takes every descriptor of a message and keeps the last one.
void take_descriptors(msghdr& message, UniqueFd& descriptor) {
  bool has_room = (message.msg_flags & MSG_CTRUNC) == 0;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    int number = -1;
    std::memcpy(&number, CMSG_DATA(part), sizeof number);
    descriptor.reset(number);
    has_room &= static_cast<bool>(descriptor);
  }
  if (!has_room) {
    fail(ErrorCode::kResources, "no file descriptor left for one that another rank sent", more_files_hint());
  }
}

// For errors: " to 10.0.0.1 port 4000"; a name says nothing to users.
std::string at(const SocketAddress& address) {
  const std::string text = address.text();
  return text.empty() ? "" : join(" to ", text);
}

// Empty if another socket already listens there, or no port is free.
UniqueFd listen_with(UniqueFd socket, const SocketAddress& address) {
  // A port that is named may have connections of an earlier communicator, and is free all the same.
  const int on = 1;
  if (address.port() != 0) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), address.get(), address.length()) < 0) {
    if (errno == EADDRINUSE) return {};
    fail_system(errno, join("cannot bind a socket", at(address)));
  }
  if (::listen(socket.get(), SOMAXCONN) < 0) fail_system(errno, join("cannot listen at a socket", at(address)));
  return socket;
}

}  // namespace

// A name begins with a zero byte. The length of the address tells where it ends, not a zero byte.
SocketAddress SocketAddress::at_name(const std::string& name) {
  if (name.empty() || name.size() > 100) fail(ErrorCode::kInternal, "bad socket name \"", name, "\"");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  SocketAddress result;
  std::memcpy(&result.storage_, &address, sizeof address);
  result.length_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return result;
}

SocketAddress SocketAddress::at(const InternetAddress& address, uint16_t port) {
  SocketAddress result;
  const auto store = [&](const auto& it) {
    std::memcpy(&result.storage_, &it, sizeof it);
    result.length_ = sizeof it;
  };
  if (address.family == InternetAddress::Family::kIpv4) {
    sockaddr_in it{};
    it.sin_family = AF_INET;
    it.sin_port = htons(port);
    std::memcpy(&it.sin_addr, address.bytes.data(), sizeof it.sin_addr);
    store(it);
  } else {
    sockaddr_in6 it{};
    it.sin6_family = AF_INET6;
    it.sin6_port = htons(port);
    std::memcpy(&it.sin6_addr, address.bytes.data(), sizeof it.sin6_addr);
    store(it);
  }
  return result;
}

SocketAddress SocketAddress::of(int socket) {
  SocketAddress result;
  result.length_ = sizeof result.storage_;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&result.storage_), &result.length_) < 0) {
    fail_system(errno, "cannot ask for a socket's address");
  }
  return result;
}

uint16_t SocketAddress::port() const {
  if (family() != AF_INET && family() != AF_INET6) return 0;
  sockaddr_in address;  // the port is at one place in both
  std::memcpy(&address, &storage_, sizeof address);
  return ntohs(address.sin_port);
}

std::string SocketAddress::text() const {
  const auto address = InternetAddress::of(get());
  return address ? join(address->text(), " port ", port()) : "";
}

bool operator==(const SocketAddress& a, const SocketAddress& b) {
  return a.length_ == b.length_ && std::memcmp(&a.storage_, &b.storage_, a.length_) == 0;
}

bool has_loopback() { return has_way_to(InternetAddress::loopback()); }

bool has_way_to(const InternetAddress& address) {
  const SocketAddress discard = SocketAddress::at(address, 9);
  const UniqueFd socket(::socket(discard.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket && (errno == EMFILE || errno == ENFILE)) fail_system(errno, "cannot make a socket");
  // Connecting a datagram socket looks up a route and sends nothing.
  return socket && ::connect(socket.get(), discard.get(), discard.length()) == 0;
}

UniqueFd new_socket(int family) {
  UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) fail_system(errno, "cannot make a socket");
  // Each small message is awaited by the other side, so it must not wait to become a larger one. Accepted sockets
  // inherit this option.
  const int on = 1;
  if (family != AF_UNIX && ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0) {
    fail_system(errno, "cannot set a socket to send at once");
  }
  return socket;
}

UniqueFd listen_at(const SocketAddress& address) { return listen_with(new_socket(address.family()), address); }

UniqueFd listen_everywhere(uint16_t port) {
  if (!UniqueFd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0))) {
    return listen_at(SocketAddress::at(InternetAddress::any(InternetAddress::Family::kIpv4), port));
  }
  UniqueFd both = new_socket(AF_INET6);
  const int off = 0;
  ::setsockopt(both.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  return listen_with(std::move(both), SocketAddress::at(InternetAddress::any(InternetAddress::Family::kIpv6), port));
}

bool is_listening(int descriptor) {
  int listening = 0;
  socklen_t length = sizeof listening;
  return ::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) == 0 && listening;
}

bool listens_at(int descriptor, const SocketAddress& address) {
  return is_listening(descriptor) && SocketAddress::of(descriptor) == address;
}

SocketOrError connect_to(const SocketAddress& address) {
  UniqueFd socket = new_socket(address.family());
  int error = ::connect(socket.get(), address.get(), address.length()) < 0 ? errno : 0;
  if (error == EINPROGRESS) {
    const auto internet = InternetAddress::of(address.get());
    error =
        end_of_connecting(socket.get(), internet && !internet->is_loopback() ? kFarConnectSeconds : kConnectSeconds);
  }
  switch (error) {
    case 0:
      // The free port that the kernel lends to the caller may be the one that it calls. TCP then connects the socket to
      // itself.
      if (SocketAddress::of(socket.get()) == address) return {{}, ECONNREFUSED};
      return {std::move(socket), 0};
    case ECONNREFUSED:
    case ENETUNREACH:
    case EHOSTUNREACH:
      return {{}, error};
    case EAGAIN:
    case EINTR:
    case ECONNRESET:  // the listener went away at this moment
    case ETIMEDOUT:
    case EADDRNOTAVAIL:  // a flood of callers has used up the local ports
      return {{}, EAGAIN};
    default:
      fail_system(error, join("cannot connect a socket", at(address)));
  }
}

SocketOrError accept_from(int listener) {
  UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket) return {std::move(socket), 0};
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ECONNABORTED || errno == EPROTO) {
    return {{}, EAGAIN};
  }
  if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) return {{}, errno};
  fail_system(errno, "cannot accept a connection");
}

std::optional<PeerCredentials> peer_of(int socket) {
  if (!passes_descriptors(socket)) return std::nullopt;  // for TCP the kernel answers with nonsense, not with an error
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) < 0) {
    fail_system(errno, "cannot ask who is at the other end of a socket");
  }
  return PeerCredentials{credentials.pid, credentials.uid};
}

Progress receive_some(int socket, std::span<std::byte>& rest) {
  while (!rest.empty()) {
    const ssize_t count = ::recv(socket, rest.data(), rest.size(), 0);
    if (count < 0) return failed_progress("cannot receive from a socket");
    if (count == 0) return Progress::kGone;
    rest = rest.subspan(static_cast<size_t>(count));
  }
  return Progress::kDone;
}

Progress send_some(int socket, std::span<const std::byte>& rest) {
  while (!rest.empty()) {
    const ssize_t count = ::send(socket, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (count < 0) return failed_progress("cannot send to a socket");
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

void notice_silence(int socket) {
  if (passes_descriptors(socket)) return;
  const auto set = [&](int level, int option, int value) { ::setsockopt(socket, level, option, &value, sizeof value); };
  set(IPPROTO_TCP, TCP_KEEPIDLE, kSecondsBetweenProbes);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kSecondsBetweenProbes);
  set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, kProbes * kSecondsBetweenProbes * 1000);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
}

bool passes_descriptors(int socket) { return SocketAddress::of(socket).family() == AF_UNIX; }

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

Progress send_all_with_descriptor(int socket, std::span<const std::byte> bytes, int descriptor,
                                  const Deadline& deadline) {
  const size_t all = bytes.size();
  for (;;) {
    const bool begun = bytes.size() < all;
    const Progress progress = begun ? send_some(socket, bytes) : send_some_with_descriptor(socket, bytes, descriptor);
    if (progress != Progress::kMore || !wait_for(socket, POLLOUT, deadline)) return progress;
  }
}

Progress receive_some_with_descriptor(int socket, std::span<std::byte>& rest, UniqueFd& descriptor) {
  while (!rest.empty()) {
    DescriptorMessage control{};
    iovec data{rest.data(), rest.size()};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    const ssize_t count = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (count < 0) return failed_progress("cannot receive a descriptor");
    if (count == 0) return Progress::kGone;
    take_descriptors(message, descriptor);
    rest = rest.subspan(static_cast<size_t>(count));
  }
  return Progress::kDone;
}

Progress receive_all_with_descriptor(int socket, std::span<std::byte> bytes, UniqueFd& descriptor,
                                     const Deadline& deadline) {
  for (;;) {
    const Progress progress = receive_some_with_descriptor(socket, bytes, descriptor);
    if (progress != Progress::kMore || !wait_for(socket, POLLIN, deadline)) return progress;
  }
}

}  // namespace plait
