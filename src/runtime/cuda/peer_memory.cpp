// Making and mapping memory that GPUs share.
#include "runtime/cuda/peer_memory.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>

#include "base/error.hpp"
#include "runtime/cuda/driver.hpp"
#include "runtime/descriptor_exchange.hpp"

namespace plait {
namespace {

constexpr double kExchangeSeconds = 30;

// Undoes what was done, last first, when it ends.
class Cleanup {
 public:
  Cleanup() = default;
  Cleanup(Cleanup&&) = default;
  Cleanup& operator=(Cleanup&&) = delete;
  ~Cleanup() {
    while (!steps_.empty()) {
      steps_.back()();
      steps_.pop_back();
    }
  }
  void add(std::function<void()> step) { steps_.push_back(std::move(step)); }

 private:
  std::vector<std::function<void()>> steps_;
};

void clear(std::byte* memory, size_t bytes) {
  check_cuda(cudaMemset(memory, 0, bytes), "clearing memory for peers");
  check_cuda(cudaDeviceSynchronize(), "clearing memory for peers");
}

// ---- Memory that travels by descriptor (kVmm) ----

CUmemAllocationProp vmm_properties(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

size_t vmm_bytes(const VirtualMemoryCalls& calls, int device, size_t bytes) {
  const CUmemAllocationProp properties = vmm_properties(device);
  size_t granule = 0;
  check_driver(calls.get_granularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
               "asking for the granularity of memory");
  return (bytes + granule - 1) / granule * granule;
}

// Maps `handle` for `devices`; the mapping keeps the memory alive.
std::byte* map_vmm(const VirtualMemoryCalls& calls, CUmemGenericAllocationHandle handle, std::span<const int> devices,
                   size_t bytes, Cleanup& cleanup) {
  CUdeviceptr address = 0;
  check_driver(calls.reserve(&address, bytes, 0, 0, 0), "reserving addresses for a peer's memory");
  cleanup.add([calls, address, bytes] { calls.free_address(address, bytes); });
  check_driver(calls.map(address, bytes, 0, handle, 0), "mapping a peer's memory");
  cleanup.add([calls, address, bytes] { calls.unmap(address, bytes); });
  std::vector<CUmemAccessDesc> access;
  for (const int device : devices) {
    access.push_back({{CU_MEM_LOCATION_TYPE_DEVICE, {device}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  }
  check_driver(calls.set_access(address, bytes, access.data(), access.size()), "allowing access to a peer's memory");
  return reinterpret_cast<std::byte*>(address);
}

CUmemGenericAllocationHandle make_vmm(const VirtualMemoryCalls& calls, int device, size_t bytes, Cleanup& cleanup) {
  const CUmemAllocationProp properties = vmm_properties(device);
  CUmemGenericAllocationHandle handle = 0;
  check_driver(calls.create(&handle, bytes, &properties, 0), join("making ", bytes, " bytes of memory for peers"));
  cleanup.add([calls, handle] { calls.release(handle); });
  return handle;
}

// ---- Pinned host memory in a file without a name (kHost) ----

UniqueFd make_host_file(size_t bytes) {
  UniqueFd file(memfd_create("plait-gpu", MFD_CLOEXEC));
  if (!file) fail_system(errno, "cannot make a memory file");
  if (ftruncate(file.get(), static_cast<off_t>(bytes)) < 0)
    fail_system(errno, join("cannot give a memory file ", bytes, " bytes"));
  return file;
}

std::byte* map_host(int file, size_t bytes, Cleanup& cleanup) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) fail_system(errno, join("cannot map ", bytes, " bytes of memory for GPUs"));
  cleanup.add([memory, bytes] { munmap(memory, bytes); });
  check_cuda(cudaHostRegister(memory, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped),
             join("pinning ", bytes, " bytes of host memory"));
  cleanup.add([memory] { cudaHostUnregister(memory); });
  void* address = nullptr;
  check_cuda(cudaHostGetDevicePointer(&address, memory, 0), "addressing host memory from the GPU");
  return static_cast<std::byte*>(address);
}

// ---- What ranks tell each other ----

// Plain bytes of a fixed size, as the bootstrap carries them.
struct Offer {
  int32_t failure = -1;  // an ErrorCode; -1: none
  char reason[400] = {};
  cudaIpcMemHandle_t handle{};  // kIpc
  uint64_t pointer = 0;         // kIpc, for ranks of the same process
  int32_t device = 0;           // as its process numbers it
  int32_t process_id = 0;
  uint64_t process_namespace = 0;
  std::array<char, 16> uuid{};  // of the device
};

uint64_t process_namespace() {
  struct stat status{};
  return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

template <class Step>
void attempt(Offer& offer, Step step) {
  try {
    step();
  } catch (const Error& error) {
    offer.failure = static_cast<int32_t>(error.code());
    std::strncpy(offer.reason, error.what(), sizeof(offer.reason) - 1);
  }
}

std::array<char, 16> uuid_of(int device) {
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, device), join("reading the properties of device ", device));
  std::array<char, 16> uuid;
  std::copy_n(properties.uuid.bytes, uuid.size(), uuid.begin());
  return uuid;
}

// The ordinal of the device in this process; -1 where it is not visible.
int visible_device(const std::array<char, 16>& uuid) {
  const int count = cuda_device_count();
  for (int device = 0; device < count; ++device) {
    if (uuid_of(device) == uuid) return device;
  }
  return -1;
}

void enable_peer_access(int device, int peer) {
  if (device == peer) return;
  int possible = 0;
  check_cuda(cudaDeviceCanAccessPeer(&possible, device, peer), "asking for peer access");
  if (possible == 0) fail(ErrorCode::kResources, "device ", device, " cannot reach the memory of device ", peer);
  const DeviceGuard guard(device);
  const cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
  if (error == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();
    return;
  }
  check_cuda(error, join("letting device ", device, " reach device ", peer));
}

// Native atomics work over NVLink and not over PCIe.
bool joined_by_nvlink(int device, int peer) {
  if (peer < 0) return false;  // not visible here, so nothing is known
  if (device == peer) return true;
  int native = 0;
  if (cudaDeviceGetP2PAttribute(&native, cudaDevP2PAttrNativeAtomicSupported, device, peer) == cudaSuccess) {
    return native != 0;
  }
  cudaGetLastError();
  return false;
}

int most_on_one_device(const std::vector<std::array<char, 16>>& uuids) {
  std::ptrdiff_t most = 0;
  for (const auto& uuid : uuids) most = std::max(most, std::count(uuids.begin(), uuids.end(), uuid));
  return static_cast<int>(most);
}

std::vector<ReachKind> kinds_for(ReachKind wanted) {
  if (wanted != ReachKind::kAuto) return {wanted};
  return {ReachKind::kVmm, ReachKind::kIpc, ReachKind::kHost};
}

}  // namespace

struct PeerMemory::Impl {
  ReachKind kind = ReachKind::kAuto;
  int device = 0;
  bool keeps_lines_whole = false;
  int ranks_per_device = 1;
  std::vector<std::byte*> blocks;
  std::shared_ptr<Cleanup> own;     // of the memory itself; all ranks of one process hold it together
  std::unique_ptr<Cleanup> mapped;  // goes first
  ~Impl() {
    try {
      const DeviceGuard guard(device);
      mapped.reset();
      own.reset();
    } catch (const Error&) {  // the driver is gone, and the memory with it
    }
  }
};

namespace {

// One rank's attempt at one kind, over the bootstrap.
class Exchange {
 public:
  Exchange(Bootstrap& bootstrap, int device, size_t bytes) : bootstrap_(bootstrap), device_(device), bytes_(bytes) {}

