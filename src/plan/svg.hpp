// The words and numbers of SVG.
#pragma once

#include <string>

namespace plait {

// Text without characters that mean something in XML.
std::string escaped(const std::string& text);

// Formats a number of pixels with at most one decimal, the same on every machine.
std::string px(double value);

// Gives neighbouring chunks colours that are far apart on the wheel, by the golden angle. The colour is #rrggbb, which
// every viewer knows; saturation and lightness are in [0, 1].
std::string colour(int chunk, double saturation, double lightness);

}  // namespace plait
