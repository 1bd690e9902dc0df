// Launching.
#include "runtime/cuda/rank/cuda_rank.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "runtime/cuda/driver/call_order.hpp"
#include "runtime/cuda/driver/cleared_memory.hpp"
#include "runtime/cuda/driver/driver.hpp"
#include "runtime/cuda/driver/free_when_idle.hpp"
#include "runtime/cuda/driver/pdl.hpp"
#include "runtime/cuda/driver/stream_fork.hpp"
#include "runtime/cuda/kernels/prepared_launch.hpp"
#include "runtime/cuda/kernels/queue_kernel.hpp"
#include "runtime/cuda/kernels/scale.hpp"
#include "runtime/cuda/kernels/two_shot_kernel.hpp"
#include "runtime/cuda/memory/device_block.hpp"
#include "runtime/cuda/memory/peer_buffers.hpp"
#include "runtime/cuda/memory/premul_memory.hpp"
#include "runtime/cuda/p2p/p2p.hpp"
#include "runtime/cuda/rank/watchdog.hpp"
#include "runtime/cuda/zero_copy/copier.hpp"
#include "runtime/cuda/zero_copy/zero_copy_calls.hpp"

namespace plait {
namespace {

// With as many threads, so that CTAs of both have room wherever one has.
LaunchShape host_shape(const LaunchShape& shape) { return {Protocol::kSimple, shape.host.channels, shape.threads}; }

// A call that may go straight from buffer to buffer.
struct ProposedCall {
  const CopyProgram* program = nullptr;
  PreparedLaunch* host_path = nullptr;
  const void* input = nullptr;
  void* output = nullptr;
  cudaStream_t stream = nullptr;
};

// None where CUDA is gone, as at the end of a program.
std::unique_ptr<DeviceGuard> guard_at_end(int device) {
  try {
    return std::make_unique<DeviceGuard>(device);
  } catch (const Error&) {
    return nullptr;
  }
}

std::unique_ptr<PeerBuffers> peer_buffers(const PeerMemory& memory, CommunicatorState& state, int rank, int ranks) {
  if (state.process_sharing() != ProcessSharing::kAll) {
    return std::make_unique<PeerBuffers>(memory.device(), rank,
                                         [&state](int r) -> Exports& { return state.exports(r); });
  }
  std::vector<int> devices;  // none where GPUs shall not reach each other
  for (int r = 0; r < ranks && memory.kind() != PeerMemoryKind::kHost; ++r) devices.push_back(memory.device_of(r));
  return std::make_unique<PeerBuffers>(memory.device(), devices);
}

}  // namespace

struct CudaRank::Impl {
  Impl(PeerMemory its_memory, std::optional<PeerMemory> its_host_memory, CommunicatorState& its_state, int rank,
       int ranks, Options options);
  ~Impl();
  // Waits until all calls are done. Only ~Impl() follows, which waits until the GPU is idle, and no longer needs
  // `state`.
  void end();

  void* place_products(const Call& call, const void* input, void* output, cudaStream_t stream,
                       PremulMemory::Piece& piece) const;
  // `launch` on `stream`, after the calls before it; it is told whether that runs now. What is captured runs when its
  // graph is launched, and its order is the user's affair. Throws what ended the communicator.
  template <class Launch>
  void in_order(cudaStream_t stream, const Launch& launch);
  // `work`, for which other ranks would wait in vain: should it throw, the communicator ends. `what` says what this
  // rank could not do then.
  template <class Work, class What>
  auto or_abort(const Work& work, const What& what);
  // `main`, and beside it what goes through host memory, if anything does.
  template <class Launch>
  void fork_host_path(PreparedLaunch* host_path, const void* input, void* output, cudaStream_t stream,
                      const Launch& main);
  // Straight from buffer to buffer.
  void enqueue(const DirectExchange& exchange, cudaStream_t stream, bool runs_now);
  // The exchange at hand, so or by inboxes.
  void enqueue_p2p(const std::optional<DirectExchange>& direct);
  // What this rank could not do, where that fails.
  std::string to_agree() const;
  std::string to_agree_on_call() const;
  // Copies have been enqueued that the turn was taken for.
  void keep_lock(cudaStream_t stream, bool runs_now);
  // `later` goes on when `earlier` has come to this point.
  void wait_for(cudaStream_t earlier, cudaStream_t later) const;

