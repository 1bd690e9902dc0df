// Performs operations with the Simple protocol: flags are separate from the data. Full bandwidth, any plan.
//
// Ordering, per CTA: a run of signals is a barrier of the CTA, then a release store at system scope by one thread for
// each flag. So every thread's earlier stores are visible to a thread that acquires the flag. A run of waits is an
// acquire load by one thread for each flag, then a barrier. Nothing weaker is right, since all threads of one CTA write
// the data and all threads of another read it. (Memory that may be reused is announced in another way, see ptx.cuh.)
#pragma once

#include "runtime/cuda/device/combine_vectors.cuh"
#include "runtime/cuda/kernels/channel.cuh"

namespace plait {

// `is_aligned`: all places are multiples of a vector's size. Else some are not, as a rule only in user buffers.
template <DataType type, bool is_aligned, class LaunchArgument = SimpleLaunch>
class SimplePrimitives {
 public:
  using Room = typename LaunchArgument::Room;
  using ItsChannel = ChannelIn<Room>;
  using Vector = Pack<type, uint4>;
  using Storage = typename Vector::Storage;
  using Accumulator = typename Vector::Accumulator;

  // `bases` is a table of 2 + ranks pointers in shared memory.
  __device__ SimplePrimitives(const LaunchArgument& launch, ItsChannel& channel, std::byte** bases)
      : launch_(launch), channel_(channel), bases_(bases) {}

  // Call it at the start of an epoch, with the slice that it is for. For all threads.
  __device__ void begin_slice(uint64_t slice) {
    const int i = static_cast<int>(threadIdx.x);
    const int rank = i - static_cast<int>(kFirstScratchBase);
    if (rank < 0) {
      const std::byte* buffer = i == kInputBase ? launch_.input : launch_.output;
      bases_[i] = const_cast<std::byte*>(buffer) + slice * launch_.slice_bytes;
    } else if (rank < launch_.self.ranks) {
      bases_[i] = scratch(rank);
    }
    __syncthreads();
  }

  __device__ void reduce(const DeviceOperation& operation) {
    if (operation.is_batched) return;
    if (operation.after_barrier) __syncthreads();
    const DevicePlace* places = launch_.places + operation.first;
    const bool one_width = operation.wide_sources == 0 && !operation.result_is_wide;
    const bool at_once = is_aligned && operation.batch > 1;
    if (at_once) copy_batch(operation, places);
    const DeviceOperation* const operations = &operation;
    for (int c = 0; c < operation.batch; ++c) {
      const DevicePlace* const its_places = places + c * operation.count;
      const VectorRange vectors = one_width ? vectors_of(operations[c]) : VectorRange{0, 0};
      if (!at_once) reduce_vectors(operations[c], its_places, vectors);
      reduce_elements(operations[c], its_places, vectors);
    }
  }

  __device__ void signal(const DeviceOperation& operation) {
    __syncthreads();
    if (threadIdx.x < operation.count) {
      const FlagRef& flag = launch_.flags[operation.first + threadIdx.x];
      ptx::store_release(signals(flag.peer) + flag.number * Room::kSignalStride, value());
    }
  }

  // False: given up.
  __device__ bool wait(const DeviceOperation& operation) {
    bool came = true;
    if (threadIdx.x < operation.count) {
      came = comes(launch_.flags[operation.first + threadIdx.x]);
    }
    return __syncthreads_and(came);
  }

