#include "support/fake_cuda.hpp"

#include <cuda.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "runtime/cuda/memory/peer_block.hpp"

namespace plait {

void enable_peer_access(int, int) {}

namespace test {
namespace {

constexpr size_t kTotalBytes = size_t{80} << 30;
thread_local int current_device = 0;

}  // namespace

FakeCuda& FakeCuda::get() {
  static FakeCuda& fake = *new FakeCuda;
  return fake;
}

void FakeCuda::reset() {
  const std::scoped_lock lock(mutex_);
  ends_.clear();
  length_.reset();
  memory_.clear();
  opened_.clear();
  next_address_ = uint64_t{1} << 32;
  waits_ = queries_ = closed_amid_calls_ = 0;
  free_part_ = 1;
  gpu_ = {};
}

void FakeCuda::set_length_of_calls(std::chrono::milliseconds length) {
  const std::scoped_lock lock(mutex_);
  length_ = length;
}

void FakeCuda::end_calls() {
  const std::scoped_lock lock(mutex_);
  ends_.clear();
}

bool FakeCuda::is_busy() {
  const std::scoped_lock lock(mutex_);
  return std::any_of(ends_.begin(), ends_.end(), [](const auto& it) { return Clock::now() < it.second; });
}

std::byte* FakeCuda::allocate(size_t bytes) {
  const std::scoped_lock lock(mutex_);
  const uint64_t start = next_address_;
  next_address_ += bytes;
  memory_[start] = {++last_number_, bytes, start};
  return reinterpret_cast<std::byte*>(start);
}

void FakeCuda::free(const std::byte* memory) {
  const std::scoped_lock lock(mutex_);
  memory_.erase(reinterpret_cast<uint64_t>(memory));
}

void FakeCuda::set_free_memory(double part) {
  const std::scoped_lock lock(mutex_);
  free_part_ = part;
}

void FakeCuda::go() {
  const std::scoped_lock lock(mutex_);
  is_gone_ = true;
}

void FakeCuda::renew_stream(cudaStream_t stream) {
  const std::scoped_lock lock(mutex_);
  streams_[stream] = ++last_stream_;
}

size_t FakeCuda::waits() {
  const std::scoped_lock lock(mutex_);
  return waits_;
}

size_t FakeCuda::queries() {
  const std::scoped_lock lock(mutex_);
  return queries_;
}

size_t FakeCuda::opened() {
  const std::scoped_lock lock(mutex_);
  return opened_.size();
}

size_t FakeCuda::closed_amid_calls() {
  const std::scoped_lock lock(mutex_);
  return closed_amid_calls_;
}

cudaError_t FakeCuda::record(cudaEvent_t event) {
  const std::scoped_lock lock(mutex_);
  ends_[event] = length_ ? Clock::now() + *length_ : Clock::time_point::max();
  return cudaSuccess;
}

cudaError_t FakeCuda::query(cudaEvent_t event) {
  const std::scoped_lock lock(mutex_);
  ++queries_;
  if (is_gone_) return cudaErrorCudartUnloading;
  const auto found = ends_.find(event);
  return found != ends_.end() && Clock::now() < found->second ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t FakeCuda::set_device(int device) {
  const std::scoped_lock lock(mutex_);
  if (is_gone_) return cudaErrorCudartUnloading;
  current_device = device;
  return cudaSuccess;
}

void FakeCuda::note_wait() {
  const std::scoped_lock lock(mutex_);
  ++waits_;
}

unsigned long long FakeCuda::number_of(cudaStream_t stream) {
  const std::scoped_lock lock(mutex_);
  unsigned long long& number = streams_[stream];
  if (number == 0) number = ++last_stream_;
  return number;
}

cudaError_t FakeCuda::export_memory(cudaIpcMemHandle_t* handle, const void* memory) {
  const Memory found = memory_at(reinterpret_cast<uint64_t>(memory));
  if (found.number == 0) return cudaErrorInvalidValue;
  std::memcpy(handle, &found.number, sizeof(found.number));
  return cudaSuccess;
}

cudaError_t FakeCuda::open(void** memory, const cudaIpcMemHandle_t& handle) {
  uint64_t number = 0;
  std::memcpy(&number, &handle, sizeof(number));
  const std::scoped_lock lock(mutex_);
  const auto found =
      std::find_if(memory_.begin(), memory_.end(), [&](const auto& it) { return it.second.number == number; });
  if (found == memory_.end()) return cudaErrorInvalidValue;
  const uint64_t address = next_address_;
  next_address_ += found->second.bytes;
  opened_[address] = number;
  *memory = reinterpret_cast<void*>(address);
  return cudaSuccess;
}

cudaError_t FakeCuda::close(const void* memory) {
  const bool busy = is_busy();
  const std::scoped_lock lock(mutex_);
  if (busy) ++closed_amid_calls_;
  return opened_.erase(reinterpret_cast<uint64_t>(memory)) == 1 ? cudaSuccess : cudaErrorInvalidValue;
}

void FakeCuda::left(size_t* free, size_t* total) {
  const std::scoped_lock lock(mutex_);
  *total = kTotalBytes;
  *free = static_cast<size_t>(free_part_ * static_cast<double>(kTotalBytes));
}

FakeCuda::Memory FakeCuda::memory_at(uint64_t address) {
  const std::scoped_lock lock(mutex_);
  auto after = memory_.upper_bound(address);
  if (after == memory_.begin()) return {};
  const Memory& found = std::prev(after)->second;
  return address < found.start + found.bytes ? found : Memory();
}

namespace {

CUresult get_attributes(unsigned count, CUpointer_attribute* attributes, void** values, CUdeviceptr address) {
  const FakeCuda::Memory memory = FakeCuda::get().memory_at(address);
  const auto put = [](void* to, auto value) { std::memcpy(to, &value, sizeof(value)); };
  const bool there = memory.number != 0;
  for (unsigned i = 0; i < count; ++i) {
    switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        put(values[i], there ? static_cast<unsigned>(CU_MEMORYTYPE_DEVICE) : 0u);
        break;
      case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        put(values[i], static_cast<unsigned long long>(memory.number));
        break;
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        put(values[i], static_cast<CUdeviceptr>(memory.start));
        break;
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        put(values[i], memory.bytes);
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        put(values[i], 0);
        break;
      case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        put(values[i], there ? 1 : 0);
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace test
}  // namespace plait

using plait::test::FakeCuda;

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new int);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<int*>(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) { return FakeCuda::get().record(event); }
cudaError_t cudaEventQuery(cudaEvent_t event) { return FakeCuda::get().query(event); }
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return FakeCuda::get().query(event); }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
  FakeCuda::get().note_wait();
  return cudaSuccess;
}
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* number) {
  *number = FakeCuda::get().number_of(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t*, unsigned) { return cudaErrorNotSupported; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaErrorNotSupported; }
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaErrorNotSupported; }
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }

cudaError_t cudaGetDevice(int* device) {
  *device = plait::test::current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return FakeCuda::get().set_device(device); }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, const void*) { return FakeCuda::get().gpu().image; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  const FakeCuda::Gpu& gpu = FakeCuda::get().gpu();
  *properties = {};
  std::strncpy(properties->name, gpu.name, sizeof properties->name - 1);
  properties->major = gpu.major;
  properties->minor = gpu.minor;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 12040;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t) { return "an error"; }
const char* cudaGetErrorString(cudaError_t) { return "of the fake"; }
cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  FakeCuda::get().left(free, total);
  return cudaSuccess;
}
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  return FakeCuda::get().export_memory(handle, memory);
}
cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned) {
  return FakeCuda::get().open(memory, handle);
}
cudaError_t cudaIpcCloseMemHandle(void* memory) { return FakeCuda::get().close(memory); }

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* status) {
  const bool known = std::string_view(name) == "cuPointerGetAttributes";
  *function = known ? reinterpret_cast<void*>(&plait::test::get_attributes) : nullptr;
  *status = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
}
