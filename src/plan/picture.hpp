// Plans as pictures: ranks side by side, time downwards.
#pragma once

#include <string>

#include "plan/plan.hpp"
#include "plan/verifier.hpp"

namespace plait {

// Pictures show the first so many ranks and rows and say what they leave out.
inline constexpr int kMaxPictureRanks = 16;
inline constexpr int kMaxPictureRows = 80;
inline constexpr int kMaxTextPictureRanks = 8;

// An SVG picture that needs nothing else: a column a queue, a box a reduce, send or receive in the colour of its chunk,
// thick arrows for data that crosses to another rank, thin ones for signals. Every box tells its operation in words
// when it is pointed at.
std::string to_svg(const VerifiedPlan& plan);

// The same for a terminal: a column a rank, a row a step; `0: in+s1 > r2.s1` is chunk 0, from the rank's input and its
// scratch slot 1 to scratch slot 1 of rank 2. Throws kInvalidPlan where the form of the plan is wrong or its queues
// wait for ever.
std::string to_text_picture(const Plan& plan);

}  // namespace plait
