// Launching.
#include "runtime/cuda/cuda_rank.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "base/error.hpp"
#include "runtime/cuda/copier.hpp"
#include "runtime/cuda/device_block.hpp"
#include "runtime/cuda/direct_calls.hpp"
#include "runtime/cuda/driver.hpp"
#include "runtime/cuda/exchanger.hpp"
#include "runtime/cuda/kernel_watch.hpp"
#include "runtime/cuda/lane_kernel.hpp"
#include "runtime/cuda/one_step_kernel.hpp"
#include "runtime/cuda/peer_buffers.hpp"
#include "runtime/cuda/product_memory.hpp"
#include "runtime/cuda/scale.hpp"

namespace plait {
namespace {

// What every launch of a call carries.
void fill(Launch& launch, const LaneProgram& program, const DeviceRank& self, const Call& call) {
  launch.slices = program.slices;
  launch.slice_bytes = program.slice_bytes;
  launch.call = tag_of(signature(call));
  launch.op = call.op;
  launch.self = self;
}

template <class From, class To>
void copy_into(To& to, const From& from, const char* what, const std::string& algorithm) {
  if (from.size() > std::size(to)) {
    fail(ErrorCode::kResources, "plan ", algorithm, " needs ", from.size(), " ", what, " a rank, but a launch carries ",
         std::size(to), "; use an algorithm with fewer steps or chunks");
  }
  std::copy(from.begin(), from.end(), to);
}

// The call without its buffers, with signals.
SignalLaunch signal_launch(const LaneProgram& program, const DeviceRank& self, const Call& call,
                           const std::string& algorithm) {
  SignalLaunch launch = {};
  fill(launch, program, self, call);
  std::copy(std::begin(program.full), std::end(program.full), launch.full);
  std::copy(std::begin(program.last), std::end(program.last), launch.last);
  copy_into(launch.operations, program.operations, "operations", algorithm);
  copy_into(launch.places, program.places, "places", algorithm);
  copy_into(launch.words, program.words, "signals", algorithm);
  return launch;
}

// The same with flags.
FlaggedLaunch flagged_launch(const LaneProgram& program, const FlaggedProgram& flagged, const DeviceRank& self,
                             const Call& call, const std::string& algorithm) {
  FlaggedLaunch launch = {};
  fill(launch, program, self, call);
  launch.full = flagged.full;
  launch.last = flagged.last;
  launch.group_shift = static_cast<uint32_t>(flagged.group_shift);
  copy_into(launch.steps, flagged.steps, "steps", algorithm);
  copy_into(launch.places, flagged.places, "places", algorithm);
  return launch;
}

// The same in one step.
OneStepLaunch one_step_launch(const LaneProgram& program, const OneStepProgram& one_step, const DeviceRank& self,
                              const Call& call) {
  OneStepLaunch launch = {};
  fill(launch, program, self, call);
  launch.group_shift = static_cast<uint32_t>(one_step.group_shift);
  launch.given = one_step.given;
  launch.taken = one_step.taken;
  launch.combined = one_step.combined;
  launch.given_is_one = one_step.given_is_one;
  launch.slice.hears_everyone = one_step.hears_everyone;
  launch.slice.is_awaited = one_step.is_awaited;
  launch.full = one_step.full;
  launch.last = one_step.last;
  return launch;
}

// The caller's buffers.
struct Buffers {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;

  bool have_whole_words() const {
    return (reinterpret_cast<uintptr_t>(input) | reinterpret_cast<uintptr_t>(output)) % sizeof(uint64_t) == 0;
  }
  uint64_t address(bool of_output, uint64_t offset) const {
    return (of_output ? reinterpret_cast<uintptr_t>(output) : reinterpret_cast<uintptr_t>(input)) + offset;
  }
};

void set_buffers(SignalLaunch& launch, const Buffers& buffers) {
  launch.input = buffers.input;
  launch.output = buffers.output;
}

void set_buffers(FlaggedLaunch& launch, const FlaggedProgram& program, const Buffers& buffers) {
  for (const FlaggedProgram::CallersPlace& place : program.callers) {
    FlaggedPlace& to = launch.places[place.place];
    (place.is_destination ? to.destination : to.source) = buffers.address(place.output, place.offset);
  }
  launch.whole_words = program.has_whole_words && buffers.have_whole_words();
}

void set_buffers(OneStepLaunch& launch, const OneStepProgram& program, const Buffers& buffers) {
  for (const OneStepProgram::CallersPlace& place : program.callers) {
    OneStepProgram::Slice& slice = place.full ? launch.full : launch.last;
    slice.places[place.place].addresses[place.field] = buffers.address(place.output, place.offset);
  }
}

// What cudaLaunchKernel takes but for the argument.
struct Kernel {
  const void* function = nullptr;
  dim3 grid, block;

