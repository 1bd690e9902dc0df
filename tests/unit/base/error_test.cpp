#include "base/error.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <locale>
#include <string>

#include "base/printable.hpp"

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

TEST(Join, WritesNumbersAsCDoesInAnyLocale) {
  struct Grouping : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  const std::locale before = std::locale::global(std::locale(std::locale(), new Grouping));
  const std::string path = join("/proc/", 1234567, "/stat ", 1.5);
  std::locale::global(before);
  EXPECT_EQ(path, "/proc/1234567/stat 1.5");
}

TEST(Error, TooManyOpenFilesSaysWhatToDo) {
  const auto [code, text] = failure_of(EMFILE);
  EXPECT_EQ(code, ErrorCode::kResources);
  EXPECT_EQ(text.find("cannot make a socket: Too many open files; raise the limit of open files (ulimit -n, now "), 0u);
}

TEST(Error, LongMessagesKeepTheirStartAndTheirEnd) {
  for (const char* character : {"y", "é", "漢", "😀"}) {
    for (const size_t count : {size_t{1000}, size_t{100'000}}) {
      std::string name;
      for (size_t i = 0; i < count; ++i) name += character;
      const std::string whole = "plan " + name + ": is wrong", text = Error(ErrorCode::kInvalidPlan, whole).what();
      if (whole.size() <= kMostMessageBytes) {
        EXPECT_EQ(text, whole);
        continue;
      }
      EXPECT_LE(text.size(), kMostMessageBytes);
      EXPECT_TRUE(text.starts_with("plan " + std::string(character))) << text;
      EXPECT_TRUE(text.ends_with(std::string(character) + ": is wrong")) << text;
      EXPECT_EQ(printable(text), text);  // no character was cut
      EXPECT_NE(text.find(" bytes) … "), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace plait