  // The blocks by rank, or none where some rank failed: then `reason` says why.
  std::vector<std::byte*> run(ReachKind kind, Cleanup& own, Cleanup& mapped, std::string& reason) {
    Offer offer;
    offer.process_id = getpid();
    offer.process_namespace = process_namespace();
    offer.device = device_;
    attempt(offer, [&] { make(kind, offer, own); });
    all_ = bootstrap_.all_gather(offer);
    if (failed(reason)) return {};
    if (kind != ReachKind::kIpc) peers_ = exchange_descriptors(bootstrap_, descriptor_.get(), kExchangeSeconds);
    std::vector<std::byte*> blocks(all_.size());
    attempt(offer, [&] { map(kind, blocks, mapped); });
    all_ = bootstrap_.all_gather(offer);
    if (failed(reason)) return {};
    return blocks;
  }

  // Of the last exchange.
  int ranks_per_device() const {
    std::vector<std::array<char, 16>> uuids;
    for (const Offer& offer : all_) uuids.push_back(offer.uuid);
    return most_on_one_device(uuids);
  }
  bool joined_by_nvlink_to_all() const {
    return std::all_of(all_.begin(), all_.end(),
                       [&](const Offer& peer) { return joined_by_nvlink(device_, visible_device(peer.uuid)); });
  }

