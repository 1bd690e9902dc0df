// JSON, read and written without any package. Every value knows the line it came from, so that an error in a file of
// ours says FILE:LINE, what was expected there and what was found.
//
// Reading makes a JsonDocument, which owns everything; a JsonValue is a small view of one value in it and is valid as
// long as the document lives. Writing goes through JsonWriter, which lays the text out the same way every time.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plait {

enum class JsonType : uint8_t { kNull, kBool, kNumber, kString, kArray, kObject };

// "null", "a boolean", "a number", "a string", "an array", "an object".
const char* name(JsonType type);

struct JsonLimits {
  size_t max_bytes = size_t{1} << 30;
  int max_depth = 100;
};

namespace internal {
struct JsonStore;
}

// A view of one value. Accessors throw kInvalidInput, `FILE:LINE: expected X, found Y`, when the value is not of the
// wanted kind.
class JsonValue {
 public:
  JsonType type() const;
  int line() const;
  const std::string& file() const;
  bool is_null() const { return type() == JsonType::kNull; }
  bool is_string() const { return type() == JsonType::kString; }
  bool is_array() const { return type() == JsonType::kArray; }
  bool is_object() const { return type() == JsonType::kObject; }

  bool as_bool() const;
  double as_number() const;
  // A number without a fraction in [low, high]. Numbers are read as double, so |value| may be at most 2^53.
  int64_t as_integer(int64_t low = -(int64_t{1} << 53), int64_t high = int64_t{1} << 53) const;
  std::string_view as_string() const;
  // A text that people read as part of a line: it has no line ends and no control characters.
  std::string_view as_name() const;

  // Elements of an array or members of an object.
  size_t size() const;
  // Element `index` of an array, or the value of member `index` of an object, in the order of the text.
  JsonValue at(size_t index) const;
  std::string_view key(size_t index) const;
  // The named member of an object: find gives nothing where it is missing, at fails.
  std::optional<JsonValue> find(std::string_view member) const;
  JsonValue at(std::string_view member) const;
  JsonValue at(const char* member) const { return at(std::string_view(member)); }
  // Fails at the first member that is not in the list, so that a misspelt name is not silently ignored.
  void allow_only(std::initializer_list<std::string_view> members) const;

  // The words for this value in an error message, such as `the number -3` or `an array`.
  std::string describe() const;
  // Throws kInvalidInput: `FILE:LINE: expected <expected>, found <describe()>`.
  [[noreturn]] void fail_expected(const std::string& expected) const;

 private:
  friend class JsonDocument;
  JsonValue(const internal::JsonStore* store, uint32_t index) : store_(store), index_(index) {}
  void need(JsonType type) const;

  const internal::JsonStore* store_;
  uint32_t index_;
};

// A whole JSON text, parsed. Movable; the views stay valid.
class JsonDocument {
 public:
  // Parses exactly one value (RFC 8259) with nothing after it; a leading byte-order mark is skipped. `file` is only
  // used in messages. Refuses duplicate keys, bad UTF-8, numbers beyond double, and texts past the limits.
  static JsonDocument parse(std::string_view text, std::string file, const JsonLimits& limits = {});

  JsonDocument(JsonDocument&&) noexcept;
  JsonDocument& operator=(JsonDocument&&) noexcept;
  ~JsonDocument();

  JsonValue root() const;

 private:
  explicit JsonDocument(std::unique_ptr<internal::JsonStore> store);
  std::unique_ptr<internal::JsonStore> store_;
};

// Writes JSON text with two spaces of indentation; what fits on one line of `width` columns is put on one line, and
// long arrays of short elements are filled line by line. The same calls always give the same text.
//
//   JsonWriter json;
//   json.begin_object();
//   json.key("gpus").begin_array().value(0).value(1).end();
//   json.end();
//   std::string text = json.take();
class JsonWriter {
 public:
  explicit JsonWriter(size_t width = 120) : width_(width) {}

  JsonWriter& begin_object();
  JsonWriter& begin_array();
  JsonWriter& end();  // closes the innermost object or array
  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(bool truth);
  JsonWriter& value(double number);  // shortest text that reads back equal; must be finite
  JsonWriter& value(int64_t number);
  JsonWriter& value(int number) { return value(static_cast<int64_t>(number)); }
  JsonWriter& value(size_t number) { return value(static_cast<int64_t>(number)); }
  JsonWriter& null();
  // The finished text with a newline at its end; everything that was begun must have been ended.
  std::string take();

 private:
  struct Item {
    std::string text;
    bool one_line;
  };
  struct Frame {
    bool object;
    std::string key;  // of the member that is being written
    std::vector<Item> items;
    size_t length = 0;
  };
  JsonWriter& add(std::string text, bool one_line);
  std::string lay_out(const Frame& frame) const;

  size_t width_;
  std::vector<Frame> frames_;
  std::string result_;
};

}  // namespace plait
