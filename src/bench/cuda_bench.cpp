// Timing loops on GPUs.
#ifdef PLAIT_HAVE_CUDA
#include "bench/cuda_bench.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "bench/cuda_handles.hpp"
#include "bench/cuda_peer_library.hpp"
#include "bench/exact_input.hpp"
#include "bench/pages.hpp"
#include "bench/ranks.hpp"
#include "runtime/hosts.hpp"

namespace plait {
namespace {

// Loops between which peers alternate. The most calls of one stay below what CUDA queues, about 1000 launches:
// beyond it, enqueuing waits for the GPU.
constexpr double kFewestCalls = 20, kMostCalls = 400;
constexpr double kFewestReplays = 1, kMostReplays = 200;
// Calls of which the median is the host's cost of one.
constexpr double kFewestHostCalls = 5, kMostHostCalls = 32;
// The inputs of checks, in this order: what a call leaves behind is never what the next one must give.
constexpr int kEagerVariant = 1, kGraphVariant = 2;
// Outputs are filled with it before a call that is checked.
constexpr int kStaleByte = 0xee;

class PlaitOnCuda : public CudaPeerLibrary {
 public:
  explicit PlaitOnCuda(Communicator& communicator) : communicator_(communicator) {}
  std::string name() const override { return "Plait"; }
  bool serves(const Call&, bool) const override { return true; }
  void enqueue(const Call& call, const void* input, void* output, void* stream) override {
    communicator_.enqueue(call, input, output, stream);
  }
  bool serves(const RingShift&) const override { return true; }
  void enqueue(const RingShift& shift, const void* input, void* output, void* stream) override {
    shift.list(input, output, messages_);
    communicator_.enqueue_p2p(messages_, {&stream, 1});
  }
  bool multiplies() const override { return true; }
  bool blocks() const override { return true; }
  void enqueue_multiplied(const Call& call, const Scalar& factor, const void* input, void* output,
                          void* stream) override {
    communicator_.enqueue(call, input, output, stream, &factor);
  }
  void check() override {
    if (const auto error = communicator_.async_error()) throw *error;
  }

