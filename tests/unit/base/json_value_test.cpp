#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <random>

#include "base/error.hpp"
#include "base/json.hpp"

namespace plait {
namespace {

JsonDocument parse(const std::string& text, JsonLimits limits = {}) {
  return JsonDocument::parse(text, "file.json", limits);
}

template <class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    return error.what();
  }
  ADD_FAILURE() << "expected an error, found none";
  return "";
}

std::string refusal(const std::string& text, JsonLimits limits = {}) {
  return error_of([&] { parse(text, limits); });
}

TEST(JsonReader, GivesValuesWithTheirLines) {
  const JsonDocument document =
      parse("{\n \"a\": [1, 2.5, -3e2],\n \"b\": {\"c\": \"text\", \"d\": null},\n\"e\": true\n}\n");
  const JsonValue root = document.root();
  EXPECT_EQ(root.size(), 3u);
  EXPECT_EQ(root.key(1), "b");
  EXPECT_EQ(root.at("a").size(), 3u);
  EXPECT_EQ(root.at("a").at(size_t{0}).as_integer(), 1);
  EXPECT_EQ(root.at("a").at(size_t{1}).as_number(), 2.5);
  EXPECT_EQ(root.at("a").at(size_t{2}).as_integer(), -300);
  EXPECT_EQ(root.at("b").at("c").as_string(), "text");
  EXPECT_TRUE(root.at("b").at("d").is_null());
  EXPECT_TRUE(root.at("e").as_bool());
  EXPECT_EQ(root.at("a").line(), 2);
  EXPECT_EQ(root.at("b").at("d").line(), 3);
  EXPECT_EQ(root.at("e").line(), 4);
  EXPECT_FALSE(root.find("nothing").has_value());
}

TEST(JsonReader, ViewsOutliveAMoveOfTheDocument) {
  JsonDocument first = parse("[\"kept\"]");
  const JsonValue view = first.root();
  const JsonDocument second = std::move(first);
  EXPECT_EQ(view.at(size_t{0}).as_string(), "kept");
}

TEST(JsonReader, ReadsEscapesAndUnicode) {
  const JsonDocument document =
      parse(R"(["\"\\\/\b\f\n\r\t", "\u0041\u00e9\u20ac", "\ud83d\ude00", "é€😀", "a\u0000b"])");
  const JsonValue root = document.root();
  EXPECT_EQ(root.at(size_t{0}).as_string(), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(root.at(size_t{1}).as_string(), "Aé€");
  EXPECT_EQ(root.at(size_t{2}).as_string(), "😀");
  EXPECT_EQ(root.at(size_t{3}).as_string(), "é€😀");
  EXPECT_EQ(root.at(size_t{4}).as_string(), std::string_view("a\0b", 3));
}

TEST(JsonReader, AcceptsAByteOrderMarkAndScalars) {
  EXPECT_EQ(parse("\xef\xbb\xbf 7 ").root().as_integer(), 7);
  EXPECT_EQ(parse("-0").root().as_number(), 0);
  EXPECT_EQ(parse("[]").root().size(), 0u);
  EXPECT_EQ(parse("{ }").root().size(), 0u);
}

TEST(JsonReader, SaysWhereWhatWasExpectedAndFound) {
  EXPECT_EQ(refusal(""), "file.json:1: expected a value, found the end of the text");
  EXPECT_EQ(refusal("{\n\"a\" 1}"), "file.json:2: expected ':' after a member name, found '1'");
  EXPECT_EQ(refusal("[1,\n2"), "file.json:2: expected ',' or ']', found the end of the text");
  EXPECT_EQ(refusal("[1]\n\n]"), "file.json:3: expected the end of the text, found ']'");
  EXPECT_EQ(refusal("{\"a\": 1,\n \"b\": 2,\n \"a\": 3}"), "file.json:3: expected each member once, found \"a\" again");
  EXPECT_EQ(refusal("{a: 1}"), "file.json:1: expected a member name in double quotes, found 'a'");
  EXPECT_EQ(refusal("[\"a\nb\"]"), "file.json:1: expected the closing quote of a string, found byte 0x0a");
}

