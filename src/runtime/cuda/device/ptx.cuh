// What kernels ask of the machine in PTX. Where no GPU compiles them, who does has to bring these along, as tests do
// that run kernels on a CPU (tests/support/simt.hpp).
#pragma once

#include <cstdint>

#ifdef __CUDACC__
namespace plait::ptx {

// Loads and stores of words that other GPUs write or read meanwhile. System scope, since the peers are other devices.
//
// Two rules order memory between GPUs. That data is there says a word that is stored with release and loaded with
// acquire. That memory may be written again, since all has been read that was there, says a relaxed store after a
// barrier of the CTA: that is enough only because the value of every load before the barrier has been used by then
// (stored, or combined), and because what had been stored there was released, so that it has come. PTX does not promise
// it of loads whose values are still on their way: one that is moved down past such a store breaks it, and no test
// would see that. That kernels keep to these rules, the race detector sees (tests/support/race_detector.hpp).
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

// The same for eight neighbouring threads of a warp, which do it together: their 128 bytes arrive, or are seen, as one
// (ll128.cuh says where).
__device__ inline void store_line(void* to, uint64_t low, uint64_t high) { store_relaxed(to, low, high); }
__device__ inline void load_line(const void* from, uint64_t& low, uint64_t& high) { load_relaxed(from, low, high); }

// A vector or a word of which only bytes `first` to `last` are wanted: others may be somebody else's, who stores them
// meanwhile.
template <class T>
__device__ T load_around(const T* from, unsigned /*first*/, unsigned /*last*/) {
  return *from;
}

// Of kernels that are launched early (pdl.hpp): all that came before on the stream is over, and seen.
__device__ inline void await_launch_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// The next kernel of the stream may be put on the GPU, once a thread of every CTA has come here, or the CTA has ended.
__device__ inline void let_next_launch_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Named barriers of a CTA, 1 to 15: one is over when so many threads have come to it, of warps that come as one.
// Whoever arrives does not wait for that.
__device__ inline void barrier_arrive(uint32_t barrier, uint32_t threads) {
  asm volatile("barrier.cta.arrive.aligned %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ inline void barrier_sync(uint32_t barrier, uint32_t threads) {
  asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
// Whether `vote` is true for all of them.
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

// threadIdx.x, for what comes after the first store, or seldom: volatile, so that the compiler does not compute all
// that follows from it at the start of the launch, where nothing else can be done meanwhile.
__device__ inline int this_thread() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

// An array in memory that the threads of a CTA share: the same one wherever a kernel asks for as many of a type.
template <class T, int count>
__device__ inline T* shared_array() {
  __shared__ T array[count];
  return array;
}

}  // namespace plait::ptx
#endif
