// Why this plan: what `plait plan --explain` prints, and what tables say of plans that were not tried.
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

// What the plan does to links; beside it the best plan of every other algorithm, with the time that the model predicts;
// and in a sentence what spoke for the one chosen, or what would be faster.
std::string explain(Tuner& tuner, const Explained& it);

// "bruck, ring; double_binary_tree in more parts": what was too large to be tried; empty where nothing was.
std::string too_large_text(const Candidates& candidates);

}  // namespace plait
