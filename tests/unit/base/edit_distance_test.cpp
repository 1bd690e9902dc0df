// How far words are from each other.
#include "base/edit_distance.hpp"

#include <gtest/gtest.h>

namespace plait {
namespace {

TEST(EditDistance, CountsLetters) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("ring", "ring"), 0u);
  EXPECT_EQ(edit_distance("", "ring"), 4u);
  EXPECT_EQ(edit_distance("ring", "rings"), 1u);
  EXPECT_EQ(edit_distance("rong", "ring"), 1u);
  EXPECT_EQ(edit_distance("rign", "ring"), 2u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), edit_distance("sitting", "kitten"));
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(EditDistance, SlipsShareAtLeastHalf) {
  EXPECT_TRUE(is_slip_for("ring", "rong"));
  EXPECT_TRUE(is_slip_for("ring", "rign"));
  EXPECT_FALSE(is_slip_for("ring", "magic"));
  EXPECT_FALSE(is_slip_for("ring", ""));
}

}  // namespace
}  // namespace plait
