// Texts from files, devices and command lines, made fit for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace plait {

// The text with "\x1b" and the like in place of control characters, which could move the cursor or recolour the screen,
// and of bytes that are no UTF-8, and "\u202e" and the like in place of characters that turn the direction of text.
// Ends of lines and tabs stay.
std::string printable(std::string_view text);

}  // namespace plait
