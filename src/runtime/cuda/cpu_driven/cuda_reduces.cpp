// Keeps the memory of work queues, and launches the kernels that serve them.
#include "runtime/cuda/cpu_driven/cuda_reduces.hpp"

#include <algorithm>
#include <atomic>
#include <new>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "runtime/cuda/driver/cleared_memory.hpp"
#include "runtime/cuda/driver/driver.hpp"
#include "runtime/cuda/driver/free_when_idle.hpp"
#include "runtime/cuda/driver/pdl.hpp"
#include "runtime/cuda/driver/served_gpu.hpp"
#include "runtime/cuda/kernels/prepared_launch.hpp"
#include "runtime/cuda/kernels/scale.hpp"

namespace plait {
namespace {

// As for the persistent kernel of blocking calls.
constexpr std::chrono::nanoseconds kLongestStay = std::chrono::milliseconds(20);
// A request waits for nothing, so CTA 0 passes commands on sooner than that, whatever shares the GPU with it.
constexpr std::chrono::nanoseconds kLongestRequest = std::chrono::seconds(60);
constexpr uint32_t kPollsBetweenLooks = 1 << 14;

// Pinned host memory that the GPU addresses, too.
template <class T>
class Pinned {
 public:
  Pinned() {
    void* memory = nullptr;
    check_cuda(cudaHostAlloc(&memory, sizeof(T), cudaHostAllocMapped | cudaHostAllocPortable),
               "pinned memory for a work queue");
    host_ = new (memory) T();
    void* mapped = nullptr;
    const cudaError_t error = cudaHostGetDevicePointer(&mapped, memory, 0);
    if (error != cudaSuccess) cudaFreeHost(memory);
    check_cuda(error, "mapping a work queue");
    on_device_ = static_cast<T*>(mapped);
  }
  ~Pinned() { cudaFreeHost(host_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  T& get() const { return *host_; }
  T* on_device() const { return on_device_; }

 private:
  T* host_ = nullptr;
  T* on_device_ = nullptr;
};

// A queue, and the stream of its kernel.
struct Served {
  OwnStream stream;
  Pinned<HostWork> host;
  ClearedMemory<DeviceWork> device;
};

}  // namespace

struct CudaReduces::Impl {
  Impl(PeerMemory its_memory, std::vector<int> its_ranks, Options its_options);
  ~Impl();

  void add_queue(uint32_t first_share, uint32_t ctas);
  void launch(const Served& served, uint32_t first_share, uint32_t ctas, uint64_t number, uint64_t first) const;
  void* room_for_input(size_t bytes);
  void check() const;