  PeerMemory memory;
  std::optional<PeerMemory> host_memory;
  HostBlocks host_blocks{};
  CommunicatorState& state;
  std::optional<ClearedMemory<ChannelState>> states;
  DeviceRank self;
  int processors = 0;  // SMs of the GPU that may be kept busy
  bool launches_by_pdl = false;
  Reports* reports = nullptr;  // host memory that the GPU reads and writes
  std::unique_ptr<P2p> p2p;
  std::unique_ptr<PremulMemory> products;
  std::unique_ptr<PeerBuffers> buffers;
  std::unique_ptr<CopyEngineLock> turn;
  std::unique_ptr<ZeroCopyCalls> direct;
  std::unique_ptr<ZeroCopyMessages> zero_copy_messages;
  std::unique_ptr<Copier> copier;
  std::unique_ptr<SideStream> beside_copies;  // for messages that inboxes carry meanwhile
  std::unique_ptr<SideStream> beside;         // for what goes through host memory, where there is any
  uint64_t zero_copy_calls = 0;
  ProposedCall proposed;
  // The exchange at hand.
  std::span<const PeerMessage> messages;
  std::span<void* const> streams;
  std::optional<CallOrder> order;  // until the end
  cudaEvent_t joined = nullptr;    // of streams that wait for each other
  std::unique_ptr<Watchdog> watch;
};

CudaRank::Impl::Impl(PeerMemory its_memory, std::optional<PeerMemory> its_host_memory, CommunicatorState& its_state,
                     int rank, int ranks, Options options)
    : memory(std::move(its_memory)), host_memory(std::move(its_host_memory)), state(its_state) {
  if (ranks > kMostDeviceRanks) {
    fail(ErrorCode::kInvalidArgument, "communicators on GPUs have at most ", kMostDeviceRanks, " ranks, not ", ranks);
  }
  const CaptureAside aside;
  const DeviceGuard guard(memory.device());
  order.emplace(memory.device());
  self.rank = rank;
  self.ranks = ranks;
  for (int r = 0; r < ranks; ++r) {
    self.blocks[r] = memory.of(r);
    if (host_memory) host_blocks.of[r] = host_memory->of(r);
  }
  self.wait_nanoseconds = static_cast<uint64_t>(std::min(options.waits.timeout_seconds, 1e6) * 1e9);
  self.states = states.emplace(kAllChannels * kMostQueues).get();
  check_cuda(cudaHostAlloc(&reports, sizeof(Reports), cudaHostAllocMapped | cudaHostAllocPortable),
             "memory for reports");
  *reports = {};
  Reports* mapped = nullptr;
  check_cuda(cudaHostGetDevicePointer(&mapped, reports, 0), "mapping the memory for reports");
  self.failures = mapped->channels;
  self.aborted = &mapped->aborted;
  check_cuda(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming), "an event");
  for (int type = 0; type < kDataTypeCount; ++type) {
    for (int protocol = 0; protocol < kProtocolCount; ++protocol) {
      load_kernel(queue_kernel(static_cast<Protocol>(protocol), static_cast<DataType>(type)));
    }
    load_kernel(unaligned_kernel(static_cast<DataType>(type)));
    for (const bool is_whole : {true, false}) {
      for (int words = 1; words <= kMostWordsOfThread; words *= 2) {
        load_kernel(two_shot_ll(static_cast<DataType>(type), words, is_whole));
      }
      for (size_t i = 0; i < std::size(kLinesAtOnce); ++i) {
        load_kernel(two_shot_ll128(static_cast<DataType>(type), i, is_whole));
      }
    }
    load_kernel(scale_kernel(static_cast<DataType>(type)));
  }
  processors = options.max_sms == 0 ? memory.processors() : std::min(memory.processors(), options.max_sms);
  products = std::make_unique<PremulMemory>(memory.device());
  launches_by_pdl = options.pdl && can_use_pdl(p2p_kernel());  // all are compiled alike
  p2p = std::make_unique<P2p>(self, mapped->receives, FifoShape::of(ranks, memory.ranks_per_device(), processors),
                              launches_by_pdl);
  buffers = peer_buffers(memory, state, rank, ranks);
  turn = std::make_unique<CopyEngineLock>(memory.device());
  direct = std::make_unique<ZeroCopyCalls>(state, ranks, *buffers, *turn, options.waits);
  zero_copy_messages = std::make_unique<ZeroCopyMessages>(state, ranks, *buffers, *turn, options.waits);
  copier = std::make_unique<Copier>(self, mapped->barriers, std::max(1, processors / memory.ranks_per_device()));
  beside_copies = std::make_unique<SideStream>();
  if (host_memory) beside = std::make_unique<SideStream>();
  watch = std::make_unique<Watchdog>(state, *reports, options.waits);
}

