// How ranks map each other's memory, and how they agree on one kind of peer memory.
//
// Each step that can fail is a collective one (runtime/collective_step.hpp). So all ranks take the same kind, or all
// throw the same error. In between, ranks wait for each other only in the bootstrap, whose waits are bounded.
#include "runtime/cuda/memory/peer_memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <climits>
#include <cstring>
#include <functional>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "base/process.hpp"
#include "runtime/collective_step.hpp"
#include "runtime/cuda/driver/driver.hpp"
#include "runtime/cuda/memory/peer_block.hpp"

namespace plait {
namespace {

// The block of a rank, as other ranks of its process share it: they use its pointer, and keep it alive until the last
// of them is done. A rank that gives up resets it, and those that come later do not get it.
struct Shared {
  std::mutex mutex;
  std::shared_ptr<Cleanup> block;
};

// The data that ranks exchange: plain bytes of a fixed size, as the bootstrap needs. Every exchange begins with the
// result of the step before it.
struct WantedMemory : StepResult {
  PeerMemoryKind wanted = PeerMemoryKind::kAuto;
  uint64_t bytes = 0;
};

struct SharedBlock : StepResult {
  uint64_t bytes = 0;           // of the block: whole pages
  cudaIpcMemHandle_t handle{};  // kIpc
  uint64_t pointer = 0;         // kIpc, for ranks of the same process: the block's address
  uint64_t shared = 0;          // likewise: the address of its Shared
  int32_t sm_count = 0;         // of the device
  int32_t architecture = 0;     // of the device
  int32_t device = 0;           // as its process numbers it
  int32_t process_id = 0;
  uint64_t process_namespace = 0;
  std::array<char, 16> uuid{};  // of the device, the same in all processes
};

// The name of this rank in the words of its failures.
std::string own_name(const Bootstrap& bootstrap, int device) {
  return join("rank ", bootstrap.rank(), " on device ", device);
}

std::array<char, 16> uuid_of(int device) {
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, device), "reading the properties of device ", device);
  std::array<char, 16> uuid;
  std::copy_n(properties.uuid.bytes, uuid.size(), uuid.begin());
  return uuid;
}

// The device's ordinal in this process; -1: this process does not see it.
int visible_device(const std::array<char, 16>& uuid) {
  const int count = cuda_device_count();
  for (int device = 0; device < count; ++device) {
    if (uuid_of(device) == uuid) return device;
  }
  return -1;
}

// Whether two devices are the same, or joined by NVLink: native atomics work over NVLink but not over PCIe.
bool joined_by_nvlink(int device, int peer) {
  if (peer < 0) return false;  // not visible in this process, so unknown
  if (device == peer) return true;
  int native = 0;
  if (cudaDeviceGetP2PAttribute(&native, cudaDevP2PAttrNativeAtomicSupported, device, peer) == cudaSuccess) {
    return native != 0;
  }
  cudaGetLastError();
  return false;
}

int sm_count_of(int device) {
  int count = 0;
  check_cuda(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "asking for the number of SMs");
  return count;
}

int architecture_of(int device) {
  int major = 0, minor = 0;
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "asking for the architecture");
  check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "asking for the architecture");
  return major * 10 + minor;
}

// The architecture that all have in common; 0 if they differ.
int common_to(const std::vector<int>& architectures) {
  const bool alike =
      std::adjacent_find(architectures.begin(), architectures.end(), std::not_equal_to<>()) == architectures.end();
  return alike && !architectures.empty() ? architectures.front() : 0;
}

void start_cuda(int device) {
  const DeviceGuard guard(device);
  check_cuda(cudaFree(nullptr), "starting CUDA on device ", device);
}

int most_on_one_device(const std::vector<std::array<char, 16>>& uuids) {
  std::ptrdiff_t most = 0;
  for (const auto& uuid : uuids) most = std::max(most, std::count(uuids.begin(), uuids.end(), uuid));
  return static_cast<int>(most);
}

std::vector<PeerMemoryKind> kinds_for(PeerMemoryKind wanted) {
  if (wanted != PeerMemoryKind::kAuto) return {wanted};
  return {PeerMemoryKind::kVmm, PeerMemoryKind::kIpc, PeerMemoryKind::kHost};
}

// CUDA IPC is tried twice. A rank that ended a communicator while calls were under way may still have another rank's
// old memory mapped (free_when_idle.hpp), and then cannot map new memory that lies at the same place.
std::vector<PeerMemoryKind> tries_of(PeerMemoryKind wanted) {
  std::vector<PeerMemoryKind> kinds = kinds_for(wanted);
  const auto ipc = std::find(kinds.begin(), kinds.end(), PeerMemoryKind::kIpc);
  if (ipc != kinds.end()) kinds.insert(ipc, PeerMemoryKind::kIpc);
  return kinds;
}

}  // namespace