 private:
  void make(ReachKind kind, Offer& offer, Cleanup& own) {
    offer.uuid = uuid_of(device_);
    switch (kind) {
      case ReachKind::kVmm: {
        calls_ = VirtualMemoryCalls::load();
        mapped_bytes_ = vmm_bytes(calls_, device_, bytes_);
        const auto handle = make_vmm(calls_, device_, mapped_bytes_, own);
        own_ = map_vmm(calls_, handle, std::span(&device_, 1), mapped_bytes_, own);
        int descriptor = -1;
        check_driver(calls_.export_handle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                     "exporting memory for peers");
        descriptor_.reset(descriptor);
        break;
      }
      case ReachKind::kIpc: {
        void* memory = nullptr;
        check_cuda(cudaMalloc(&memory, bytes_), join("making ", bytes_, " bytes of memory for peers"));
        own.add([memory] { cudaFree(memory); });
        check_cuda(cudaIpcGetMemHandle(&offer.handle, memory), "exporting memory for peers");
        offer.pointer = reinterpret_cast<uint64_t>(memory);
        own_ = static_cast<std::byte*>(memory);
        break;
      }
      default:
        descriptor_ = make_host_file(bytes_);
        own_ = map_host(descriptor_.get(), bytes_, own);
        break;
    }
    clear(own_, bytes_);
  }

  void map(ReachKind kind, std::vector<std::byte*>& blocks, Cleanup& mapped) {
    for (int rank = 0; rank < bootstrap_.size(); ++rank) {
      blocks[rank] = rank == bootstrap_.rank() ? own_ : map_one(kind, rank, mapped);
    }
  }

