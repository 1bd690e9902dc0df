// NCCL as a peer on GPUs, with ordinary memory and with windows.
#ifdef PLAIT_HAVE_CUDA
#include <map>
#include <utility>

#include "base/error.hpp"
#include "bench/cuda_peer_library.hpp"
#include "bench/nccl_library.hpp"
#include "runtime/cuda/driver/driver.hpp"

namespace plait {
namespace {

constexpr int kSymmetricWindow = 1;              // NCCL_WIN_COLL_SYMMETRIC
constexpr size_t kWindowGranularity = 2u << 20;  // what memory of NCCL's own comes in

// NCCL's communicator over the ranks of one of Plait's.
class NcclRank {
 public:
  NcclRank(Communicator& ranks, const std::vector<std::string>& libraries) : ranks_(ranks) {
    on_all_ranks(ranks, [&] { library_ = std::make_unique<NcclLibrary>(libraries); });
    NcclUniqueId id{};
    on_all_ranks(ranks, [&] {
      if (ranks.rank() == 0) library_->check(library_->get_unique_id(&id), "making NCCL's unique id");
    });
    ranks.broadcast(&id, &id, sizeof(id), DataType::kUint8, 0);
    try {
      library_->check(library_->comm_init_rank(&communicator_, ranks.size(), id, ranks.rank()),
                      "making NCCL's communicator");
    } catch (const Error& error) {
      // It fails on all ranks, if not always with the same words: two ranks on one GPU, say.
      agree(ranks, Error(ErrorCode::kInvalidArgument, error.what()));
    }
    agree(ranks, std::nullopt);
  }

  // Aborts, since the other ranks may be gone; waits for nobody.
  ~NcclRank() {
    if (communicator_ != nullptr) library_->comm_abort(communicator_);
  }
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;

  const NcclLibrary& library() const { return *library_; }
  NcclCommunicator get() const { return communicator_; }
  Communicator& ranks() const { return ranks_; }
  void check(int result, const char* what) const { library_->check(result, what, communicator_); }

 private:
  Communicator& ranks_;
  std::unique_ptr<NcclLibrary> library_;
  NcclCommunicator communicator_ = nullptr;
};

// Two buffers of NCCL's own memory, known to all ranks as windows.
class NcclWindows {
 public:
  // Collective. Null on all ranks where NCCL has windows on some rank only, or on none.
  static std::unique_ptr<NcclWindows> create(const NcclRank& nccl, size_t bytes) {
    auto windows = std::unique_ptr<NcclWindows>(new NcclWindows(nccl));
    const int64_t have = windows->make(bytes) ? 1 : 0;
    const bool all = over_ranks(nccl.ranks(), have, DataType::kInt64, ReduceOp::kMin) == 1;
    return all ? std::move(windows) : nullptr;
  }

  ~NcclWindows() {
    for (int i = 0; i < 2; ++i) {
      if (windows_[i] != nullptr) nccl_.library().window_deregister(nccl_.get(), windows_[i]);
    }
    for (void* memory : memory_) {
      if (memory != nullptr) nccl_.library().memory_free(memory);
    }
  }
  NcclWindows(const NcclWindows&) = delete;
  NcclWindows& operator=(const NcclWindows&) = delete;

  BufferPair buffers() const { return {static_cast<std::byte*>(memory_[0]), static_cast<std::byte*>(memory_[1])}; }

 private:
  explicit NcclWindows(const NcclRank& nccl) : nccl_(nccl) {}

  bool make(size_t bytes) {
    const NcclLibrary& library = nccl_.library();
    const size_t whole = (bytes + kWindowGranularity - 1) / kWindowGranularity * kWindowGranularity;
    const bool got = library.has_windows() && library.memory_allocate(&memory_[0], whole) == 0 &&
                     library.memory_allocate(&memory_[1], whole) == 0;
    // Registering is collective: all ranks register, or none.
    const int64_t ready = got ? 1 : 0;
    if (over_ranks(nccl_.ranks(), ready, DataType::kInt64, ReduceOp::kMin) == 0) return false;
    for (int i = 0; i < 2; ++i) {
      // Success without a window is NCCL's way to say that this machine has none.
      const int result = library.window_register(nccl_.get(), memory_[i], whole, &windows_[i], kSymmetricWindow);
      if (result != 0 || windows_[i] == nullptr) return false;
    }
    return true;
  }

  const NcclRank& nccl_;
  void* memory_[2] = {};
  NcclWindow windows_[2] = {};
};

class Nccl : public CudaPeerLibrary {
 public:
  Nccl(std::shared_ptr<NcclRank> rank, std::unique_ptr<NcclWindows> windows)
      : rank_(std::move(rank)), windows_(std::move(windows)) {}
  ~Nccl() override {
    for (const auto& [type, op] : multiplied_sums_) rank_->library().op_destroy(op, rank_->get());
  }
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  std::string name() const override { return rank_->library().name() + (windows_ ? " registered" : ""); }

  bool serves(const Call& call, bool in_place) const override {
    if (call.collective == Collective::kAllToAll && in_place) return false;
    if (reduces(call.collective) && !is_nccls(facts_of(call.op))) return false;
    return call.collective != Collective::kBarrier && type_of(call) >= 0;
  }

  void enqueue(const Call& call, const void* input, void* output, void* stream) override {
    enqueue(call, facts_of(call.op).number, input, output, stream);
  }

  bool serves(const RingShift& shift) const override { return rank_->library().type_of(shift.type, false) >= 0; }

