// Takes calls on GPUs from their arguments to their launch.
#ifdef PLAIT_HAVE_CUDA
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "api/call_cache.hpp"
#include "api/choice_for.hpp"
#include "api/chosen_launch.hpp"
#include "api/device_backend.hpp"
#include "api/live_machine.hpp"
#include "api/long_launch.hpp"
#include "api/plan_limits.hpp"
#include "base/error.hpp"
#include "runtime/cuda/cpu_driven/cuda_reduces.hpp"
#include "runtime/cuda/driver/driver.hpp"
#include "runtime/cuda/lowering/launch_limits.hpp"
#include "runtime/cuda/rank/cuda_rank.hpp"
#include "runtime/cuda/staging/cuda_staging.hpp"
#include "tuner/tuner.hpp"

namespace plait {
namespace {

static_assert(kMostGpuRanks == kMostDeviceRanks);

// The time that a rank waits on the host for others to come to a call that could be zero-copy: an eighth of the copies'
// time, which is about what zero-copy saves. Users who insist on zero-copy wait for them.
constexpr std::chrono::nanoseconds kInsistence = std::chrono::seconds(1);
std::chrono::nanoseconds copying(size_t bytes) {
  constexpr size_t kBytesPerNanosecond = 390;
  return std::chrono::nanoseconds(bytes / kBytesPerNanosecond);
}
std::chrono::nanoseconds worthwhile_wait(size_t bytes) { return copying(bytes) / 8; }
// Zero-copy saves half of the time and more for messages between two ranks. Ends that are busy with their own GPUs were
// seen to come 20 to 80 us apart.
std::chrono::nanoseconds longer_wait(size_t bytes) {
  constexpr std::chrono::nanoseconds kApart = std::chrono::microseconds(100);
  return std::max(worthwhile_wait(bytes), std::min(2 * copying(bytes), kApart));
}

std::optional<LaunchShape> launch_of(const Settings& settings) {
  if (settings.launch.empty()) return std::nullopt;
  return parse_launch_shape(settings.launch);
}

int persistent_ctas_of(const Settings& settings) {
  return settings.max_sms == 0 ? settings.persistent_ctas : std::min(settings.persistent_ctas, settings.max_sms);
}

class CudaDeviceBackend final : public DeviceBackend {
 public:
  CudaDeviceBackend(PeerMemory memory, std::optional<PeerMemory> host_memory, std::shared_ptr<Segment> segment,
                    int rank, Peers peers, const Settings& settings, RankMachine machine)
      : rank_(rank),
        size_(segment->shape().ranks),
        state_(std::move(segment), rank, std::move(peers)),
        cuda_(std::move(memory), std::move(host_memory), state_, rank, size_,
              {{settings.timeout_seconds, Logger(settings.log_level, rank)},
               settings.pdl,
               settings.max_sms,
               persistent_ctas_of(settings),
               std::chrono::microseconds(settings.persistent_idle_us)}),
        own_stream_(cuda_.memory().device()),
        persistent_ctas_(persistent_ctas_of(settings)),
        launch_is_pinned_(!settings.launch.empty()) {
    GpuFacts gpus;
    gpus.processors = cuda_.memory().sm_count();
    gpus.ranks_per_device = cuda_.memory().ranks_per_device();
    gpus.lines = cuda_.memory().supports_ll128();
    gpus.host_path = cuda_.has_host_memory();
    gpus.set_peer_memory(cuda_.memory().kind(), state_.process_sharing() == ProcessSharing::kAll);
    if (state_.process_sharing() == ProcessSharing::kSome) gpus.maps_buffers = false;
    gpus.most_sms = settings.max_sms < gpus.processors ? settings.max_sms : 0;
    machine.gpus = gpus;
    tuner_.emplace(std::move(machine), settings, short_gpu_plan_limits(), true, &kSimulatedLaunches);
  }

  bool start(const Call& call, const void* input, void* output, void* stream, const Scalar* scalar) override {
    throw_if_failed();
    if (is_empty(call)) {
      cuda_.announce_empty(call, stream);
      return true;
    }
    started_ = {&ready_for(call), input, output, stream, scalar};
    const Ready& ready = *started_.ready;
    // Products lie where other ranks, which may have no scalar themselves, do not look for them.
    const bool willing = scalar == nullptr;
    is_exchanging_ = false;
    if (ready.copies && cuda_.propose_copies(*ready.copies, ready.host_path.get(), input, output, stream, willing)) {
      return false;
    }
    launch();
    return true;
  }

  bool start(std::span<const PeerMessage> messages, std::span<void* const> streams) override {
    routes_.clear();
    bool is_any_zero_copy = false;
    for (const PeerMessage& message : messages) {
      routes_.push_back(route_of(message.bytes()));
      is_any_zero_copy = is_any_zero_copy || routes_.back().zero_copy;
    }
    if (!is_any_zero_copy) routes_.clear();
    is_exchanging_ = true;
    return cuda_.start_p2p(messages, routes_, streams);
  }

