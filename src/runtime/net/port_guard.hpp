// Who may connect to the ports at which UCX listens.
//
// UCX takes whoever connects for a peer. A stranger who knows its protocol, which is public, can then write into the
// memory of the process. UCX asks for no secret, and Plait never sees its connections. So the kernel drops the first
// packet of every connection that does not come from a host of the ranks, by a filter at UCX's sockets. That takes no
// privilege. Programs on these hosts still come in, until all ranks have connected and the ports are closed to
// everyone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/internet_address.hpp"
#include "runtime/stream_socket.hpp"

namespace plait {

// The addresses from which ranks of this host connect, as a text for other ranks. There are none in it where the system
// does not list them.
std::string own_addresses();
// The addresses from which others may connect to `rank`: those of the ranks on other nodes. `texts` and `node_of` are
// by rank. 127.0.0.1 and ::1 are among them only if ranks of another node are on this very machine. No value where a
// rank has told none.
std::optional<std::vector<InternetAddress>> callers_of(int rank, const std::vector<std::string>& texts,
                                                       const std::vector<int>& node_of);

// Addresses that begin with the same `bits` bits are one block.
struct AddressBlocks {
  int bits = 0;
  std::vector<InternetAddress> first;  // of each block; its other bits are 0
};
// At most `most` blocks that contain all of these addresses, which are of one family: single addresses while these are
// not too many.
AddressBlocks blocks_of(const std::vector<InternetAddress>& addresses, size_t most);

class PortGuard {
 public:
  // Before UCX opens its ports. Other threads may open and close sockets meanwhile, but no other UCX.
  PortGuard();

  // Keeps all but `callers` from the ports that UCX has opened since; `address` is UCX's own, and names these ports.
  // Throws kSystem if the kernel takes no filters.
  void admit_only(const std::vector<InternetAddress>& callers, const std::string& address);
  // How many ports are guarded.
  int ports() const { return static_cast<int>(ports_.size()); }
  // Keeps everyone from them. Connections that exist go on.
  void admit_nobody() const;

 private:
  // A socket that listened there. Who had it may have closed it, and another one may have its number.
  struct Port {
    int socket = -1;
    SocketAddress place;

    friend bool operator==(const Port&, const Port&) = default;
  };

  static std::vector<Port> listening();  // of this process

  std::vector<Port> before_;
  std::vector<Port> ports_;  // UCX's
};

}  // namespace plait
