// Makes calls ready and launches them.
#include "runtime/cuda/rank/cuda_rank.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "runtime/cuda/driver/call_order.hpp"
#include "runtime/cuda/driver/cleared_memory.hpp"
#include "runtime/cuda/driver/driver.hpp"
#include "runtime/cuda/driver/free_when_idle.hpp"
#include "runtime/cuda/driver/pdl.hpp"
#include "runtime/cuda/driver/served_gpu.hpp"
#include "runtime/cuda/driver/stream_fork.hpp"
#include "runtime/cuda/kernels/catalogue.hpp"
#include "runtime/cuda/kernels/prepared_launch.hpp"
#include "runtime/cuda/kernels/scale.hpp"
#include "runtime/cuda/lowering/device_block.hpp"
#include "runtime/cuda/lowering/launch_limits.hpp"
#include "runtime/cuda/memory/peer_buffers.hpp"
#include "runtime/cuda/memory/premul_memory.hpp"
#include "runtime/cuda/p2p/p2p.hpp"
#include "runtime/cuda/persistent/persistent.hpp"
#include "runtime/cuda/rank/watchdog.hpp"
#include "runtime/cuda/zero_copy/copier.hpp"
#include "runtime/cuda/zero_copy/zero_copy_calls.hpp"

namespace plait {
namespace {

// A call that may be zero-copy.
struct ProposedCall {
  const CopyProgram* program = nullptr;
  PreparedLaunch* host_path = nullptr;
  const void* input = nullptr;
  void* output = nullptr;
  cudaStream_t stream = nullptr;
};

// Null if CUDA has already shut down, as at the end of a program.
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
  std::vector<int> devices;  // none if GPUs must not access each other's memory
  for (int r = 0; r < ranks && memory.kind() != PeerMemoryKind::kHost; ++r) devices.push_back(memory.device_of(r));
  return std::make_unique<PeerBuffers>(memory.device(), devices);
}

}  // namespace

struct CudaRank::Impl {
  Impl(PeerMemory its_memory, std::optional<PeerMemory> its_host_memory, CommunicatorState& its_state, int rank,
       int ranks, Options options);
  ~Impl();
  // Waits until all calls are done. Only ~Impl() follows; it waits until the GPU is idle and does not need `state` any
  // more.
  void end();

  // Takes memory for the product of this rank's input and its scalar; null if there is nothing to multiply.
  void* place_products(const Call& call, const void* input, void* output, cudaStream_t stream,
                       PremulMemory::Piece& piece) const;
  // Calls `launch` so that its work on `stream` runs after earlier calls, and tells it whether that runs now. Captured
  // work runs when its graph is launched, and its order is up to the user. Throws the error that ended the
  // communicator.
  template <class Launch>
  void in_order(cudaStream_t stream, const Launch& launch);
  // Does `work` that other ranks wait for: if it throws, the communicator ends. what() says what this rank could not
  // do.
  template <class Work, class What>
  auto or_abort(const Work& work, const What& what);
  // Launches `main`, and concurrently the part of the call that takes the host path, if there is one.
  template <class Launch>
  void fork_host_path(PreparedLaunch* host_path, const void* input, void* output, cudaStream_t stream,
                      const Launch& main);
  // Enqueues the call that was proposed.
  void enqueue(const ZeroCopyCall& agreed);
  void enqueue(const ZeroCopyExchange& exchange, cudaStream_t stream, bool runs_now);
  // Enqueues the current exchange: zero-copy if that was agreed on, else through FIFOs.
  void enqueue_p2p(const std::optional<ZeroCopyExchange>& agreed);
  // For error messages: what this rank could not do.
  std::string to_agree_on_exchange() const;
  // Call after enqueueing the copies that needed the copy-engine lock.
  void keep_lock(cudaStream_t stream, bool runs_now);
  // Makes the stream `later` wait for everything that `earlier` holds now.
  void wait_for(cudaStream_t earlier, cudaStream_t later) const;

