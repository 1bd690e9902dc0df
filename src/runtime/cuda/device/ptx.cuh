// The PTX instructions that kernels use. Without nvcc, whoever compiles a kernel has to supply these functions, as the
// tests that run kernels on a CPU do (tests/support/simt.hpp).
#pragma once

#include <cstdint>

#ifdef __CUDACC__
namespace plait::ptx {

// Loads and stores of words that other GPUs write or read at the same time. They have system scope, since the peers are
// other devices.
//
// Two rules order memory between GPUs. The arrival of data is published by a store with release and observed by a load
// with acquire. The reuse of memory, once everything there has been read, is allowed by a relaxed store after a barrier
// of the CTA. A relaxed store is enough for two reasons only. By the barrier the value of every earlier load has been
// used, stored or combined. And the data that the loads read was released, so it had arrived. PTX does not order the
// store after loads whose values have not been used. No test would notice a load that was moved down past the store.
// The race detector checks that kernels keep to these rules (tests/support/race_detector.hpp).
__device__ inline void store_release(void* to, uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}
__device__ inline void store_relaxed(void* to, uint64_t value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}
__device__ inline uint64_t load_acquire(const void* from) {
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}
__device__ inline uint32_t load_relaxed(const uint32_t* from) {
  uint32_t value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

// Two words at once, each of which is single-copy atomic.
__device__ inline void store_relaxed(void* to, uint64_t low, uint64_t high) {
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(low), "l"(high) : "memory");
}
__device__ inline void load_relaxed(const void* from, uint64_t& low, uint64_t& high) {
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(low), "=l"(high) : "l"(from) : "memory");
}

// The same for eight neighbouring threads of a warp at once: their 128 bytes arrive, or are seen, as one unit
// (ll128.cuh says on which links).
__device__ inline void store_line(void* to, uint64_t low, uint64_t high) { store_relaxed(to, low, high); }
__device__ inline void load_line(const void* from, uint64_t& low, uint64_t& high) { load_relaxed(from, low, high); }

// Loads a vector or a word of which only bytes `first` to `last` are used. Another thread may store to the others at
// the same time.
template <class T>
__device__ T load_around(const T* from, unsigned /*first*/, unsigned /*last*/) {
  return *from;
}

// Waits, in a kernel launched with PDL (pdl.hpp), until all earlier work of the stream is done and its stores are
// visible.
__device__ inline void await_launch_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// Lets the next kernel of the stream start, once a thread of every CTA has called this or the CTA has ended.
__device__ inline void let_next_launch_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Named barriers of a CTA, 1 to 15. A barrier completes when `threads` threads, in whole warps, have arrived or synced.
// barrier_arrive() does not wait for that.
__device__ inline void barrier_arrive(uint32_t barrier, uint32_t threads) {
  asm volatile("barrier.cta.arrive.aligned %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ inline void barrier_sync(uint32_t barrier, uint32_t threads) {
  asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
// As barrier_sync(); returns whether `vote` is true for all threads.
template <int barrier>
__device__ bool barrier_and(bool vote, uint32_t threads) {
  uint32_t all;
  asm volatile(
      "{\n"
      "  .reg .pred mine, all;\n"
      "  setp.ne.u32 mine, %1, 0;\n"
      "  barrier.cta.red.and.aligned.pred all, %2, %3, mine;\n"
      "  selp.u32 %0, 1, 0, all;\n"
      "}"
      : "=r"(all)
      : "r"(static_cast<uint32_t>(vote)), "n"(barrier), "r"(threads)
      : "memory");
  return all != 0;
}

__device__ inline uint64_t nanoseconds_now() {
  uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

__device__ inline uint64_t cycles_now() { return static_cast<uint64_t>(clock64()); }

// threadIdx.x, for use after the first store or on rare paths. It is volatile, so that the compiler does not compute
// what depends on it at the start of the launch, where that would delay the first store.
__device__ inline int this_thread() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

// An array in shared memory. A kernel that asks again for the same type and count gets the same array.
template <class T, int count>
__device__ inline T* shared_array() {
  __shared__ T array[count];
  return array;
}

}  // namespace plait::ptx
#endif
