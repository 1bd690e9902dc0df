#include "base/names.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace plait {
namespace {

constexpr size_t kLongestGuess = 64;      // letters; whoever wrote more than that did not mistype a name
constexpr size_t kLettersPerSlip = 4;     // of a name, in which one slip is likely
constexpr size_t kLeastLettersAlike = 3;  // that names which only begin alike must share

bool is_separator(char c) { return c == '-' || c == '_'; }
char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Counts the letters to insert, remove, change or swap with the next to make one text the other (optimal string
// alignment: each pair is swapped at most once).
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last = std::exchange(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string letters_of(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    if (!is_separator(c)) letters += to_lower(c);
  }
  return letters;
}

bool begun_alike(std::string_view a, std::string_view b) {
  return std::min(a.size(), b.size()) >= kLeastLettersAlike && (a.starts_with(b) || b.starts_with(a));
}

}  // namespace

std::string simplified(std::string_view name) {
  std::string simple = letters_of(name);
  for (const std::string_view prefix : {"nccl", "mpi"}) {
    if (simple.starts_with(prefix) && simple.size() > prefix.size()) return simple.substr(prefix.size());
  }
  return simple;
}

std::string_view nearest_name(std::string_view wanted, std::span<const std::string_view> names) {
  // Also with the library's prefix: "nccll" is no "l" of NCCL's.
  const std::string simple = simplified(wanted), letters = letters_of(wanted);
  if (simple.size() > kLongestGuess) return {};
  std::string_view nearest, alike;
  size_t least = 0;
  for (const std::string_view name : names) {
    const auto compare = [&](const std::string& given, const std::string& candidate) {
      const size_t distance = edit_distance(given, candidate);
      const size_t most = std::max<size_t>(1, std::max(given.size(), candidate.size()) / kLettersPerSlip);
      if (distance <= most && distance < candidate.size() && (nearest.empty() || distance < least)) {
        nearest = name;
        least = distance;
      }
      if (alike.empty() && begun_alike(given, candidate)) alike = name;
    };
    compare(simple, simplified(name));
    if (letters != simple) compare(letters, letters_of(name));
  }
  return nearest.empty() ? alike : nearest;
}

std::string did_you_mean(std::string_view wanted, std::span<const std::string_view> names) {
  const std::string_view nearest = nearest_name(wanted, names);
  return nearest.empty() ? "" : join("; did you mean '", nearest, "'?");
}

}  // namespace plait