  bool advance() override {
    if (is_exchanging_) return cuda_.advance_p2p();
    const CudaRank::CopyStep step = cuda_.advance_copies(started_.ready->timeout);
    if (step == CudaRank::CopyStep::kNotAgreed) launch();
    return step != CudaRank::CopyStep::kVoted;
  }

  void run(const Call& call, const void* input, void* output, const Scalar* scalar) override {
    throw_if_failed();
    if (call.count > 0 && scalar == nullptr) {
      const Ready& ready = ready_for(call);
      if (ready.prepared && !ready.copies && !ready.host_path && cuda_.can_perform(*ready.prepared)) {
        return cuda_.perform(*ready.prepared, input, output);
      }
    }
    DeviceBackend::run(call, input, output, scalar);
  }
  void* stream_of_blocking_calls() override { return own_stream_.get(); }

  Tuner& tuner() override { return *tuner_; }
  PlanLimits plan_limits() const override { return gpu_plan_limits(); }

  void give(std::shared_ptr<const VerifiedPlan> plan) override {
    if (tuner_->give(std::move(plan))) ready_.clear();
  }

  const VerifiedPlan& plan_for(const Call& call) override {
    const Choice choice = choose(call);
    return *tuner_->plan(choice.zero_copy.value_or(choice.plan));
  }
  // The shape as this rank launches it: a short message has fewer slices than channels, and ranks may have different
  // queues.
  std::string launch_for(const Call& call) override {
    Choice choice = choose(call);
    const Ready& ready = ready_for(call);
    if (!ready.prepared) return choice.zero_copy_text();
    const LaunchGrid grid = CudaRank::grid_of(*ready.prepared);
    choice.launch.channels = grid.channels;
    choice.queues = grid.queues;
    if (ready.host_path) choice.launch.host.channels = CudaRank::grid_of(*ready.host_path).channels;
    return choice.launch_text();
  }

  void finish() override { cuda_.finish(); }
  void poll_reports() override { cuda_.poll_reports(); }
  void throw_if_failed() const override {
    if (state_.has_failed()) throw *state_.failure();
  }
  void stop_waiting() override { cuda_.stop_waiting(); }
  int device() const override { return cuda_.memory().device(); }
  uint64_t zero_copy_calls() const override { return cuda_.zero_copy_calls(); }
  uint64_t served_calls() const override { return cuda_.served_calls(); }
  size_t mapped_buffers() const override { return cuda_.mapped_buffers(); }
  size_t device_bytes() const override { return cuda_.device_bytes(); }

 private:
  // A launch may have no room for a plan that the user wants, and ranks may differ in that. So each rank looks at all
  // ranks before anybody waits for anybody.
  Choice choose(const Call& call) {
    Query query = query_of(call, size_);
    Choice choice = tuner_->choose(query);
    if (call.is_blocking) make_blocking(call, choice);
    make_long_if_needed(call, choice);
    const bool is_wanted = call.plan != 0 || (choice.is_forced && choice.launch.protocol != Protocol::kSimple);
    if (!is_wanted || !why_not(call, choice)) return choice;
    query.only_simple = true;
    choice = tuner_->choose(query);
    make_long_if_needed(call, choice);
    if (const auto why = why_not(call, choice)) {
      refuse_call(rank_, call, *why);
    }
    return choice;
  }

  // A plan that does not fit the argument of a launch. No other plan performs its last slices.
  void make_long_if_needed(const Call& call, Choice& choice) {
    if (choice.launch.protocol != Protocol::kSimple || (call.plan != 0 && choice.zero_copy)) return;
    const VerifiedPlan& plan = *tuner_->plan(choice.plan);
    if (!needs_long_launch(plan, call, choice.launch)) return;
    const GpuFacts& gpus = *tuner_->machine().gpus;
    const int processors = gpus.most_sms > 0 ? gpus.most_sms : gpus.processors;
    choice.launch = long_shape(choice.launch, plan.report().shape.queues, {processors, gpus.ranks_per_device});
    choice.ending.reset();
  }

  // Gives a call the shape of the persistent kernel, if its CTAs hold the call at once. It follows from what all ranks
  // know alike, whether they have that kernel or not. A shape that the user wants stays.
  void make_blocking(const Call& call, Choice& choice) {
    if (persistent_ctas_ == 0 || launch_is_pinned_ || choice.zero_copy || choice.launch.protocol != Protocol::kLl) {
      return;
    }
    LaunchShape shape = choice.launch;
    shape.channels = persistent_ctas_;
    shape.threads = kMostThreads;
    const VerifiedPlan& plan = *tuner_->plan(choice.plan);
    const BoundPlan bound = bind(plan, call, 0, CudaRank::limits(shape, plan.plan()));
    if (bound.slices <= static_cast<size_t>(shape.channels)) choice.launch = shape;
  }

