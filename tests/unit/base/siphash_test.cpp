#include "base/siphash.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace plait {
namespace {

// Key 00 01 … 0f and message 00 01 02 …, as in the paper's appendix and the authors' reference vectors.
SipKey reference_key() {
  SipKey key;
  std::iota(key.begin(), key.end(), uint8_t{0});
  return key;
}

std::vector<std::byte> counting_bytes(size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}

std::string hex(std::span<const uint8_t> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

TEST(SipHash, The64BitTagMatchesTheReferenceVectors) {
  const struct {
    size_t length;
    uint64_t tag;
  } kVectors[] = {
      {0, 0x726fdb47dd0e0e31}, {1, 0x74f839c593dc67fd},  {7, 0xab0200f58b01d137},
      {8, 0x93f5f5799a932462}, {15, 0xa129ca6149be45e5}, {63, 0x958a324ceb064572},
  };
  for (const auto& [length, tag] : kVectors) {
    EXPECT_EQ(siphash64(reference_key(), counting_bytes(length)), tag) << length << " bytes";
  }
}

TEST(SipHash, The128BitTagMatchesTheReferenceVectors) {
  const struct {
    size_t length;
    const char* tag;
  } kVectors[] = {
      {0, "a3817f04ba25a8e66df67214c7550293"},  {1, "da87c1d86b99af44347659119b22fc45"},
      {7, "a1f1ebbed8dbc153c0b84aa61ff08239"},  {8, "3b62a9ba6258f5610f83e264f31497b4"},
      {15, "5493e99933b0a8117e08ec0f97cfc3d9"}, {63, "5150d1772f50834a503e069a973fbd7c"},
  };
  for (const auto& [length, tag] : kVectors) {
    EXPECT_EQ(hex(siphash128(reference_key(), counting_bytes(length))), tag) << length << " bytes";
  }
}

TEST(SipHash, EveryBitOfKeyAndMessageCounts) {
  const std::vector<std::byte> message = counting_bytes(21);
  const SipDigest digest = siphash128(reference_key(), message);
  for (size_t bit = 0; bit < 8 * message.size(); ++bit) {
    auto changed = message;
    changed[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    EXPECT_FALSE(equal_digests(siphash128(reference_key(), changed), digest)) << "message bit " << bit;
  }
  for (size_t bit = 0; bit < 128; ++bit) {
    SipKey key = reference_key();
    key[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    EXPECT_FALSE(equal_digests(siphash128(key, message), digest)) << "key bit " << bit;
  }
}

TEST(SipHash, DigestsAreEqualOnlyWhenEveryByteIs) {
  const SipDigest digest = siphash128(reference_key(), {});
  EXPECT_TRUE(equal_digests(digest, digest));
  for (size_t i = 0; i < digest.size(); ++i) {
    SipDigest other = digest;
    other[i] ^= 0x80;
    EXPECT_FALSE(equal_digests(digest, other)) << "byte " << i;
  }
}

}  // namespace
}  // namespace plait
