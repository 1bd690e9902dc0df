// How far a word is from another: for "did you mean …?".
#pragma once

#include <cstddef>
#include <string_view>

namespace plait {

// How many letters must be put in, taken out or changed to make one text the other (Levenshtein's distance).
size_t edit_distance(std::string_view a, std::string_view b);

// Whether `written` is a slip of the hand for `name`: what shares hardly a letter with it is none.
bool is_slip_for(std::string_view name, std::string_view written);

}  // namespace plait
