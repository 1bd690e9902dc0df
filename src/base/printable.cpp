#include "base/printable.hpp"

#include <algorithm>

#include "base/utf8.hpp"

namespace plait {
namespace {

// Of the character of `length` bytes at the start of `text`.
bool is_control(std::string_view text, size_t length) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (length == 1) return (first < 0x20 && first != '\n' && first != '\t') || first == 0x7f;
  return length == 2 && first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;  // U+0080 to U+009F
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t valid = utf8_length(text.substr(0, 4));
    const size_t length = std::max<size_t>(valid, 1);
    if (valid != 0 && !is_control(text, length)) {
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