 private:
  // These find a rank's memory for this channel and the half of this epoch.
  static constexpr bool kMayBeInHost = std::is_same_v<LaunchArgument, SimpleLaunch>;
  __device__ bool is_in_host() const { return kMayBeInHost && channel_.number() >= kMostChannels; }
  __device__ std::byte* block(int rank) const {
    if constexpr (!kMayBeInHost) {
      return channel_.block(rank);
    } else {
      return is_in_host() ? launch_.host_blocks.of[rank] : channel_.block(rank);
    }
  }
  __device__ std::byte* signals(int rank) const {
    return block(rank) + (is_in_host() ? HostBlockLayout::signals_at(channel_.number(), channel_.parity())
                                       : Room::signals_at(channel_.number(), channel_.parity()));
  }
  __device__ std::byte* scratch(int rank) const {
    return block(rank) + (is_in_host() ? HostBlockLayout::scratch_at(channel_.number(), channel_.parity())
                                       : Room::scratch_at(channel_.number(), channel_.parity()));
  }

  // How many vectors a thread has under way at once: for sources that are loaded one after the other, for two sources,
  // and for four. Registers hold so many without spilling.
  static constexpr int kUnalignedBytes = kHoldsMore ? 1 : std::is_integral_v<Accumulator> ? 4 : 2;
  static constexpr int kUnalignedNarrow = Vector::kCount > 8 ? kUnalignedBytes : kHoldsMore ? 2 : 4;
  static constexpr int kUnalignedTwo = Vector::kCount > 4 ? kUnalignedNarrow : Vector::kCount;
  static constexpr int kAlignedTwo = kConvertsSlowly<Vector> ? 2 : 4;
  // Places of a long plan come from memory, and take registers, too.
  static constexpr bool kHasFewLeft = !kMayBeInHost && !is_aligned;
  static constexpr int kAtOnce = Vector::kCount < 8 && !kHasFewLeft ? 2 : 1;
  static constexpr int kOfTwo = is_aligned ? kAlignedTwo : kHasFewLeft ? 1 : kUnalignedTwo;
  static constexpr bool kHalvesForFour = kOfTwo > 1 && (Vector::kCount == 4 || (is_aligned && Vector::kCount > 4));
  static constexpr int kOfFour = kHalvesForFour ? kOfTwo / 2 : 1;

  // Limits the rate of stores to host memory (the launch's rate_limit): stores faster than PCIe would queue up in front
  // of those that go over links. 0: no limit.
  class RateLimiter {
   public:
    // The first store does not wait: most often the thread has just waited for something else.
    __device__ explicit RateLimiter(uint32_t cycles) : cycles_(cycles), next_(cycles == 0 ? 0 : ptx::cycles_now()) {}

    // Waits until each thread may store so many vectors. It never waits longer than their time, even if the clock jumps
    // because the CTA was moved to another SM.
    __device__ void wait_for(int vectors) {
      if (cycles_ == 0) return;
      const uint64_t between = static_cast<uint64_t>(cycles_) * vectors;
      uint64_t now = ptx::cycles_now();
      while (next_ - now - 1 < between) now = ptx::cycles_now();  // unsigned: huge once `now` has reached next_
      next_ = now + between;
    }

   private:
    const uint32_t cycles_;
    uint64_t next_;
  };

  // Scratch that is stored to is a peer's, as a rule.
  __device__ static bool stores_in_scratch(const DeviceOperation& operation, const DevicePlace* places) {
    bool found = false;
    for (int d = 0; d < operation.destinations; ++d) found = found || places[d].base >= kFirstScratchBase;
    return found;
  }

  // The compiler cannot tell that a pointer from shared memory points to global memory.
  __device__ std::byte* at(const DevicePlace& place) const {
    std::byte* const address = bases_[place.base] + place.offset;
    __builtin_assume(__isGlobal(address));
    return address;
  }

  // The value of a flag: call tag and epoch.
  __device__ uint64_t value() const { return static_cast<uint64_t>(launch_.call) << kCountBits | channel_.epoch(); }

