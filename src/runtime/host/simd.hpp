// Lanes<T, N> holds N elements in one register, by the vector extension that GCC and Clang share. Operators,
// comparisons and `mask ? a : b` work lane by lane. Two things that the compilers do not do well by themselves are
// written out for x86 here: the ends of arrays, and conversions between integers of different widths.
//
// Everything in this header has internal linkage, and it uses nothing of the standard library that could be emitted out
// of line. Files compiled for AVX-512 include it, and the linker must not use their copy of a function in other files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace plait {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

template <class T, int N>
struct LanesOf {
  typedef T Type __attribute__((vector_size(N * sizeof(T))));
};
template <class T, int N>
using Lanes = typename LanesOf<T, N>::Type;

// Puts the same value into every lane.
template <class T, int N>
inline Lanes<T, N> splat(T value) {
  return Lanes<T, N>{} + value;
}

// Reinterprets the bits as another type.
template <class To, class From>
inline To bits_as(From from) {
  return __builtin_bit_cast(To, from);
}

// ---- Whole registers and parts of them: how a step accesses memory. Any alignment is allowed.

struct Whole {
  static constexpr bool kStreams = false;

  template <class T, int N>
  Lanes<T, N> load(const char* from) const {
    Lanes<T, N> lanes;
    std::memcpy(&lanes, from, sizeof(lanes));
    return lanes;
  }
  template <class V>
  void store(char* to, V lanes) const {
    std::memcpy(to, &lanes, sizeof(lanes));
  }
};

// Like Whole, but it can store past the caches, to addresses that are a multiple of the register's size.
struct Streamed : Whole {
  static constexpr bool kStreams = true;

  template <class V>
  void stream(char* to, V lanes) const {
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64) return _mm512_stream_si512(reinterpret_cast<__m512i*>(to), bits_as<__m512i>(lanes));
#endif
#if defined(__AVX2__)
    if constexpr (sizeof(V) == 32) return _mm256_stream_si256(reinterpret_cast<__m256i*>(to), bits_as<__m256i>(lanes));
#endif
#if defined(__SSE2__)
    if constexpr (sizeof(V) == 16) return _mm_stream_si128(reinterpret_cast<__m128i*>(to), bits_as<__m128i>(lanes));
#endif
    store(to, lanes);
  }
};

// Copies fewer than `Limit` bytes, by two copies of a fixed size that overlap. A call or a loop would take longer.
template <size_t Limit>
inline void copy_fewer_than(char* to, const char* from, size_t bytes) {
  using Unit = Lanes<uint8_t, Limit / 2>;
  if constexpr (Limit == 2) {
    if (bytes == 1) *to = *from;
  } else if (bytes < sizeof(Unit)) {
    copy_fewer_than<Limit / 2>(to, from, bytes);
  } else {
    const auto first = Whole{}.load<uint8_t, Limit / 2>(from);
    const auto last = Whole{}.load<uint8_t, Limit / 2>(from + bytes - sizeof(Unit));
    Whole{}.store(to, first);
    Whole{}.store(to + bytes - sizeof(Unit), last);
  }
}

