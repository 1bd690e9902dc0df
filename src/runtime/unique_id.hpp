// The id that the ranks of one communicator share so that they find each other and nobody else. It has a place to meet
// and a secret. The library never sends the secret itself out of a process. See docs/dev/meeting.md.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/unique_fd.hpp"
#include "runtime/internet_address.hpp"
#include "runtime/secret.hpp"
#include "runtime/stream_socket.hpp"

namespace plait {

// 128 plain bytes, like ncclUniqueId. Copy them to the other ranks in any way (MPI, a pipe, a file, a command line).
struct UniqueId {
  static constexpr uint64_t kMagic = 0x444974'69616c50;  // "PlaitID" in memory
  static constexpr uint32_t kVersion = 2;
  enum class Origin : uint32_t {
    kProcess = 1,  // made by RendezvousPoint::create: a socket listens from the moment that the id exists
    kJob = 2,      // computed by each rank from what the launcher told all of them: rank 0 may come last
  };

  uint64_t magic = 0;
  uint32_t version = 0;
  Origin origin = Origin::kProcess;
  Secret secret{};
  int32_t creator_process_id = 0;   // kProcess: the process that listens, for messages
  int32_t creator_descriptor = -1;  // kProcess: its listening socket, see RendezvousPoint::claim
  uint16_t port = 0;                // in network order; 0: the ranks meet at rendezvous_name()
  std::array<uint8_t, 6> padding{};
  uint64_t network_namespace = 0;  // kProcess: the one that has the port or the name; 0: unknown
  InternetAddress address;         // that has the port; none: 127.0.0.1
  std::array<uint8_t, 6> more_padding{};
  uint64_t kernel = 0;  // kProcess: the one that the process which listens runs on (own_kernel); 0: unknown
  std::array<uint8_t, 40> reserved{};

  // The id that all ranks of one user's job compute alike. `sequence` tells apart the communicators that a job makes
  // one after another: 0, 1, 2, … on every rank.
  static UniqueId for_job(std::string_view job_key, uint64_t sequence);
  // The same for ranks on several hosts, where rank 0 is at `address`. Port 0: one that follows from the secret. A user
  // may have another number on each host, so it follows from the key alone, which has to be a secret.
  static UniqueId for_job(std::string_view job_key, uint64_t sequence, const InternetAddress& address, uint16_t port);

  // text() is one word of letters, digits and '-'. parse() throws kInvalidInput for anything that text() did not write.
  std::string text() const;
  static UniqueId parse(std::string_view text);

  // Throws kInvalidArgument if these bytes are not an id, or belong to another version of the library.
  void check() const;

  // The place where the ranks meet. Only this function decides between a port and a name.
  SocketAddress meeting_place() const;

  // Whether each rank computed it; else it was made once, and sent to the others.
  bool is_of_job() const { return origin == Origin::kJob; }
  // Whether ranks of other hosts can get there.
  bool leads_to_other_hosts() const { return address.is_there(); }

  // A name derived from the secret. Those who read it (it shows in /proc/net/unix) learn nothing about the secret.
  std::string rendezvous_name() const;

  friend bool operator==(const UniqueId&, const UniqueId&) = default;
};
static_assert(sizeof(UniqueId) == 128 && std::is_trivially_copyable_v<UniqueId>);

// The listening socket of a communicator that is about to be made. It belongs to rank 0: whoever creates the id owns
// the point and passes it to rank 0's Bootstrap, which must therefore be in the same process.
class RendezvousPoint {
 public:
  // Makes an id with a fresh random secret, and listens from now on at a free port of 127.0.0.1, or at a name if there
  // is no loopback interface. With `interfaces`, the same as create_for_hosts().
  static RendezvousPoint create(const std::string& interfaces = {});

  // The same for ranks of other hosts, at a free port of an interface of this host: one of `interfaces`, in the syntax
  // of choose_address(); without these at `known`; without it where choose_address() says. Throws kInvalidInput if
  // there is no such interface.
  static RendezvousPoint create_for_hosts(const std::string& interfaces, const InternetAddress& known = {});

  // The same, always at a name, so that descriptors can be passed.
  static RendezvousPoint create_at_name();

  // For interfaces that have nothing but the 128 bytes (C, NCCL's). Returns the point of an id that was release()d in
  // this process; for the id of a job, starts to listen. Throws kInvalidArgument if another process made the id or it
  // was already used, and kMismatch if another rank 0 listens.
  //
  // This needs no table of ids. The id says which descriptor listens, and the kernel's table of descriptors tells by
  // the socket's address whether that is true. A number that means something else by now does not pass.
  static RendezvousPoint claim(const UniqueId& id);

  // Leaves the socket open in this process for claim(). A socket that nobody claims stays open until the process ends.
  // One that a forked child has claimed and shut down stays open until the next one is released.
  UniqueId release();

  const UniqueId& id() const { return id_; }
  int listener() const { return listener_.get(); }

  // Refuses all connections from now on, even if a forked child holds a copy of the socket.
  void shut_down();

 private:
  static RendezvousPoint listen(const SocketAddress& address, UniqueId id);
  RendezvousPoint(const UniqueId& id, UniqueFd listener) : id_(id), listener_(std::move(listener)) {}

  UniqueId id_;
  UniqueFd listener_;
};

}  // namespace plait