  // A call with everything decided but the buffers. A captured launch has copied all that it needs of it.
  struct Ready {
    std::shared_ptr<PreparedLaunch> prepared;   // none: only copies can perform the call
    std::shared_ptr<PreparedLaunch> host_path;  // beside it, for the rest of the message; none: there is no rest
    std::optional<CopyProgram> copies;          // to be tried first
    std::chrono::nanoseconds timeout{};
  };

  // One at a time.
  struct Started {
    const Ready* ready = nullptr;
    const void* input = nullptr;
    void* output = nullptr;
    void* stream = nullptr;
    const Scalar* scalar = nullptr;
  };

  // By kernels.
  void launch() {
    const auto& [ready, input, output, stream, scalar] = started_;
    if (!ready->prepared) refuse_copies(ready->copies->call);
    cuda_.enqueue(*ready->prepared, ready->host_path.get(), input, output, stream, scalar);
  }

  // A given plan that reads other ranks' buffers has no other way.
  [[noreturn]] void refuse_copies(const Call& call) const {
    refuse_call(
        rank_, call,
        "the plan reads other ranks' buffers, which they did not agree on: all come to the call within a second, "
        "without a scalar, and their buffers can be mapped; PLAIT_LOG=info says what is missing, and a plan of access ",
        name(Access::kStaged), " needs none of it");
  }

  MessageRoute route_of(size_t bytes) const {
    const MessageChoice choice = tuner_->choose_message(bytes);
    if (!choice.direct) return {};
    return {choice.direct, choice.insists ? kInsistence : longer_wait(bytes)};
  }

  // With few SMs, kernels take several times as long.
  std::chrono::nanoseconds timeout_of(size_t bytes) const {
    return has_few_sms() ? longer_wait(bytes) : worthwhile_wait(bytes);
  }

  const Ready& ready_for(const Call& call) {
    return ready_.get(call, [&] { return make_ready(call); });
  }

  bool has_few_sms() const {
    const RankMachine& machine = tuner_->machine();
    return machine.gpus->most_sms > 0 && machine.gpus->most_sms < machine.profile->few_sms;
  }

  // Says why some rank cannot perform a plan. Empty if all can.
  std::optional<std::string> why_not(const Call& call, const Choice& choice) {
    const VerifiedPlan& plan = call.plan != 0 ? tuner_->given(call.plan) : *tuner_->plan(choice.plan);
    try {
      for (int rank = 0; rank < size_; ++rank) {
        if (call.plan != 0 && choice.zero_copy) {
          make_copy_program(plan, call, rank);
        } else {
          const BoundPlan bound = bind(plan, call, rank, CudaRank::limits(choice.launch, plan.plan()));
          cuda_.check_launch(bound, call, choice.launch, rank);
        }
      }
      return std::nullopt;
    } catch (const Error& error) {
      return error.what();
    }
  }

  Ready make_ready(const Call& call) {
    const Choice choice = choose(call);
    Ready ready;
    const size_t over_links = elements_over_links(call, choice.launch);
    if (call.plan == 0 || !choice.zero_copy) prepare(call, choice, over_links, ready);
    if (choice.zero_copy) {
      ready.copies = make_copy_program(*tuner_->plan(*choice.zero_copy), call, rank_, over_links);
      ready.copies->only_even = !choice.insists_on_zero_copy;
      ready.copies->only_aligned = ready.copies->only_even && reduces(call.collective) && !has_few_sms();
      ready.timeout = choice.insists_on_zero_copy ? kInsistence : timeout_of(message_bytes(call, size_));
    }
    return ready;
  }

  // Kernels.
  void prepare(const Call& call, const Choice& choice, size_t over_links, Ready& ready) {
    const VerifiedPlan& plan = *tuner_->plan(choice.plan);
    const BlockPart by_links{0, over_links};
    const BoundPlan bound = bind(plan, call, rank_, CudaRank::limits(choice.launch, plan.plan()), by_links);
    std::optional<BoundPlan> ending;
    if (choice.ending) {
      const VerifiedPlan& other = *tuner_->plan(*choice.ending);
      ending = bind_alike(bound, other, call, rank_, CudaRank::limits(choice.launch, other.plan()), by_links);
    }
    ready.prepared = cuda_.prepare(bound, ending ? &*ending : nullptr, call, choice.launch);
    if (over_links < call.count) {
      const BoundPlan rest = bind(plan, call, rank_, CudaRank::host_limits(choice.launch, plan.plan()),
                                  {over_links, call.count - over_links});
      ready.host_path = cuda_.prepare_host(rest, call, choice.launch, *ready.prepared);
    }
  }

