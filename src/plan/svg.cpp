// Text of SVG.
#include "plan/svg.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/error.hpp"

namespace plait {

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

std::string px(double value) {
  const int64_t tenths = std::llround(value * 10);
  const std::string sign = tenths < 0 ? "-" : "";
  const int64_t size = tenths < 0 ? -tenths : tenths;
  return sign + std::to_string(size / 10) + (size % 10 != 0 ? join(".", size % 10) : "");
}

std::string colour(int chunk, double saturation, double lightness) {
  const double hue = std::fmod(205 + 137.508 * chunk, 360) / 30;
  std::string text = "#";
  for (const double shift : {0.0, 8.0, 4.0}) {
    const double k = std::fmod(shift + hue, 12);
    const double part =
        lightness - saturation * std::min(lightness, 1 - lightness) * std::max(-1.0, std::min({k - 3, 9 - k, 1.0}));
    const int byte = static_cast<int>(std::lround(part * 255));
    text += "0123456789abcdef"[byte / 16];
    text += "0123456789abcdef"[byte % 16];
  }
  return text;
}

}  // namespace plait
