// Draws plans as pictures: ranks side by side, time downwards.
#pragma once

#include <string>

#include "plan/plan.hpp"
#include "plan/verifier.hpp"

namespace plait {

// A picture shows at most this many ranks and rows, and says what it leaves out. A ring of that many ranks fits.
inline constexpr int kMaxPictureRanks = 64;
inline constexpr int kMaxPictureRows = 128;
// Of more ranks, or of many queues, boxes are small and without words.
inline constexpr int kMaxLabelledRanks = 16;
inline constexpr int kMaxTextPictureRanks = 8;
inline constexpr int kMaxTextPictureRows = 80;

// An SVG picture that needs nothing else. Each queue is a column. Each reduce, send or receive is a box in the colour
// of its chunk. Thick arrows are data that crosses to another rank, thin ones are signals. Every box tells its
// operation in words when it is pointed at.
std::string to_svg(const VerifiedPlan& plan);

// A picture for a terminal. Each rank is a column, and each step is a row. `0: in+s1 > r2.s1` is chunk 0, from the
// rank's input and its scratch slot 1 to scratch slot 1 of rank 2. Throws kInvalidPlan if the form of the plan is wrong
// or its queues wait for ever.
std::string to_text_picture(const Plan& plan);

}  // namespace plait
