#include "base/sha256.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plait {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string hex(const Sha256Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

// The examples of NIST for FIPS 180-4: no bytes, one block, the longest that leaves no room for its length, two blocks,
// and many.
TEST(Sha256, MatchesTheVectorsOfNist) {
  const struct {
    std::string message;
    const char* digest;
  } kVectors[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrst"
       "nopqrstu",
       "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
      {std::string(1'000'000, 'a'), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
  };
  for (const auto& [message, digest] : kVectors) EXPECT_EQ(hex(sha256(bytes_of(message))), digest) << message.size();
}

// Cases 1 to 4, 6 and 7 of RFC 4231, section 4: keys shorter than a block and longer.
TEST(HmacSha256, MatchesTheVectorsOfRfc4231) {
  std::string counting;
  for (char byte = 1; byte <= 25; ++byte) counting += byte;
  const struct {
    std::string key, message;
    const char* digest;
  } kVectors[] = {
      {std::string(20, '\x0b'), "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
      {"Jefe", "what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
      {std::string(20, '\xaa'), std::string(50, '\xdd'),
       "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
      {counting, std::string(50, '\xcd'), "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
      {std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First",
       "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
      {std::string(131, '\xaa'),
       "This is a test using a larger than block-size key and a larger than block-size data. The key needs to be "
       "hashed "
       "before being used by the HMAC algorithm.",
       "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"},
  };
  for (const auto& [key, message, digest] : kVectors) {
    EXPECT_EQ(hex(hmac_sha256(bytes_of(key), bytes_of(message))), digest) << message;
  }
}

TEST(HmacSha256, EveryBitOfKeyAndMessageCounts) {
  const std::string key = "sixteen letters.", message = "twenty-one letters...";
  const Sha256Digest digest = hmac_sha256(bytes_of(key), bytes_of(message));
  const auto flipped = [](std::string text, size_t bit) {
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ 1 << bit % 8);
    return text;
  };
  for (size_t bit = 0; bit < 8 * message.size(); ++bit) {
    EXPECT_NE(hmac_sha256(bytes_of(key), bytes_of(flipped(message, bit))), digest) << "message bit " << bit;
  }
  for (size_t bit = 0; bit < 8 * key.size(); ++bit) {
    EXPECT_NE(hmac_sha256(bytes_of(flipped(key, bit)), bytes_of(message)), digest) << "key bit " << bit;
  }
}

}  // namespace
}  // namespace plait