  unsigned ctas() const { return grid.x * grid.y; }
};

}  // namespace

struct CudaRank::Prepared::Launch {
  struct Signals {
    SignalLaunch argument;
  };
  struct Flagged {
    FlaggedProgram program;
    FlaggedLaunch argument;
  };
  struct OneStep {
    OneStepProgram program;
    OneStepLaunch argument;
    Kernel kernel;
  };

  // Puts the buffers where they belong; returns the kernel for them, and its argument.
  std::pair<const Kernel&, void*> set(const Buffers& buffers) {
    if (one_step && buffers.have_whole_words()) {
      set_buffers(one_step->argument, one_step->program, buffers);
      return {one_step->kernel, &one_step->argument};
    }
    if (auto* const it = std::get_if<Flagged>(&any)) {
      set_buffers(it->argument, it->program, buffers);
      return {kernel, &it->argument};
    }
    auto& it = std::get<Signals>(any);
    set_buffers(it.argument, buffers);
    return {kernel, &it.argument};
  }

  std::variant<Signals, Flagged> any;  // for buffers of any alignment
  Kernel kernel;                       // of it
  std::optional<OneStep> one_step;     // for those that begin at multiples of eight bytes
};

CudaRank::Prepared::Prepared() : launch_(std::make_unique<Launch>()) {}
CudaRank::Prepared::~Prepared() = default;

struct CudaRank::Impl {
  Impl(PeerMemory its_memory, CommunicatorState& its_state, int rank, int ranks, Options options);
  ~Impl();

  bool is_resident(const Kernel& kernel) const;
  int resident_ctas(const Kernel& kernel) const;
  std::optional<Prepared::Launch::OneStep> prepare_one_step(const LaneProgram& program, const FlaggedProgram& flagged,
                                                            const Call& call, const LaunchShape& shape) const;
  void* place_products(const Call& call, const void* input, void* output, cudaStream_t stream,
                       ProductMemory::Piece& piece) const;
  // `launch` on `stream`, after the calls before it; it is told whether that runs now. What is captured runs when its
  // graph is launched, and its order is the user's affair. Throws what ended the communicator.
  template <class Launch>
  void in_order(cudaStream_t stream, const Launch& launch);
  // `later` goes on when `earlier` has come to this point.
  void wait_for(cudaStream_t earlier, cudaStream_t later) const;

