#include "runtime/cuda/memory/peer_block.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/error.hpp"
#include "base/memory_file.hpp"
#include "runtime/cuda/driver/cleared_memory.hpp"
#include "runtime/cuda/driver/driver.hpp"

namespace plait {
namespace {

// cudaMalloc hands out parts of pages of this size, and an exported handle opens whole pages. A block that consists of
// whole pages shares none with other memory of the process.
constexpr size_t kIpcPageBytes = size_t{2} << 20;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

std::string making(size_t bytes) { return join("making ", bytes, " bytes of memory for peers"); }

// ---- kVmm: memory that is shared by file descriptor ----

CUmemAllocationProp vmm_properties(int device, bool exported) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  if (exported) properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

void require_attribute(const VirtualMemoryCalls& calls, int device, CUdevice_attribute attribute, const char* what) {
  CUdevice handle = 0;
  int has = 0;
  check_driver(calls.get_device(&handle, device), "asking for the device");
  check_driver(calls.get_attribute(&has, attribute, handle), "asking what the device can do");
  if (has == 0) fail(ErrorCode::kResources, "device ", device, " has no ", what);
}

// Maps `handle` for kernels on `devices`. The mapping keeps the memory alive, even if the process that made it is gone.
std::byte* map_vmm(const VirtualMemoryCalls& calls, CUmemGenericAllocationHandle handle, std::span<const int> devices,
                   size_t bytes, Cleanup& cleanup) {
  CUdeviceptr address = 0;
  check_driver(calls.reserve(&address, bytes, 0, 0, 0), "reserving addresses for ", bytes, " bytes");
  cleanup.add([calls, address, bytes] { calls.free_address(address, bytes); });
  check_driver(calls.map(address, bytes, 0, handle, 0), "mapping memory for peers");
  cleanup.add([calls, address, bytes] { calls.unmap(address, bytes); });
  std::vector<CUmemAccessDesc> access(devices.size());
  for (size_t i = 0; i < devices.size(); ++i) {
    access[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access[i].location.id = devices[i];
    access[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  check_driver(calls.set_access(address, bytes, access.data(), access.size()), "allowing access to memory for peers");
  return reinterpret_cast<std::byte*>(address);
}

PeerBlock make_vmm(std::span<const int> devices, size_t bytes, bool exported, Cleanup& cleanup) {
  const VirtualMemoryCalls calls = VirtualMemoryCalls::load();
  const int device = devices[0];
  require_attribute(calls, device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                    "virtual memory management");
  if (exported) {
    require_attribute(calls, device, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                      "memory that is shared by file descriptor");
  }
  const CUmemAllocationProp properties = vmm_properties(device, exported);
  size_t granule = 0;
  check_driver(calls.get_granularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
               "asking for the granularity of memory");
  PeerBlock block;
  block.bytes = round_up(bytes, granule);
  CUmemGenericAllocationHandle handle = 0;
  check_driver(calls.create(&handle, block.bytes, &properties, 0), making(block.bytes));
  cleanup.add([calls, handle] { calls.release(handle); });
  std::vector<int> distinct(devices.begin(), devices.end());
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  block.address = map_vmm(calls, handle, distinct, block.bytes, cleanup);
  if (exported) {
    int descriptor = -1;
    check_driver(calls.export_handle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                 "exporting memory for peers");
    block.descriptor.reset(descriptor);
    if (!block.descriptor) fail_system(errno, "exporting memory for peers");
    ::fcntl(block.descriptor.get(), F_SETFD, FD_CLOEXEC);
  }
  return block;
}

// ---- kIpc: memory of cudaMalloc, opened by a handle ----

PeerBlock make_ipc(std::span<const int> devices, size_t bytes, bool exported, Cleanup& cleanup) {
  for (const int other : devices) enable_peer_access(other, devices[0]);
  PeerBlock block;
  block.bytes = round_up(bytes, kIpcPageBytes);
  void* memory = nullptr;
  check_cuda(cudaMalloc(&memory, block.bytes), making(block.bytes));
  cleanup.add([memory] { cudaFree(memory); });
  block.address = static_cast<std::byte*>(memory);
  if (exported) check_cuda(cudaIpcGetMemHandle(&block.handle, memory), "exporting memory for peers");
  return block;
}

// A process can map memory of another process only once. If the other process has freed a block and allocated the next
// one at the same place, a thread of this process may be just about to unmap the first.
cudaError_t open_ipc_memory(const cudaIpcMemHandle_t& handle, void*& memory) {
  constexpr auto kBetween = std::chrono::milliseconds(2);
  constexpr int kTries = 500;
  for (int tries = 1;; ++tries) {
    const cudaError_t error = cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess);
    if (error != cudaErrorAlreadyMapped || tries == kTries) return error;
    cudaGetLastError();  // handled by trying again
    std::this_thread::sleep_for(kBetween);
  }
}

// ---- kHost: pinned memory; between processes, in an anonymous file ----

PeerBlock make_host(size_t bytes, bool exported, Cleanup& cleanup) {
  PeerBlock block;
  block.bytes = round_up(bytes, static_cast<size_t>(::sysconf(_SC_PAGESIZE)));
  if (exported) {
    block.descriptor = make_memory_file("plait-gpu", block.bytes);
    if (!block.descriptor) fail_system(errno, join("cannot make a memory file of ", block.bytes, " bytes"));
    block.address = map_host_block(block.descriptor.get(), block.bytes, cleanup);
    return block;
  }
  void* memory = nullptr;
  check_cuda(cudaHostAlloc(&memory, block.bytes, cudaHostAllocPortable | cudaHostAllocMapped), "pinning ", block.bytes,
             " bytes of host memory");
  cleanup.add([memory] { cudaFreeHost(memory); });
  std::memset(memory, 0, block.bytes);
  block.address = static_cast<std::byte*>(memory);
  return block;
}

}  // namespace

Cleanup::~Cleanup() {
  while (!steps_.empty()) {
    steps_.back()();
    steps_.pop_back();
  }
}

PeerBlock make_peer_block(PeerMemoryKind kind, std::span<const int> devices, size_t bytes, bool exported,
                          Cleanup& cleanup) {
  if (kind == PeerMemoryKind::kHost) return make_host(bytes, exported, cleanup);  // already zeroed
  for (const int other : devices) require_peer_access(other, devices[0]);
  PeerBlock block = kind == PeerMemoryKind::kVmm ? make_vmm(devices, bytes, exported, cleanup)
                                                 : make_ipc(devices, bytes, exported, cleanup);
  clear_memory(block.address, block.bytes);
  return block;
}

std::byte* map_vmm_block(int device, int descriptor, size_t bytes, Cleanup& cleanup) {
  const VirtualMemoryCalls calls = VirtualMemoryCalls::load();
  CUmemGenericAllocationHandle handle = 0;
  void* const number = reinterpret_cast<void*>(static_cast<uintptr_t>(descriptor));
  check_driver(calls.import_handle(&handle, number, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), "importing memory");
  cleanup.add([calls, handle] { calls.release(handle); });
  return map_vmm(calls, handle, std::span(&device, 1), bytes, cleanup);
}

std::byte* map_ipc_block(const cudaIpcMemHandle_t& handle, Cleanup& cleanup) {
  void* memory = nullptr;
  check_cuda(open_ipc_memory(handle, memory), "opening memory");
  cleanup.add([memory] { cudaIpcCloseMemHandle(memory); });
  return static_cast<std::byte*>(memory);
}

std::byte* map_host_block(int descriptor, size_t bytes, Cleanup& cleanup) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) fail_system(errno, join("cannot map ", bytes, " bytes of memory for GPUs"));
  cleanup.add([memory, bytes] { ::munmap(memory, bytes); });
  check_cuda(cudaHostRegister(memory, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped), "pinning ", bytes,
             " bytes of host memory");
  cleanup.add([memory] { cudaHostUnregister(memory); });
  void* address = nullptr;
  check_cuda(cudaHostGetDevicePointer(&address, memory, 0), "addressing host memory from the GPU");
  return static_cast<std::byte*>(address);
}

void require_peer_access(int device, int peer) {
  if (device == peer) return;
  int possible = 0;
  check_cuda(cudaDeviceCanAccessPeer(&possible, device, peer), "asking for peer access");
  if (possible == 0) fail(ErrorCode::kResources, "device ", device, " has no peer access to device ", peer);
}

void enable_peer_access(int device, int peer) {
  if (device == peer) return;
  require_peer_access(device, peer);
  const DeviceGuard guard(device);
  const cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
  if (error == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();
    return;
  }
  check_cuda(error, "letting device ", device, " reach device ", peer);
}

}  // namespace plait
