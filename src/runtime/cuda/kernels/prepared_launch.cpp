// Prepares launches and starts them.
#include "runtime/cuda/kernels/prepared_launch.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "runtime/cuda/driver/driver.hpp"
#include "runtime/cuda/driver/pdl.hpp"
#include "runtime/cuda/kernels/catalogue.hpp"
#include "runtime/cuda/lowering/device_block.hpp"

namespace plait {
namespace {

// The kernel for queues of any plan, in this protocol, with aligned buffers.
CallKernel variant_of(Protocol protocol) {
  switch (protocol) {
    case Protocol::kSimple:
      return CallKernel::kSimpleAligned;
    case Protocol::kLl:
      return CallKernel::kLl;
    case Protocol::kLl128:
      return CallKernel::kLl128;
  }
  fail(ErrorCode::kInternal, "no kernel for protocol ", static_cast<int>(protocol));
}

// Fills what all kinds of launches have in common.
void fill(Launch& launch, const QueueProgram& program, const DeviceRank& self, const Call& call) {
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
         std::size(to), "; use Simple, or an algorithm with fewer steps or chunks");
  }
  std::copy(from.begin(), from.end(), to);
}

// The Simple launch of a call, without its buffers.
SimpleLaunch signal_launch(const QueueProgram& program, const DeviceRank& self, const Call& call,
                           const std::string& algorithm) {
  SimpleLaunch launch = {};
  fill(launch, program, self, call);
  std::copy_n(program.full, kMostQueues, launch.full);
  std::copy_n(program.ending, kMostQueues, launch.ending);
  std::copy_n(program.last, kMostQueues, launch.last);
  copy_into(launch.operations, program.operations, "operations", algorithm);
  copy_into(launch.places, program.places, "places", algorithm);
  copy_into(launch.flags, program.flags, "signals", algorithm);
  return launch;
}

// The LL or LL128 launch of a call, without its buffers.
LlLaunch ll_launch(const QueueProgram& program, const LlProgram& ll, const DeviceRank& self, const Call& call,
                   const std::string& algorithm) {
  LlLaunch launch = {};
  fill(launch, program, self, call);
  launch.full = ll.full;
  launch.last = ll.last;
  launch.group_shift = static_cast<uint32_t>(ll.group_shift);
  copy_into(launch.steps, ll.steps, "steps", algorithm);
  copy_into(launch.places, ll.places, "places", algorithm);
  return launch;
}

// Whether all pieces of user buffers are aligned to vectors if the buffers are.
bool has_aligned_vectors(const QueueProgram& program) {
  return (program.slices < 2 || program.slice_bytes % kVectorBytes == 0) &&
         std::all_of(program.places.begin(), program.places.end(),
                     [](const DevicePlace& place) { return place.offset % kVectorBytes == 0; });
}

// The rate limit of a CTA: clock cycles per vector of each of its threads.
uint32_t rate_limit(const HostPathLaunch& host_path, const LaunchShape& shape) {
  if (host_path.bytes_per_second <= 0) return 0;
  int device = 0, kilohertz = 0;
  check_cuda(cudaGetDevice(&device), "asking for the current GPU");
  check_cuda(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, device), "asking for the clock rate");
  const double bytes = static_cast<double>(kVectorBytes) * shape.threads * shape.channels;
  return static_cast<uint32_t>(bytes / host_path.bytes_per_second * kilohertz * 1e3);
}

}  // namespace

struct PreparedLaunch::Buffers {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;

  bool begin_at(size_t multiple) const {
    return (reinterpret_cast<uintptr_t>(input) | reinterpret_cast<uintptr_t>(output)) % multiple == 0;
  }
  uint64_t address(bool of_output, uint64_t offset) const {
    return (of_output ? reinterpret_cast<uintptr_t>(output) : reinterpret_cast<uintptr_t>(input)) + offset;
  }
};

