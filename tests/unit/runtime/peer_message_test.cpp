#include "runtime/peer_message.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.hpp"

namespace plait {
namespace {

using Kind = PeerMessage::Kind;

char memory[64];

std::string refusal(const std::vector<PeerMessage>& messages) {
  try {
    check_messages(messages, 1, 3);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "";
}

TEST(PeerMessage, IsNamedInWords) {
  EXPECT_EQ(to_text({Kind::kSend, 2, DataType::kFloat32, 10, memory}), "send of 10 float32 to rank 2");
  EXPECT_EQ(to_text({Kind::kReceive, 0, DataType::kInt8, 1, memory}), "receive of 1 int8 from rank 0");
}

TEST(PeerMessage, GoodOnesPass) {
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({{Kind::kSend, 0, DataType::kInt8, 8, memory}, {Kind::kReceive, 2, DataType::kInt8, 0, nullptr}}),
            "");
}

TEST(PeerMessage, BadOnesAreNamed) {
  EXPECT_NE(refusal({{Kind::kSend, 3, DataType::kInt8, 8, memory}}).find("rank 3: there are ranks 0 to 2"),
            std::string::npos);
  EXPECT_NE(refusal({{Kind::kReceive, -1, DataType::kInt8, 8, memory}}).find("ranks 0 to 2"), std::string::npos);
  EXPECT_NE(refusal({{Kind::kSend, 0, DataType::kInt8, 8, nullptr}}).find("null"), std::string::npos);
  EXPECT_NE(refusal({{Kind::kSend, 0, DataType::kInt64, SIZE_MAX / 8, memory}}).find("any memory"), std::string::npos);
}

TEST(PeerMessage, WithItselfARankGivesBothEnds) {
  const PeerMessage send{Kind::kSend, 1, DataType::kFloat32, 2, memory};
  EXPECT_EQ(refusal({send, {Kind::kReceive, 1, DataType::kInt64, 1, memory + 8}}), "");
  EXPECT_NE(refusal({send}).find("other end"), std::string::npos);
  EXPECT_NE(refusal({{Kind::kReceive, 1, DataType::kInt64, 1, memory}}).find("other end"), std::string::npos);
  EXPECT_NE(refusal({send, {Kind::kReceive, 1, DataType::kFloat32, 3, memory + 8}}).find("another size"),
            std::string::npos);
}

}  // namespace
}  // namespace plait
