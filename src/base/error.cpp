#include "base/error.hpp"

#include <sys/resource.h>

#include <cerrno>
#include <system_error>

#include "base/printable.hpp"

namespace plait {

const char* name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid argument";
    case ErrorCode::kInvalidInput:
      return "invalid input";
    case ErrorCode::kInvalidPlan:
      return "invalid plan";
    case ErrorCode::kMismatch:
      return "mismatched call";
    case ErrorCode::kPeerFailed:
      return "peer failed";
    case ErrorCode::kTimeout:
      return "timeout";
    case ErrorCode::kResources:
      return "out of resources";
    case ErrorCode::kSystem:
      return "system error";
    case ErrorCode::kInternal:
      return "internal error";
  }
  return "unknown error";
}

namespace {

// Drops the middle of a text that is too long. Characters stay whole.
std::string shortened(std::string text) {
  constexpr size_t kKept = kMostMessageBytes / 2 - 32;  // at each end, beside the words between them
  if (text.size() <= kMostMessageBytes) return text;
  const auto within_character = [&](size_t i) { return (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80; };
  size_t start = kKept, end = text.size() - kKept;
  while (within_character(start)) --start;
  while (within_character(end)) ++end;
  return join(text.substr(0, start), " … (", end - start, " bytes) … ", text.substr(end));
}

}  // namespace

Error::Error(ErrorCode code, const std::string& message)
    : std::runtime_error(shortened(printable(message))), code_(code) {}

void fail_system(int error_number, const std::string& what) {
  const bool too_many = error_number == EMFILE || error_number == ENFILE;
  fail(too_many ? ErrorCode::kResources : ErrorCode::kSystem, what, ": ", std::generic_category().message(error_number),
       too_many ? more_files_hint() : "");
}

std::string more_files_hint() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return "; raise the limit of open files (ulimit -n)";
  return join("; raise the limit of open files (ulimit -n, now ", limit.rlim_cur, ")");
}

}  // namespace plait
