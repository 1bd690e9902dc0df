// Gloo as a peer, where the build found it.
#include "base/error.hpp"
#include "bench/peer_library.hpp"

#if PLAIT_HAVE_GLOO

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>

namespace plait {
namespace {

class Gloo : public PeerLibrary {
 public:
  explicit Gloo(Communicator& communicator) {
    // Gloo's ranks meet in a folder, which rank 0 makes and takes away.
    std::array<char, 64> folder{};
    if (communicator.rank() == 0) {
      std::strcpy(folder.data(), "/tmp/plait-gloo-XXXXXX");
      if (mkdtemp(folder.data()) == nullptr) fail(ErrorCode::kSystem, "cannot make a folder for Gloo's rendezvous");
    }
    communicator.broadcast(folder.data(), folder.data(), folder.size(), DataType::kUint8, 0);
    ::gloo::transport::tcp::attr attributes;
    attributes.iface = "lo";
    auto device = ::gloo::transport::tcp::CreateDevice(attributes);
    auto context = std::make_shared<::gloo::rendezvous::Context>(communicator.rank(), communicator.size());
    ::gloo::rendezvous::FileStore store(folder.data());
    context->connectFullMesh(store, device);
    context_ = context;
    communicator.barrier();
    if (communicator.rank() == 0 && std::system(join("rm -r ", folder.data()).c_str()) != 0) {
      fail(ErrorCode::kSystem, "cannot remove ", folder.data());
    }
  }

  std::string name() const override { return "Gloo (tcp, loopback)"; }

  bool serves(const Call& call) const override {
    switch (call.collective) {
      case Collective::kAllReduce:
        return call.type == DataType::kFloat32 && call.op == ReduceOp::kSum && call.count > 0;
      case Collective::kBroadcast:
      case Collective::kAllGather:
        return call.count > 0;
      case Collective::kBarrier:
        return true;
      default:
        return false;
    }
  }

  void run(const Call& call, const void* input, void* output) override {
    const size_t bytes = call.count * size_of(call.type);
    auto* in = static_cast<uint8_t*>(const_cast<void*>(input));
    auto* out = static_cast<uint8_t*>(output);
    switch (call.collective) {
      case Collective::kAllReduce: {
        ::gloo::AllreduceOptions options(context_);
        if (in != out) options.setInput(reinterpret_cast<float*>(in), call.count);
        options.setOutput(reinterpret_cast<float*>(out), call.count);
        void (*sum)(void*, const void*, const void*, size_t) = &::gloo::sum<float>;
        options.setReduceFunction(sum);
        ::gloo::allreduce(options);
        break;
      }
      case Collective::kBroadcast: {
        ::gloo::BroadcastOptions options(context_);
        options.setRoot(call.root);
        if (context_->rank == call.root && in != out) options.setInput(in, bytes);
        options.setOutput(out, bytes);
        ::gloo::broadcast(options);
        break;
      }
      case Collective::kAllGather: {
        ::gloo::AllgatherOptions options(context_);
        options.setInput(in, bytes);
        options.setOutput(out, bytes * static_cast<size_t>(context_->size));
        ::gloo::allgather(options);
        break;
      }
      default: {
        ::gloo::BarrierOptions options(context_);
        ::gloo::barrier(options);
      }
    }
  }

  bool serves(const RingShift& shift) const override {
    return context_->size > 1 && shift.count > 0 && shift.window == 1 && shift.is_both_ways();
  }

  void run(const RingShift& shift, const void* input, void* output) override {
    constexpr uint64_t kSlot = 1;
    const auto from = context_->createUnboundBuffer(const_cast<void*>(input), shift.bytes());
    const auto to = context_->createUnboundBuffer(output, shift.bytes());
    to->recv(shift.from, kSlot);
    from->send(shift.to, kSlot);
    from->waitSend();
    to->waitRecv();
  }

 private:
  std::shared_ptr<::gloo::Context> context_;
};

}  // namespace

std::unique_ptr<PeerLibrary> make_gloo_peer(Communicator& communicator) { return std::make_unique<Gloo>(communicator); }

}  // namespace plait

#else

namespace plait {

std::unique_ptr<PeerLibrary> make_gloo_peer(Communicator&) {
  fail(ErrorCode::kInvalidArgument,
       "this build of Plait found no Gloo; install it (Debian: libgloo-dev) and build again");
}

}  // namespace plait

#endif
