#include "base/sha256.hpp"

#include <algorithm>
#include <bit>

namespace plait {
namespace {

constexpr size_t kBlock = 64;  // bytes
constexpr size_t kLength = 8;  // bytes at the end of the last block that tell how long the message is

constexpr std::array<uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t load_big_endian(const std::byte* bytes) {
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word = word << 8 | static_cast<uint32_t>(bytes[i]);
  return word;
}

// A hash under way. Names as in FIPS 180-4: w is the message schedule, a to h are the working variables.
class Sha256 {
 public:
  void update(std::span<const std::byte> bytes) {
    length_ += bytes.size();
    while (!bytes.empty()) {
      const size_t count = std::min(kBlock - filled_, bytes.size());
      std::copy_n(bytes.begin(), count, block_.begin() + filled_);
      filled_ += count;
      bytes = bytes.subspan(count);
      if (filled_ == kBlock) absorb_block();
    }
  }

  // One bit, zeros up to the end of a block, and the length in bits.
  Sha256Digest finish() {
    const uint64_t bits = 8 * length_;
    block_[filled_++] = std::byte{0x80};
    if (filled_ > kBlock - kLength) {
      std::fill(block_.begin() + filled_, block_.end(), std::byte{0});
      absorb_block();
    }
    std::fill(block_.begin() + filled_, block_.end(), std::byte{0});
    for (size_t i = 0; i < kLength; ++i) block_[kBlock - 1 - i] = static_cast<std::byte>(bits >> (8 * i));
    absorb_block();
    Sha256Digest digest;
    for (size_t i = 0; i < digest.size(); ++i) digest[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
    return digest;
  }

 private:
  void absorb_block() {
    std::array<uint32_t, 64> w;
    for (size_t t = 0; t < 16; ++t) w[t] = load_big_endian(&block_[4 * t]);
    for (size_t t = 16; t < 64; ++t) {
      const uint32_t sigma0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ w[t - 15] >> 3;
      const uint32_t sigma1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ w[t - 2] >> 10;
      w[t] = sigma1 + w[t - 7] + sigma0 + w[t - 16];
    }
    auto [a, b, c, d, e, f, g, h] = state_;
    for (size_t t = 0; t < 64; ++t) {
      const uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const uint32_t t1 = h + sum1 + ((e & f) ^ (~e & g)) + kRoundConstants[t] + w[t];
      const uint32_t t2 = sum0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const std::array<uint32_t, 8> worked = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < worked.size(); ++i) state_[i] += worked[i];
    filled_ = 0;
  }

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, kBlock> block_{};
  size_t filled_ = 0;  // bytes of the block
  uint64_t length_ = 0;
};

}  // namespace

Sha256Digest sha256(std::span<const std::byte> message) {
  Sha256 hash;
  hash.update(message);
  return hash.finish();
}

// H(key ^ opad, H(key ^ ipad, message)), with a key of one block: a longer one is hashed, a shorter one filled with
// zeros.
Sha256Digest hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message) {
  Sha256Digest short_key;
  if (key.size() > kBlock) {
    short_key = sha256(key);
    key = std::as_bytes(std::span(short_key));
  }
  std::array<std::byte, kBlock> inner_key, outer_key;
  for (size_t i = 0; i < kBlock; ++i) {
    const std::byte byte = i < key.size() ? key[i] : std::byte{0};
    inner_key[i] = byte ^ std::byte{0x36};
    outer_key[i] = byte ^ std::byte{0x5c};
  }
  Sha256 inner, outer;
  inner.update(inner_key);
  inner.update(message);
  const Sha256Digest inner_digest = inner.finish();
  outer.update(outer_key);
  outer.update(std::as_bytes(std::span(inner_digest)));
  return outer.finish();
}

}  // namespace plait
