#include "runtime/host/copy.hpp"

#include <algorithm>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace plait {
namespace {

#if defined(__SSE2__)
constexpr size_t kLineBytes = 64;

// Copies whole lines, so that the processor can combine the four stores of each line and never reads what it
// overwrites.
void stream_lines(char* destination, const char* source, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kLineBytes) {
    __m128i line[4];
    std::memcpy(line, source + at, kLineBytes);
    auto* to = reinterpret_cast<__m128i*>(destination + at);
    for (int i = 0; i < 4; ++i) _mm_stream_si128(to + i, line[i]);
  }
}

void stream(char* destination, const char* source, size_t bytes) {
  const size_t head = std::min(bytes, -reinterpret_cast<uintptr_t>(destination) % kLineBytes);
  const size_t lines = (bytes - head) / kLineBytes * kLineBytes;
  std::memcpy(destination, source, head);
  stream_lines(destination + head, source + head, lines);
  std::memcpy(destination + head + lines, source + head + lines, bytes - head - lines);
}
#endif

bool is_streaming(const ReduceArguments& arguments, int destination) {
  return destination < 32 && ((arguments.streaming_destinations >> destination) & 1u) != 0;
}

}  // namespace

void copy_block(void* destination, const void* source, size_t bytes, bool streaming) {
  if (destination == source || bytes == 0) return;
#if defined(__SSE2__)
  if (streaming) return stream(static_cast<char*>(destination), static_cast<const char*>(source), bytes);
#else
  static_cast<void>(streaming);  // elsewhere the C library knows best
#endif
  std::memcpy(destination, source, bytes);
}

void finish_streaming() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

void copy_to_all(const ReduceArguments& arguments, size_t element_bytes) {
  // With several destinations, the source is read from memory once, and from the cache for the others.
  constexpr size_t kBlockBytes = size_t{32} << 10;
  const size_t bytes = arguments.elements * element_bytes;
  const size_t block = arguments.destination_count == 1 ? bytes : kBlockBytes;
  const auto* source = static_cast<const char*>(arguments.sources[0]);
  for (size_t begin = 0; begin < bytes; begin += block) {
    const size_t count = std::min(block, bytes - begin);
    for (int d = 0; d < arguments.destination_count; ++d) {
      auto* destination = static_cast<char*>(arguments.destinations[d]);
      copy_block(destination + begin, source + begin, count, is_streaming(arguments, d));
    }
  }
  if (arguments.streaming_destinations != 0) finish_streaming();
}

}  // namespace plait