  PeerMemory memory;
  std::optional<PeerMemory> host_memory;
  HostBlocks host_blocks{};
  CommunicatorState& state;
  std::optional<ClearedMemory<ChannelState>> states;
  DeviceRank self;
  int sm_count = 0;  // SMs of the GPU that may be kept busy
  bool uses_pdl = false;
  Reports* reports = nullptr;  // host memory that the GPU reads and writes
  std::unique_ptr<CudaP2p> p2p;
  std::unique_ptr<PremulMemory> products;
  std::unique_ptr<PeerBuffers> buffers;
  std::unique_ptr<CopyEngineLock> copy_engine_lock;
  std::unique_ptr<ZeroCopyCalls> zero_copy;
  std::unique_ptr<ZeroCopyMessages> zero_copy_messages;
  std::unique_ptr<Copier> copier;
  std::unique_ptr<PersistentCalls> persistent;   // null: there is no persistent kernel
  std::unique_ptr<SideStream> p2p_stream;        // for messages through FIFOs while others are zero-copy
  std::unique_ptr<SideStream> host_path_stream;  // null: there is no host memory for a host path
  std::set<std::shared_ptr<const ProgramMemory>> captured_programs;  // graphs may read them until the communicator ends
  uint64_t zero_copy_calls = 0;
  ProposedCall proposed;
  // The current exchange.
  std::span<const PeerMessage> messages;
  std::span<void* const> streams;
  std::optional<CallOrder> order;  // until end()
  cudaEvent_t joined = nullptr;    // for streams of a group that wait for each other
  std::unique_ptr<Watchdog> watch;
};

CudaRank::Impl::Impl(PeerMemory its_memory, std::optional<PeerMemory> its_host_memory, CommunicatorState& its_state,
                     int rank, int ranks, Options options)
    : memory(std::move(its_memory)), host_memory(std::move(its_host_memory)), state(its_state) {
  if (ranks > kMostDeviceRanks) {
    fail(ErrorCode::kInvalidArgument, "communicators on GPUs have at most ", kMostDeviceRanks, " ranks, not ", ranks);
  }
  const RelaxedCapture relaxed;
  const DeviceGuard guard(memory.device());
  order.emplace(memory.device());
  self.rank = rank;
  self.ranks = ranks;
  for (int r = 0; r < ranks; ++r) {
    self.blocks[r] = memory.of(r);
    if (host_memory) host_blocks.of[r] = host_memory->of(r);
  }
  self.wait_nanoseconds = static_cast<uint64_t>(std::min(options.waits.timeout_seconds, 1e6) * 1e9);
  self.states = states.emplace(kAllStates).get();
  check_cuda(cudaHostAlloc(&reports, sizeof(Reports), cudaHostAllocMapped | cudaHostAllocPortable),
             "memory for reports");
  *reports = {};
  Reports* mapped = nullptr;
  check_cuda(cudaHostGetDevicePointer(&mapped, reports, 0), "mapping the memory for reports");
  self.failures = mapped->channels;
  self.aborted = &mapped->aborted;
  check_cuda(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming), "an event");
  for (int type = 0; type < kDataTypeCount; ++type) {
    for (const CallKernel kernel : kCallKernels) load_kernel(call_kernel(kernel, static_cast<DataType>(type)));
    load_kernel(scale_kernel(static_cast<DataType>(type)));
  }
  sm_count = options.max_sms == 0 ? memory.sm_count() : std::min(memory.sm_count(), options.max_sms);
  products = std::make_unique<PremulMemory>(memory.device());
  uses_pdl = options.pdl && can_use_pdl(p2p_kernel());  // all kernels are compiled for the same GPUs
  p2p = std::make_unique<CudaP2p>(self, mapped->receives, FifoShape::of(ranks, memory.ranks_per_device(), sm_count),
                                  uses_pdl);
  buffers = peer_buffers(memory, state, rank, ranks);
  copy_engine_lock = std::make_unique<CopyEngineLock>(memory.device());
  zero_copy = std::make_unique<ZeroCopyCalls>(state, ranks, *buffers, *copy_engine_lock, options.waits);
  zero_copy_messages = std::make_unique<ZeroCopyMessages>(state, ranks, *buffers, *copy_engine_lock, options.waits);
  copier = std::make_unique<Copier>(self, mapped->barriers, std::max(1, sm_count / memory.ranks_per_device()));
  // Ranks that share the GPU wait for each other's CTAs, so those of all must fit on it at once.
  if (options.persistent_ctas > 0 && PersistentCalls::can_have(options.persistent_ctas * memory.ranks_per_device())) {
    persistent = std::make_unique<PersistentCalls>(
        self.aborted, state, options.waits, PersistentCalls::Options{options.persistent_ctas, options.persistent_idle});
  }
  p2p_stream = std::make_unique<SideStream>();
  if (host_memory) host_path_stream = std::make_unique<SideStream>();
  watch = std::make_unique<Watchdog>(state, *reports, options.waits);
}

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
    if (persistent) persistent->let_leave();  // the call may need its SMs
    order->next(stream, [&] { launch(true); });
  }
}

