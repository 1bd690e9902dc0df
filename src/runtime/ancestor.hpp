// Searches the ancestors of this process.
#pragma once

#include <functional>
#include <string>

namespace plait {

// Names the nearest ancestor process whose command begins with `prefix`, by process id and start time. Empty if there
// is no such process.
using AncestorFinder = std::function<std::string(const std::string& prefix)>;
std::string find_ancestor(const std::string& prefix);

}  // namespace plait
