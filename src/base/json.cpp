#include "base/json.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "base/printable.hpp"
#include "base/utf8.hpp"

namespace plait {

const char* name(JsonType type) {
  switch (type) {
    case JsonType::kNull:
      return "null";
    case JsonType::kBool:
      return "a boolean";
    case JsonType::kNumber:
      return "a number";
    case JsonType::kString:
      return "a string";
    case JsonType::kArray:
      return "an array";
    case JsonType::kObject:
      return "an object";
  }
  return "a value";
}

namespace internal {

struct JsonSpan {
  uint32_t offset;
  uint32_t count;
};

// 16 bytes a value. A string's span lies in `characters`; an array's or an object's span lies in `children`, where an
// object holds key, value, key, value, …
struct JsonNode {
  union {
    double number;
    bool truth;
    JsonSpan span;
  };
  uint32_t line;
  JsonType type;
};

struct JsonStore {
  std::string file;
  std::vector<JsonNode> nodes;
  std::vector<uint32_t> children;
  std::string characters;
  uint32_t root = 0;

  std::string_view text(const JsonNode& node) const {
    return std::string_view(characters).substr(node.span.offset, node.span.count);
  }
};

}  // namespace internal

namespace {

using internal::JsonNode;
using internal::JsonSpan;
using internal::JsonStore;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// How a message shows one character of the text, which may be anything.
std::string quoted_character(char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (byte >= 0x20 && byte < 0x7f) return std::string("'") + c + "'";
  constexpr char kHex[] = "0123456789abcdef";
  return std::string("byte 0x") + kHex[byte >> 4] + kHex[byte & 15];
}

class JsonParser {
 public:
  JsonParser(std::string_view text, const JsonLimits& limits, JsonStore& store)
      : text_(text), limits_(limits), store_(store) {}

  void parse_text() {
    const size_t most = std::min<size_t>(limits_.max_bytes, UINT32_MAX);  // spans hold 32 bits
    if (text_.size() > most)
      fail_expected(join("at most ", counted(most, "byte")), join(counted(text_.size(), "byte")));
    if (text_.substr(0, 3) == "\xef\xbb\xbf") position_ = 3;
    store_.root = parse_value(0);
    skip_space();
    if (position_ < text_.size()) fail_expected("the end of the text");
  }

 private:
  [[noreturn]] void fail_expected(const std::string& expected, const std::string& found) const {
    fail(ErrorCode::kInvalidInput, store_.file, ":", line_, ": expected ", expected, ", found ", found);
  }
  [[noreturn]] void fail_expected(const std::string& expected) const {
    fail_expected(expected, position_ < text_.size() ? quoted_character(text_[position_]) : "the end of the text");
  }

  char peek() const { return position_ < text_.size() ? text_[position_] : '\0'; }

  void skip_space() {
    for (; position_ < text_.size(); ++position_) {
      const char c = text_[position_];
      if (c == '\n') {
        ++line_;
      } else if (c != ' ' && c != '\t' && c != '\r') {
        return;
      }
    }
  }

  uint32_t add_node(JsonType type, uint32_t line, JsonNode node = {}) {
    node.type = type;
    node.line = line;
    store_.nodes.push_back(node);
    return static_cast<uint32_t>(store_.nodes.size() - 1);
  }

  uint32_t parse_value(int depth) {
    skip_space();
    const char c = peek();
    if (c == '{' || c == '[') {
      if (depth >= limits_.max_depth)
        fail_expected(join("at most ", counted(limits_.max_depth, "level"), " of nesting"));
      return c == '{' ? parse_object(depth) : parse_array(depth);
    }
    if (c == '"') return parse_string("a string");
    if (c == '-' || is_digit(c)) return parse_number();
    return parse_word();
  }