  PeerMemory memory;
  const std::vector<int> ranks;  // by number in `memory`
  const Options options;
  Pinned<uint32_t> aborted;
  std::vector<std::unique_ptr<Served>> served;
  WorkQueues queues;
  std::shared_ptr<std::byte> mapped;  // host memory
  std::byte* mapped_on_device = nullptr;
  std::vector<void*> inputs;  // memory for one, the last is in use
  size_t input_bytes = 0;     // of the last
  uint32_t polls = 0;
};

CudaReduces::Impl::Impl(PeerMemory its_memory, std::vector<int> its_ranks, Options its_options)
    : memory(std::move(its_memory)), ranks(std::move(its_ranks)), options(its_options) {
  load_kernel(work_kernel());
  for (int type = 0; type < kDataTypeCount; ++type) load_kernel(scale_kernel(static_cast<DataType>(type)));
  const int most = PreparedLaunch::resident_ctas(work_kernel(), kMostThreads);
  if (options.ctas < 1 || options.ctas > most) {
    fail(ErrorCode::kResources, "device ", memory.device(), " has room for ", most,
         " CTAs of the kernel that CPU-driven calls need, not for ", options.ctas, "; see PLAIT_PERSISTENT_CTAS");
  }
  const auto ctas = static_cast<uint32_t>(options.ctas);
  if (options.queues == CpuDriven::kOneQueue) {
    add_queue(0, ctas);
  } else {
    for (uint32_t share = 0; share < ctas; ++share) add_queue(share, 1);
  }
}

CudaReduces::Impl::~Impl() {
  for (void* const it : inputs) cudaFree(it);
  if (mapped) cudaHostUnregister(mapped.get());
}

// Memory that networks can register. Nothing is freed before the end, which would wait for kernels of others on this
// GPU; so sizes at least double.
void* CudaReduces::Impl::room_for_input(size_t bytes) {
  if (bytes <= input_bytes) return inputs.back();
  const size_t more = std::max(bytes, 2 * input_bytes);
  void* room = nullptr;
  check_cuda(cudaMalloc(&room, more), more, " bytes of memory for an input");
  inputs.push_back(room);
  input_bytes = more;
  return room;
}

void CudaReduces::Impl::add_queue(uint32_t first_share, uint32_t ctas) {
  const Served& it = *served.emplace_back(std::make_unique<Served>());
  queues.add(it.host.get(), ctas, [this, &it, first_share, ctas](uint64_t number, uint64_t first) {
    launch(it, first_share, ctas, number, first);
  });
}

void CudaReduces::Impl::launch(const Served& it, uint32_t first_share, uint32_t ctas, uint64_t number,
                               uint64_t first) const {
  const RelaxedCapture relaxed;
  const DeviceGuard guard(memory.device());
  WorkLaunch argument;
  argument.host = &it.host.on_device()->queue;
  argument.device = &it.device.get()->queue;
  argument.host_requests = it.host.on_device()->requests;
  argument.requests = it.device.get()->requests;
  argument.aborted = aborted.on_device();
  argument.number = number;
  argument.first = first;
  argument.idle_nanoseconds = static_cast<uint64_t>(std::chrono::nanoseconds(options.idle).count());
  argument.longest_nanoseconds = static_cast<uint64_t>(kLongestStay.count());
  argument.silent_nanoseconds = static_cast<uint64_t>(kLongestRequest.count());
  argument.first_share = first_share;
  argument.shares = static_cast<uint32_t>(options.ctas);
  launch_kernel(work_kernel(), dim3(ctas), dim3(kMostThreads), &argument, it.stream.get(), false,
                "launching the kernel of CPU-driven calls");
}

void CudaReduces::Impl::check() const {
  const RelaxedCapture relaxed;
  const DeviceGuard guard(memory.device());
  for (const auto& it : served) {
    const cudaError_t state = cudaStreamQuery(it->stream.get());
    if (state != cudaErrorNotReady) check_cuda(state, "performing work requests");
    cudaGetLastError();  // "not ready" is no error
  }
}

CudaReduces::CudaReduces(PeerMemory memory, std::vector<int> ranks, Options options) {
  const RelaxedCapture relaxed;
  const DeviceGuard guard(memory.device());
  impl_ = std::make_unique<Impl>(std::move(memory), std::move(ranks), options);
}

CudaReduces::~CudaReduces() {
  const RelaxedCapture relaxed;
  try {
    finish();
  } catch (const Error&) {  // the GPU has failed, or CUDA has shut down
    static_cast<void>(impl_.release());
    return;
  }
  const int device = impl_->memory.device();
  const auto held = std::make_shared<std::unique_ptr<Impl>>(std::move(impl_));
  free_when_idle(device, [held] { held->reset(); });
}

std::byte* CudaReduces::scratch(int rank, uint32_t room) const {
  const auto found = std::ranges::find(impl_->ranks, rank);
  if (found == impl_->ranks.end()) return nullptr;
  return impl_->memory.of(static_cast<int>(found - impl_->ranks.begin())) + room * impl_->options.scratch_bytes;
}

void CudaReduces::map_host(std::shared_ptr<std::byte> memory, size_t bytes) {
  const RelaxedCapture relaxed;
  const DeviceGuard guard(impl_->memory.device());
  check_cuda(cudaHostRegister(memory.get(), bytes, cudaHostRegisterMapped | cudaHostRegisterPortable), "pinning the ",
             bytes, " bytes that the ranks of this host share (less with a lower PLAIT_SCRATCH_KIB)");
  impl_->mapped = std::move(memory);
  void* mapped = nullptr;
  check_cuda(cudaHostGetDevicePointer(&mapped, impl_->mapped.get(), 0), "mapping the memory that ranks share");
  impl_->mapped_on_device = static_cast<std::byte*>(mapped);
}

std::byte* CudaReduces::of_host(const std::byte* address) const {
  return impl_->mapped_on_device + (address - impl_->mapped.get());
}

bool CudaReduces::has_room() { return impl_->queues.has_room(); }
uint64_t CudaReduces::post(const WorkRequest& request) { return impl_->queues.post(request); }
uint64_t CudaReduces::requests() const { return impl_->queues.posted(); }

bool CudaReduces::is_done(uint64_t number) {
  if (impl_->queues.is_done(number)) return true;
  if (++impl_->polls % kPollsBetweenLooks == 0) impl_->check();
  return false;
}

const void* CudaReduces::multiply(const Scalar& scalar, const void* input, void* output, size_t elements) {
  const RelaxedCapture relaxed;
  const DeviceGuard guard(impl_->memory.device());
  const OwnStream& stream = impl_->served.front()->stream;
  impl_->queues.let_leave();  // the product comes after the kernel of that stream
  if (output == nullptr) output = impl_->room_for_input(elements * size_of(scalar.type));
  launch_scale(scalar, input, output, elements, impl_->memory.sm_count(), stream.get());
  check_cuda(stream.finish(), "multiplying the input of a CPU-driven call");
  return output;
}

const void* CudaReduces::copy(const void* input, size_t bytes) {
  const RelaxedCapture relaxed;
  const DeviceGuard guard(impl_->memory.device());
  const OwnStream& stream = impl_->served.front()->stream;
  impl_->queues.let_leave();
  void* const copy = impl_->room_for_input(bytes);
  check_cuda(cudaMemcpyAsync(copy, input, bytes, cudaMemcpyDeviceToDevice, stream.get()), "copying an input");
  check_cuda(stream.finish(), "copying the input of a CPU-driven call");
  return copy;
}

void CudaReduces::use(const std::function<void()>& work) const {
  const DeviceGuard guard(impl_->memory.device());
  work();
}

void CudaReduces::finish() {
  const RelaxedCapture relaxed;
  const DeviceGuard guard(impl_->memory.device());
  impl_->queues.let_leave();
  for (const auto& it : impl_->served) check_cuda(it->stream.finish(), "waiting for the kernel of CPU-driven calls");
}

void CudaReduces::give_up() noexcept { std::atomic_ref(impl_->aborted.get()).store(1, std::memory_order_release); }

int CudaReduces::ordinal() const { return impl_->memory.device(); }

size_t CudaReduces::device_bytes() const {
  return peer_bytes(impl_->options) + impl_->served.size() * sizeof(DeviceWork) + impl_->input_bytes;
}

}  // namespace plait
