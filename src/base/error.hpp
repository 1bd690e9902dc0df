// Errors: what happened, where, and what to do about it. Thrown inside the library; converted once at the C edge.
#pragma once

#include <cstddef>
#include <locale>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace plait {

enum class ErrorCode {
  kInvalidArgument,  // the caller passed something that cannot be used
  kInvalidInput,     // a file or text cannot be read
  kInvalidPlan,      // the verifier refused a plan
  kMismatch,         // ranks called with different collectives, counts, types or operations
  kPeerFailed,       // another rank died, was stopped for too long or left
  kTimeout,          // something did not happen in the time that the settings allow
  kResources,        // the system gave no memory, descriptor or address
  kSystem,           // any other failure of a system call
  kInternal,         // a defect of this library
};

// The name that messages and bindings use, such as "invalid argument".
const char* name(ErrorCode code);

// The message is printable() whatever names it quotes, since sooner or later it gets to a terminal. Files may make a
// message as long as they like, so it is cut to kMostMessageBytes: its start and its end.
inline constexpr size_t kMostMessageBytes = 4096;

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message);
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

// Joins its arguments into one string, with numbers as C writes them whatever the program's locale: paths and names are
// made so too.
template <class... Parts>
std::string join(const Parts&... parts) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  (out << ... << parts);
  return out.str();
}

// Throws an Error whose message is the joined parts.
template <class... Parts>
[[noreturn]] void fail(ErrorCode code, const Parts&... parts) {
  throw Error(code, join(parts...));
}

// Throws kSystem for a failed system call, kResources where too many files are open; appends the text of
// `error_number`.
[[noreturn]] void fail_system(int error_number, const std::string& what);

// Says what to do about EMFILE: "; raise the limit of open files (ulimit -n, now 8)".
std::string more_files_hint();

}  // namespace plait