  uint32_t parse_word() {
    JsonNode node{};
    for (const auto& [word, type, truth] : {std::tuple{"true", JsonType::kBool, true},
                                            {"false", JsonType::kBool, false},
                                            {"null", JsonType::kNull, false}}) {
      const std::string_view view(word);
      if (text_.substr(position_, view.size()) != view) continue;
      position_ += view.size();
      node.truth = truth;
      return add_node(type, line_, node);
    }
    fail_expected("a value");
  }

  // JSON's grammar is narrower than from_chars': no "inf", no leading zero, digits on both sides of the point.
  uint32_t parse_number() {
    const size_t start = position_;
    const auto digits = [&] {
      if (!is_digit(peek())) fail_expected("a digit");
      while (is_digit(peek())) ++position_;
    };
    if (peek() == '-') ++position_;
    if (peek() == '0') {
      ++position_;
    } else {
      digits();
    }
    if (peek() == '.') {
      ++position_;
      digits();
    }
    if (peek() == 'e' || peek() == 'E') {
      ++position_;
      if (peek() == '+' || peek() == '-') ++position_;
      digits();
    }
    JsonNode node{};
    const char* first = text_.data() + start;
    const char* last = text_.data() + position_;
    const auto [end, error] = std::from_chars(first, last, node.number);
    if (error != std::errc() || end != last || !std::isfinite(node.number)) {
      fail_expected("a number that a double can hold", std::string(first, std::min<size_t>(last - first, 40)));
    }
    return add_node(JsonType::kNumber, line_, node);
  }

  uint32_t parse_hex4() {
    uint32_t code = 0;
    for (int i = 0; i < 4; ++i, ++position_) {
      const char c = peek();
      const int digit = is_digit(c)            ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) fail_expected("four hexadecimal digits after \\u");
      code = code * 16 + static_cast<uint32_t>(digit);
    }
    return code;
  }

  void parse_unicode_escape() {
    uint32_t code = parse_hex4();
    if (code >= 0xd800 && code <= 0xdbff) {
      if (text_.substr(position_, 2) != "\\u") fail_expected("the second half of a surrogate pair");
      position_ += 2;
      const uint32_t low = parse_hex4();
      if (low < 0xdc00 || low > 0xdfff) fail_expected("the second half of a surrogate pair", "another code");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code <= 0xdfff) {
      fail_expected("a character", "the second half of a surrogate pair");
    }
    append_utf8(store_.characters, code);
  }

  void parse_escape() {
    ++position_;
    const char c = peek();
    constexpr std::string_view kEscapes = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    if (c == 'u') {
      ++position_;
      parse_unicode_escape();
      return;
    }
    const size_t which = kEscapes.find(c);
    if (which == std::string_view::npos) fail_expected("one of \"\\/bfnrtu after a backslash");
    ++position_;
    store_.characters += kMeanings[which];
  }

  uint32_t parse_string(const char* what) {
    if (peek() != '"') fail_expected(what);
    ++position_;
    JsonNode node{};
    node.span.offset = static_cast<uint32_t>(store_.characters.size());
    for (;;) {
      const size_t start = position_;
      while (position_ < text_.size()) {
        const auto byte = static_cast<unsigned char>(text_[position_]);
        if (byte == '"' || byte == '\\' || byte < 0x20) break;
        const size_t length = byte < 0x80 ? 1 : utf8_length(text_.substr(position_, 4));
        if (length == 0) fail_expected("UTF-8");
        position_ += length;
      }
      store_.characters.append(text_.substr(start, position_ - start));
      if (peek() == '\\' && position_ < text_.size()) {
        parse_escape();
        continue;
      }
      if (position_ < text_.size() && text_[position_] == '"') break;
      fail_expected("the closing quote of a string");
    }
    ++position_;
    node.span.count = static_cast<uint32_t>(store_.characters.size()) - node.span.offset;
    return add_node(JsonType::kString, line_, node);
  }

