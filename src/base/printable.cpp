#include "base/printable.hpp"

#include <algorithm>

#include "base/utf8.hpp"

namespace plait {
namespace {

// Whether the character of `length` bytes at the start of `text` is a control character.
bool is_control(std::string_view text, size_t length) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (length == 1) return (first < 0x20 && first != '\n' && first != '\t') || first == 0x7f;
  return length == 2 && first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;  // U+0080 to U+009F
}

// Whether that character turns the direction of the text around it, or ends the line: U+061C, U+200E, U+200F, U+2028 to
// U+202E, U+2066 to U+2069. A name with one of them could show another than its own.
bool is_direction(std::string_view text, size_t length) {
  if (length == 2) return text.substr(0, 2) == "\xd8\x9c";
  if (length != 3 || text[0] != '\xe2') return false;
  const auto second = static_cast<unsigned char>(text[1]), third = static_cast<unsigned char>(text[2]);
  if (second == 0x80) return third == 0x8e || third == 0x8f || (third >= 0xa8 && third <= 0xae);
  return second == 0x81 && third >= 0xa6 && third <= 0xa9;
}

// "\u202e"
std::string code_of_direction(std::string_view text, size_t length) {
  constexpr char kHex[] = "0123456789abcdef";
  unsigned code = static_cast<unsigned char>(text[0]) & (length == 2 ? 0x1fu : 0x0fu);
  for (size_t i = 1; i < length; ++i) code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3fu);
  return {'\\', 'u', kHex[code >> 12 & 15], kHex[code >> 8 & 15], kHex[code >> 4 & 15], kHex[code & 15]};
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t valid = utf8_length(text.substr(0, 4));
    const size_t length = std::max<size_t>(valid, 1);
    if (is_direction(text, valid)) {
      out += code_of_direction(text, valid);
    } else if (valid != 0 && !is_control(text, length)) {
      out.append(text.substr(0, length));
    } else {
      const auto code = static_cast<unsigned char>(text[length - 1]);  // of U+009B the last byte is 9b, too
      out += {'\\', 'x', kHex[code >> 4], kHex[code & 15]};
    }
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace plait
