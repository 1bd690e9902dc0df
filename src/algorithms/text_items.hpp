// Pieces of text that algorithms and levels are written with.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

namespace plait {

inline std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Splits at the commas that are not in parentheses, and trims each item.
inline std::vector<std::string_view> split_items(std::string_view text) {
  std::vector<std::string_view> items;
  int open = 0;
  size_t first = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size()) open += (text[i] == '(') - (text[i] == ')');
    if (i < text.size() && (text[i] != ',' || open > 0)) continue;
    items.push_back(trimmed(text.substr(first, i - first)));
    first = i + 1;
  }
  return items;
}

// Reads a whole number from 1 on; empty if the text is none.
inline std::optional<int> positive_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) return std::nullopt;
  return value;
}

}  // namespace plait