// Where this rank's input goes times a scalar; null where there is none.
void* CudaRank::Impl::place_products(const Call& call, const void* input, void* output, cudaStream_t stream,
                                     PremulMemory::Piece& piece) const {
  const size_t bytes = message_bytes(call, self.ranks);
  if (bytes == 0) return nullptr;
  if (holds_products(call.collective, call.root, self.rank)) return output;
  products->take(bytes, input, stream, piece);
  return piece.get();
}

template <class Launch>
void CudaRank::Impl::in_order(cudaStream_t stream, const Launch& launch) {
  if (state.has_failed()) throw *state.failure();
  if (is_captured(stream)) {
    launch(false);
  } else {
    order->next(stream, [&] { launch(true); });
  }
}

template <class Work, class What>
auto CudaRank::Impl::or_abort(const Work& work, const What& what) {
  const auto abort = [&](ErrorCode code, const char* why) {
    turn->give_back();
    state.abort(code, join("rank ", self.rank, " could not ", what(), ": ", why));
  };
  try {
    return work();
  } catch (const Error& error) {
    abort(error.code(), error.what());
    throw;
  } catch (const std::exception& error) {  // no memory, no thread
    abort(ErrorCode::kResources, error.what());
    throw;
  }
}

template <class Launch>
void CudaRank::Impl::fork_host_path(PreparedLaunch* host_path, const void* input, void* output, cudaStream_t stream,
                                    const Launch& main) {
  if (host_path == nullptr) {
    main();
    return;
  }
  StreamFork fork(*beside, stream);
  const PreparedLaunch::Launch it = host_path->launch(input, output);
  fork.launch(it.kernel.function, it.kernel.grid, it.kernel.block, it.argument, "launching a part of a collective");
  const auto rest = [&] {
    main();
    fork.join();
  };
  or_abort(rest, [&] { return join("launch more than a part of ", to_text(host_path->call())); });
}

void CudaRank::Impl::enqueue(const DirectExchange& exchange, cudaStream_t stream, bool runs_now) {
  std::optional<StreamFork> rest;  // no message of an exchange waits for another
  if (!exchange.rest.empty()) p2p->enqueue(exchange.rest, rest.emplace(*beside_copies, stream));
  copier->enqueue(exchange.copies, exchange.agreements, exchange.inputs, exchange.output, stream);
  if (rest) rest->join();
  if (exchange.has_lock) keep_lock(stream, runs_now);
}

void CudaRank::Impl::enqueue_p2p(const std::optional<DirectExchange>& direct) {
  const auto main = static_cast<cudaStream_t>(streams[0]);
  if (direct) {
    in_order(main, [&](bool runs_now) { enqueue(*direct, main, runs_now); });
    ++zero_copy_calls;
  } else {
    in_order(main, [&](bool) { p2p->enqueue(messages, main); });
  }
  for (void* const other : streams.subspan(1)) wait_for(main, static_cast<cudaStream_t>(other));
}

std::string CudaRank::Impl::to_agree() const {
  return join("agree on an exchange with a ", to_text(messages[0]), ", or enqueue it");
}

std::string CudaRank::Impl::to_agree_on_call() const {
  return join("agree with the others on ", to_text(proposed.program->call));
}

void CudaRank::Impl::keep_lock(cudaStream_t stream, bool runs_now) {
  runs_now ? turn->keep_until_done(stream) : turn->keep();
}

void CudaRank::Impl::wait_for(cudaStream_t earlier, cudaStream_t later) const {
  check_cuda(cudaEventRecord(joined, earlier), "recording a stream of a group");
  check_cuda(cudaStreamWaitEvent(later, joined, 0), "waiting for a stream of a group");
}

void CudaRank::Impl::end() {
  const CaptureAside aside;
  const auto guard = guard_at_end(memory.device());
  try {
    order->finish();
  } catch (const Error&) {
    // Waits in kernels are bounded, so the GPU has failed, which has been reported, or CUDA is gone.
  }
  watch.reset();
  zero_copy_messages.reset();
  direct.reset();
  turn.reset();
  buffers->withdraw_all();
  order.reset();
}

CudaRank::Impl::~Impl() {
  const CaptureAside aside;
  const auto guard = guard_at_end(memory.device());
  if (joined != nullptr) cudaEventDestroy(joined);
  beside.reset();
  beside_copies.reset();
  copier.reset();
  buffers.reset();
  p2p.reset();
  products.reset();
  cudaFreeHost(reports);
  states.reset();
}