template <class T>
inline T load_scalar(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// Loads fewer than 8 bytes; the others are zero. It combines the first and the last few bytes, which may overlap.
inline uint64_t load_word(const char* from, size_t bytes) {
  const auto join_ends = [&]<class T>(T first) {
    const uint64_t last = load_scalar<T>(from + bytes - sizeof(T));
    return first | last << 8 * (bytes - sizeof(T));
  };
  if (bytes >= 4) return join_ends(load_scalar<uint32_t>(from));
  if (bytes >= 2) return join_ends(load_scalar<uint16_t>(from));
  return bytes == 1 ? load_scalar<uint8_t>(from) : 0;
}

// Loads `bytes` bytes into a register of `Size` bytes; the others are zero. It works in registers, because reading back
// what was written in smaller parts would stall.
template <size_t Size>
inline Lanes<uint8_t, Size> load_fewer_than(const char* from, size_t bytes) {
  using V = Lanes<uint8_t, Size>;
  if constexpr (Size == 32) {
    using Half = Lanes<uint8_t, 16>;
    const bool full = bytes >= 16;
    const Half low = full ? Whole{}.load<uint8_t, 16>(from) : load_fewer_than<16>(from, bytes);
    const Half high = full ? load_fewer_than<16>(from + 16, bytes - 16) : Half{};
    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
                                   21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
  } else if constexpr (Size == 16) {
    return bits_as<V>(bytes >= 8 ? Lanes<uint64_t, 2>{load_scalar<uint64_t>(from), load_word(from + 8, bytes - 8)}
                                 : Lanes<uint64_t, 2>{load_word(from, bytes), 0});
  } else {
    return bits_as<V>(static_cast<std::conditional_t<Size == 8, uint64_t, uint32_t>>(load_word(from, bytes)));
  }
}

// Accesses the first `count` lanes of a register, fewer than all. The other lanes are zero, and memory beyond is left
// alone.
struct Part {
  static constexpr bool kStreams = false;

  size_t count;

  template <class T, int N>
  Lanes<T, N> load(const char* from) const {
    using V = Lanes<T, N>;
    [[maybe_unused]] const uint64_t mask = (uint64_t{1} << (count * sizeof(T))) - 1;
#if defined(__AVX512BW__)
    if constexpr (sizeof(V) == 64) return bits_as<V>(_mm512_maskz_loadu_epi8(mask, from));
    if constexpr (sizeof(V) == 32) return bits_as<V>(_mm256_maskz_loadu_epi8(static_cast<__mmask32>(mask), from));
    if constexpr (sizeof(V) == 16) return bits_as<V>(_mm_maskz_loadu_epi8(static_cast<__mmask16>(mask), from));
#else
    return bits_as<V>(load_fewer_than<sizeof(V)>(from, count * sizeof(T)));
#endif
  }

  template <class V>
  void store(char* to, V lanes) const {
    const size_t bytes = count * sizeof(lanes[0]);
#if defined(__AVX512BW__)
    const uint64_t mask = (uint64_t{1} << bytes) - 1;
    if constexpr (sizeof(V) == 64) _mm512_mask_storeu_epi8(to, mask, bits_as<__m512i>(lanes));
    if constexpr (sizeof(V) == 32) _mm256_mask_storeu_epi8(to, static_cast<__mmask32>(mask), bits_as<__m256i>(lanes));
    if constexpr (sizeof(V) == 16) _mm_mask_storeu_epi8(to, static_cast<__mmask16>(mask), bits_as<__m128i>(lanes));
#else
    copy_fewer_than<sizeof(V)>(to, reinterpret_cast<const char*>(&lanes), bytes);
#endif
  }
};

// ---- Conversions between unsigned integers of 1, 2 and 4 bytes. N integers of 4 bytes fill a register.

template <int N>
inline Lanes<uint32_t, N> widen_integers(Lanes<uint16_t, N> narrow) {
  using V = Lanes<uint32_t, N>;
#if defined(__AVX512F__)  // in the masked form, as GCC 12 warns of the other
  return bits_as<V>(_mm512_maskz_cvtepu16_epi32(0xffff, bits_as<__m256i>(narrow)));
#elif defined(__AVX2__)
  return bits_as<V>(_mm256_cvtepu16_epi32(bits_as<__m128i>(narrow)));
#elif defined(__SSE4_1__)
  return bits_as<V>(_mm_cvtepu16_epi32(_mm_cvtsi64_si128(bits_as<int64_t>(narrow))));
#else
  return __builtin_convertvector(narrow, V);
#endif
}

// Each value must fit, here and below.
template <int N>
inline Lanes<uint16_t, N> narrow_integers(Lanes<uint32_t, N> wide) {
  using V = Lanes<uint16_t, N>;
#if defined(__AVX512F__)
  return bits_as<V>(_mm512_maskz_cvtepi32_epi16(0xffff, bits_as<__m512i>(wide)));
#elif defined(__AVX2__)
  const auto all = bits_as<__m256i>(wide);
  return bits_as<V>(_mm_packus_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1)));
#elif defined(__SSE4_1__)
  const auto all = bits_as<__m128i>(wide);
  return bits_as<V>(_mm_cvtsi128_si64(_mm_packus_epi32(all, all)));
#else
  return __builtin_convertvector(wide, V);
#endif
}

template <int N>
inline Lanes<uint16_t, N> widen_bytes(Lanes<uint8_t, N> narrow) {
  using V = Lanes<uint16_t, N>;
#if defined(__AVX512F__)
  return bits_as<V>(_mm256_cvtepu8_epi16(bits_as<__m128i>(narrow)));
#elif defined(__AVX2__)
  return bits_as<V>(_mm_cvtepu8_epi16(_mm_cvtsi64_si128(bits_as<int64_t>(narrow))));
#elif defined(__SSE4_1__)
  return bits_as<V>(_mm_cvtsi128_si64(_mm_cvtepu8_epi16(_mm_cvtsi32_si128(bits_as<int32_t>(narrow)))));
#else
  return __builtin_convertvector(narrow, V);
#endif
}

template <int N>
inline Lanes<uint8_t, N> narrow_bytes(Lanes<uint16_t, N> wide) {
  using V = Lanes<uint8_t, N>;
#if defined(__AVX512F__)
  const auto all = bits_as<__m256i>(wide);
  return bits_as<V>(_mm_packus_epi16(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1)));
#elif defined(__AVX2__)
  const auto all = bits_as<__m128i>(wide);
  return bits_as<V>(_mm_cvtsi128_si64(_mm_packus_epi16(all, all)));
#elif defined(__SSE4_1__)
  const __m128i all = _mm_cvtsi64_si128(bits_as<int64_t>(wide));
  return bits_as<V>(_mm_cvtsi128_si32(_mm_packus_epi16(all, all)));
#else
  return __builtin_convertvector(wide, V);
#endif
}

}  // namespace
}  // namespace plait