  PeerMemory memory;
  CommunicatorState& state;
  DeviceRank self;
  Reports* reports = nullptr;  // host memory that the GPU reads and writes
  std::unique_ptr<Exchanger> exchanger;
  std::unique_ptr<ProductMemory> products;
  std::unique_ptr<PeerBuffers> buffers;
  std::unique_ptr<CopyTurn> turn;
  std::unique_ptr<DirectCalls> direct;
  std::unique_ptr<Copier> copier;
  uint64_t direct_calls = 0;
  cudaEvent_t last_call = nullptr;
  cudaEvent_t joined = nullptr;  // of streams that wait for each other
  cudaStream_t last_stream = nullptr;
  bool has_called = false;
  std::unique_ptr<KernelWatch> watch;
};

CudaRank::Impl::Impl(PeerMemory its_memory, CommunicatorState& its_state, int rank, int ranks, Options options)
    : memory(std::move(its_memory)), state(its_state) {
  if (ranks > kMostDeviceRanks) {
    fail(ErrorCode::kInvalidArgument, "communicators on GPUs have at most ", kMostDeviceRanks, " ranks, not ", ranks);
  }
  const DeviceGuard guard(memory.device());
  self.rank = rank;
  self.ranks = ranks;
  for (int r = 0; r < ranks; ++r) self.blocks[r] = memory.of(r);
  self.wait_nanoseconds = static_cast<uint64_t>(std::min(options.timeout_seconds, 1e6) * 1e9);
  check_cuda(cudaMalloc(&self.states, kMostStrands * kMostLanes * sizeof(StrandState)),
             "memory for the state of strands");
  check_cuda(cudaMemset(self.states, 0, kMostStrands * kMostLanes * sizeof(StrandState)),
             "clearing the state of strands");
  check_cuda(cudaHostAlloc(&reports, sizeof(Reports), cudaHostAllocMapped | cudaHostAllocPortable),
             "memory for reports");
  *reports = {};
  Reports* mapped = nullptr;
  check_cuda(cudaHostGetDevicePointer(&mapped, reports, 0), "mapping the memory for reports");
  self.failures = mapped->strands;
  self.aborted = &mapped->aborted;
  for (cudaEvent_t* event : {&last_call, &joined}) {
    check_cuda(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "an event");
  }
  for (int type = 0; type < kDataTypeCount; ++type) {
    for (int protocol = 0; protocol < kProtocolCount; ++protocol) {
      load_kernel(lane_kernel(static_cast<Protocol>(protocol), static_cast<DataType>(type)));
    }
    for (int words = 1; words <= kMostWordsOfThread; words *= 2) {
      load_kernel(one_step_packets(static_cast<DataType>(type), words));
    }
    for (int lines = 1; lines <= kMostLinesAtOnce; lines *= 2) {
      load_kernel(one_step_lines(static_cast<DataType>(type), lines));
    }
    load_kernel(scale_kernel(static_cast<DataType>(type)));
  }
  products = std::make_unique<ProductMemory>(memory.device());
  exchanger = std::make_unique<Exchanger>(self, mapped->receives,
                                          ChannelShape::of(ranks, memory.ranks_per_device(), memory.processors()));
  buffers = std::make_unique<PeerBuffers>(memory.device(), rank, [this](int r) { return state.exports(r); });
  turn = std::make_unique<CopyTurn>(memory.device());
  direct = std::make_unique<DirectCalls>(state, ranks, *buffers, *turn,
                                         DirectCalls::Options{options.timeout_seconds, options.log});
  copier = std::make_unique<Copier>(self, mapped->gates);
  check_cuda(cudaDeviceSynchronize(), "setting up");
  watch = std::make_unique<KernelWatch>(state, *reports);
}

// Whether all CTAs of all ranks that share the GPU fit on it at once.
bool CudaRank::Impl::is_resident(const Kernel& kernel) const {
  return static_cast<int>(kernel.ctas()) * memory.ranks_per_device() <= resident_ctas(kernel);
}

int CudaRank::Impl::resident_ctas(const Kernel& kernel) const {
  const DeviceGuard guard(memory.device());
  int processors = 0, on_each = 0;
  check_cuda(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, memory.device()),
             "asking for the number of SMs");
  const auto threads = static_cast<int>(kernel.block.x);
  check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&on_each, kernel.function, threads, 0),
             "asking for the occupancy");
  return processors * on_each;
}

// Nothing where the call is of another kind, or needs more CTAs or threads than `shape` has.
std::optional<CudaRank::Prepared::Launch::OneStep> CudaRank::Impl::prepare_one_step(const LaneProgram& program,
                                                                                    const FlaggedProgram& flagged,
                                                                                    const Call& call,
                                                                                    const LaunchShape& shape) const {
  if (program.slices > static_cast<uint64_t>(shape.strands)) return std::nullopt;
  auto one_step = make_one_step_program(flagged, program.slices, call);
  if (!one_step) return std::nullopt;
  Kernel kernel{nullptr, dim3(static_cast<unsigned>(program.slices)), dim3(static_cast<unsigned>(shape.threads))};
  const uint32_t words = std::max(one_step->full.words, one_step->last.words);
  if (shape.protocol == Protocol::kPackets) {
    const unsigned threads = words << one_step->group_shift;
    int words_of_thread = 1;
    while (threads > kernel.block.x * static_cast<unsigned>(words_of_thread)) words_of_thread *= 2;
    if (words_of_thread > kMostWordsOfThread) return std::nullopt;
    kernel.function = one_step_packets(call.type, words_of_thread);
  } else {
    const size_t threads = stored_bytes(Protocol::kLines, words * sizeof(uint64_t)) / sizeof(uint4);
    const bool one_line_each = threads <= kernel.block.x;
    kernel.function = one_step_lines(call.type, one_line_each ? 1 : one_step->group_shift > 1 ? 2 : kMostLinesAtOnce);
  }
  if (memory.ranks_per_device() > 1 && !is_resident(kernel)) return std::nullopt;
  const OneStepLaunch argument = one_step_launch(program, *one_step, self, call);
  return Prepared::Launch::OneStep{std::move(*one_step), argument, kernel};
}

// Where this rank's input goes times a factor; null where there is none.
void* CudaRank::Impl::place_products(const Call& call, const void* input, void* output, cudaStream_t stream,
                                     ProductMemory::Piece& piece) const {
  const size_t bytes = message_bytes(call, self.ranks);
  if (bytes == 0) return nullptr;
  if (holds_products(call.collective, call.root, self.rank)) return output;
  products->take(bytes, input, stream, piece);
  return piece.get();
}

