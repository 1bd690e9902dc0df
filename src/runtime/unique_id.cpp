#include "runtime/unique_id.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <mutex>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "base/process.hpp"
#include "base/sha256.hpp"
#include "runtime/host_identity.hpp"
#include "runtime/interfaces.hpp"
#include "runtime/name_holder.hpp"
#include "runtime/stream_socket.hpp"

namespace plait {
namespace {

constexpr std::string_view kTextPrefix = "plait2-";

// Where ranks of a job meet on another host, unless somebody says where: below the ports that kernels lend to callers.
constexpr uint16_t kFirstJobPort = 20000, kJobPorts = 12000;

// The fields of an id that text() writes: all that are not constant, and a checksum against a text that is cut short or
// mistyped.
struct TextForm {
  UniqueId::Origin origin;
  Secret secret;
  int32_t creator_process_id;
  int32_t creator_descriptor;
  uint64_t network_namespace;
  uint64_t kernel;
  uint16_t port;
  InternetAddress address;
  uint32_t check;
};
static_assert(sizeof(TextForm) == 72);

uint32_t check_of(TextForm form) {
  form.check = 0;
  const Sha256Digest digest = sha256(bytes_of(form));
  uint32_t check;
  std::memcpy(&check, digest.data(), sizeof check);
  return check;
}

std::string hex(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[static_cast<unsigned>(byte) >> 4];
    text += kDigits[static_cast<unsigned>(byte) & 15];
  }
  return text;
}

bool read_hex(std::string_view text, std::span<std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (text.size() != 2 * bytes.size()) return false;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const size_t high = kDigits.find(text[2 * i]);
    const size_t low = kDigits.find(text[2 * i + 1]);
    if (high == kDigits.npos || low == kDigits.npos) return false;
    bytes[i] = static_cast<std::byte>(high << 4 | low);
  }
  return true;
}

UniqueId new_id(UniqueId::Origin origin, const Secret& secret) {
  UniqueId id;
  id.magic = UniqueId::kMagic;
  id.version = UniqueId::kVersion;
  id.origin = origin;
  id.secret = secret;
  return id;
}

Secret secret_of_job(std::string_view label, std::initializer_list<uint64_t> numbers, std::string_view job_key) {
  std::string message(reinterpret_cast<const char*>(numbers.begin()), numbers.size() * sizeof(uint64_t));
  message += job_key;
  return derive_secret(label, std::as_bytes(std::span(message)));
}

// Sockets that were released in this process. If rank 0 is in a forked child, which has a copy, nobody claims the
// socket here. Once the child has shut it down for both, it is closed when the next one is released.
class ReleasedSockets {
 public:
  void add(int descriptor) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return;  // another thread has the lock, or a thread had it at a fork; only tidiness is lost
    std::erase_if(sockets_, [](const Released& it) {
      if (inode_of(it.descriptor) != it.inode) return true;  // claimed: the number means something else, or nothing
      if (is_listening(it.descriptor)) return false;
      ::close(it.descriptor);
      return true;
    });
    sockets_.push_back({descriptor, inode_of(descriptor)});
  }

 private:
  struct Released {
    int descriptor;
    ino_t inode;
  };

  static ino_t inode_of(int descriptor) {
    struct stat facts;
    return ::fstat(descriptor, &facts) == 0 ? facts.st_ino : 0;
  }

  std::mutex mutex_;
  std::vector<Released> sockets_;
};

// Never destroyed, since ids may be made until the program ends.
ReleasedSockets& released_sockets() {
  static ReleasedSockets* const sockets = new ReleasedSockets;
  return *sockets;
}

// Takes the released socket of `id` out of this process's table of descriptors.
UniqueFd take_released_listener(const UniqueId& id) {
  // Two threads that claim one id must not both close its descriptor. A socket name is a lock that needs no state of
  // ours: the second thread to bind it is refused.
  const UniqueFd lock = listen_at(SocketAddress::at_name(id.rendezvous_name() + "-claim"));
  if (!lock) fail(ErrorCode::kInvalidArgument, "two callers use one id as rank 0 at the same time");
  if (listens_at(id.creator_descriptor, id.meeting_place())) {
    UniqueFd mine(::fcntl(id.creator_descriptor, F_DUPFD_CLOEXEC, 0));
    if (!mine) fail_system(errno, "cannot take over the socket of an id");
    // It is closed under the lock, so that for the next claimant the number in the id is no longer this socket.
    ::close(id.creator_descriptor);
    return mine;
  }
  if (id.creator_process_id == ::getpid()) {
    fail(ErrorCode::kInvalidArgument,
         "this id was already used to make a communicator, or this process has called exec since it made the id; every "
         "communicator needs an id of its own");
  }
  fail(ErrorCode::kInvalidArgument, "rank 0 must be in the process that created the id (pid ", id.creator_process_id,
       "; this is pid ", ::getpid(),
       "), which holds the socket where the ranks meet; create the id where rank 0 runs and send it to the others");
}

}  // namespace

UniqueId UniqueId::for_job(std::string_view job_key, uint64_t sequence) {
  return new_id(Origin::kJob, secret_of_job("plait job secret", {::geteuid(), sequence}, job_key));
}

