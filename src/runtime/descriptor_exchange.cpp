// One datagram socket a rank, at an abstract name that only the ranks are told, and a token that proves the sender:
// what arrives without it is closed unread.
#include "runtime/descriptor_exchange.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/deadline.hpp"
#include "base/error.hpp"
#include "runtime/unique_id.hpp"

namespace plait {
namespace {

// What a rank tells the others over the bootstrap.
struct Mailbox {
  SipKey name{};
  SipKey token{};
};

struct Letter {
  int32_t rank = 0;
  SipKey token{};  // of the receiver
};

struct Address {
  sockaddr_un value{};
  socklen_t length = 0;
};

Address address_of(const Mailbox& mailbox) {
  Address address;
  address.value.sun_family = AF_UNIX;
  char* to = address.value.sun_path + 1;  // behind the zero byte that makes it abstract
  std::memcpy(to, "plait-", 6);
  to += 6;
  for (const uint8_t byte : mailbox.name) {
    *to++ = "0123456789abcdef"[byte >> 4];
    *to++ = "0123456789abcdef"[byte & 15];
  }
  address.length = static_cast<socklen_t>(to - reinterpret_cast<char*>(&address.value));
  return address;
}

// Room for one descriptor beside a message.
union Control {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

bool wait_for(int socket, short events, const Deadline& deadline) {
  pollfd entry{socket, events, 0};
  while (!deadline.passed()) {
    const int ready = ::poll(&entry, 1, deadline.poll_milliseconds());
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) fail_system(errno, "cannot poll a socket");
  }
  return false;
}

void send_descriptor(int socket, const Mailbox& to, const Letter& letter, int descriptor, const Deadline& deadline) {
  Address address = address_of(to);
  Letter text = letter;
  iovec piece{&text, sizeof text};
  Control control{};
  msghdr message{};
  message.msg_name = &address.value;
  message.msg_namelen = address.length;
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  for (;;) {
    if (::sendmsg(socket, &message, MSG_NOSIGNAL) >= 0) return;
    if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS) {
      fail_system(errno, "cannot send a descriptor to another rank");
    }
    if (!wait_for(socket, POLLOUT, deadline)) fail(ErrorCode::kTimeout, "another rank does not take a descriptor");
  }
}

// Empty where the letter is nobody's.
UniqueFd receive_descriptor(int socket, const Mailbox& own, int& from) {
  Letter letter;
  iovec piece{&letter, sizeof letter};
  Control control{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  const ssize_t bytes = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (bytes < 0) {
    if (errno == EAGAIN || errno == EINTR) return {};
    fail_system(errno, "cannot receive a descriptor from another rank");
  }
  UniqueFd descriptor;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
    int number = -1;
    std::memcpy(&number, CMSG_DATA(header), sizeof number);
    descriptor.reset(number);
  }
  if (bytes != sizeof letter || letter.token != own.token) return {};
  from = letter.rank;
  return descriptor;
}

}  // namespace

std::vector<UniqueFd> exchange_descriptors(Bootstrap& bootstrap, int descriptor, double seconds) {
  const int rank = bootstrap.rank(), size = bootstrap.size();
  std::vector<UniqueFd> descriptors(static_cast<size_t>(size));
  const Mailbox own{random_key(), random_key()};
  const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) fail_system(errno, "cannot make a socket");
  const Address address = address_of(own);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address.value), address.length) < 0) {
    fail_system(errno, "cannot bind a socket");
  }
  const std::vector<Mailbox> all = bootstrap.all_gather(own);  // every mailbox exists from here on
  const Deadline deadline = Deadline::after(seconds);
  // Few letters fit into a mailbox, so each rank empties its own while it fills the others'.
  int missing = size - 1;
  const auto collect = [&] {
    int from = -1;
    UniqueFd received = receive_descriptor(socket.get(), own, from);
    if (!received || from < 0 || from >= size || descriptors[from]) return;
    descriptors[from] = std::move(received);
    --missing;
  };
  for (int d = 1; d < size; ++d) {
    const int to = (rank + d) % size;
    send_descriptor(socket.get(), all[to], {rank, all[to].token}, descriptor, deadline);
    collect();
  }
  while (missing > 0) {
    if (!wait_for(socket.get(), POLLIN, deadline)) {
      int absent = 0;
      while (absent == rank || descriptors[absent]) ++absent;
      fail(ErrorCode::kTimeout, "rank ", rank, ": no descriptor came from rank ", absent, " within ", seconds, " s");
    }
    collect();
  }
  bootstrap.barrier();  // nobody closes a mailbox that another rank still writes to
  return descriptors;
}

}  // namespace plait
