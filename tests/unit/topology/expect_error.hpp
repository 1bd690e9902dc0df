#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"

namespace plait {

// Runs `action`, expects an Error with that code, and returns its message.
template <class Action>
std::string error_of(Action action, ErrorCode code = ErrorCode::kInvalidInput) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(name(error.code()), std::string(name(code))) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "expected an error, found none";
  return "";
}

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "expected \"" << part << "\" in \"" << text << "\"";
}

}  // namespace plait