  // Moves the children gathered since `mark` from the common stack to their final, contiguous place.
  JsonSpan close_container(size_t mark) {
    const JsonSpan span{static_cast<uint32_t>(store_.children.size()), static_cast<uint32_t>(stack_.size() - mark)};
    store_.children.insert(store_.children.end(), stack_.begin() + static_cast<ptrdiff_t>(mark), stack_.end());
    stack_.resize(mark);
    return span;
  }

  uint32_t parse_array(int depth) {
    const uint32_t index = add_node(JsonType::kArray, line_);
    const size_t mark = stack_.size();
    ++position_;
    skip_space();
    if (peek() == ']') {
      ++position_;
    } else {
      for (;;) {
        stack_.push_back(parse_value(depth + 1));
        if (end_of_item(']')) break;
      }
    }
    store_.nodes[index].span = close_container(mark);
    return index;
  }

  uint32_t parse_object(int depth) {
    const uint32_t index = add_node(JsonType::kObject, line_);
    const size_t mark = stack_.size();
    ++position_;
    skip_space();
    if (peek() == '}') {
      ++position_;
    } else {
      for (;;) {
        skip_space();
        stack_.push_back(parse_string("a member name in double quotes"));
        skip_space();
        if (peek() != ':') fail_expected("':' after a member name");
        ++position_;
        stack_.push_back(parse_value(depth + 1));
        if (end_of_item('}')) break;
      }
    }
    refuse_duplicate_keys(mark);
    store_.nodes[index].span = close_container(mark);
    return index;
  }

  // After an element: true at the closing bracket, false after a comma.
  bool end_of_item(char close) {
    skip_space();
    const char c = peek();
    if (c != ',' && c != close) fail_expected(std::string("',' or '") + close + "'");
    ++position_;
    return c == close;
  }

  void refuse_duplicate_keys(size_t mark) const {
    const auto key = [&](size_t i) { return store_.text(store_.nodes[stack_[i]]); };
    const auto refuse = [&](size_t i) {
      fail(ErrorCode::kInvalidInput, store_.file, ":", store_.nodes[stack_[i]].line,
           ": expected each member once, found \"", key(i), "\" again");
    };
    const size_t members = (stack_.size() - mark) / 2;
    if (members <= 16) {
      for (size_t i = mark; i < stack_.size(); i += 2) {
        for (size_t j = mark; j < i; j += 2) {
          if (key(i) == key(j)) refuse(i);
        }
      }
      return;
    }
    std::vector<size_t> order;
    for (size_t i = mark; i < stack_.size(); i += 2) order.push_back(i);
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return key(a) != key(b) ? key(a) < key(b) : a < b; });
    for (size_t i = 1; i < order.size(); ++i) {
      if (key(order[i - 1]) == key(order[i])) refuse(order[i]);
    }
  }

  std::string_view text_;
  const JsonLimits& limits_;
  JsonStore& store_;
  std::vector<uint32_t> stack_;  // children of the containers that are still open
  size_t position_ = 0;
  uint32_t line_ = 1;
};

}  // namespace

JsonDocument::JsonDocument(std::unique_ptr<internal::JsonStore> store) : store_(std::move(store)) {}
JsonDocument::JsonDocument(JsonDocument&&) noexcept = default;
JsonDocument& JsonDocument::operator=(JsonDocument&&) noexcept = default;
JsonDocument::~JsonDocument() = default;

JsonDocument JsonDocument::parse(std::string_view text, std::string file, const JsonLimits& limits) {
  auto store = std::make_unique<JsonStore>();
  store->file = std::move(file);
  JsonParser(text, limits, *store).parse_text();
  return JsonDocument(std::move(store));
}

JsonValue JsonDocument::root() const { return JsonValue(store_.get(), store_->root); }

JsonType JsonValue::type() const { return store_->nodes[index_].type; }
int JsonValue::line() const { return static_cast<int>(store_->nodes[index_].line); }
const std::string& JsonValue::file() const { return store_->file; }

