// Writing of JSON.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/utf8.hpp"

namespace plait {
namespace {

std::string quoted(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const size_t length = utf8_length(text.substr(i, 4));
    const auto last = static_cast<unsigned char>(text[i + std::max<size_t>(length, 1) - 1]);  // U+0085 ends with 85
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += text[i];
    } else if (byte == '\n') {
      out += "\\n";
    } else if (byte == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f || (byte == 0xc2 && length == 2 && last < 0xa0)) {  // control characters
      out += "\\u00";
      out += kHex[last >> 4];
      out += kHex[last & 15];
    } else if (length == 0) {
      out += "\\ufffd";  // a name from a device may hold anything; the text must stay readable
    } else {
      out.append(text.substr(i, length));
    }
    i += std::max<size_t>(length, 1);
  }
  return out + "\"";
}

}  // namespace

JsonWriter& JsonWriter::begin_object() {
  frames_.push_back(Frame{true, {}, {}, 0});
  return *this;
}

JsonWriter& JsonWriter::begin_array() {
  frames_.push_back(Frame{false, {}, {}, 0});
  return *this;
}

JsonWriter& JsonWriter::end() {
  if (frames_.empty()) fail(ErrorCode::kInternal, "JsonWriter::end without a begin");
  const Frame frame = std::move(frames_.back());
  frames_.pop_back();
  std::string text = lay_out(frame);
  const bool one_line = text.find('\n') == std::string::npos;
  return add(std::move(text), one_line);
}

JsonWriter& JsonWriter::key(std::string_view name) {
  if (frames_.empty() || !frames_.back().object) fail(ErrorCode::kInternal, "JsonWriter::key outside an object");
  frames_.back().key = quoted(name) + ": ";
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) { return add(quoted(text), true); }
JsonWriter& JsonWriter::value(bool truth) { return add(truth ? "true" : "false", true); }
JsonWriter& JsonWriter::value(int64_t number) { return add(std::to_string(number), true); }
JsonWriter& JsonWriter::null() { return add("null", true); }

JsonWriter& JsonWriter::value(double number) {
  if (!std::isfinite(number)) fail(ErrorCode::kInvalidArgument, "JSON has no number ", number);
  if (number == std::floor(number) && std::abs(number) < 1e15) return value(static_cast<int64_t>(number));
  char digits[40];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, number);
  (void)error;  // 40 characters hold every double
  return add(std::string(digits, end), true);
}

std::string JsonWriter::take() {
  if (!frames_.empty() || result_.empty()) fail(ErrorCode::kInternal, "JsonWriter::take before the text is complete");
  std::string text = std::move(result_) + "\n";
  result_.clear();
  return text;
}

JsonWriter& JsonWriter::add(std::string text, bool one_line) {
  if (frames_.empty()) {
    result_ = std::move(text);
    return *this;
  }
  Frame& frame = frames_.back();
  if (frame.object) {
    if (frame.key.empty()) fail(ErrorCode::kInternal, "JsonWriter: a member without a key");
    text.insert(0, frame.key);
    frame.key.clear();
  }
  frame.length += text.size() + 2;
  frame.items.push_back({std::move(text), one_line});
  return *this;
}

// Called when the frame has left the stack: frames_.size() is the depth at which its brackets stand.
std::string JsonWriter::lay_out(const Frame& frame) const {
  const char* open = frame.object ? "{" : "[";
  const char* close = frame.object ? "}" : "]";
  const size_t indent = 2 * frames_.size();
  const size_t key = frames_.empty() ? 0 : frames_.back().key.size();
  const bool all_short = std::all_of(frame.items.begin(), frame.items.end(), [](const Item& i) { return i.one_line; });
  std::string out = open;
  if (all_short && indent + key + frame.length + 2 <= width_) {
    for (size_t i = 0; i < frame.items.size(); ++i) out += (i == 0 ? "" : ", ") + frame.items[i].text;
    return out + close;
  }
  const std::string line_start = "\n" + std::string(indent + 2, ' ');
  size_t column = width_;  // the first element starts a line
  for (size_t i = 0; i < frame.items.size(); ++i) {
    const Item& item = frame.items[i];
    const bool fill =
        !frame.object && item.one_line && column + item.text.size() + 2 <= width_ && item.text.size() <= width_ / 3;
    if (fill) {
      out += ' ';
      column += item.text.size() + 2;
    } else {
      out += line_start;
      column = item.one_line ? indent + 2 + item.text.size() + 1 : width_;
    }
    out += item.text;
    if (i + 1 < frame.items.size()) out += ',';
  }
  return out + "\n" + std::string(indent, ' ') + close;
}

}  // namespace plait
