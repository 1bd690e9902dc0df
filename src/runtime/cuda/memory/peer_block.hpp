// Makes one rank's memory for its peers, and maps it, by each kind of peer memory. peer_memory.hpp decides who maps
// which block, and lets the ranks agree on a kind.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "base/settings.hpp"
#include "base/unique_fd.hpp"

namespace plait {

// Undoes steps when it is destroyed, the last one first.
class Cleanup {
 public:
  Cleanup() = default;
  ~Cleanup();
  Cleanup(const Cleanup&) = delete;
  Cleanup& operator=(const Cleanup&) = delete;
  void add(std::function<void()> step) { steps_.push_back(std::move(step)); }

 private:
  std::vector<std::function<void()>> steps_;
};

struct PeerBlock {
  std::byte* address = nullptr;
  size_t bytes = 0;                // at least the size asked for: memory comes in pages
  UniqueFd descriptor;             // of an exported block, kVmm and kHost
  cudaIpcMemHandle_t handle = {};  // of an exported block, kIpc
};

// For all functions, the rank's device is current. Their errors (kSystem, kResources) say which step failed, and
// `cleanup` then holds what was done before it.

// Makes zeroed memory that kernels on all of `devices` may use: on devices[0], or in host memory for kHost. Other
// processes can map a block only if it is exported.
PeerBlock make_peer_block(PeerMemoryKind kind, std::span<const int> devices, size_t bytes, bool exported,
                          Cleanup& cleanup);

// Maps another rank's block for kernels on `device`, and returns its address.
std::byte* map_vmm_block(int device, int descriptor, size_t bytes, Cleanup& cleanup);
std::byte* map_ipc_block(const cudaIpcMemHandle_t& handle, Cleanup& cleanup);
std::byte* map_host_block(int descriptor, size_t bytes, Cleanup& cleanup);

// Throws kResources if kernels on `device` cannot access memory of `peer`, another device that this process sees.
void require_peer_access(int device, int peer);
// The same, and enables access to everything that cudaMalloc makes on `peer`.
void enable_peer_access(int device, int peer);

}  // namespace plait
