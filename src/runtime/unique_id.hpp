// What the ranks of one communicator share so that they find each other and nobody else: a place to meet, and a secret.
// The secret itself never leaves a process through the library. See docs/bootstrap.md.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/unique_fd.hpp"
#include "runtime/secret.hpp"
#include "runtime/stream_socket.hpp"

namespace plait {

// 128 plain bytes, like ncclUniqueId: copy them to the other ranks in any way (MPI, a pipe, a file, a command line).
struct UniqueId {
  static constexpr uint64_t kMagic = 0x444974'69616c50;  // "PlaitID" in memory
  static constexpr uint32_t kVersion = 1;
  enum class Origin : uint32_t {
    kProcess = 1,  // made by RendezvousPoint::create: somebody listens from the moment that the id exists
    kJob = 2,      // computed by each rank from what the launcher told all of them: rank 0 may come last
  };

  uint64_t magic = 0;
  uint32_t version = 0;
  Origin origin = Origin::kProcess;
  Secret secret{};
  int32_t creator_process_id = 0;   // kProcess: who listens, for messages
  int32_t creator_descriptor = -1;  // kProcess: its listening socket, see RendezvousPoint::claim
  uint16_t port = 0;                // of 127.0.0.1, in network order; 0: they meet at rendezvous_name()
  std::array<uint8_t, 6> padding{};
  uint64_t network_namespace = 0;  // kProcess: where the port or the name is known; 0: unknown
  std::array<uint8_t, 72> reserved{};

  // The id that all ranks of one user's job compute alike. `sequence` tells apart the communicators that one job makes
  // one after another: 0, 1, 2, … on every rank.
  static UniqueId for_job(std::string_view job_key, uint64_t sequence);

  // One word of letters, digits and '-'. parse() throws kInvalidInput for anything that text() did not write.
  std::string text() const;
  static UniqueId parse(std::string_view text);

  // Throws kInvalidArgument where these bytes are no id, or one of another version of the library.
  void check() const;

  // Where the ranks meet: this alone decides between a port and a name.
  SocketAddress meeting_place() const;

  // A name that follows from the secret. Whoever reads it (it shows in /proc/net/unix) learns nothing about the secret.
  std::string rendezvous_name() const;

  friend bool operator==(const UniqueId&, const UniqueId&) = default;
};
static_assert(sizeof(UniqueId) == 128 && std::is_trivially_copyable_v<UniqueId>);

// The listening socket of a communicator that is about to be made. It belongs to rank 0: whoever creates the id owns
// the point, and hands it to rank 0's Bootstrap, which must therefore be in the same process.
class RendezvousPoint {
 public:
  // A new id with a fresh random secret, listening from now on at a free port of 127.0.0.1; at a name where there is no
  // loopback interface.
  static RendezvousPoint create();

  // The same at a name, where descriptors can be passed.
  static RendezvousPoint create_at_name();

  // For interfaces that have nothing but the 128 bytes (C, NCCL's). Returns the point of an id whose point was
  // release()d in this process; for an id of a job, starts to listen. Throws where another process made the id
  // (kInvalidArgument), where the id was already used, or where another rank 0 listens (kMismatch).
  //
  // No table of ids is kept for this: the id says which descriptor listens, and the kernel's table of descriptors tells
  // whether that is so, by the socket's address. A number that means something else by now does not pass.
  static RendezvousPoint claim(const UniqueId& id);

  // Leaves the socket open in this process for claim(). One that nobody ever claims stays open until the process ends;
  // one that a forked child has claimed and shut down, until the next one is released.
  UniqueId release();

  const UniqueId& id() const { return id_; }
  int listener() const { return listener_.get(); }

  // From now on whoever connects is refused, also where a forked child holds a copy of the socket.
  void shut_down();

 private:
  static RendezvousPoint listen(const SocketAddress& address, UniqueId id);
  RendezvousPoint(const UniqueId& id, UniqueFd listener) : id_(id), listener_(std::move(listener)) {}

  UniqueId id_;
  UniqueFd listener_;
};

}  // namespace plait