 private:
  Communicator& communicator_;
  std::vector<PeerMessage> messages_;
};

double slowest(Communicator& communicator, double seconds) {
  return over_ranks(communicator, seconds, DataType::kFloat64, ReduceOp::kMax);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// A call to measure, which every peer can make on this rank's buffers.
class Task {
 public:
  virtual ~Task() = default;
  virtual std::string text() const = 0;
  virtual size_t message_bytes() const = 0;
  virtual size_t element_bytes() const = 0;
  virtual BufferPlacement place(const BufferPair& buffers) const = 0;
  virtual bool is_served_by(const CudaPeerLibrary& peer) const = 0;
  virtual void enqueue(CudaPeerLibrary& peer, const BufferPlacement& at, cudaStream_t stream) const = 0;
  // Whether there is an exact result to check.
  virtual bool is_exact() const { return true; }
  virtual size_t input_bytes() const = 0;
  virtual size_t output_bytes() const = 0;
  virtual void fill(int variant, std::byte* input) const = 0;
  virtual size_t count_wrong(int variant, const std::byte* output) const = 0;
};

class CallTask final : public Task {
 public:
  CallTask(const Communicator& communicator, const Call& call, const CudaMeasureOptions& options)
      : rank_(communicator.rank()),
        ranks_(communicator.size()),
        call_(call),
        in_place_(options.in_place),
        multiplied_(options.multiplied),
        factor_(exact_scalar(call.type, rank_)) {}

  std::string text() const override { return to_text(call_); }
  size_t message_bytes() const override { return plait::message_bytes(call_, ranks_); }
  size_t element_bytes() const override { return size_of(call_.type); }
  BufferPlacement place(const BufferPair& buffers) const override {
    return plait::place(call_, rank_, buffers, in_place_);
  }
  bool is_served_by(const CudaPeerLibrary& peer) const override {
    return peer.serves(call_, in_place_) && (!multiplied_ || peer.multiplies());
  }
  void enqueue(CudaPeerLibrary& peer, const BufferPlacement& at, cudaStream_t stream) const override {
    if (multiplied_) {
      peer.enqueue_multiplied(call_, factor_, at.input, at.output, stream);
    } else {
      peer.enqueue(call_, at.input, at.output, stream);
    }
  }
  size_t input_bytes() const override { return input_elements(call_, ranks_, rank_) * size_of(call_.type); }
  size_t output_bytes() const override { return output_elements(call_, ranks_, rank_) * size_of(call_.type); }
  void fill(int variant, std::byte* input) const override { fill_input(call_, ranks_, rank_, variant, input); }
  size_t count_wrong(int variant, const std::byte* output) const override {
    return plait::count_wrong(call_, ranks_, rank_, variant, output, multiplied_);
  }

 private:
  const int rank_, ranks_;
  const Call call_;
  const bool in_place_, multiplied_;
  const Scalar factor_;
};

class ShiftTask final : public Task {
 public:
  ShiftTask(const Communicator& communicator, DataType type, size_t count, const ShiftPattern& pattern, bool in_place)
      : rank_(communicator.rank()),
        ranks_(communicator.size()),
        shift_(RingShift::of(rank_, ranks_, type, count, pattern)),
        in_place_(in_place) {}

  std::string text() const override { return join("a message of ", shift_.count, " ", name(shift_.type)); }
  size_t message_bytes() const override { return shift_.bytes(); }
  size_t element_bytes() const override { return size_of(shift_.type); }
  BufferPlacement place(const BufferPair& buffers) const override {
    return {buffers.first, in_place_ ? buffers.first : buffers.second};
  }
  bool is_served_by(const CudaPeerLibrary& peer) const override { return peer.serves(shift_); }
  void enqueue(CudaPeerLibrary& peer, const BufferPlacement& at, cudaStream_t stream) const override {
    peer.enqueue(shift_, at.input, at.output, stream);
  }
  bool is_exact() const override { return !in_place_; }
  size_t input_bytes() const override { return shift_.bytes(); }
  size_t output_bytes() const override { return shift_.bytes(); }
  void fill(int variant, std::byte* input) const override {
    fill_input(shift_.broadcast_of(rank_), ranks_, rank_, variant, input);
  }
  size_t count_wrong(int variant, const std::byte* output) const override {
    if (!shift_.receives()) return 0;
    return plait::count_wrong(shift_.broadcast_of(shift_.from), ranks_, rank_, variant, output);
  }

 private:
  const int rank_, ranks_;
  const RingShift shift_;
  const bool in_place_;
};

}  // namespace

std::unique_ptr<CudaPeerLibrary> make_cuda_plait_peer(Communicator& communicator) {
  return std::make_unique<PlaitOnCuda>(communicator);
}

struct CudaBench::Impl {
  Impl(Communicator& own_communicator, size_t largest)
      : communicator(own_communicator), device(own_communicator.device()), largest_bytes(std::max<size_t>(largest, 1)) {
    const DeviceGuard guard(device);
    stream = make_stream();
    start = make_event();
    stop = make_event();
    first = make_device_memory(largest_bytes);
    second = make_device_memory(largest_bytes);
    for (std::byte* buffer : {first.get(), second.get()}) {
      check_cuda(cudaMemsetAsync(buffer, 0, largest_bytes, stream.get()), "clearing the benchmark's buffers");
    }
    check_cuda(cudaStreamSynchronize(stream.get()), "clearing the benchmark's buffers");
    peers.push_back(make_cuda_plait_peer(communicator));
  }