template <class Work, class What>
auto CudaRank::Impl::or_abort(const Work& work, const What& what) {
  const auto abort = [&](ErrorCode code, const char* why) {
    copy_engine_lock->unlock();
    state.abort(code, join("rank ", self.rank, " could not ", what(), ": ", why));
  };
  try {
    return work();
  } catch (const Error& error) {
    abort(error.code(), error.what());
    throw;
  } catch (const std::exception& error) {  // out of memory or threads
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
  StreamFork fork(*host_path_stream, stream);
  const PreparedLaunch::Launch it = host_path->launch(input, output);
  fork.launch(it.kernel.function, it.kernel.grid, it.kernel.block, it.argument, "launching a part of a collective");
  const auto rest = [&] {
    main();
    fork.join();
  };
  or_abort(rest, [&] { return join("launch more than a part of ", to_text(host_path->call())); });
}

void CudaRank::Impl::enqueue(const ZeroCopyCall& agreed) {
  const CopyProgram& program = *proposed.program;
  const cudaStream_t stream = proposed.stream;
  const auto copies = [&] {
    auto* const to = static_cast<std::byte*>(proposed.output);
    if (program.reduce) {
      copier->enqueue_reduce(*program.reduce, program.call, agreed.agreement, agreed.inputs, to, stream);
    }
    const std::vector<uint64_t> agreements(program.queues.size(), agreed.agreement);
    copier->enqueue(program, agreements, program.reduce ? agreed.outputs : agreed.inputs, to, stream);
  };
  const auto call = [&] {
    in_order(stream, [&](bool runs_now) {
      if (runs_now) state.announce(program.call);
      fork_host_path(proposed.host_path, proposed.input, proposed.output, stream, copies);
      if (!program.by_one_kernel) keep_lock(stream, runs_now);
    });
  };
  or_abort(call, [&] { return join("enqueue ", to_text(program.call), ", which all ranks had agreed on"); });
  ++zero_copy_calls;
}

void CudaRank::Impl::enqueue(const ZeroCopyExchange& exchange, cudaStream_t stream, bool runs_now) {
  std::optional<StreamFork> rest;  // no message of an exchange waits for another
  if (!exchange.rest.empty()) p2p->enqueue(exchange.rest, rest.emplace(*p2p_stream, stream));
  copier->enqueue(exchange.copies, exchange.agreements, exchange.inputs, exchange.output, stream);
  if (rest) rest->join();
  if (exchange.has_lock) keep_lock(stream, runs_now);
}

void CudaRank::Impl::enqueue_p2p(const std::optional<ZeroCopyExchange>& agreed) {
  const auto main = static_cast<cudaStream_t>(streams[0]);
  if (agreed) {
    in_order(main, [&](bool runs_now) { enqueue(*agreed, main, runs_now); });
    ++zero_copy_calls;
  } else {
    in_order(main, [&](bool) { p2p->enqueue(messages, main); });
  }
  for (void* const other : streams.subspan(1)) wait_for(main, static_cast<cudaStream_t>(other));
}

std::string CudaRank::Impl::to_agree_on_exchange() const {
  return join("agree on an exchange with a ", to_text(messages[0]), ", or enqueue it");
}

void CudaRank::Impl::keep_lock(cudaStream_t stream, bool runs_now) {
  runs_now ? copy_engine_lock->unlock_when_done(stream) : copy_engine_lock->lock_for_good();
}

void CudaRank::Impl::wait_for(cudaStream_t earlier, cudaStream_t later) const {
  check_cuda(cudaEventRecord(joined, earlier), "recording a stream of a group");
  check_cuda(cudaStreamWaitEvent(later, joined, 0), "waiting for a stream of a group");
}

void CudaRank::Impl::end() {
  const RelaxedCapture relaxed;
  const auto guard = guard_at_end(memory.device());
  try {
    order->finish();
    if (persistent) persistent->finish();
  } catch (const Error&) {
    // Waits in kernels are bounded, so either the GPU has failed, which has been reported, or CUDA has shut down.
  }
  watch.reset();
  zero_copy_messages.reset();
  zero_copy.reset();
  copy_engine_lock.reset();
  buffers->withdraw_all();
  order.reset();
}

CudaRank::Impl::~Impl() {
  const RelaxedCapture relaxed;
  const auto guard = guard_at_end(memory.device());
  if (joined != nullptr) cudaEventDestroy(joined);
  host_path_stream.reset();
  p2p_stream.reset();
  persistent.reset();
  copier.reset();
  buffers.reset();
  p2p.reset();
  products.reset();
  cudaFreeHost(reports);
  states.reset();
}

void CudaRank::check_device(int device) {
  const RelaxedCapture relaxed;
  const DeviceGuard guard(device);
  check_is_served(call_kernel(CallKernel::kSimpleAligned, DataType::kFloat32));
}

size_t CudaRank::block_bytes() { return BlockLayout::total_bytes(); }

size_t CudaRank::host_block_bytes() { return HostBlockLayout::total_bytes(); }

CudaRank::CudaRank(PeerMemory memory, std::optional<PeerMemory> host_memory, CommunicatorState& state, int rank,
                   int ranks, Options options)
    : impl_(std::make_unique<Impl>(std::move(memory), std::move(host_memory), state, rank, ranks, options)) {}

CudaRank::~CudaRank() {
  impl_->end();
  const int device = impl_->memory.device();
  const auto programs = std::move(impl_->captured_programs);  // each is freed by itself
  const auto held = std::make_shared<std::unique_ptr<Impl>>(std::move(impl_));
  free_when_idle(device, [held] { held->reset(); });
}

const PeerMemory& CudaRank::memory() const { return impl_->memory; }
bool CudaRank::has_host_memory() const { return impl_->host_memory.has_value(); }
size_t CudaRank::device_bytes() const {
  return block_bytes() + kAllStates * sizeof(ChannelState) + CudaP2p::device_bytes() + Copier::device_bytes() +
         (impl_->persistent ? PersistentCalls::device_bytes() : 0);
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
  return std::make_shared<PreparedLaunch>(bound, call, host_path_shape(shape), impl_->self,
                                          impl_->memory.ranks_per_device(), nullptr, &host_path);
}

LaunchGrid CudaRank::grid_of(const PreparedLaunch& prepared) { return prepared.grid(); }

void CudaRank::enqueue(PreparedLaunch& prepared, PreparedLaunch* host_path, const void* input, void* output,
                       void* stream, const Scalar* scalar) {
  Impl& impl = *impl_;
  const DeviceGuard guard(impl.memory.device());
  const auto s = static_cast<cudaStream_t>(stream);
  const Call& call = prepared.call();
  PremulMemory::Piece piece;  // first: if there is no memory, the call must fail before others wait for this rank
  void* const products = scalar == nullptr ? nullptr : impl.place_products(call, input, output, s, piece);
  impl.in_order(s, [&](bool runs_now) {
    if (runs_now) impl.state.announce(call);
    if (const auto program = prepared.program_memory(); program && !runs_now) impl.captured_programs.insert(program);
    if (products != nullptr) {
      const size_t elements = message_bytes(call, impl.self.ranks) / size_of(call.type);
      launch_scale(*scalar, input, products, elements, impl.sm_count, s);
    }
    const void* const from = products != nullptr ? products : input;
    const bool pdl = impl.uses_pdl && host_path == nullptr;  // with a host path, both launches need room at once
    impl.fork_host_path(host_path, from, output, s, [&] { prepared.start(from, output, s, pdl); });
  });
}

bool CudaRank::can_perform(const PreparedLaunch& prepared) const {
  return impl_->persistent && impl_->persistent->can_perform(prepared);
}

void CudaRank::perform(PreparedLaunch& prepared, const void* input, void* output) {
  Impl& impl = *impl_;
  const DeviceGuard guard(impl.memory.device());
  const Call& call = prepared.call();
  if (impl.state.has_failed()) throw *impl.state.failure();
  const auto perform = [&] {
    impl.order->at_once([&] {
      impl.state.announce(call);
      impl.persistent->perform(prepared, input, output);
    });
  };
  impl.or_abort(perform, [&] { return join("perform ", to_text(call)); });
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
  return impl.zero_copy->propose(program, input, output, impl.proposed.stream, willing);
}

CudaRank::CopyStep CudaRank::advance_copies(std::chrono::nanoseconds timeout) {
  Impl& impl = *impl_;
  const DeviceGuard guard(impl.memory.device());
  const auto to_agree = [&] { return join("agree with the others on ", to_text(impl.proposed.program->call)); };
  if (!impl.zero_copy->has_voted()) {
    const bool has_voted = impl.or_abort([&] { return impl.zero_copy->vote(timeout); }, to_agree);
    return has_voted ? CopyStep::kVoted : CopyStep::kNotAgreed;
  }
  const std::optional<ZeroCopyCall> agreed = impl.or_abort([&] { return impl.zero_copy->commit(); }, to_agree);
  if (!agreed) return CopyStep::kNotAgreed;
  impl.enqueue(*agreed);
  return CopyStep::kEnqueued;
}

uint64_t CudaRank::zero_copy_calls() const { return impl_->zero_copy_calls; }
uint64_t CudaRank::served_calls() const { return impl_->persistent ? impl_->persistent->calls() : 0; }
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
  const bool is_proposed = !routes.empty() && impl.or_abort(propose, [&] { return impl.to_agree_on_exchange(); });
  if (!is_proposed) impl.enqueue_p2p(std::nullopt);
  return !is_proposed;
}

bool CudaRank::advance_p2p() {
  Impl& impl = *impl_;
  const DeviceGuard guard(impl.memory.device());
  const auto advance = [&] {
    const bool is_last = impl.zero_copy_messages->advance();
    if (is_last) impl.enqueue_p2p(impl.zero_copy_messages->agreed());
    return is_last;
  };
  return impl.or_abort(advance, [&] { return impl.to_agree_on_exchange(); });
}

void CudaRank::finish() { impl_->order->finish(); }
void CudaRank::poll_reports() { impl_->watch->poll_reports(); }
void CudaRank::stop_waiting() { *static_cast<volatile uint32_t*>(&impl_->reports->aborted) = 1; }

}  // namespace plait
