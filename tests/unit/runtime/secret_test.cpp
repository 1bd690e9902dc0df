#include "runtime/secret.hpp"

#include <gtest/gtest.h>

#include <string>

namespace plait {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

TEST(Secret, RandomOnesDiffer) { EXPECT_NE(random_128_bits(), random_128_bits()); }

// Case 2 of RFC 4231, cut as RFC 4868 cuts it.
TEST(Secret, IsTheFirstHalfOfAnHmac) {
  constexpr Secret kExpected = {0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e,
                                0x6a, 0x04, 0x24, 0x26, 0x08, 0x95, 0x75, 0xc7};
  EXPECT_EQ(derive_secret("Jefe", bytes_of("what do ya want for nothing?")), kExpected);
}

TEST(Secret, FollowsFromMessageAndPurpose) {
  const Secret secret = derive_secret("purpose", bytes_of("message"));
  EXPECT_EQ(derive_secret("purpose", bytes_of("message")), secret);
  EXPECT_NE(derive_secret("purpose", bytes_of("messagf")), secret);
  EXPECT_NE(derive_secret("another", bytes_of("message")), secret);
}

TEST(Tag, FollowsFromSecretAndMessage) {
  const Secret secret = random_128_bits();
  const Tag tag = tag_of(secret, bytes_of("message"));
  EXPECT_EQ(tag_of(secret, bytes_of("message")), tag);
  EXPECT_NE(tag_of(secret, bytes_of("messagf")), tag);
  EXPECT_NE(tag_of(random_128_bits(), bytes_of("message")), tag);
}

TEST(Tag, AreEqualOnlyWhenEveryByteIs) {
  const Tag tag = random_128_bits();
  EXPECT_TRUE(equal_tags(tag, tag));
  for (size_t i = 0; i < tag.size(); ++i) {
    Tag other = tag;
    other[i] ^= 0x80;
    EXPECT_FALSE(equal_tags(tag, other)) << "byte " << i;
  }
}

}  // namespace
}  // namespace plait
