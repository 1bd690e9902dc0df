// Libraries that are not NCCL.
#include "bench/nccl_library.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.hpp"

namespace plait {
namespace {

std::string refusal(const std::vector<std::string>& candidates) {
  try {
    const NcclLibrary library(candidates);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "";
}

TEST(NcclLibrary, SaysWhyEachCandidateCannotBeOpened) {
  const std::string text = refusal({"libno_such_nccl.so.2", "/no/such/folder/libnccl.so.2"});
  EXPECT_NE(text.find("libno_such_nccl.so.2"), std::string::npos) << text;
  EXPECT_NE(text.find("/no/such/folder/libnccl.so.2"), std::string::npos) << text;
  EXPECT_NE(text.find("PLAIT_NCCL_LIBRARY"), std::string::npos) << text;
}

TEST(NcclLibrary, RefusesWithoutCandidates) { EXPECT_NE(refusal({}).find("no library named"), std::string::npos); }

TEST(NcclLibrary, RefusesAnotherLibrary) {
  const std::string text = refusal({"libno_such_nccl.so.2", "libc.so.6"});
  EXPECT_NE(text.find("libc.so.6 has no ncclGetVersion"), std::string::npos) << text;
}

}  // namespace
}  // namespace plait