  ~Impl() {
    int before = -1;
    if (cudaGetDevice(&before) == cudaSuccess) cudaSetDevice(device);
    peers.clear();  // first: NCCL ends kernels that still wait
    first.reset();
    second.reset();
    start.reset();
    stop.reset();
    stream.reset();
    if (before >= 0) cudaSetDevice(before);
  }

  Communicator& communicator;
  const int device;
  const size_t largest_bytes;
  Stream stream;
  Event start, stop;
  DeviceMemory first, second;
  std::vector<Measurement> measure(const Task& task, const CudaMeasureOptions& options);

  std::vector<std::unique_ptr<CudaPeerLibrary>> peers;
};

namespace {

// One peer with one task: everything that is done to it.
class Trial {
 public:
  struct Place {
    Communicator& communicator;
    cudaStream_t stream;
    cudaEvent_t start, stop;
    BufferPair buffers;
    std::byte* host;  // of the message's size, to and from the GPU
  };

  Trial(CudaPeerLibrary& peer, const Task& task, const CudaMeasureOptions& options, const Place& place_of)
      : peer_(peer), task_(task), options_(options), at_(place_of), placed_(task.place(place_of.buffers)) {}

  // Checks, warms up, and decides how long a loop is.
  Measurement prepare() {
    Measurement result;
    if (options_.check && task_.is_exact()) {
      result.wrong = wrong_after(kEagerVariant, [&] { enqueue(1); });
      // Calls over several hosts are in no graph, nor are blocking ones.
      const bool has_graphs = at_.communicator.hosts().are_one() && !options_.blocking;
      const GraphExec once = has_graphs ? capture(1) : nullptr;
      result.wrong += wrong_after(kGraphVariant, [&] { once ? replay(once.get()) : enqueue(1); });
    }
    const int warmup = std::max(1, options_.warmup);
    enqueue(warmup);
    if (options_.graph > 0) graph_ = capture(options_.graph);
    const double estimate = time_loop(options_.graph > 0 ? 1 : warmup) / (options_.graph > 0 ? 1 : warmup);
    units_ = units_for(estimate);
    result.iterations = units_ * calls_a_unit();
    result.host_seconds = host_seconds(estimate / calls_a_unit());
    return result;
  }

  // Seconds of one call in one timed loop, on the slowest rank.
  double time() { return time_loop(units_) / (static_cast<double>(units_) * calls_a_unit()); }

  // As time(), and counts what is wrong after it.
  double time_and_check(Measurement& result) {
    clear_output();
    const double seconds = time();
    result.wrong += count_wrong_over_ranks(kGraphVariant);  // the input that prepare() left
    return seconds;
  }

 private:
  int calls_a_unit() const { return std::max(1, options_.graph); }

  int units_for(double seconds) const {
    if (options_.iterations > 0) return (options_.iterations + calls_a_unit() - 1) / calls_a_unit();
    const double fitting = options_.loop_seconds / std::max(seconds, 1e-9);
    return static_cast<int>(options_.graph > 0 ? std::clamp(fitting, kFewestReplays, kMostReplays)
                                               : std::clamp(fitting, kFewestCalls, kMostCalls));
  }

  void enqueue(int calls) {
    for (int i = 0; i < calls; ++i) {
      if (options_.blocking) {
        perform();
      } else {
        task_.enqueue(peer_, placed_, at_.stream);
      }
    }
  }

  // A blocking call.
  void perform() {
    task_.enqueue(peer_, placed_, peer_.blocks() ? static_cast<cudaStream_t>(kBlockingStream) : at_.stream);
    if (!peer_.blocks()) check_cuda(cudaStreamSynchronize(at_.stream), "waiting for ", task_.text());
  }

  void replay(cudaGraphExec_t graph) { check_cuda(cudaGraphLaunch(graph, at_.stream), "replaying a graph"); }

  // One call, or one replay of many.
  void run_unit() {
    if (graph_) return replay(graph_.get());
    enqueue(1);
  }

