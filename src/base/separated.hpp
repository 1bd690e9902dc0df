// Text in parts.
#pragma once

#include <string_view>
#include <vector>

namespace plait {

// The parts between separators, empty ones as well: "a,,b" has three, and "" one. They last as long as the text.
inline std::vector<std::string_view> separated(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

}  // namespace plait