UniqueId UniqueId::for_job(std::string_view job_key, uint64_t sequence, const InternetAddress& address, uint16_t port) {
  UniqueId id = new_id(Origin::kJob, secret_of_job("plait secret of a job over hosts", {sequence}, job_key));
  constexpr std::string_view kLabel = "rendezvous port";
  const Tag tag = tag_of(id.secret, std::as_bytes(std::span(kLabel)));
  const auto own = static_cast<uint16_t>(kFirstJobPort + (tag[0] << 8 | tag[1]) % kJobPorts);
  id.port = htons(port == 0 ? own : port);
  id.address = address;
  return id;
}

std::string UniqueId::text() const {
  check();
  TextForm form{};
  form.origin = origin;
  form.secret = secret;
  form.creator_process_id = creator_process_id;
  form.creator_descriptor = creator_descriptor;
  form.network_namespace = network_namespace;
  form.kernel = kernel;
  form.port = port;
  form.address = address;
  form.check = check_of(form);
  return std::string(kTextPrefix) + hex(bytes_of(form));
}

UniqueId UniqueId::parse(std::string_view text) {
  TextForm form{};
  if (!text.starts_with(kTextPrefix) || !read_hex(text.substr(kTextPrefix.size()), writable_bytes_of(form)) ||
      form.check != check_of(form)) {
    fail(ErrorCode::kInvalidInput, "not the text of a Plait id, or only a part of it: \"", text.substr(0, 16), "…\" (",
         text.size(), " letters; expected ", kTextPrefix, " and ", 2 * sizeof(TextForm), " hexadecimal digits)");
  }
  UniqueId id = new_id(form.origin, form.secret);
  id.creator_process_id = form.creator_process_id;
  id.creator_descriptor = form.creator_descriptor;
  id.network_namespace = form.network_namespace;
  id.kernel = form.kernel;
  id.port = form.port;
  id.address = form.address;
  id.check();
  return id;
}

void UniqueId::check() const {
  if (magic != kMagic || (origin != Origin::kProcess && origin != Origin::kJob)) {
    fail(ErrorCode::kInvalidArgument,
         "these 128 bytes are not a Plait id; rank 0 makes one and sends the others a copy");
  }
  if (version != kVersion) {
    fail(ErrorCode::kInvalidArgument, "this id is of version ", version, ", this library of version ", kVersion,
         "; use one build of Plait in all ranks");
  }
}

SocketAddress UniqueId::meeting_place() const {
  if (port == 0) return SocketAddress::at_name(rendezvous_name());
  return SocketAddress::at(address.is_there() ? address : InternetAddress::loopback(), ntohs(port));
}

std::string UniqueId::rendezvous_name() const {
  constexpr std::string_view kLabel = "rendezvous name";
  const Tag tag = tag_of(secret, std::as_bytes(std::span(kLabel)));
  return "plait-" + hex(bytes_of(tag));
}

RendezvousPoint RendezvousPoint::create(const std::string& interfaces) {
  if (!interfaces.empty()) return create_for_hosts(interfaces);
  if (!has_loopback()) return create_at_name();
  return listen(SocketAddress::at(InternetAddress::loopback(), 0),
                new_id(UniqueId::Origin::kProcess, random_128_bits()));
}

RendezvousPoint RendezvousPoint::create_for_hosts(const std::string& interfaces, const InternetAddress& known) {
  const InternetAddress address =
      interfaces.empty() && known.is_there() ? known : choose_address(interface_addresses(), interfaces);
  if (address.is_loopback()) return create();
  UniqueId id = new_id(UniqueId::Origin::kProcess, random_128_bits());
  id.address = address;
  return listen(SocketAddress::at(address, 0), id);
}

RendezvousPoint RendezvousPoint::create_at_name() {
  const UniqueId id = new_id(UniqueId::Origin::kProcess, random_128_bits());
  return listen(id.meeting_place(), id);
}

RendezvousPoint RendezvousPoint::listen(const SocketAddress& address, UniqueId id) {
  UniqueFd listener = listen_at(address);
  if (!listener) fail(ErrorCode::kResources, "no port is free for ranks to meet at");
  id.creator_process_id = ::getpid();
  id.creator_descriptor = listener.get();
  id.network_namespace = own_network_namespace();
  id.kernel = own_kernel();
  id.port = htons(SocketAddress::of(listener.get()).port());
  return RendezvousPoint(id, std::move(listener));
}

RendezvousPoint RendezvousPoint::claim(const UniqueId& id) {
  id.check();
  if (id.origin == UniqueId::Origin::kProcess) return RendezvousPoint(id, take_released_listener(id));
  if (!id.leads_to_other_hosts()) return RendezvousPoint(id, listen_as_rank_zero(id.meeting_place()));
  // At all addresses: the one that others have may be of whoever passes their connections on.
  UniqueFd listener = listen_everywhere(ntohs(id.port));
  if (listener) return RendezvousPoint(id, std::move(listener));
  fail(ErrorCode::kResources, "rank 0 cannot listen for ranks of other hosts: port ", ntohs(id.port),
       " of this host is in use; set PLAIT_MASTER_PORT to a free one on all ranks");
}

UniqueId RendezvousPoint::release() {
  released_sockets().add(listener_.get());
  listener_.release();
  return id_;
}

void RendezvousPoint::shut_down() {
  if (listener_) ::shutdown(listener_.get(), SHUT_RDWR);
  listener_.reset();
}

}  // namespace plait