struct PeerMemory::Impl {
  PeerMemoryKind kind = PeerMemoryKind::kAuto;
  int device = 0;
  std::vector<int> devices;  // by rank
  size_t bytes = 0;
  bool supports_ll128 = false;
  int ranks_per_device = 1;
  int sm_count = 0;
  int architecture = 0;
  std::vector<std::byte*> blocks;
  std::shared_ptr<Cleanup> own;     // frees the memory itself; the ranks of one process share it
  std::unique_ptr<Cleanup> mapped;  // undoes the mappings; runs first
  ~Impl() {
    const RelaxedCapture relaxed;
    try {
      const DeviceGuard guard(device);
      mapped.reset();
      own.reset();
    } catch (const Error&) {  // the driver has shut down, and the memory is gone
    }
  }
};

namespace {

// One rank's part in an attempt at one kind, over the bootstrap.
class BlockExchange {
 public:
  BlockExchange(Bootstrap& bootstrap, int device, size_t bytes)
      : bootstrap_(bootstrap), device_(device), bytes_(bytes) {}
  BlockExchange(const BlockExchange&) = delete;
  BlockExchange& operator=(const BlockExchange&) = delete;
  ~BlockExchange() {
    if (!others_may_look_) return;
    // After an exception, other ranks of this process may still hold the address of this object: a few bytes leak.
    Shared* const left = shared_.release();
    const std::scoped_lock lock(left->mutex);
    left->block.reset();
  }

  // The blocks by rank; none if some rank failed, and then `reason` says why.
  std::vector<std::byte*> run(PeerMemoryKind kind, const std::shared_ptr<Cleanup>& own, Cleanup& mapped,
                              std::string& reason) {
    SharedBlock block;
    block.process_id = getpid();
    block.process_namespace = own_process_namespace();
    block.device = device_;
    try_step(block, own_name(bootstrap_, device_), [&] { make(kind, block, own); });
    others_may_look_ = true;
    all_ = bootstrap_.all_gather(block);
    if (failed(reason)) return {};
    if (kind != PeerMemoryKind::kIpc) peers_ = bootstrap_.all_gather_descriptors(own_.descriptor.get());
    std::vector<std::byte*> blocks(all_.size());
    StepResult mapping;
    try_step(mapping, own_name(bootstrap_, device_), [&] { map(kind, blocks, mapped); });
    const std::vector<StepResult> mappings = bootstrap_.all_gather(mapping);
    others_may_look_ = false;
    if (const StepResult* failure = first_failure(mappings)) {
      reason = failure->reason;
      return {};
    }
    return blocks;
  }

  // These are known after run().
  int fewest_sms() const {
    return std::min_element(all_.begin(), all_.end(), [](auto& a, auto& b) { return a.sm_count < b.sm_count; })
        ->sm_count;
  }
  int architecture() const {
    std::vector<int> architectures;
    for (const SharedBlock& block : all_) architectures.push_back(block.architecture);
    return common_to(architectures);
  }
  std::vector<int> devices() const {
    std::vector<int> devices;
    for (const SharedBlock& block : all_) devices.push_back(visible_device(block.uuid));
    return devices;
  }
  int ranks_per_device() const {
    std::vector<std::array<char, 16>> uuids;
    for (const SharedBlock& block : all_) uuids.push_back(block.uuid);
    return most_on_one_device(uuids);
  }
  bool joined_by_nvlink_to_all() const {
    return std::all_of(all_.begin(), all_.end(),
                       [&](const SharedBlock& peer) { return joined_by_nvlink(device_, visible_device(peer.uuid)); });
  }

 private:
  void make(PeerMemoryKind kind, SharedBlock& block, const std::shared_ptr<Cleanup>& own) {
    block.uuid = uuid_of(device_);
    block.sm_count = sm_count_of(device_);
    block.architecture = architecture_of(device_);
    own_ = make_peer_block(kind, std::span(&device_, 1), bytes_, true, *own);
    shared_->block = own;
    block.bytes = own_.bytes;
    block.handle = own_.handle;
    block.pointer = reinterpret_cast<uint64_t>(own_.address);
    block.shared = reinterpret_cast<uint64_t>(shared_.get());
  }

  void map(PeerMemoryKind kind, std::vector<std::byte*>& blocks, Cleanup& mapped) {
    for (int rank = 0; rank < bootstrap_.size(); ++rank) {
      try {
        blocks[rank] = rank == bootstrap_.rank() ? own_.address : map_one(kind, rank, mapped);
      } catch (const Error& error) {
        fail(error.code(), "mapping the memory of rank ", rank, ": ", error.what());
      }
    }
  }

