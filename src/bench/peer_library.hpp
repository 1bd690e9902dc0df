// Libraries that perform a call, so that Plait and its peers can be timed in one run, in the same processes, on the
// same buffers.
#pragma once

#include <memory>
#include <string>

#include "api/communicator.hpp"
#include "bench/ring_shift.hpp"
#include "runtime/buffer_blocks.hpp"
#include "runtime/call.hpp"

namespace plait {

class PeerLibrary {
 public:
  virtual ~PeerLibrary() = default;
  // With its version: "Open MPI 4.1.4".
  virtual std::string name() const = 0;
  // Whether the library has this collective for this type and operation.
  virtual bool serves(const Call& call) const = 0;
  // Input and output as Communicator::run takes them, also in place.
  virtual void run(const Call& call, const void* input, void* output) = 0;
  // Whether the library has pre-multiplied sums, and one of them.
  virtual bool multiplies() const { return false; }
  virtual void run_multiplied(const Call& call, const Scalar& factor, const void* input, void* output);

  // Calls by counts; the factor of a pre-multiplied sum may be null.
  virtual bool serves(const CallByCounts&) const { return false; }
  virtual void run(const CallByCounts& call, const Scalar* factor, const void* input, void* output);

  virtual bool serves(const RingShift&) const { return false; }
  virtual void run(const RingShift& shift, const void* input, void* output);
};

std::unique_ptr<PeerLibrary> make_plait_peer(Communicator& communicator);
// The MPI library that launched this process (Open MPI, MPICH or a relative), opened at run time: nothing is linked.
// Throws kInvalidArgument with what to install or how to launch where there is none.
std::unique_ptr<PeerLibrary> make_mpi_peer(Communicator& communicator);
// Gloo over its TCP transport, on the interface that GLOO_SOCKET_IFNAME names; without it on the loopback interface.
// Throws kInvalidArgument where this build has no Gloo, or where ranks are on several hosts and no interface is named.
std::unique_ptr<PeerLibrary> make_gloo_peer(Communicator& communicator);

}  // namespace plait
