// Texts from files, devices and command lines, made fit for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace plait {

// Returns the text without what could move the cursor, recolour the screen or turn the direction of text. Control
// characters, and bytes that are no UTF-8, become "\x1b" and the like; characters that turn text become "\u202e" and
// the like. Ends of lines and tabs stay.
std::string printable(std::string_view text);

}  // namespace plait