  std::byte* map_one(PeerMemoryKind kind, int rank, Cleanup& mapped) {
    const SharedBlock& theirs = all_[rank];
    if (kind == PeerMemoryKind::kHost) return map_host_block(peers_[rank].get(), theirs.bytes, mapped);
    // A device that this process does not see may be accessible all the same; mapping its memory will tell.
    const int device = visible_device(theirs.uuid);
    if (device >= 0) require_peer_access(device_, device);
    if (kind == PeerMemoryKind::kVmm) return map_vmm_block(device_, peers_[rank].get(), theirs.bytes, mapped);
    return is_in_this_process(theirs) ? share_block(theirs, mapped) : map_ipc_block(theirs.handle, mapped);
  }

  bool is_in_this_process(const SharedBlock& theirs) const {
    const SharedBlock& ours = all_[bootstrap_.rank()];
    return theirs.process_id == ours.process_id && theirs.process_namespace == ours.process_namespace;
  }

  // A process cannot open a handle that it exported itself, and does not need to.
  std::byte* share_block(const SharedBlock& theirs, Cleanup& mapped) {
    enable_peer_access(device_, theirs.device);
    Shared& shared = *reinterpret_cast<Shared*>(theirs.shared);
    const std::scoped_lock lock(shared.mutex);
    if (!shared.block) fail(ErrorCode::kPeerFailed, "it has given up");
    mapped.add([keep = shared.block] {});
    return reinterpret_cast<std::byte*>(theirs.pointer);
  }

  bool failed(std::string& reason) {
    const SharedBlock* failure = first_failure(all_);
    if (failure == nullptr) return false;
    others_may_look_ = false;  // no rank maps anything
    reason = failure->reason;
    return true;
  }

  Bootstrap& bootstrap_;
  const int device_;
  const size_t bytes_;
  PeerBlock own_;
  std::unique_ptr<Shared> shared_ = std::make_unique<Shared>();
  bool others_may_look_ = false;  // other ranks may be using shared_
  std::vector<UniqueFd> peers_;
  std::vector<SharedBlock> all_;
};

// Makes every rank's block, for use on all devices; there is nothing to exchange.
std::vector<std::byte*> make_in_process(PeerMemoryKind kind, std::span<const int> devices, size_t bytes,
                                        Cleanup& cleanup) {
  std::vector<std::byte*> blocks;
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    // The device that holds the block comes first.
    std::vector<int> users(devices.begin(), devices.end());
    std::rotate(users.begin(), users.begin() + static_cast<std::ptrdiff_t>(rank), users.end());
    const DeviceGuard guard(devices[rank]);
    try {
      blocks.push_back(make_peer_block(kind, users, bytes, false, cleanup).address);
    } catch (const Error& error) {
      fail(error.code(), "rank ", rank, " on device ", devices[rank], ": ", error.what());
    }
  }
  return blocks;
}

void check_bytes(size_t bytes) {
  if (bytes == 0) fail(ErrorCode::kInvalidArgument, "peer memory of 0 bytes");
}

// Checks that every rank can use its device and that all want the same. Otherwise throws on all ranks alike.
void agree_to_start(Bootstrap& bootstrap, int device, size_t bytes, PeerMemoryKind wanted) {
  WantedMemory own;
  own.wanted = wanted;
  own.bytes = bytes;
  try_step(own, own_name(bootstrap, device), [&] {
    check_bytes(bytes);
    start_cuda(device);
  });
  const std::vector<WantedMemory> all = bootstrap.all_gather(own);
  throw_first_failure(all);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank].wanted == all[0].wanted && all[rank].bytes == all[0].bytes) continue;
    fail(ErrorCode::kMismatch, "rank ", rank, " has PLAIT_PEER_MEMORY=", name(all[rank].wanted), " and ",
         all[rank].bytes, " bytes of memory for peers, rank 0 ", name(all[0].wanted), " and ", all[0].bytes,
         "; give all ranks the same settings");
  }
}

[[noreturn]] void refuse(PeerMemoryKind wanted, const std::vector<std::string>& reasons) {
  std::string text;
  for (const std::string& reason : reasons) text += (text.empty() ? "" : "; ") + reason;
  fail(ErrorCode::kResources, "the GPUs of these ranks cannot share memory (PLAIT_PEER_MEMORY=", name(wanted),
       "): ", text, wanted == PeerMemoryKind::kAuto ? "" : "; PLAIT_PEER_MEMORY=auto takes what works");
}

}  // namespace

