// Gloo as a peer, where the build found it.
#include "base/error.hpp"
#include "bench/peer_library.hpp"
#include "runtime/hosts.hpp"

#if PLAIT_HAVE_GLOO

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace plait {
namespace {

constexpr const char* kLoopback = "lo";

// Where Gloo's ranks tell each other what they have to know. All of them set equally many values before they get any.
class SharedStore final : public ::gloo::rendezvous::Store {
 public:
  explicit SharedStore(Communicator& communicator) : communicator_(communicator) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    const std::vector<std::vector<char>> keys = gather({key.begin(), key.end()});
    std::vector<std::vector<char>> values = gather(data);
    for (size_t rank = 0; rank < keys.size(); ++rank) {
      values_[std::string(keys[rank].begin(), keys[rank].end())] = std::move(values[rank]);
    }
  }
  std::vector<char> get(const std::string& key) override { return values_.at(key); }
  void wait(const std::vector<std::string>&) override {}  // set() has waited for all

 private:
  // What each rank gives; collective.
  std::vector<std::vector<char>> gather(std::vector<char> own) {
    std::vector<uint64_t> sizes(static_cast<size_t>(communicator_.size()));
    const uint64_t size = own.size();
    communicator_.all_gather(&size, sizes.data(), 1, DataType::kUint64);
    own.resize(std::ranges::max(sizes));
    std::vector<char> together(own.size() * sizes.size());
    communicator_.all_gather(own.data(), together.data(), own.size(), DataType::kUint8);
    std::vector<std::vector<char>> all;
    for (size_t rank = 0; rank < sizes.size(); ++rank) {
      const char* const begin = together.data() + rank * own.size();
      all.emplace_back(begin, begin + sizes[rank]);
    }
    return all;
  }

  Communicator& communicator_;
  std::map<std::string, std::vector<char>> values_;
};

// The interface that PyTorch's variable names. Within a host there is no need of one.
std::string interface_for(const Communicator& communicator) {
  const char* const named = std::getenv("GLOO_SOCKET_IFNAME");
  if (named != nullptr) return named;
  if (communicator.hosts().are_one()) return kLoopback;
  fail(ErrorCode::kInvalidArgument,
       "the ranks are on several hosts, and Gloo needs to know by which interface; name it in "
       "GLOO_SOCKET_IFNAME");
}

class Gloo : public PeerLibrary {
 public:
  explicit Gloo(Communicator& communicator) : interface_(interface_for(communicator)) {
    ::gloo::transport::tcp::attr attributes;
    attributes.iface = interface_;
    auto device = ::gloo::transport::tcp::CreateDevice(attributes);
    auto context = std::make_shared<::gloo::rendezvous::Context>(communicator.rank(), communicator.size());
    SharedStore store(communicator);
    context->connectFullMesh(store, device);
    context_ = context;
    communicator.barrier();
  }

  std::string name() const override {
    return join("Gloo (tcp, ", interface_ == kLoopback ? "loopback" : interface_, ")");
  }

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
  const std::string interface_;
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
