#include "runtime/secret.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>

#include "base/error.hpp"
#include "base/sha256.hpp"

namespace plait {
namespace {

std::array<uint8_t, 16> first_half(const Sha256Digest& digest) {
  std::array<uint8_t, 16> half;
  std::copy_n(digest.begin(), half.size(), half.begin());
  return half;
}

}  // namespace

std::array<uint8_t, 16> random_128_bits() {
  std::array<uint8_t, 16> bits;
  // Up to 256 bytes are never cut short. Early at boot, before the kernel's pool is ready, this waits.
  while (::getrandom(bits.data(), bits.size(), 0) != static_cast<ssize_t>(bits.size())) {
    if (errno != EINTR) fail_system(errno, "the kernel gives no random bytes");
  }
  return bits;
}

Secret derive_secret(std::string_view purpose, std::span<const std::byte> message) {
  return first_half(hmac_sha256(std::as_bytes(std::span(purpose)), message));
}

Tag tag_of(const Secret& secret, std::span<const std::byte> message) {
  return first_half(hmac_sha256(std::as_bytes(std::span(secret)), message));
}

bool equal_tags(const Tag& a, const Tag& b) {
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace plait
