// A CTA's share of a work request: load, reduce, store (NVG-43).
//
// Every thread loads an element from all sources, on this GPU, on others and in host memory, combines them in their
// order, and stores the result to all destinations. Where all places are aligned, it takes 16 bytes at a time (NVG-44).
// Partial results that are wider than their type go four elements at a time, and unaligned places one.
#pragma once

#include "runtime/cuda/device/combine_vectors.cuh"
#include "runtime/work_request.hpp"

namespace plait {

// The elements of a CTA: whole vectors, and behind the last share the elements that fill none.
struct WorkShare {
  uint64_t first, last;  // vectors; `last` is excluded
};
__device__ inline WorkShare share_of(uint64_t vectors, uint32_t share, uint32_t shares) {
  return {vectors * share / shares, vectors * (share + 1) / shares};
}

template <DataType type>
class Work {
 public:
  __device__ Work(const WorkRequest& request) : request_(request) {}

  // For all threads of the CTA.
  __device__ void perform(uint32_t share, uint32_t shares) const {
    const uint64_t vectors = request_.elements / Vector::kCount;
    const WorkShare own = share_of(vectors, share, shares);
    const uint64_t first = own.first * Vector::kCount, last = own.last * Vector::kCount;
    if (!is_aligned()) {
      perform_elements(first, last);
    } else if (has_one_width()) {
      perform_vectors(static_cast<uint32_t>(own.first), static_cast<uint32_t>(own.last));
    } else if constexpr (kIsNarrow) {
      perform_pieces(first / Piece::kCount, last / Piece::kCount);
    }
    if (share == shares - 1) perform_elements(last, request_.elements);
  }

 private:
  using Vector = Pack<type, uint4>;
  using Storage = typename Vector::Storage;
  using Accumulator = typename Vector::Accumulator;
  static constexpr bool kIsNarrow = accumulates_in_float32(type);
  static constexpr int kCopies = 4, kVectors = 2;  // a thread's vectors under way at once
  // Four elements of a narrow type; their accumulators fill a vector.
  using Piece = Pack<type, std::conditional_t<sizeof(Storage) == 1, uint32_t, uint64_t>>;
  struct alignas(sizeof(uint4)) WidePiece {
    Accumulator elements[Piece::kCount];
  };

  __device__ bool has_one_width() const { return request_.wide_sources == 0 && request_.result_is_wide == 0; }
  __device__ bool is_copy() const {
    return request_.sources == 1 && request_.divisor == 0 &&
           (request_.wide_sources != 0) == (request_.result_is_wide != 0);
  }
  __device__ bool is_aligned() const {
    uintptr_t bits = 0;
    for (int i = 0; i < request_.destinations + request_.sources; ++i) {
      bits |= reinterpret_cast<uintptr_t>(request_.places[i]);
    }
    return bits % sizeof(uint4) == 0;
  }
  __device__ std::byte* place(int i) const {
    std::byte* const address = request_.places[i];
    __builtin_assume(__isGlobal(address));
    return address;
  }
  __device__ std::byte* source(int s) const { return place(request_.destinations + s); }

  __device__ void perform_vectors(uint32_t first, uint32_t last) const {
    if (is_copy()) {
      copy_vectors(first, last);
    } else if (request_.sources == 2) {
      reduce_vectors<2>(first, last);
    } else {
      reduce_vectors<0>(first, last);
    }
  }
  __device__ void copy_vectors(uint32_t first, uint32_t last) const {
    for (uint32_t i = first + threadIdx.x; i < last; i += blockDim.x * kCopies) {
      Vector values[kCopies];
      load_vectors<true>(source(0), i, blockDim.x, last, values);
      store_to_all(i, last, values);
    }
  }
  template <int kSources>
  __device__ void reduce_vectors(uint32_t first, uint32_t last) const {
    const auto from = [this](int s) { return source(s); };
    for (uint32_t i = first + threadIdx.x; i < last; i += blockDim.x * kVectors) {
      Vector results[kVectors];
      combine_vectors<true, kSources>(request_.op, request_.sources, request_.divisor, from, i, blockDim.x, last,
                                      results);
      store_to_all(i, last, results);
    }
  }
  template <int count>
  __device__ void store_to_all(uint32_t first, uint32_t last, const Vector (&values)[count]) const {
    for (int d = 0; d < request_.destinations; ++d) store_vectors<true>(place(d), first, blockDim.x, last, values);
  }