  GraphExec capture(int calls) {
    check_cuda(cudaStreamBeginCapture(at_.stream, cudaStreamCaptureModeThreadLocal), "beginning a capture");
    cudaGraph_t captured = nullptr;
    try {
      enqueue(calls);
    } catch (...) {
      if (cudaStreamEndCapture(at_.stream, &captured) != cudaSuccess) cudaGetLastError();
      const Graph lost(captured);
      throw;
    }
    check_cuda(cudaStreamEndCapture(at_.stream, &captured), "ending a capture");
    const Graph graph(captured);
    cudaGraphExec_t made = nullptr;
    check_cuda(cudaGraphInstantiate(&made, graph.get(), 0), "making a graph");
    GraphExec ready(made);
    check_cuda(cudaGraphUpload(made, at_.stream), "uploading a graph");
    return ready;
  }

  // Waits for this rank's GPU, and throws what went wrong there.
  void synchronize() {
    const cudaError_t error = cudaStreamSynchronize(at_.stream);
    peer_.check();  // before CUDA's own error: it knows more
    check_cuda(error, "waiting for ", task_.text(), " by ", peer_.name());
  }

  void clear_output() {
    const size_t bytes = task_.output_bytes();
    if (options_.in_place || bytes == 0) return;
    check_cuda(cudaMemsetAsync(placed_.output, kStaleByte, bytes, at_.stream), "clearing the output");
  }

  template <class Run>
  long wrong_after(int variant, Run run) {
    const size_t bytes = task_.input_bytes();
    synchronize();
    clear_output();
    if (bytes > 0) {
      task_.fill(variant, at_.host);
      check_cuda(cudaMemcpyAsync(placed_.input, at_.host, bytes, cudaMemcpyHostToDevice, at_.stream), "upload");
    }
    if (options_.blocking) synchronize();
    run();
    synchronize();
    return count_wrong_over_ranks(variant);
  }

  long count_wrong_over_ranks(int variant) {
    const size_t bytes = task_.output_bytes();
    if (bytes > 0) {
      check_cuda(cudaMemcpyAsync(at_.host, placed_.output, bytes, cudaMemcpyDeviceToHost, at_.stream), "download");
      check_cuda(cudaStreamSynchronize(at_.stream), "download");
    }
    const auto wrong = static_cast<int64_t>(task_.count_wrong(variant, at_.host));
    return static_cast<long>(over_ranks(at_.communicator, wrong, DataType::kInt64, ReduceOp::kSum));
  }

  // Seconds that `units` take on the slowest rank.
  double time_loop(int units) {
    synchronize();
    at_.communicator.barrier();
    run_unit();  // ends everywhere at about the same time, and then the clock starts
    if (options_.blocking) return slowest(at_.communicator, host_seconds_of(units));
    check_cuda(cudaEventRecord(at_.start, at_.stream), "recording an event");
    for (int i = 0; i < units; ++i) run_unit();
    check_cuda(cudaEventRecord(at_.stop, at_.stream), "recording an event");
    synchronize();
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, at_.start, at_.stop), "reading the time");
    return slowest(at_.communicator, milliseconds / 1e3);
  }

  double host_seconds_of(int units) {
    const auto before = std::chrono::steady_clock::now();
    for (int i = 0; i < units; ++i) run_unit();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
  }

  // Seconds that this thread takes to enqueue one call: the median of some, on the slowest rank.
  double host_seconds(double estimate) {
    const int calls = static_cast<int>(
        std::clamp(options_.loop_seconds / std::max(estimate, 1e-9), kFewestHostCalls, kMostHostCalls));
    at_.communicator.barrier();
    std::vector<double> each;
    for (int i = 0; i < calls; ++i) {
      const auto before = std::chrono::steady_clock::now();
      enqueue(1);
      each.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count());
    }
    synchronize();
    return slowest(at_.communicator, median(std::move(each)));
  }

