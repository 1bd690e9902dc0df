// Kernels on a CPU: replaces what they need from CUDA, so that a host compiler can compile their source and the
// simulated GPU of simt_machine.hpp can run it. Include this before any kernel (*.cuh).
//
// Memory is sequentially consistent. But two words that are stored or loaded at once may be split, and either of them
// may come first, unless they belong to an LL128 line.
#pragma once

#include <cuda_runtime.h>
#include <math.h>  // isnan() and signbit() without a namespace, as kernels call them

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "support/simt_machine.hpp"

// ---- The language

// Kernels are static functions, so that their names differ from those that the library launches. __shared__ variables
// cannot be simulated and do not compile: kernels use ptx::shared_array() instead.
#undef __global__
#undef __device__
#undef __launch_bounds__
#undef __noinline__
#undef __grid_constant__
#undef __shared__
#define __global__ static
#define __device__
#define __launch_bounds__(...)
#define __noinline__
#define __grid_constant__
#define __builtin_assume(what)
#define threadIdx (::plait::test::Simt::indices().thread)
#define blockIdx (::plait::test::Simt::indices().block)
#define blockDim (::plait::test::Simt::indices().block_dim)
#define gridDim (::plait::test::Simt::indices().grid_dim)

using std::max;
using std::min;

// The location of a synchronisation: that of the call.
#define PLAIT_HERE ::plait::test::Simt::Location at = ::plait::test::Simt::Location::current()

inline bool __all_sync(unsigned, bool value, PLAIT_HERE) {
  const auto& votes = plait::test::Simt::vote_in_warp(value, at);
  for (unsigned i = 0; i < 32; ++i) {
    if ((votes.present >> i & 1) != 0 && votes.values[i] == 0) return false;
  }
  return true;
}
inline unsigned __ballot_sync(unsigned, bool value, PLAIT_HERE) {
  const auto& votes = plait::test::Simt::vote_in_warp(value, at);
  unsigned ballot = 0;
  for (unsigned i = 0; i < 32; ++i) ballot |= static_cast<unsigned>(votes.present >> i & votes.values[i]) << i;
  return ballot;
}
inline bool __any_sync(unsigned mask, bool value, PLAIT_HERE) { return __ballot_sync(mask, value, at) != 0; }
template <class T>
T __shfl_up_sync(unsigned, T value, unsigned by, PLAIT_HERE) {
  const auto& votes = plait::test::Simt::vote_in_warp(value, at);
  const unsigned lane = plait::test::Simt::lane();
  return static_cast<T>(votes.values[lane < by ? lane : lane - by]);
}
template <class T>
T __shfl_down_sync(unsigned, T value, unsigned by, PLAIT_HERE) {
  const auto& votes = plait::test::Simt::vote_in_warp(value, at);
  const unsigned lane = plait::test::Simt::lane();
  return static_cast<T>(votes.values[lane + by < 32 ? lane + by : lane]);
}
inline uint64_t __shfl_sync(unsigned, uint64_t value, int from, int width, PLAIT_HERE) {
  const unsigned first = plait::test::Simt::lane() / static_cast<unsigned>(width) * static_cast<unsigned>(width);
  return plait::test::Simt::vote_in_warp(value, at).values[first + static_cast<unsigned>(from % width)];
}
inline void __syncwarp(PLAIT_HERE) { plait::test::Simt::sync_warp(at); }
inline void __syncthreads(PLAIT_HERE) { plait::test::Simt::sync_cta(true, at); }
inline bool __syncthreads_and(bool value, PLAIT_HERE) { return plait::test::Simt::sync_cta(value, at); }
inline int __ffs(int bits) { return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned>(bits)) + 1; }
inline void __threadfence_system() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline int atomicCAS(int* address, int expected, int value) {
  std::atomic_ref(*address).compare_exchange_strong(expected, value, std::memory_order_relaxed);
  return expected;
}
inline unsigned atomicAdd(unsigned* address, unsigned value) {
  return std::atomic_ref(*address).fetch_add(value, std::memory_order_relaxed);
}