  void enqueue(const RingShift& shift, const void* input, void* output, void* stream) override {
    const NcclLibrary& library = rank_->library();
    const int type = library.type_of(shift.type, false);
    int result = library.group_start();
    for (int i = 0; i < shift.window; ++i) {
      if (result == 0 && shift.sends()) {
        result = library.send(input, shift.count, type, shift.to, rank_->get(), stream);
      }
      if (result == 0 && shift.receives()) {
        result = library.receive(output, shift.count, type, shift.from, rank_->get(), stream);
      }
    }
    const int end = library.group_end();
    if (result != 0 || end != 0) rank_->check(result != 0 ? result : end, "a send and a receive");
  }

  bool multiplies() const override {
    return rank_->library().op_create_premul_sum != nullptr && rank_->library().op_destroy != nullptr;
  }

  void enqueue_multiplied(const Call& call, const Scalar& factor, const void* input, void* output,
                          void* stream) override {
    enqueue(call, multiplied_sum(call, factor), input, output, stream);
  }

  void check() override {
    int result = 0;
    rank_->check(rank_->library().comm_get_async_error(rank_->get(), &result), "asking NCCL for errors");
    rank_->check(result, "a collective of NCCL's");
  }

  BufferPair own_buffers() const override { return windows_ ? windows_->buffers() : BufferPair{}; }

 private:
  void enqueue(const Call& call, int op, const void* input, void* output, void* stream) {
    const NcclLibrary& library = rank_->library();
    const int type = type_of(call);
    const NcclCommunicator to = rank_->get();
    int result = 0;
    switch (call.collective) {
      case Collective::kAllReduce:
        result = library.all_reduce(input, output, call.count, type, op, to, stream);
        break;
      case Collective::kReduce:
        result = library.reduce(input, output, call.count, type, op, call.root, to, stream);
        break;
      case Collective::kBroadcast:
        result = library.broadcast(input, output, call.count, type, call.root, to, stream);
        break;
      case Collective::kReduceScatter:
        result = library.reduce_scatter(input, output, call.count, type, op, to, stream);
        break;
      case Collective::kAllGather:
        result = library.all_gather(input, output, call.count, type, to, stream);
        break;
      case Collective::kGather:
        result = library.gather != nullptr ? library.gather(input, output, call.count, type, call.root, to, stream)
                                           : exchange(call, input, output, stream);
        break;
      case Collective::kScatter:
        result = library.scatter != nullptr ? library.scatter(input, output, call.count, type, call.root, to, stream)
                                            : exchange(call, input, output, stream);
        break;
      case Collective::kAllToAll:
        result = library.all_to_all != nullptr ? library.all_to_all(input, output, call.count, type, to, stream)
                                               : exchange(call, input, output, stream);
        break;
      case Collective::kBarrier:
        fail(ErrorCode::kInternal, "NCCL has no barrier");
    }
    if (result != 0) rank_->check(result, to_text(call).c_str());
  }

  // Made once for each type: the factor that this rank has for it is always the same.
  int multiplied_sum(const Call& call, Scalar factor) {
    constexpr int kHostImmediate = 1;
    const auto found = multiplied_sums_.find(call.type);
    if (found != multiplied_sums_.end()) return found->second;
    int op = 0;
    rank_->check(
        rank_->library().op_create_premul_sum(&op, factor.value.data(), type_of(call), kHostImmediate, rank_->get()),
        "making NCCL's pre-multiplied sum");
    return multiplied_sums_[call.type] = op;
  }

  // Blocks by sends and receives, as older versions of NCCL have it.
  int exchange(const Call& call, const void* input, void* output, void* stream) const {
    const NcclLibrary& library = rank_->library();
    const int rank = rank_->ranks().rank(), ranks = rank_->ranks().size();
    const size_t bytes = call.count * size_of(call.type);
    const auto gives = [&](int from, int to) {
      if (call.collective == Collective::kGather) return to == call.root;
      return call.collective == Collective::kAllToAll || from == call.root;
    };
    int result = library.group_start();
    for (int peer = 0; peer < ranks && result == 0; ++peer) {
      const size_t block = static_cast<size_t>(peer) * bytes;
      const auto* from = static_cast<const std::byte*>(input) + (gathers(call.collective) ? 0 : block);
      auto* to = static_cast<std::byte*>(output) + (scatters(call.collective) ? 0 : block);
      if (gives(rank, peer)) result = library.send(from, call.count, type_of(call), peer, rank_->get(), stream);
      if (result == 0 && gives(peer, rank)) {
        result = library.receive(to, call.count, type_of(call), peer, rank_->get(), stream);
      }
    }
    const int end = library.group_end();
    return result != 0 ? result : end;
  }

  int type_of(const Call& call) const { return rank_->library().type_of(call.type, reduces(call.collective)); }

  std::shared_ptr<NcclRank> rank_;
  std::unique_ptr<NcclWindows> windows_;  // after rank_: it must go first
  std::map<DataType, int> multiplied_sums_;
};

}  // namespace

std::vector<std::unique_ptr<CudaPeerLibrary>> make_nccl_peers(Communicator& communicator, size_t largest_bytes,
                                                              const std::vector<std::string>& libraries) {
  auto rank = std::make_shared<NcclRank>(communicator, libraries);
  auto windows = NcclWindows::create(*rank, largest_bytes);
  std::vector<std::unique_ptr<CudaPeerLibrary>> peers;
  peers.push_back(std::make_unique<Nccl>(rank, nullptr));
  if (windows) peers.push_back(std::make_unique<Nccl>(rank, std::move(windows)));
  return peers;
}

}  // namespace plait
#endif