size_t CudaRank::block_bytes() { return BlockLayout::total_bytes(); }

size_t CudaRank::host_block_bytes() { return HostBlockLayout::total_bytes(); }

CudaRank::CudaRank(PeerMemory memory, std::optional<PeerMemory> host_memory, CommunicatorState& state, int rank,
                   int ranks, Options options)
    : impl_(std::make_unique<Impl>(std::move(memory), std::move(host_memory), state, rank, ranks, options)) {}

CudaRank::~CudaRank() {
  impl_->end();
  const int device = impl_->memory.device();
  const auto held = std::make_shared<std::unique_ptr<Impl>>(std::move(impl_));
  free_when_idle(device, [held] { held->reset(); });
}

const PeerMemory& CudaRank::memory() const { return impl_->memory; }
bool CudaRank::has_host_memory() const { return impl_->host_memory.has_value(); }
size_t CudaRank::device_bytes() const {
  return block_bytes() + kAllChannels * kMostQueues * sizeof(ChannelState) + P2p::device_bytes() +
         Copier::device_bytes();
}

BindLimits CudaRank::limits(const LaunchShape& shape, const Plan& plan) {
  BindLimits limits;
  limits.signal_stride = BlockLayout::kSignalStride;
  limits.signals = BlockLayout::kSignals;
  switch (shape.protocol) {
    case Protocol::kSimple:
      limits.scratch_bytes = BlockLayout::kScratchBytes;
      break;
    case Protocol::kLl:
      limits.scratch_bytes = BlockLayout::kLlBytes / 2;
      break;
    case Protocol::kLl128:
      // A last line for each slot may be all but empty: chunks that fill this are larger than eight lines.
      limits.scratch_bytes = BlockLayout::kLl128Bytes / 9 * 8;
      break;
  }
  limits.streaming_scratch_bytes = SIZE_MAX;
  limits.chunk_by_chunk = shape.protocol != Protocol::kSimple;
  limits.channels = static_cast<size_t>(shape.channels);
  // Of each chunk as much as a warp's threads access at once; less is not worth a channel.
  limits.least_slice_bytes =
      size_t{shape.protocol == Protocol::kLl ? 256u : 512u} * static_cast<size_t>(plan.chunks_per_block);
  return limits;
}

BindLimits CudaRank::host_limits(const LaunchShape& shape, const Plan& plan) {
  BindLimits limits = CudaRank::limits(host_shape(shape), plan);
  limits.scratch_bytes = HostBlockLayout::kScratchBytes;
  return limits;
}

size_t CudaRank::ll_bytes(Protocol protocol) {
  return protocol == Protocol::kLl ? BlockLayout::kLlBytes : BlockLayout::kLl128Bytes;
}

std::shared_ptr<PreparedLaunch> CudaRank::prepare(const BoundPlan& bound, const BoundPlan* ending, const Call& call,
                                                  const LaunchShape& shape) const {
  const DeviceGuard guard(impl_->memory.device());
  return std::make_shared<PreparedLaunch>(bound, call, shape, impl_->self, impl_->memory.ranks_per_device(), ending);
}

void CudaRank::check_launch(const BoundPlan& bound, const Call& call, const LaunchShape& shape, int rank) const {
  DeviceRank other = impl_->self;
  other.rank = rank;
  constexpr int kNoGpu = 0;
  PreparedLaunch(bound, call, shape, other, kNoGpu);
}

std::shared_ptr<PreparedLaunch> CudaRank::prepare_host(const BoundPlan& bound, const Call& call,
                                                       const LaunchShape& shape, const PreparedLaunch& main) const {
  const DeviceGuard guard(impl_->memory.device());
  const HostPathLaunch host_path{impl_->host_blocks, shape.host.bytes_per_second, main.ctas()};
  return std::make_shared<PreparedLaunch>(bound, call, host_shape(shape), impl_->self, impl_->memory.ranks_per_device(),
                                          nullptr, &host_path);
}

void CudaRank::enqueue(PreparedLaunch& prepared, PreparedLaunch* host_path, const void* input, void* output,
                       void* stream, const Scalar* scalar) {
  Impl& impl = *impl_;
  const DeviceGuard guard(impl.memory.device());
  const auto s = static_cast<cudaStream_t>(stream);
  const Call& call = prepared.call();
  PremulMemory::Piece piece;  // first: what it cannot get must fail before others wait for this rank
  void* const products = scalar == nullptr ? nullptr : impl.place_products(call, input, output, s, piece);
  impl.in_order(s, [&](bool runs_now) {
    if (runs_now) impl.state.announce(call);
    if (products != nullptr) {
      const size_t elements = message_bytes(call, impl.self.ranks) / size_of(call.type);
      launch_scale(*scalar, input, products, elements, impl.processors, s);
    }
    const void* const from = products != nullptr ? products : input;
    const bool early = impl.launches_by_pdl && host_path == nullptr;  // both must have room at once
    impl.fork_host_path(host_path, from, output, s, [&] { prepared.start(from, output, s, early); });
  });
}