TEST(JsonReader, RefusesWhatIsNotJson) {
  for (const char* text : {"[1,]",
                           "{\"a\":1,}",
                           "01",
                           "+1",
                           "1.",
                           ".5",
                           "1e",
                           "1e+",
                           "-",
                           "NaN",
                           "inf",
                           "-inf",
                           "Infinity",
                           "0x10",
                           "tru",
                           "nul",
                           "'a'",
                           "[1 2]",
                           "{\"a\"}",
                           "\"\\x\"",
                           "\"\\u12g4\"",
                           "\"\\ud800\"",
                           "\"\\ud800\\u0041\"",
                           "\"\\udc00\"",
                           "\"abc",
                           "\"abc\\",
                           "// no\n1",
                           "1e999",
                           "-1e999",
                           "{\"a\":1 \"b\":2}",
                           "]",
                           "\x01\x02",
                           "\"\xff\"",
                           "\"\xc0\x80\"",
                           "\"\xed\xa0\x80\"",
                           "\"\xf4\x90\x80\x80\"",
                           "\"\xe2\x82\""}) {
    SCOPED_TRACE(text);
    refusal(text);
  }
}

TEST(JsonReader, FindsDuplicatesAmongManyMembers) {
  std::string text = "{";
  for (int i = 0; i < 100; ++i) text += "\"k" + std::to_string(i) + "\": 1,\n";
  EXPECT_EQ(refusal(text + "\"k57\": 2}"), "file.json:101: expected each member once, found \"k57\" again");
  EXPECT_EQ(parse(text + "\"last\": 2}").root().size(), 101u);
}

TEST(JsonReader, BoundsDepthAndSize) {
  const std::string deep(1'000'000, '[');
  EXPECT_NE(refusal(deep).find("at most 100 levels"), std::string::npos);
  const std::string fits = std::string(100, '[') + std::string(100, ']');
  EXPECT_NO_THROW(parse(fits));
  EXPECT_NE(refusal("[1,2,3,4]", {4, 100}).find("at most 4 bytes"), std::string::npos);
}

TEST(JsonReader, AccessorsNameTheWantedKind) {
  const JsonDocument document = parse("{\"n\": 1.5,\n \"s\": \"words\",\n \"big\": 1e300, \"list\": [1]}");
  const JsonValue root = document.root();
  EXPECT_EQ(error_of([&] { root.at("n").as_string(); }), "file.json:1: expected a string, found the number 1.5");
  EXPECT_EQ(error_of([&] { root.at("s").as_number(); }), "file.json:2: expected a number, found the string \"words\"");
  EXPECT_EQ(error_of([&] { root.at("n").as_integer(); }), "file.json:1: expected an integer, found the number 1.5");
  EXPECT_EQ(error_of([&] { root.at("big").as_integer(); }),
            "file.json:3: expected an integer, found the number 1e+300");
  EXPECT_EQ(error_of([&] { root.at("list").at(size_t{0}).as_integer(2, 9); }),
            "file.json:3: expected an integer from 2 to 9, found the number 1");
  EXPECT_EQ(error_of([&] { root.at("list").as_bool(); }), "file.json:3: expected a boolean, found an array");
  EXPECT_EQ(error_of([&] { root.at("list").at(size_t{1}); }), "file.json:3: expected at least 2 elements, found 1");
  EXPECT_EQ(error_of([&] { root.at("x"); }), "file.json:1: expected a member \"x\" in this object, found none");
  EXPECT_EQ(error_of([&] { root.at("n").size(); }),
            "file.json:1: expected an array or an object, found the number 1.5");
  EXPECT_EQ(error_of([&] { root.allow_only({"n", "s"}); }),
            "file.json:3: expected one of the members n, s, found \"big\"");
}

TEST(JsonReader, CutsLongStringsInMessagesBetweenCharacters) {
  const JsonDocument document = parse("\"" + std::string(39, 'x') + "éééé\"");
  const std::string message = error_of([&] { document.root().as_number(); });
  EXPECT_NE(message.find(std::string(39, 'x') + "…\""), std::string::npos) << message;
}

TEST(JsonWriter, PutsShortThingsOnOneLine) {
  JsonWriter json(60);
  json.begin_object().key("a").begin_array().value(1).value(2.5).value("x").end();
  json.key("b").begin_object().end().key("c").value(true).key("d").null().end();
  EXPECT_EQ(json.take(), "{\"a\": [1, 2.5, \"x\"], \"b\": {}, \"c\": true, \"d\": null}\n");
}

TEST(JsonWriter, BreaksLongThingsAndFillsLines) {
  JsonWriter json(30);
  json.begin_object().key("numbers").begin_array();
  for (int i = 100; i < 112; ++i) json.value(i);
  json.end().key("name").value("something long enough").end();
  EXPECT_EQ(json.take(),
            "{\n"
            "  \"numbers\": [\n"
            "    100, 101, 102, 103, 104,\n"
            "    105, 106, 107, 108, 109,\n"
            "    110, 111\n"
            "  ],\n"
            "  \"name\": \"something long enough\"\n"
            "}\n");
}

