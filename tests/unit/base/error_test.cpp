#include "base/error.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace plait {
namespace {

std::pair<ErrorCode, std::string> failure_of(int error_number) {
  try {
    fail_system(error_number, "cannot make a socket");
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
}

TEST(Error, OfTheSystem) {
  EXPECT_EQ(failure_of(EPERM),
            std::pair(ErrorCode::kSystem, std::string("cannot make a socket: Operation not permitted")));
}

TEST(Error, TooManyOpenFilesSaysWhatToDo) {
  const auto [code, text] = failure_of(EMFILE);
  EXPECT_EQ(code, ErrorCode::kResources);
  EXPECT_EQ(text.find("cannot make a socket: Too many open files; raise the limit of open files (ulimit -n, now "), 0u);
}

}  // namespace
}  // namespace plait