void CudaRank::announce_empty(const Call& call, void* stream) {
  const DeviceGuard guard(impl_->memory.device());
  if (!is_captured(static_cast<cudaStream_t>(stream))) impl_->state.announce(call);
}

bool CudaRank::propose_copies(const CopyProgram& program, PreparedLaunch* host_path, const void* input, void* output,
                              void* stream, bool willing) {
  Impl& impl = *impl_;
  const DeviceGuard guard(impl.memory.device());
  impl.proposed = {&program, host_path, input, output, static_cast<cudaStream_t>(stream)};
  return impl.direct->propose(program, input, output, impl.proposed.stream, willing);
}

bool CudaRank::meet_for_copies(std::chrono::nanoseconds timeout) {
  Impl& impl = *impl_;
  const DeviceGuard guard(impl.memory.device());
  return impl.or_abort([&] { return impl.direct->meet(timeout); }, [&] { return impl.to_agree_on_call(); });
}

bool CudaRank::enqueue_copies() {
  Impl& impl = *impl_;
  const DeviceGuard guard(impl.memory.device());
  const auto agreed = impl.or_abort([&] { return impl.direct->conclude(); }, [&] { return impl.to_agree_on_call(); });
  if (!agreed) return false;
  const ProposedCall& call = impl.proposed;
  const CopyProgram& program = *call.program;
  const auto enqueue = [&] {
    impl.in_order(call.stream, [&](bool runs_now) {
      if (runs_now) impl.state.announce(program.call);
      impl.fork_host_path(call.host_path, call.input, call.output, call.stream, [&] {
        auto* const to = static_cast<std::byte*>(call.output);
        if (program.reduce) {
          impl.copier->enqueue_reduce(*program.reduce, program.call, agreed->agreement, agreed->inputs, to,
                                      call.stream);
        }
        const std::vector<uint64_t> agreements(program.queues.size(), agreed->agreement);
        impl.copier->enqueue(program, agreements, program.reduce ? agreed->outputs : agreed->inputs, to, call.stream);
      });
      if (!program.by_one_kernel) impl.keep_lock(call.stream, runs_now);
    });
  };
  impl.or_abort(enqueue, [&] { return join("enqueue ", to_text(program.call), ", which all ranks had agreed on"); });
  ++impl.zero_copy_calls;
  return true;
}

uint64_t CudaRank::zero_copy_calls() const { return impl_->zero_copy_calls; }
size_t CudaRank::mapped_buffers() const { return impl_->buffers->mapped(); }

bool CudaRank::start_p2p(std::span<const PeerMessage> messages, std::span<const MessageRoute> routes,
                         std::span<void* const> streams) {
  Impl& impl = *impl_;
  const DeviceGuard guard(impl.memory.device());
  const auto main = static_cast<cudaStream_t>(streams[0]);
  if (impl.state.has_failed()) throw *impl.state.failure();
  for (void* const other : streams.subspan(1)) impl.wait_for(static_cast<cudaStream_t>(other), main);
  impl.messages = messages;
  impl.streams = streams;
  const auto propose = [&] { return impl.zero_copy_messages->propose(messages, routes, main); };
  const bool is_proposed = !routes.empty() && impl.or_abort(propose, [&] { return impl.to_agree(); });
  if (!is_proposed) impl.enqueue_p2p(std::nullopt);
  return !is_proposed;
}

bool CudaRank::advance_p2p() {
  Impl& impl = *impl_;
  const DeviceGuard guard(impl.memory.device());
  const auto advance = [&] {
    const bool is_last = impl.zero_copy_messages->advance();
    if (is_last) impl.enqueue_p2p(impl.zero_copy_messages->conclude());
    return is_last;
  };
  return impl.or_abort(advance, [&] { return impl.to_agree(); });
}

void CudaRank::finish() { impl_->order->finish(); }
void CudaRank::look_at_reports() { impl_->watch->look_at_reports(); }
void CudaRank::stop_waiting() { *static_cast<volatile uint32_t*>(&impl_->reports->aborted) = 1; }

}  // namespace plait