TEST(JsonWriter, ReadsBackEqual) {
  const std::string odd = "quote\" back\\ line\n tab\t bell\x07 é😀";
  JsonWriter json;
  const double numbers[] = {0.1,  1.0 / 3,           1e-300, 1.7976931348623157e308, -123456789.125, 5e-324,
                            1e15, 9007199254740992.0};
  json.begin_array().value(odd).value("bad \xff byte").begin_array();
  for (const double number : numbers) json.value(number);
  json.end().end();
  const JsonDocument document = parse(json.take());
  EXPECT_EQ(document.root().at(size_t{0}).as_string(), odd);
  EXPECT_EQ(document.root().at(size_t{1}).as_string(), "bad \xef\xbf\xbd byte");
  for (size_t i = 0; i < std::size(numbers); ++i) {
    EXPECT_EQ(document.root().at(size_t{2}).at(i).as_number(), numbers[i]);
  }
}

TEST(JsonWriter, RefusesMisuse) {
  EXPECT_THROW(JsonWriter().value(std::numeric_limits<double>::infinity()), Error);
  EXPECT_THROW(JsonWriter().value(std::nan("")), Error);
  EXPECT_THROW(JsonWriter().end(), Error);
  EXPECT_THROW(JsonWriter().key("a"), Error);
  EXPECT_THROW(JsonWriter().begin_object().value(1), Error);
  EXPECT_THROW(JsonWriter().take(), Error);
  JsonWriter open;
  open.begin_array();
  EXPECT_THROW(open.take(), Error);
}

TEST(Json, RandomValuesSurviveARoundTrip) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    JsonWriter json(20 + random() % 100);
    const auto write = [&](auto& self, int depth) -> void {
      const unsigned kind = random() % (depth > 4 ? 4 : 6);
      if (kind == 0) json.value(static_cast<int64_t>(random()) - (int64_t{1} << 31));
      if (kind == 1) json.value(std::string(random() % 30, static_cast<char>('a' + random() % 26)));
      if (kind == 2) json.value(random() % 2 == 0);
      if (kind == 3) json.value(std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 100) - 50));
      if (kind < 4) return;
      kind == 4 ? json.begin_array() : json.begin_object();
      for (unsigned i = 0, count = random() % 6; i < count; ++i) {
        if (kind == 5) json.key("key" + std::to_string(i));
        self(self, depth + 1);
      }
      json.end();
    };
    write(write, 0);
    const std::string text = json.take();
    const JsonDocument document = parse(text);
    // Writing what was read gives the same text again, at any width.
    JsonWriter again(120), wide(120);
    const auto copy = [](auto& self, JsonWriter& out, const JsonValue& value) -> void {
      switch (value.type()) {
        case JsonType::kNull:
          out.null();
          break;
        case JsonType::kBool:
          out.value(value.as_bool());
          break;
        case JsonType::kNumber:
          out.value(value.as_number());
          break;
        case JsonType::kString:
          out.value(value.as_string());
          break;
        default:
          value.is_array() ? out.begin_array() : out.begin_object();
          for (size_t i = 0; i < value.size(); ++i) {
            if (value.is_object()) out.key(value.key(i));
            self(self, out, value.at(i));
          }
          out.end();
      }
    };
    copy(copy, again, document.root());
    const std::string second = again.take();
    const JsonDocument reread = parse(second);
    copy(copy, wide, reread.root());
    EXPECT_EQ(second, wide.take());
  }
}

// Plans of tens of megabytes must be read in about a second; the bound here is loose because machines are busy.
TEST(Json, ReadsTensOfMegabytesQuickly) {
  std::string text = "[";
  while (text.size() < (20u << 20))
    text += "{\"op\": \"reduce\", \"rank\": 12, \"chunk\": [0.25, 0.5], \"name\": \"scratch\"},\n";
  text += "0]";
  const auto start = std::chrono::steady_clock::now();
  const JsonDocument document = parse(text);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_GT(document.root().size(), 100'000u);
  RecordProperty("seconds", std::to_string(seconds.count()));
  std::printf("20 MiB of JSON in %.2f s\n", seconds.count());
  EXPECT_LT(seconds.count(), 20);
}

}  // namespace
}  // namespace plait