PreparedLaunch::PreparedLaunch(const BoundPlan& bound, const Call& call, const LaunchShape& shape,
                               const DeviceRank& self, int ranks_per_device, const BoundPlan* ending,
                               const HostPathLaunch* host_path)
    : call_(call), ranks_per_device_(ranks_per_device) {
  const std::string& algorithm = bound.plan->plan().algorithm;
  if (shape.protocol != Protocol::kSimple && !bound.plan->can_carry_flags(call.type)) {
    fail(ErrorCode::kInvalidPlan, "plan ", algorithm, " cannot be performed with ", name(shape.protocol));
  }
  if (shape.is_long && (shape.protocol != Protocol::kSimple || host_path != nullptr)) {
    fail(ErrorCode::kInternal, "plan ", algorithm, " is long, and has ", to_text(shape, 1));
  }
  const int most_channels = host_path != nullptr ? kMostHostChannels : shape.is_long ? kLongChannels : kMostChannels;
  if (shape.channels < 1 || shape.channels > most_channels || shape.threads < kLeastThreads ||
      shape.threads > kMostThreads || shape.threads % 32 != 0) {
    fail(ErrorCode::kInvalidArgument, "a launch has 1 to ", most_channels, " channels, with CTAs of ", kLeastThreads,
         " to ", kMostThreads, " threads, a multiple of 32; not ", to_text(shape, bound.plan->report().shape.queues));
  }
  const QueueProgram program = make_queue_program(bound, call, self.rank, shape.protocol, ending, shape.is_long);
  kernel_.function = call_kernel(variant_of(shape.protocol), call.type);
  kernel_.grid = dim3(static_cast<unsigned>(std::min<size_t>(bound.slices, shape.channels)),
                      static_cast<unsigned>(program.queues));
  kernel_.block = dim3(static_cast<unsigned>(shape.threads));
  if (shape.is_long) {
    argument_ = long_launch(program, self);
    kernel_.function = call_kernel(CallKernel::kLongAligned, call.type);
    unaligned_ = kernel_;
    unaligned_.function = call_kernel(CallKernel::kLongAny, call.type);
    if (!has_aligned_vectors(program)) kernel_ = unaligned_;
  } else if (shape.protocol == Protocol::kSimple) {
    SimpleLaunch launch = signal_launch(program, self, call, algorithm);
    if (host_path != nullptr) {
      launch.first_channel = kMostChannels;
      launch.host_blocks = host_path->blocks;
      launch.rate_limit = rate_limit(*host_path, shape);
    }
    argument_ = launch;
    unaligned_ = kernel_;
    unaligned_.function = call_kernel(CallKernel::kSimpleAny, call.type);
    if (!has_aligned_vectors(program)) kernel_ = unaligned_;
  } else {
    LlProgram ll = make_ll_program(program, shape.protocol, call.type, self.blocks);
    const LlLaunch argument = ll_launch(program, ll, self, call, algorithm);
    two_shot_ = two_shot_of(program, ll, shape, self);
    argument_ = Ll{std::move(ll), argument};
  }
  // Channels do not wait for each other. So if each is one CTA, they need not all be on the GPU at once. They start in
  // the order of their numbers on all GPUs, which CUDA does but does not promise. CTAs of several queues wait for each
  // other, though, and concurrent launches could keep each other off two GPUs in different ways.
  const int beside = host_path != nullptr ? host_path->ctas_beside : 0;
  const bool ctas_wait_for_each_other = program.queues > 1 || ranks_per_device > 1 || beside > 0;
  if (!ctas_wait_for_each_other) return;
  for (const Kernel* const kernel : {&kernel_, &unaligned_}) {
    if (kernel->function == nullptr || is_resident(*kernel, beside)) continue;
    fail(ErrorCode::kResources, "plan ", algorithm, " needs ", kernel->ctas() + beside, " CTAs of ", shape.threads,
         " threads, of each of ", ranks_per_device, " ranks, on the GPU at once, which holds ", kernel->resident_ctas(),
         "; use fewer channels or threads, fewer ranks of a GPU, or a plan of fewer queues");
  }
}

PreparedLaunch::Long PreparedLaunch::long_launch(const QueueProgram& program, const DeviceRank& self) const {
  Long made{std::make_shared<const ProgramMemory>(program, ranks_per_device_ > 0), {}};
  fill(made.argument, program, self, call_);
  made.program->set(made.argument);
  return made;
}

// None if the call is not two-shot, or needs more CTAs or threads than `shape` has.
std::optional<PreparedLaunch::TwoShot> PreparedLaunch::two_shot_of(const QueueProgram& program, const LlProgram& ll,
                                                                   const LaunchShape& shape,
                                                                   const DeviceRank& self) const {
  if (program.slices > static_cast<uint64_t>(shape.channels)) return std::nullopt;
  auto made = make_two_shot_program(ll, program.slices, call_);
  if (!made) return std::nullopt;
  Kernel any{nullptr, dim3(static_cast<unsigned>(program.slices)), dim3(static_cast<unsigned>(shape.threads))};
  Kernel aligned = any;
  const uint32_t words = std::max(made->steps.full.most.words, made->steps.last.most.words);
  int words_of_thread = 0;
  if (shape.protocol == Protocol::kLl) {
    const unsigned threads = words << made->steps.group_shift;
    words_of_thread = 1;
    while (threads > any.block.x * static_cast<unsigned>(words_of_thread)) words_of_thread *= 2;
    if (!made->is_one_step || words_of_thread > kMostWordsOfThread) return std::nullopt;
    any.function = call_kernel(two_shot_ll(words_of_thread, false), call_.type);
    aligned.function = call_kernel(two_shot_ll(words_of_thread, true), call_.type);
  } else {
    const size_t threads = stored_bytes(Protocol::kLl128, words * sizeof(uint64_t)) / kVectorBytes;
    const size_t lines = (threads + any.block.x - 1) / any.block.x;
    const size_t number = best_lines_at_once(lines, made->width);
    any.function = call_kernel(two_shot_ll128(number, false), call_.type);
    aligned.function = call_kernel(two_shot_ll128(number, true), call_.type);
  }
  if (ranks_per_device_ > 1 && !(is_resident(any) && is_resident(aligned))) return std::nullopt;
  TwoShotLaunch argument = {};
  fill(argument, program, self, call_);
  argument.steps = made->steps;
  return TwoShot{std::move(made->user_places), argument, any, aligned, made->is_aligned, words_of_thread};
}