// ---- The counterpart of runtime/cuda/device/ptx.cuh

namespace plait::ptx {

inline auto word_at(const void* address) {
  return std::atomic_ref(*static_cast<uint64_t*>(const_cast<void*>(address)));
}
inline void store_relaxed(void* to, uint64_t value) { word_at(to).store(value, std::memory_order_relaxed); }
inline void store_release(void* to, uint64_t value) { word_at(to).store(value, std::memory_order_release); }
inline uint64_t load_relaxed(const void* from) { return word_at(from).load(std::memory_order_relaxed); }
inline uint64_t load_acquire(const void* from) { return word_at(from).load(std::memory_order_acquire); }
inline uint32_t load_relaxed(const uint32_t* from) {
  return std::atomic_ref(*const_cast<uint32_t*>(from)).load(std::memory_order_relaxed);
}
inline void store_relaxed(void* to, uint64_t low, uint64_t high) {
  test::Simt::in_any_order([=] { store_relaxed(to, low); },
                           [=] { store_relaxed(static_cast<uint64_t*>(to) + 1, high); });
}
inline void load_relaxed(const void* from, uint64_t& low, uint64_t& high) {
  test::Simt::in_any_order([&] { low = load_relaxed(from); },
                           [&] { high = load_relaxed(static_cast<const uint64_t*>(from) + 1); });
}
inline void store_pair(void* to, uint64_t low, uint64_t high) {
  store_relaxed(to, low);
  store_relaxed(static_cast<uint64_t*>(to) + 1, high);
}
inline void load_pair(const void* from, uint64_t& low, uint64_t& high) {
  low = load_relaxed(from);
  high = load_relaxed(static_cast<const uint64_t*>(from) + 1);
}
// The words of a line's last thread are stored last and loaded first.
inline void store_line(void* to, uint64_t low, uint64_t high, PLAIT_HERE) {
  const bool is_last = test::Simt::lane() % 8 == 7;
  if (!is_last) store_pair(to, low, high);
  test::Simt::sync_eight(at);
  if (is_last) store_pair(to, low, high);
}
inline void load_line(const void* from, uint64_t& low, uint64_t& high, PLAIT_HERE) {
  const bool is_last = test::Simt::lane() % 8 == 7;
  if (is_last) load_pair(from, low, high);
  test::Simt::sync_eight(at);
  if (!is_last) load_pair(from, low, high);
}
// The race detector sees only the bytes that are used.
template <class T>
[[gnu::noinline, gnu::no_sanitize("thread")]] T load_around(const T* from, unsigned first, unsigned last) {
  test::RaceDetector::touch(reinterpret_cast<const std::byte*>(from) + first, last - first,
                            test::RaceDetector::Kind::kLoad, __builtin_return_address(0));
  return *from;
}
inline void await_launch_before() { test::Simt::await_launch_before(); }
inline void let_next_launch_begin() { test::Simt::let_next_launch_begin(); }
inline void barrier_arrive(uint32_t barrier, uint32_t threads) { test::Simt::barrier_arrive(barrier, threads); }
inline void barrier_sync(uint32_t barrier, uint32_t threads) { test::Simt::barrier_sync(barrier, threads, true); }
template <int barrier>
bool barrier_and(bool vote, uint32_t threads) {
  return test::Simt::barrier_sync(barrier, threads, vote);
}
inline uint64_t nanoseconds_now() { return test::Simt::nanoseconds_now(); }
inline uint64_t cycles_now() { return test::Simt::nanoseconds_now(); }
inline int this_thread() { return static_cast<int>(threadIdx.x); }
template <class T, int count>
T* shared_array() {
  return test::Simt::shared_array<T, count>();
}

}  // namespace plait::ptx