  __device__ bool comes(const FlagRef& flag) {
    const std::byte* address = signals(channel_.self().rank) + flag.number * Room::kSignalStride;
    const uint64_t expected = value();
    const auto is_of_epoch = [this](uint64_t it) { return (it & kCountMask) == (channel_.epoch() & kCountMask); };
    const uint64_t seen = poll(address, channel_.self(), is_of_epoch);
    if (seen == expected) return true;
    channel_.give_up(is_of_epoch(seen) ? ChannelFailure::kOtherCall : ChannelFailure::kTimedOut, flag.peer,
                     flag.operation, static_cast<uint32_t>(seen >> kCountBits), seen & kCountMask);
    return false;
  }

  // A thread's loop begins with its own vector or, if the threads of a warp have to stay together, with the warp's
  // first one; own() then gives the thread's vector.
  __device__ static uint32_t begin() { return is_aligned ? threadIdx.x : threadIdx.x / kWarpThreads * kWarpThreads; }
  __device__ static uint32_t own(uint32_t begun) { return is_aligned ? begun : begun + threadIdx.x % kWarpThreads; }

  struct VectorRange {
    uint32_t first, last;  // `last` is excluded
  };
  __device__ static uint32_t whole_vectors(const DeviceOperation& operation) {
    return operation.elements / Vector::kCount;
  }
  // The vectors that are moved as vectors: all of them, or if load_vectors() needs neighbours, those that have some.
  __device__ static VectorRange vectors_of(const DeviceOperation& operation) {
    const uint32_t vectors = whole_vectors(operation);
    if (is_aligned) return {0, vectors};
    return vectors < 2 ? VectorRange{0, 0} : VectorRange{1, vectors - 1};
  }

  __device__ void reduce_vectors(const DeviceOperation& operation, const DevicePlace* places, VectorRange range) const {
    constexpr bool kFour = is_aligned || Vector::kCount > 2;
    constexpr bool kEight = is_aligned && !kConvertsSlowly<Vector>;
    if (is_copy(operation)) {
      copy_vectors(operation, places, range);
    } else if (operation.sources == 2) {
      reduce_vectors<2, kOfTwo>(operation, places, range);
    } else if (kFour && operation.sources == 4) {
      reduce_vectors<(kFour ? 4 : 0), kOfFour>(operation, places, range);
    } else if (kEight && operation.sources == 8) {
      reduce_vectors<(kEight ? 8 : 0), 1>(operation, places, range);
    } else {
      reduce_vectors<0, kAtOnce>(operation, places, range);
    }
  }

  // Performs several copies at once, which lead to several ranks: thread t copies vector t of each, then vector t + 512
  // of each, and so on. So all links are in use all the time.
  __device__ void copy_batch(const DeviceOperation& first, const DevicePlace* places) const {
    const DeviceOperation* const operations = &first;
    const int copies = first.batch;
    constexpr int kCopies = 4;
    uint32_t vectors = 0;  // of the longest copy
    for (int c = 0; c < copies; ++c) vectors = max(vectors, whole_vectors(operations[c]));
    uint32_t i = threadIdx.x;
    int copy = 0;
    const auto advance = [&] {
      if (++copy < copies) return;
      copy = 0;
      i += blockDim.x;
    };
    const auto settle = [&] {  // moves from beyond the end of a copy to the next copy
      while (i < vectors && i >= whole_vectors(operations[copy])) advance();
    };
    settle();
    bool to_scratch = false;  // whether any copy stores there
    for (int c = 0; c < copies; ++c) to_scratch = to_scratch || stores_in_scratch(first, places + 2 * c);
    RateLimiter rate_limit(to_scratch ? launch_.rate_limit : 0);
    while (i < vectors) {
      uint4 values[kCopies];
      uint4* to[kCopies];
#pragma unroll
      for (int u = 0; u < kCopies; ++u) {
        to[u] = nullptr;
        if (i >= vectors) continue;
        to[u] = reinterpret_cast<uint4*>(at(places[2 * copy])) + i;
        values[u] = reinterpret_cast<const uint4*>(at(places[2 * copy + 1]))[i];
        advance();
        settle();
      }
      rate_limit.wait_for(kCopies);
#pragma unroll
      for (int u = 0; u < kCopies; ++u) {
        if (to[u] != nullptr) *to[u] = values[u];
      }
    }
  }