  CudaPeerLibrary& peer_;
  const Task& task_;
  const CudaMeasureOptions& options_;
  const Place at_;
  const BufferPlacement placed_;
  GraphExec graph_;
  int units_ = 1;
};

}  // namespace

CudaBench::CudaBench(Communicator& communicator, size_t largest_bytes) {
  if (communicator.device() == kNoDevice) {
    fail(ErrorCode::kInvalidArgument, "this communicator was made without a GPU; name a device when you make it");
  }
  on_all_ranks(communicator, [&] { impl_ = std::make_unique<Impl>(communicator, largest_bytes); });
}

CudaBench::~CudaBench() = default;

void CudaBench::add_plait(Communicator& communicator) { open().peers.push_back(make_cuda_plait_peer(communicator)); }

void CudaBench::add_nccl(const std::vector<std::string>& libraries) {
  const DeviceGuard guard(impl_->device);
  for (auto& peer : make_nccl_peers(impl_->communicator, impl_->largest_bytes, libraries)) {
    impl_->peers.push_back(std::move(peer));
  }
}

std::vector<std::string> CudaBench::peers() const {
  std::vector<std::string> names;
  if (impl_ == nullptr) return names;
  for (const auto& peer : impl_->peers) names.push_back(peer->name());
  return names;
}

std::vector<Measurement> CudaBench::measure(const Call& call, const CudaMeasureOptions& options) {
  if (options.blocking && options.graph > 0) fail(ErrorCode::kInvalidArgument, "blocking calls are in no graph");
  return open().measure(CallTask(impl_->communicator, call, options), options);
}

std::vector<Measurement> CudaBench::measure_ring_shift(DataType type, size_t count, const ShiftPattern& pattern,
                                                       const CudaMeasureOptions& options) {
  const ShiftTask task(impl_->communicator, type, count, pattern, options.in_place);
  std::vector<Measurement> measured = open().measure(task, options);
  divide_by_window(measured, pattern.window);
  return measured;
}

CudaBench::Impl& CudaBench::open() const {
  if (impl_ == nullptr) fail(ErrorCode::kInvalidArgument, "this benchmark is closed");
  return *impl_;
}

std::vector<Measurement> CudaBench::Impl::measure(const Task& task, const CudaMeasureOptions& options) {
  const size_t bytes = task.message_bytes();
  const size_t begin = static_cast<size_t>(options.unalign) * task.element_bytes();
  if (begin + bytes > largest_bytes) {
    fail(ErrorCode::kInvalidArgument, "a message of ", begin + bytes, " bytes in a benchmark for ", largest_bytes);
  }
  const DeviceGuard guard(device);
  const Pages host(options.check ? bytes : 0);
  std::vector<Measurement> results(peers.size());
  std::vector<std::pair<std::unique_ptr<Trial>, Measurement*>> trials;
  for (size_t c = 0; c < results.size(); ++c) {
    CudaPeerLibrary& peer = *peers[c];
    if (!task.is_served_by(peer)) continue;
    BufferPair buffers = peer.own_buffers();
    if (buffers.first == nullptr) buffers = {first.get(), second.get()};
    buffers = {buffers.first + begin, buffers.second + begin};
    auto trial = std::make_unique<Trial>(
        peer, task, options, Trial::Place{communicator, stream.get(), start.get(), stop.get(), buffers, host.get()});
    results[c] = trial->prepare();
    trials.emplace_back(std::move(trial), &results[c]);
  }
  const int cycles = std::max(1, options.cycles);
  for (int cycle = 0; cycle < cycles; ++cycle) {
    const bool checks = options.check && !options.in_place && cycle == cycles - 1;
    for (auto& [trial, result] : trials) {
      result->seconds.push_back(checks ? trial->time_and_check(*result) : trial->time());
    }
  }
  return results;
}

void CudaBench::close() {
  if (impl_ == nullptr) return;
  impl_->communicator.barrier();
  impl_.reset();
}

}  // namespace plait
#endif
