// Reasons for a choice: the text of `plait plan --explain`, and words for plans that were not tried.
#pragma once

#include <string>

#include "tuner/tuner.hpp"

namespace plait {

// A plan and how it came about.
struct Explained {
  Choice choice;
  bool is_asked_for = false;  // by its name, and not chosen
  size_t bytes = 0;           // of the message; 0: a long one
};

// The message that stands for long ones.
inline constexpr size_t kLongMessage = size_t{8} << 30;

// Shows the plan's load on links, and beside it the best plan of every other algorithm with its predicted time. A
// sentence says why the chosen one won, or what would be faster.
std::string explain(Tuner& tuner, const Explained& it);

// Names the plans that were too large to try: "bruck, ring; double_binary_tree in more parts". Empty if none was.
std::string too_large_text(const Candidates& candidates);

}  // namespace plait