  __device__ void copy_vectors(const DeviceOperation& operation, const DevicePlace* places, VectorRange range) const {
    constexpr int kCopies = 4;
    const std::byte* const from = at(places[operation.destinations]);
    RateLimiter rate_limit(stores_in_scratch(operation, places) ? launch_.rate_limit : 0);
    for (uint32_t i = range.first + begin(); i < range.last; i += blockDim.x * kCopies) {
      const uint32_t first = own(i);
      Vector values[kCopies];
      load_vectors<is_aligned>(from, first, blockDim.x, range.last, values);
      complete_vectors<is_aligned>(from, first, blockDim.x, range.last, values);
      rate_limit.wait_for(kCopies);
      for (int d = 0; d < operation.destinations; ++d) {
        store_vectors<is_aligned>(at(places[d]), first, blockDim.x, range.last, values);
      }
    }
  }

  template <int kSources, int kVectors>
  __device__ void reduce_vectors(const DeviceOperation& operation, const DevicePlace* places, VectorRange range) const {
    const ReduceOp op = launch_.op;
    const DevicePlace* sources = places + operation.destinations;
    const auto source = [&](int s) { return at(sources[s]); };
    RateLimiter rate_limit(stores_in_scratch(operation, places) ? launch_.rate_limit : 0);
    for (uint32_t i = range.first + begin(); i < range.last; i += blockDim.x * kVectors) {
      const uint32_t first = own(i);
      Vector results[kVectors];
      combine_vectors<is_aligned, kSources>(op, operation.sources, operation.divisor, source, first, blockDim.x,
                                            range.last, results);
      rate_limit.wait_for(kVectors);
      for (int d = 0; d < operation.destinations; ++d) {
        store_vectors<is_aligned>(at(places[d]), first, blockDim.x, range.last, results);
      }
    }
  }

  // Reduces the elements outside these vectors: the ends, or everything if places have different element types.
  __device__ void reduce_elements(const DeviceOperation& operation, const DevicePlace* places, VectorRange done) const {
    const DevicePlace* sources = places + operation.destinations;
    const uint32_t gap = done.first * Vector::kCount, gap_elements = (done.last - done.first) * Vector::kCount;
#pragma unroll 1  // rarely needed, and registers are few
    for (uint32_t left = threadIdx.x; left < operation.elements - gap_elements; left += blockDim.x) {
      const uint32_t i = left < gap ? left : left + gap_elements;
      if (is_copy(operation) && !operation.result_is_wide) {
        const Storage value = reinterpret_cast<const Storage*>(at(sources[0]))[i];
        for (int d = 0; d < operation.destinations; ++d) reinterpret_cast<Storage*>(at(places[d]))[i] = value;
        continue;
      }
      const Accumulator result = combine_one_by_one(launch_.op, operation.sources, operation.divisor,
                                                    [&](int s) { return load_element(operation, sources, s, i); });
      for (int d = 0; d < operation.destinations; ++d) {
        if (operation.result_is_wide) {
          reinterpret_cast<Accumulator*>(at(places[d]))[i] = result;
        } else {
          reinterpret_cast<Storage*>(at(places[d]))[i] = DeviceType<type>::narrow(result);
        }
      }
    }
  }

  __device__ Accumulator load_element(const DeviceOperation& operation, const DevicePlace* sources, int s,
                                      uint32_t i) const {
    if (operation.wide_sources >> s & 1) return reinterpret_cast<const Accumulator*>(at(sources[s]))[i];
    return DeviceType<type>::widen(reinterpret_cast<const Storage*>(at(sources[s]))[i]);
  }

  const LaunchArgument& launch_;
  ItsChannel& channel_;
  std::byte** bases_;
};

}  // namespace plait
