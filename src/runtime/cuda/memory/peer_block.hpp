// One rank's memory for its peers: made and mapped in each of the ways that GPUs have to reach it. Who maps whose, and
// what all agree on, is peer_memory.hpp's.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "base/settings.hpp"
#include "base/unique_fd.hpp"

namespace plait {

// Undoes what was done, last first, when it ends.
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
  size_t bytes = 0;                // at least what was asked for: memory comes in pages
  UniqueFd descriptor;             // exported, kVmm and kHost
  cudaIpcMemHandle_t handle = {};  // exported, kIpc
};

// All functions: the rank's device is current; what they throw (kSystem, kResources) says which step failed; what they
// did until then is in `cleanup`.

// Memory full of zeros on devices[0], in host memory for kHost, that kernels on all of `devices` may use. Only an
// exported block can be mapped by other processes.
PeerBlock make_peer_block(PeerMemoryKind kind, std::span<const int> devices, size_t bytes, bool exported,
                          Cleanup& cleanup);

// The address of another rank's block for kernels on `device`.
std::byte* map_vmm_block(int device, int descriptor, size_t bytes, Cleanup& cleanup);
std::byte* map_ipc_block(const cudaIpcMemHandle_t& handle, Cleanup& cleanup);
std::byte* map_host_block(int descriptor, size_t bytes, Cleanup& cleanup);

// kResources where kernels on `device` cannot reach memory of `peer`, another device that this process sees.
void require_peer_access(int device, int peer);
// The same, and lets them reach all that is made there with cudaMalloc.
void enable_peer_access(int device, int peer);

}  // namespace plait