  __device__ void perform_pieces(uint64_t first, uint64_t last) const {
#pragma unroll 1
    for (uint64_t i = first + threadIdx.x; i < last; i += blockDim.x) {
      WidePiece result;
      load_piece(0, i, result);
      for (int s = 1; s < request_.sources; ++s) {
        WidePiece next;
        load_piece(s, i, next);
        combine(request_.op, result.elements, next.elements);
      }
      divide(result.elements, request_.divisor);
      for (int d = 0; d < request_.destinations; ++d) store_piece(d, i, result);
    }
  }
  __device__ void load_piece(int s, uint64_t i, WidePiece& to) const {
    if (request_.wide_sources >> s & 1) {
      reinterpret_cast<uint4&>(to) = reinterpret_cast<const uint4*>(source(s))[i];
    } else {
      Piece(reinterpret_cast<const decltype(Piece::bits)*>(source(s))[i]).widen(to.elements);
    }
  }
  __device__ void store_piece(int d, uint64_t i, const WidePiece& from) const {
    if (request_.result_is_wide != 0) {
      reinterpret_cast<uint4*>(place(d))[i] = reinterpret_cast<const uint4&>(from);
    } else {
      Piece narrowed;
      narrowed.narrow(from.elements);
      reinterpret_cast<decltype(Piece::bits)*>(place(d))[i] = narrowed.bits;
    }
  }

  __device__ void perform_elements(uint64_t first, uint64_t last) const {
#pragma unroll 1
    for (uint64_t i = first + threadIdx.x; i < last; i += blockDim.x) {
      if (is_copy() && request_.result_is_wide == 0) {  // keeps every bit, even of a NaN
        const Storage value = reinterpret_cast<const Storage*>(source(0))[i];
        for (int d = 0; d < request_.destinations; ++d) reinterpret_cast<Storage*>(place(d))[i] = value;
        continue;
      }
      const Accumulator result = combine_one_by_one(request_.op, request_.sources, request_.divisor,
                                                    [&](int s) { return load_element(s, i); });
      for (int d = 0; d < request_.destinations; ++d) store_element(d, i, result);
    }
  }
  __device__ Accumulator load_element(int s, uint64_t i) const {
    if (request_.wide_sources >> s & 1) return reinterpret_cast<const Accumulator*>(source(s))[i];
    return DeviceType<type>::widen(reinterpret_cast<const Storage*>(source(s))[i]);
  }
  __device__ void store_element(int d, uint64_t i, Accumulator value) const {
    if (request_.result_is_wide != 0) {
      reinterpret_cast<Accumulator*>(place(d))[i] = value;
    } else {
      reinterpret_cast<Storage*>(place(d))[i] = DeviceType<type>::narrow(value);
    }
  }

  const WorkRequest& request_;
};

// Not inlined, so that the kernel has the registers of the type at hand only.
template <DataType type>
__device__ __noinline__ void perform_work(const WorkRequest& request, uint32_t share, uint32_t shares) {
  Work<type>(request).perform(share, shares);
}

__device__ inline void perform_work(const WorkRequest& request, uint32_t share, uint32_t shares) {
  switch (request.type) {
#define PLAIT_CASE(type) \
  case DataType::type:   \
    return perform_work<DataType::type>(request, share, shares);
    PLAIT_CASE(kInt8)
    PLAIT_CASE(kUint8)
    PLAIT_CASE(kInt16)
    PLAIT_CASE(kUint16)
    PLAIT_CASE(kInt32)
    PLAIT_CASE(kUint32)
    PLAIT_CASE(kInt64)
    PLAIT_CASE(kUint64)
    PLAIT_CASE(kFloat32)
    PLAIT_CASE(kFloat64)
    PLAIT_CASE(kFloat16)
    PLAIT_CASE(kBfloat16)
    PLAIT_CASE(kFloat8E4M3)
    PLAIT_CASE(kFloat8E5M2)
#undef PLAIT_CASE
  }
}

}  // namespace plait
