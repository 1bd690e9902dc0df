// UTF-8, the one encoding of all texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace plait {

// Bytes of the character at the start of `text`; 0 where there is none that is valid (overlong, a surrogate, beyond
// U+10FFFF, cut off, or nothing at all).
size_t utf8_length(std::string_view text);

// Appends the character of that code, which must be at most U+10FFFF and no surrogate.
void append_utf8(std::string& out, uint32_t code);

}  // namespace plait
