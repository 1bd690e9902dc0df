#include "base/siphash.hpp"

#include <bit>

namespace plait {
namespace {

uint64_t load_little_endian(const std::byte* bytes, size_t count) {
  uint64_t word = 0;
  for (size_t i = 0; i < count; ++i) word |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  return word;
}

void store_little_endian(uint64_t word, uint8_t* bytes) {
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<uint8_t>(word >> (8 * i));
}

class SipState {
 public:
  explicit SipState(const SipKey& key) {
    const auto bytes = std::as_bytes(std::span(key));
    const uint64_t k0 = load_little_endian(bytes.data(), 8);
    const uint64_t k1 = load_little_endian(bytes.data() + 8, 8);
    v0 = k0 ^ 0x736f6d6570736575u;
    v1 = k1 ^ 0x646f72616e646f6du;
    v2 = k0 ^ 0x6c7967656e657261u;
    v3 = k1 ^ 0x7465646279746573u;
  }

  // Two rounds for every 8 bytes; the last word holds what is left over, and the length's low byte on top.
  void absorb(std::span<const std::byte> message) {
    const size_t whole = message.size() / 8 * 8;
    for (size_t at = 0; at < whole; at += 8) absorb_word(load_little_endian(message.data() + at, 8));
    const uint64_t rest = load_little_endian(message.data() + whole, message.size() - whole);
    absorb_word(rest | static_cast<uint64_t>(message.size()) << 56);
  }

  // Four rounds, then one word of output.
  uint64_t squeeze() {
    for (int i = 0; i < 4; ++i) round();
    return v0 ^ v1 ^ v2 ^ v3;
  }

  uint64_t v0, v1, v2, v3;

 private:
  void absorb_word(uint64_t word) {
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }

  void round() {
    v0 += v1;
    v2 += v3;
    v1 = std::rotl(v1, 13) ^ v0;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 = std::rotl(v0, 32);
    v2 += v1;
    v0 += v3;
    v1 = std::rotl(v1, 17) ^ v2;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 = std::rotl(v2, 32);
  }
};

}  // namespace

uint64_t siphash64(const SipKey& key, std::span<const std::byte> message) {
  SipState state(key);
  state.absorb(message);
  state.v2 ^= 0xff;
  return state.squeeze();
}

SipDigest siphash128(const SipKey& key, std::span<const std::byte> message) {
  SipState state(key);
  state.v1 ^= 0xee;
  state.absorb(message);
  SipDigest digest;
  state.v2 ^= 0xee;
  store_little_endian(state.squeeze(), digest.data());
  state.v1 ^= 0xdd;
  store_little_endian(state.squeeze(), digest.data() + 8);
  return digest;
}

bool equal_digests(const SipDigest& a, const SipDigest& b) {
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace plait