  std::byte* map_one(ReachKind kind, int rank, Cleanup& mapped) {
    if (kind == ReachKind::kHost) return map_host(peers_[rank].get(), bytes_, mapped);
    if (kind == ReachKind::kVmm) {
      CUmemGenericAllocationHandle handle = 0;
      void* const descriptor = reinterpret_cast<void*>(static_cast<uintptr_t>(peers_[rank].get()));
      check_driver(calls_.import_handle(&handle, descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                   join("importing the memory of rank ", rank));
      mapped.add([calls = calls_, handle] { calls.release(handle); });
      return map_vmm(calls_, handle, std::span(&device_, 1), mapped_bytes_, mapped);
    }
    const Offer& theirs = all_[rank];
    const Offer& ours = all_[bootstrap_.rank()];
    if (theirs.process_id == ours.process_id && theirs.process_namespace == ours.process_namespace) {
      enable_peer_access(device_, theirs.device);
      return reinterpret_cast<std::byte*>(theirs.pointer);
    }
    void* memory = nullptr;
    check_cuda(cudaIpcOpenMemHandle(&memory, theirs.handle, cudaIpcMemLazyEnablePeerAccess),
               join("opening the memory of rank ", rank));
    mapped.add([memory] { cudaIpcCloseMemHandle(memory); });
    return static_cast<std::byte*>(memory);
  }

  bool failed(std::string& reason) const {
    for (size_t rank = 0; rank < all_.size(); ++rank) {
      if (all_[rank].failure < 0) continue;
      reason = join("rank ", rank, ": ", all_[rank].reason);
      return true;
    }
    return false;
  }

  Bootstrap& bootstrap_;
  const int device_;
  const size_t bytes_;
  size_t mapped_bytes_ = 0;
  VirtualMemoryCalls calls_;
  std::byte* own_ = nullptr;
  UniqueFd descriptor_;
  std::vector<UniqueFd> peers_;
  std::vector<Offer> all_;
};

// Every rank's block, for all devices, without any exchange.
std::vector<std::byte*> make_in_process(ReachKind kind, std::span<const int> devices, size_t bytes, Cleanup& cleanup) {
  std::vector<std::byte*> blocks;
  for (const int device : devices) {
    const DeviceGuard guard(device);
    if (kind == ReachKind::kVmm) {
      const VirtualMemoryCalls calls = VirtualMemoryCalls::load();
      std::vector<int> distinct(devices.begin(), devices.end());
      std::sort(distinct.begin(), distinct.end());
      distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
      for (const int other : distinct) {  // their contexts must exist
        const DeviceGuard there(other);
        check_cuda(cudaFree(nullptr), "starting CUDA");
      }
      const size_t mapped = vmm_bytes(calls, device, bytes);
      const auto handle = make_vmm(calls, device, mapped, cleanup);
      blocks.push_back(map_vmm(calls, handle, distinct, mapped, cleanup));
    } else if (kind == ReachKind::kIpc) {
      for (const int other : devices) enable_peer_access(other, device);
      void* memory = nullptr;
      check_cuda(cudaMalloc(&memory, bytes), join("making ", bytes, " bytes of memory for peers"));
      cleanup.add([memory] { cudaFree(memory); });
      blocks.push_back(static_cast<std::byte*>(memory));
    } else {
      void* memory = nullptr;
      check_cuda(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped),
                 join("pinning ", bytes, " bytes of host memory"));
      cleanup.add([memory] { cudaFreeHost(memory); });
      blocks.push_back(static_cast<std::byte*>(memory));
    }
    clear(blocks.back(), bytes);
  }
  return blocks;
}

[[noreturn]] void refuse(const std::vector<std::string>& reasons) {
  std::string text;
  for (const std::string& reason : reasons) text += (text.empty() ? "" : "; ") + reason;
  fail(ErrorCode::kResources, "the GPUs of these ranks cannot share memory (PLAIT_REACH chooses how): ", text);
}

}  // namespace

PeerMemory::PeerMemory(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PeerMemory::PeerMemory(PeerMemory&&) noexcept = default;
PeerMemory& PeerMemory::operator=(PeerMemory&&) noexcept = default;
PeerMemory::~PeerMemory() = default;

PeerMemory PeerMemory::create(Bootstrap& bootstrap, int device, size_t bytes, ReachKind wanted) {
  Offer ready;
  attempt(ready, [&] {
    const DeviceGuard guard(device);
    check_cuda(cudaFree(nullptr), join("starting CUDA on device ", device));
  });
  for (const Offer& offer : bootstrap.all_gather(ready)) {
    if (offer.failure >= 0) fail(static_cast<ErrorCode>(offer.failure), offer.reason);
  }
  const DeviceGuard guard(device);
  std::vector<std::string> reasons;
  for (const ReachKind kind : kinds_for(wanted)) {
    auto impl = std::make_unique<Impl>();
    impl->kind = kind;
    impl->device = device;
    impl->own = std::make_shared<Cleanup>();
    impl->mapped = std::make_unique<Cleanup>();
    Exchange exchange(bootstrap, device, bytes);
    std::string reason;
    impl->blocks = exchange.run(kind, *impl->own, *impl->mapped, reason);
    if (!impl->blocks.empty()) {
      const bool whole = kind != ReachKind::kHost && exchange.joined_by_nvlink_to_all();
      impl->ranks_per_device = exchange.ranks_per_device();
      const std::vector<uint8_t> votes = bootstrap.all_gather(static_cast<uint8_t>(whole));
      impl->keeps_lines_whole = std::all_of(votes.begin(), votes.end(), [](uint8_t vote) { return vote != 0; });
      return PeerMemory(std::move(impl));
    }
    reasons.push_back(join(name(kind), ": ", reason));
  }
  refuse(reasons);
}

std::vector<PeerMemory> PeerMemory::in_process(std::span<const int> devices, size_t bytes, ReachKind wanted) {
  std::vector<std::string> reasons;
  for (const ReachKind kind : kinds_for(wanted)) {
    const auto own = std::make_shared<Cleanup>();
    try {
      const std::vector<std::byte*> blocks = make_in_process(kind, devices, bytes, *own);
      bool whole = kind != ReachKind::kHost;
      for (const int a : devices) {
        for (const int b : devices) whole = whole && joined_by_nvlink(a, b);
      }
      std::vector<std::array<char, 16>> uuids;
      for (const int device : devices) uuids.push_back(uuid_of(device));
      std::vector<PeerMemory> ranks;
      for (const int device : devices) {
        auto impl = std::make_unique<Impl>();
        impl->kind = kind;
        impl->device = device;
        impl->keeps_lines_whole = whole;
        impl->ranks_per_device = most_on_one_device(uuids);
        impl->blocks = blocks;
        impl->own = own;
        ranks.push_back(PeerMemory(std::move(impl)));
      }
      return ranks;
    } catch (const Error& error) {
      reasons.push_back(join(name(kind), ": ", error.what()));
    }
  }
  refuse(reasons);
}

std::byte* PeerMemory::of(int rank) const { return impl_->blocks[static_cast<size_t>(rank)]; }
ReachKind PeerMemory::kind() const { return impl_->kind; }
int PeerMemory::device() const { return impl_->device; }
int PeerMemory::ranks_per_device() const { return impl_->ranks_per_device; }
bool PeerMemory::keeps_lines_whole() const { return impl_->keeps_lines_whole; }

}  // namespace plait