template <class Launch>
void CudaRank::Impl::in_order(cudaStream_t stream, const Launch& launch) {
  if (state.has_failed()) throw *state.failure();
  const bool runs_now = !is_captured(stream);
  if (runs_now && has_called && stream != last_stream) {
    check_cuda(cudaStreamWaitEvent(stream, last_call, 0), "waiting for the last call's stream");
  }
  launch(runs_now);
  if (!runs_now) return;
  check_cuda(cudaEventRecord(last_call, stream), "recording the call");
  last_stream = stream;
  has_called = true;
}

void CudaRank::Impl::wait_for(cudaStream_t earlier, cudaStream_t later) const {
  check_cuda(cudaEventRecord(joined, earlier), "recording a stream of a group");
  check_cuda(cudaStreamWaitEvent(later, joined, 0), "waiting for a stream of a group");
}

CudaRank::Impl::~Impl() {
  const DeviceGuard guard(memory.device());
  if (has_called) cudaEventSynchronize(last_call);  // waits in kernels are bounded
  watch.reset();
  for (const cudaEvent_t event : {last_call, joined}) {
    if (event != nullptr) cudaEventDestroy(event);
  }
  copier.reset();
  direct.reset();
  turn.reset();
  buffers.reset();
  exchanger.reset();
  products.reset();
  cudaFreeHost(reports);
  cudaFree(self.states);
}

size_t CudaRank::block_bytes() { return BlockLayout::total_bytes(); }

CudaRank::CudaRank(PeerMemory memory, CommunicatorState& state, int rank, int ranks, Options options)
    : impl_(std::make_unique<Impl>(std::move(memory), state, rank, ranks, options)) {}
CudaRank::~CudaRank() = default;

const PeerMemory& CudaRank::memory() const { return impl_->memory; }
size_t CudaRank::device_bytes() const {
  return block_bytes() + kMostStrands * kMostLanes * sizeof(StrandState) + Exchanger::device_bytes() +
         Copier::device_bytes();
}

BindLimits CudaRank::limits(const LaunchShape& shape, const Plan& plan) {
  BindLimits limits;
  limits.signal_stride = BlockLayout::kSignalStride;
  limits.signals = BlockLayout::kSignals;
  switch (shape.protocol) {
    case Protocol::kSignals:
      limits.scratch_bytes = BlockLayout::kScratchBytes;
      break;
    case Protocol::kPackets:
      limits.scratch_bytes = BlockLayout::kPacketBytes / 2;
      break;
    case Protocol::kLines:
      // A last line for each slot may be all but empty: chunks that fill this are larger than eight lines.
      limits.scratch_bytes = BlockLayout::kLineBytes / 9 * 8;
      break;
  }
  limits.streaming_scratch_bytes = SIZE_MAX;
  limits.chunk_by_chunk = shape.protocol != Protocol::kSignals;
  limits.strands = static_cast<size_t>(shape.strands);
  // Of each chunk as much as a warp's threads access at once; less is not worth a strand.
  limits.least_slice_bytes =
      size_t{shape.protocol == Protocol::kPackets ? 256u : 512u} * static_cast<size_t>(plan.chunks_per_block);
  return limits;
}

size_t CudaRank::flagged_bytes(Protocol protocol) {
  return protocol == Protocol::kPackets ? BlockLayout::kPacketBytes : BlockLayout::kLineBytes;
}

