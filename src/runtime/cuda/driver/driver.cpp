// Errors and entry points of CUDA.
#include "runtime/cuda/driver/driver.hpp"

#include <iterator>

namespace plait {

namespace {

// Advice for the user about an error; empty if it depends on the circumstances.
const char* advice_for(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "; other programs may hold the GPU's memory (nvidia-smi shows them)";
    case cudaErrorInsufficientDriver:
      return "; there is no NVIDIA driver here, or one that is older than Plait's CUDA (nvidia-smi shows it)";
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
      return "; nvidia-smi -L lists the GPUs, CUDA_VISIBLE_DEVICES chooses among them";
    case cudaErrorDevicesUnavailable:
      return "; another process has the GPU for itself (nvidia-smi -q -d COMPUTE)";
    case cudaErrorNoKernelImageForDevice:
      return "; build Plait for this GPU (CUDA_ARCHITECTURES)";
    case cudaErrorPeerAccessUnsupported:
      return "; PLAIT_PEER_MEMORY=host needs no peer access";
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorMisalignedAddress:
      return "; a kernel of this process has failed, maybe long before: compute-sanitizer finds it";
    default:
      return "";
  }
}

template <class Function>
bool look_up(const char* name, Function& function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status;
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &status);
  if (error == cudaSuccess && status == cudaDriverEntryPointSuccess && found != nullptr) {
    function = reinterpret_cast<Function>(found);
    return true;
  }
  cudaGetLastError();
  return false;
}

template <class Function>
void find(const char* name, Function& function) {
  if (look_up(name, function)) return;
  fail(ErrorCode::kSystem, "this CUDA driver has no ", name, "; Plait needs that of CUDA 12.0 or newer");
}

// The driver's own description of an error.
std::string text_of(CUresult result) {
  decltype(&cuGetErrorName) get_name = nullptr;
  decltype(&cuGetErrorString) get_text = nullptr;
  const char* name = nullptr;
  const char* text = nullptr;
  if (look_up("cuGetErrorName", get_name)) get_name(result, &name);
  if (look_up("cuGetErrorString", get_text)) get_text(result, &text);
  if (name == nullptr || text == nullptr) return join("error ", static_cast<int>(result));
  return join(name, ", ", text);
}

}  // namespace

void fail_cuda(cudaError_t error, const std::string& what) {
  cudaGetLastError();  // an error that was reported must not surprise the next caller
  const ErrorCode code = error == cudaErrorMemoryAllocation ? ErrorCode::kResources : ErrorCode::kSystem;
  fail(code, what, ": CUDA says ", cudaGetErrorName(error), ", ", cudaGetErrorString(error), advice_for(error));
}

void fail_driver(CUresult result, const std::string& what) {
  const ErrorCode code = result == CUDA_ERROR_OUT_OF_MEMORY ? ErrorCode::kResources : ErrorCode::kSystem;
  fail(code, what, ": the CUDA driver says ", text_of(result));
}

int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(stream, &capture), "asking whether the stream is captured");
  return capture != cudaStreamCaptureStatusNone;
}

void load_kernel(const void* kernel) {
  cudaFuncAttributes attributes;
  check_cuda(cudaFuncGetAttributes(&attributes, kernel), "loading a kernel");
}

DeviceGuard::DeviceGuard(int device) {
  int current = 0;
  check_cuda(cudaGetDevice(&current), "asking for the current device");
  if (current == device) return;
  check_cuda(cudaSetDevice(device), "making device ", device, " current");
  before_ = current;
}

DeviceGuard::~DeviceGuard() {
  if (before_ >= 0) cudaSetDevice(before_);
}

std::optional<Allocation> allocation_of(const void* address) {
  static const auto get_attributes = [] {
    decltype(&cuPointerGetAttributes) function = nullptr;
    find("cuPointerGetAttributes", function);
    return function;
  }();
  Allocation allocation;
  CUmemorytype type = CUmemorytype(0);
  CUdeviceptr start = 0;
  unsigned has_handle = 0;
  CUpointer_attribute attributes[] = {
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_BUFFER_ID,
      CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,   CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
  };
  void* values[] = {&type, &allocation.number, &start, &allocation.bytes, &allocation.device, &has_handle};
  static_assert(std::size(attributes) == std::size(values));
  const CUresult result = get_attributes(static_cast<unsigned>(std::size(attributes)), attributes, values,
                                         reinterpret_cast<CUdeviceptr>(address));
  // All attributes are 0 for memory that CUDA does not know.
  if (result != CUDA_SUCCESS || type != CU_MEMORYTYPE_DEVICE || start == 0) return std::nullopt;
  allocation.start = reinterpret_cast<const std::byte*>(start);
  allocation.has_ipc_handle = has_handle != 0;
  return allocation;
}

// The capture of another thread would end if a stream were made or waited for without RelaxedCapture.
OwnStream::OwnStream() {
  const RelaxedCapture relaxed;
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
}

OwnStream::OwnStream(int device) {
  const RelaxedCapture relaxed;
  const DeviceGuard guard(device);
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
}

OwnStream::~OwnStream() {
  const RelaxedCapture relaxed;
  finish();
  cudaStreamDestroy(stream_);
}

RelaxedCapture::RelaxedCapture() : exchanged_(cudaThreadExchangeStreamCaptureMode(&other_) == cudaSuccess) {
  if (!exchanged_) cudaGetLastError();
}

RelaxedCapture::~RelaxedCapture() {
  if (exchanged_) cudaThreadExchangeStreamCaptureMode(&other_);
}

VirtualMemoryCalls VirtualMemoryCalls::load() {
  VirtualMemoryCalls calls;
  find("cuDeviceGet", calls.get_device);
  find("cuDeviceGetAttribute", calls.get_attribute);
  find("cuMemGetAllocationGranularity", calls.get_granularity);
  find("cuMemCreate", calls.create);
  find("cuMemRelease", calls.release);
  find("cuMemAddressReserve", calls.reserve);
  find("cuMemAddressFree", calls.free_address);
  find("cuMemMap", calls.map);
  find("cuMemUnmap", calls.unmap);
  find("cuMemSetAccess", calls.set_access);
  find("cuMemExportToShareableHandle", calls.export_handle);
  find("cuMemImportFromShareableHandle", calls.import_handle);
  return calls;
}

}  // namespace plait