std::string JsonValue::describe() const {
  const JsonNode& node = store_->nodes[index_];
  switch (node.type) {
    case JsonType::kBool:
      return node.truth ? "true" : "false";
    case JsonType::kNumber:
      return join("the number ", node.number);
    case JsonType::kString: {
      const std::string_view text = as_string();
      if (text.size() <= 40) return join("the string \"", text, "\"");
      size_t cut = 40;  // never in the middle of a character
      while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80) --cut;
      return join("the string \"", text.substr(0, cut), "…\"");
    }
    default:
      return name(node.type);
  }
}

void JsonValue::fail_expected(const std::string& expected) const {
  fail(ErrorCode::kInvalidInput, file(), ":", line(), ": expected ", expected, ", found ", describe());
}

void JsonValue::need(JsonType wanted) const {
  if (type() != wanted) fail_expected(name(wanted));
}

bool JsonValue::as_bool() const {
  need(JsonType::kBool);
  return store_->nodes[index_].truth;
}

double JsonValue::as_number() const {
  need(JsonType::kNumber);
  return store_->nodes[index_].number;
}

int64_t JsonValue::as_integer(int64_t low, int64_t high) const {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  const double number = type() == JsonType::kNumber ? as_number() : 0.5;
  const bool whole = number == std::floor(number) && std::abs(number) <= kExact;
  if (!whole || static_cast<int64_t>(number) < low || static_cast<int64_t>(number) > high) {
    const bool bounded = low > -(int64_t{1} << 53) || high < (int64_t{1} << 53);
    fail_expected(bounded ? join("an integer from ", low, " to ", high) : "an integer");
  }
  return static_cast<int64_t>(number);
}

std::string_view JsonValue::as_string() const {
  need(JsonType::kString);
  return store_->text(store_->nodes[index_]);
}

std::string_view JsonValue::as_name() const {
  const std::string_view text = as_string();
  if (text.find_first_of("\n\t") != std::string_view::npos || printable(text) != text) {
    fail_expected("a name without control characters");
  }
  return text;
}

size_t JsonValue::size() const {
  if (type() != JsonType::kArray && type() != JsonType::kObject) fail_expected("an array or an object");
  return type() == JsonType::kArray ? store_->nodes[index_].span.count : store_->nodes[index_].span.count / 2;
}

JsonValue JsonValue::at(size_t index) const {
  if (index >= size()) {
    fail(ErrorCode::kInvalidInput, file(), ":", line(), ": expected at least ", index + 1, " elements, found ", size());
  }
  const uint32_t offset = store_->nodes[index_].span.offset;
  const size_t place = type() == JsonType::kArray ? offset + index : offset + 2 * index + 1;
  return JsonValue(store_, store_->children[place]);
}

std::string_view JsonValue::key(size_t index) const {
  need(JsonType::kObject);
  if (index >= size()) fail(ErrorCode::kInvalidArgument, "JSON object has no member number ", index);
  return store_->text(store_->nodes[store_->children[store_->nodes[index_].span.offset + 2 * index]]);
}

std::optional<JsonValue> JsonValue::find(std::string_view member) const {
  need(JsonType::kObject);
  for (size_t i = 0; i < size(); ++i) {
    if (key(i) == member) return at(i);
  }
  return std::nullopt;
}

JsonValue JsonValue::at(std::string_view member) const {
  if (const auto value = find(member)) return *value;
  fail(ErrorCode::kInvalidInput, file(), ":", line(), ": expected a member \"", member,
       "\" in this object, found none");
}

void JsonValue::allow_only(std::initializer_list<std::string_view> members) const {
  need(JsonType::kObject);
  for (size_t i = 0; i < size(); ++i) {
    if (std::find(members.begin(), members.end(), key(i)) != members.end()) continue;
    std::string known;
    for (const std::string_view member : members) known += (known.empty() ? "" : ", ") + std::string(member);
    fail(ErrorCode::kInvalidInput, file(), ":", at(i).line(), ": expected one of the members ", known, ", found \"",
         key(i), "\"");
  }
}

}  // namespace plait