std::shared_ptr<CudaRank::Prepared> CudaRank::prepare(const BoundPlan& bound, const Call& call,
                                                      const LaunchShape& shape) const {
  if (shape.protocol != Protocol::kSignals && !can_carry_flags(*bound.plan, call.type)) {
    fail(ErrorCode::kInvalidPlan, "plan ", bound.plan->plan().algorithm, " cannot be performed with ",
         name(shape.protocol));
  }
  if (shape.strands < 1 || shape.strands > kMostStrands || shape.threads < kLeastThreads ||
      shape.threads > kMostThreads || shape.threads % 32 != 0) {
    fail(ErrorCode::kInvalidArgument, "a launch has 1 to ", kMostStrands, " CTAs of ", kLeastThreads, " to ",
         kMostThreads, " threads, a multiple of 32; not ", to_text(shape));
  }
  std::shared_ptr<Prepared> prepared(new Prepared);
  prepared->call_ = call;
  Prepared::Launch& launch = *prepared->launch_;
  const std::string& algorithm = bound.plan->plan().algorithm;
  const LaneProgram program = make_lane_program(bound, call, impl_->self.rank, shape.protocol);
  const DeviceRank& self = impl_->self;
  launch.kernel.function = lane_kernel(shape.protocol, call.type);
  launch.kernel.grid =
      dim3(static_cast<unsigned>(std::min<size_t>(bound.slices, shape.strands)), static_cast<unsigned>(program.lanes));
  launch.kernel.block = dim3(static_cast<unsigned>(shape.threads));
  if (shape.protocol == Protocol::kSignals) {
    launch.any = Prepared::Launch::Signals{signal_launch(program, self, call, algorithm)};
  } else {
    FlaggedProgram flagged = make_flagged_program(program, shape.protocol, call.type, self.blocks);
    const FlaggedLaunch argument = flagged_launch(program, flagged, self, call, algorithm);
    launch.one_step = impl_->prepare_one_step(program, flagged, call, shape);
    launch.any = Prepared::Launch::Flagged{std::move(flagged), argument};
  }
  const bool ctas_wait_for_each_other = program.lanes > 1 || impl_->memory.ranks_per_device() > 1;
  if (ctas_wait_for_each_other && !impl_->is_resident(launch.kernel)) {
    fail(ErrorCode::kResources, "plan ", algorithm, " needs ", launch.kernel.ctas(), " CTAs of ", shape.threads,
         " threads of each of ", impl_->memory.ranks_per_device(), " ranks on the GPU at once, which holds ",
         impl_->resident_ctas(launch.kernel), "; use fewer CTAs or threads");
  }
  return prepared;
}

void CudaRank::enqueue(Prepared& prepared, const void* input, void* output, void* stream, const Factor* factor) {
  Impl& impl = *impl_;
  const DeviceGuard guard(impl.memory.device());
  const auto s = static_cast<cudaStream_t>(stream);
  const Call& call = prepared.call_;
  ProductMemory::Piece piece;  // first: what it cannot get must fail before others wait for this rank
  void* const products = factor == nullptr ? nullptr : impl.place_products(call, input, output, s, piece);
  const void* const summed = products != nullptr ? products : input;
  const auto [kernel, argument] =
      prepared.launch_->set({static_cast<const std::byte*>(summed), static_cast<std::byte*>(output)});
  impl.in_order(s, [&](bool runs_now) {
    if (runs_now) impl.state.announce(call);
    if (products != nullptr) {
      const size_t elements = message_bytes(call, impl.self.ranks) / size_of(call.type);
      launch_scale(*factor, input, products, elements, impl.memory.processors(), s);
    }
    void* arguments[] = {argument};
    check_cuda(cudaLaunchKernel(kernel.function, kernel.grid, kernel.block, arguments, 0, s), "launching a collective");
  });
}

bool CudaRank::enqueue_copies(const CopyProgram& program, const void* input, void* output, void* stream,
                              std::chrono::nanoseconds patience) {
  Impl& impl = *impl_;
  const DeviceGuard guard(impl.memory.device());
  const auto s = static_cast<cudaStream_t>(stream);
  const auto agreed = impl.direct->agree(program, input, output, is_captured(s), patience);
  if (!agreed) return false;
  try {
    impl.in_order(s, [&](bool runs_now) {
      if (runs_now) impl.state.announce(program.call);
      impl.copier->enqueue(program, agreed->number, agreed->inputs, static_cast<std::byte*>(output), s);
      runs_now ? impl.turn->keep_until_done(s) : impl.turn->keep();
    });
  } catch (const Error& error) {  // the others have enqueued their parts, or will
    impl.turn->give_back();
    impl.state.abort(error.code(), join("rank ", impl.self.rank, " could not enqueue ", to_text(program.call),
                                        ", which all ranks had agreed on: ", error.what()));
    throw;
  }
  ++impl.direct_calls;
  return true;
}

uint64_t CudaRank::direct_calls() const { return impl_->direct_calls; }
size_t CudaRank::mapped_buffers() const { return impl_->buffers->mapped(); }

void CudaRank::exchange(std::span<const PeerMessage> messages, std::span<void* const> streams) {
  Impl& impl = *impl_;
  const DeviceGuard guard(impl.memory.device());
  const auto main = static_cast<cudaStream_t>(streams[0]);
  const auto others = streams.subspan(1);
  for (void* const other : others) impl.wait_for(static_cast<cudaStream_t>(other), main);
  impl.in_order(main, [&](bool) { impl.exchanger->enqueue(messages, main); });
  for (void* const other : others) impl.wait_for(main, static_cast<cudaStream_t>(other));
}

void CudaRank::stop_waiting() { *static_cast<volatile uint32_t*>(&impl_->reports->aborted) = 1; }

}  // namespace plait