  const int rank_;
  const int size_;
  DeviceCalls state_;
  CudaRank cuda_;
  OwnStream own_stream_;
  const int persistent_ctas_;  // the same on all ranks
  const bool launch_is_pinned_;
  std::optional<Tuner> tuner_;  // always there: it is made last
  CallCache<Ready> ready_;
  Started started_;
  bool is_exchanging_ = false;        // messages, not a call
  std::vector<MessageRoute> routes_;  // of the exchange at hand
};

// Before it is known whether there is room for it.
bool wants_host_memory(const PeerMemory& memory, RankMachine machine, const Settings& settings) {
  machine.gpus->lines = memory.supports_ll128();
  return memory.kind() != PeerMemoryKind::kHost && wants_host_path(machine, launch_of(settings));
}

// Pinned host memory may be scarce. All ranks learn that alike, and links carry everything then.
template <class Make>
auto where_possible(const Logger& log, const Settings& settings, const Make& make) -> std::optional<decltype(make())> {
  try {
    return make();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kResources) throw;
    if (settings.launch.empty()) {
      log.info("nothing goes through host memory: ", error.what());
    } else {
      log.warn("nothing goes through host memory, as PLAIT_LAUNCH=", settings.launch, " asks: ", error.what());
    }
    return std::nullopt;
  }
}

}  // namespace

void DeviceBackend::check_device(int device) { CudaRank::check_device(device); }

std::unique_ptr<StagingDevice> DeviceBackend::staging_device(int device, size_t bytes) {
  return std::make_unique<CudaStaging>(device, bytes);
}

std::unique_ptr<ReduceDevice> DeviceBackend::reduce_device(Bootstrap& on_host, std::vector<int> ranks, int device,
                                                           const Settings& settings) {
  const CudaReduces::Options options{settings.cpu_driven, persistent_ctas_of(settings),
                                     std::chrono::microseconds(settings.persistent_idle_us), settings.scratch_bytes};
  PeerMemory memory = PeerMemory::create(on_host, device, CudaReduces::peer_bytes(options), settings.peer_memory);
  return std::make_unique<CudaReduces>(std::move(memory), std::move(ranks), options);
}

std::unique_ptr<DeviceBackend> DeviceBackend::create(Bootstrap& bootstrap, int device, const Settings& settings,
                                                     std::shared_ptr<Segment> segment, Peers peers,
                                                     const AgreedTopology& topology) {
  PeerMemory memory = PeerMemory::create(bootstrap, device, CudaRank::block_bytes(), settings.peer_memory);
  RankMachine machine =
      gpu_machine(topology, bootstrap.all_gather(identity_of(device)), memory.supports_ll128(), settings);
  std::optional<PeerMemory> host_memory;
  if (wants_host_memory(memory, machine, settings)) {  // on all ranks alike, as their settings are the same
    host_memory = where_possible(Logger(settings.log_level, bootstrap.rank()), settings, [&] {
      return PeerMemory::create(bootstrap, device, CudaRank::host_block_bytes(), PeerMemoryKind::kHost);
    });
  }
  return std::make_unique<CudaDeviceBackend>(std::move(memory), std::move(host_memory), std::move(segment),
                                             bootstrap.rank(), std::move(peers), settings, std::move(machine));
}

std::vector<std::unique_ptr<DeviceBackend>> DeviceBackend::in_process(std::span<const int> devices,
                                                                      const Settings& settings,
                                                                      const std::shared_ptr<Segment>& segment,
                                                                      const AgreedTopology& topology) {
  for (const int device : devices) check_device(device);
  std::vector<PeerMemory> memories = PeerMemory::in_process(devices, CudaRank::block_bytes(), settings.peer_memory);
  if (memories.empty()) return {};
  std::vector<GpuIdentity> identities;
  for (const int device : devices) identities.push_back(identity_of(device));
  const RankMachine machine = gpu_machine(topology, identities, memories[0].supports_ll128(), settings);
  std::optional<std::vector<PeerMemory>> host_memories;
  if (wants_host_memory(memories[0], machine, settings)) {
    host_memories = where_possible(Logger(settings.log_level, 0), settings, [&] {
      return PeerMemory::in_process(devices, CudaRank::host_block_bytes(), PeerMemoryKind::kHost);
    });
  }
  std::vector<std::unique_ptr<DeviceBackend>> ends;
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    Peers peers(std::vector<int>(devices.size(), getpid()));
    std::optional<PeerMemory> host_memory;
    if (host_memories) host_memory = std::move((*host_memories)[rank]);
    ends.push_back(std::make_unique<CudaDeviceBackend>(std::move(memories[rank]), std::move(host_memory), segment,
                                                       static_cast<int>(rank), std::move(peers), settings, machine));
  }
  return ends;
}

}  // namespace plait
#endif
