#include "base/printable.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/json.hpp"

namespace plait {
namespace {

TEST(Printable, KeepsTexts) {
  for (const std::string text : {"", "plain\n\ttext", "é ü – … 漢 😀", "back\\slash \"quoted\""}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, ShowsControlCharacters) {
  EXPECT_EQ(printable("a\x1b[31mb\r\x7f\b"), "a\\x1b[31mb\\x0d\\x7f\\x08");
  EXPECT_EQ(printable(std::string("\0x", 2)), "\\x00x");
  EXPECT_EQ(printable("\u202egnp.exe \u2066\u2069\u061c\u200f\u2028 \u2013 \u2070"),
            "\\u202egnp.exe \\u2066\\u2069\\u061c\\u200f\\u2028 \u2013 \u2070");
  EXPECT_EQ(printable("\xc2\x80 \xc2\x9b \xc2\xa0"), "\\x80 \\x9b \xc2\xa0");  // U+0080, U+009B, U+00A0
}

TEST(Printable, ShowsBytesThatAreNoUtf8) {
  EXPECT_EQ(printable("\xff"
                      "a\xc3"),
            "\\xff"
            "a\\xc3");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // half of a surrogate pair
}

TEST(Printable, IsWhatErrorsSay) {
  const Error error(ErrorCode::kInvalidInput, "no \x1b[2J\xff here");
  EXPECT_STREQ(error.what(), "no \\x1b[2J\\xff here");
}

TEST(Printable, NamesInJsonHaveNoControlCharacters) {
  const auto document = JsonDocument::parse(R"(["é 漢", "a\u001b[31m", "two\nlines", "\u009b"])", "f.json");
  EXPECT_EQ(document.root().at(size_t{0}).as_name(), "é 漢");
  for (const size_t i : {1, 2, 3}) EXPECT_THROW(document.root().at(i).as_name(), Error) << i;
}

TEST(Printable, JsonIsWrittenWithoutControlCharacters) {
  EXPECT_EQ(JsonWriter().value("\x1b \x7f \xc2\x9b \xc2\xa0").take(), "\"\\u001b \\u007f \\u009b \xc2\xa0\"\n");
}

}  // namespace
}  // namespace plait