PeerMemory::PeerMemory(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PeerMemory::PeerMemory(PeerMemory&&) noexcept = default;
PeerMemory& PeerMemory::operator=(PeerMemory&&) noexcept = default;
PeerMemory::~PeerMemory() = default;

GpuIdentity identity_of(int device) {
  GpuIdentity identity;
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, device), "reading the properties of device ", device);
  check_cuda(cudaDeviceGetPCIBusId(identity.bus_id, sizeof identity.bus_id, device), "reading the bus id of device ",
             device);
  std::copy_n(properties.name, std::min(std::size(properties.name), sizeof identity.model) - 1, identity.model);
  for (char& letter : identity.bus_id) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return identity;
}

PeerMemory PeerMemory::create(Bootstrap& bootstrap, int device, size_t bytes, PeerMemoryKind wanted) {
  const RelaxedCapture relaxed;
  agree_to_start(bootstrap, device, bytes, wanted);
  const DeviceGuard guard(device);
  std::vector<std::string> reasons;
  std::unique_ptr<Impl> before;  // of the previous attempt: it keeps its memory, so that new memory lies elsewhere
  for (const PeerMemoryKind kind : tries_of(wanted)) {
    auto impl = std::make_unique<Impl>();
    impl->kind = kind;
    impl->device = device;
    impl->bytes = bytes;
    impl->own = std::make_shared<Cleanup>();
    impl->mapped = std::make_unique<Cleanup>();
    BlockExchange exchange(bootstrap, device, bytes);
    std::string reason;
    impl->blocks = exchange.run(kind, impl->own, *impl->mapped, reason);
    if (!impl->blocks.empty()) {
      const bool nvlink = kind != PeerMemoryKind::kHost && exchange.joined_by_nvlink_to_all();
      impl->devices = exchange.devices();
      impl->ranks_per_device = exchange.ranks_per_device();
      impl->sm_count = exchange.fewest_sms();
      impl->architecture = exchange.architecture();
      const std::vector<uint8_t> votes = bootstrap.all_gather(static_cast<uint8_t>(nvlink));
      impl->supports_ll128 = std::all_of(votes.begin(), votes.end(), [](uint8_t vote) { return vote != 0; });
      return PeerMemory(std::move(impl));
    }
    if (before && before->kind == kind) reasons.pop_back();
    reasons.push_back(join(name(kind), ": ", reason));
    impl->mapped.reset();
    bootstrap.barrier();  // no rank frees memory that another one still maps
    before = std::move(impl);
  }
  refuse(wanted, reasons);
}

std::vector<PeerMemory> PeerMemory::in_process(std::span<const int> devices, size_t bytes, PeerMemoryKind wanted) {
  const RelaxedCapture relaxed;
  check_bytes(bytes);
  for (const int device : devices) start_cuda(device);
  std::vector<std::string> reasons;
  for (const PeerMemoryKind kind : kinds_for(wanted)) {
    const auto own = std::make_shared<Cleanup>();
    try {
      const std::vector<std::byte*> blocks = make_in_process(kind, devices, bytes, *own);
      bool nvlink = kind != PeerMemoryKind::kHost;
      for (const int a : devices) {
        for (const int b : devices) nvlink = nvlink && joined_by_nvlink(a, b);
      }
      std::vector<std::array<char, 16>> uuids;
      std::vector<int> architectures;
      int sm_count = INT_MAX;
      for (const int device : devices) {
        uuids.push_back(uuid_of(device));
        architectures.push_back(architecture_of(device));
        sm_count = std::min(sm_count, sm_count_of(device));
      }
      std::vector<PeerMemory> ranks;
      for (const int device : devices) {
        auto impl = std::make_unique<Impl>();
        impl->kind = kind;
        impl->device = device;
        impl->devices.assign(devices.begin(), devices.end());
        impl->bytes = bytes;
        impl->supports_ll128 = nvlink;
        impl->ranks_per_device = most_on_one_device(uuids);
        impl->sm_count = sm_count;
        impl->architecture = common_to(architectures);
        impl->blocks = blocks;
        impl->own = own;
        ranks.push_back(PeerMemory(std::move(impl)));
      }
      return ranks;
    } catch (const Error& error) {
      reasons.push_back(join(name(kind), ": ", error.what()));
    }
  }
  refuse(wanted, reasons);
}

std::byte* PeerMemory::of(int rank) const { return impl_->blocks[static_cast<size_t>(rank)]; }
PeerMemoryKind PeerMemory::kind() const { return impl_->kind; }
size_t PeerMemory::bytes() const { return impl_->bytes; }
int PeerMemory::device() const { return impl_->device; }
int PeerMemory::device_of(int rank) const { return impl_->devices[static_cast<size_t>(rank)]; }
int PeerMemory::ranks_per_device() const { return impl_->ranks_per_device; }
int PeerMemory::sm_count() const { return impl_->sm_count; }
int PeerMemory::architecture() const { return impl_->architecture; }
bool PeerMemory::supports_ll128() const { return impl_->supports_ll128; }

}  // namespace plait