// Whether the CTAs of all ranks that share the GPU fit on it at once.
bool PreparedLaunch::is_resident(const Kernel& kernel, int ctas_beside) const {
  return ranks_per_device_ == 0 || (kernel.ctas() + ctas_beside) * ranks_per_device_ <= kernel.resident_ctas();
}

int PreparedLaunch::resident_ctas(const void* kernel, int threads) {
  int device = 0, sm_count = 0, on_each = 0;
  check_cuda(cudaGetDevice(&device), "asking for the current GPU");
  check_cuda(cudaDeviceGetAttribute(&sm_count, cudaDevAttrMultiProcessorCount, device), "asking for the number of SMs");
  check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&on_each, kernel, threads, 0), "asking for the occupancy");
  return sm_count * on_each;
}

template <class LaunchArgument>
void PreparedLaunch::set(const Buffers& buffers, LaunchArgument& launch) const {
  launch.input = buffers.input;
  launch.output = buffers.output;
}

void PreparedLaunch::set(const Buffers& buffers, Ll& ll) const {
  for (const LlProgram::UserPlace& place : ll.program.user_places) {
    LlPlace& to = ll.argument.places[place.place];
    (place.is_destination ? to.destination : to.source) = buffers.address(place.output, place.offset);
  }
  ll.argument.words_are_aligned = ll.program.words_are_aligned && buffers.begin_at(sizeof(uint64_t));
}

void PreparedLaunch::set(const Buffers& buffers, TwoShot& it, bool is_aligned) const {
  for (const TwoShotProgram::UserPlace& place : it.user_places) {
    TwoShotSteps::Slice& slice = place.full ? it.argument.steps.full : it.argument.steps.last;
    auto& addresses = slice.places[place.phase][place.place].addresses;
    addresses[place.field] = buffers.address(place.output, place.offset);
    // In place, do not store a word where it lies already, because other threads may be loading it. With LL these are
    // the threads of other places. With LL128 they are the neighbours, if places are not aligned.
    const bool lies_there =
        place.field == TwoShotPlace::kSendTo && addresses[place.field] == addresses[TwoShotPlace::kSend];
    if (lies_there && (it.has_ll() || !is_aligned)) addresses[place.field] = 0;
  }
}

// Each rank chooses by its own buffers among several kernels. They all do the same as far as other ranks can see.
PreparedLaunch::Launch PreparedLaunch::launch(const void* input, void* output) {
  const Buffers buffers{static_cast<const std::byte*>(input), static_cast<std::byte*>(output)};
  if (two_shot_) {
    const bool is_aligned = two_shot_->is_aligned && buffers.begin_at(sizeof(uint64_t));
    set(buffers, *two_shot_, is_aligned);
    return {is_aligned ? two_shot_->aligned : two_shot_->any, &two_shot_->argument};
  }
  if (auto* const ll = std::get_if<Ll>(&argument_)) {
    set(buffers, *ll);
    return {kernel_, &ll->argument};
  }
  const Kernel& kernel = buffers.begin_at(kVectorBytes) ? kernel_ : unaligned_;
  if (auto* const it = std::get_if<Long>(&argument_)) {
    set(buffers, it->argument);
    return {kernel, &it->argument};
  }
  auto& signals = std::get<SimpleLaunch>(argument_);
  set(buffers, signals);
  return {kernel, &signals};
}

std::shared_ptr<const ProgramMemory> PreparedLaunch::program_memory() const {
  const auto* const it = std::get_if<Long>(&argument_);
  return it == nullptr ? nullptr : it->program;
}

bool PreparedLaunch::is_two_shot_ll() const { return two_shot_ && two_shot_->has_ll(); }

std::optional<PreparedLaunch::TwoShotLlLaunch> PreparedLaunch::two_shot_ll_launch(const void* input, void* output) {
  if (!is_two_shot_ll()) return std::nullopt;
  const Launch it = launch(input, output);
  const CallKernel kernel = two_shot_ll(two_shot_->words_of_thread, &it.kernel == &two_shot_->aligned);
  return TwoShotLlLaunch{kernel, two_shot_->argument};
}

void PreparedLaunch::start(const void* input, void* output, cudaStream_t stream, bool pdl) {
  const Launch it = launch(input, output);
  launch_kernel(it.kernel.function, it.kernel.grid, it.kernel.block, it.argument, stream, pdl,
                "launching a collective");
}

}  // namespace plait
