#include "api/c/result.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <system_error>

namespace plait::c {
namespace {

// No std::string: it would be gone where static destructors and functions given to atexit still end communicators. An
// error's text and the name of a function fit in.
constexpr size_t kMostTextBytes = kMostMessageBytes + 128;
constinit thread_local char last_text[kMostTextBytes + 1] = "";

}  // namespace

plaitResult_t result_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return plaitInvalidArgument;
    case ErrorCode::kInvalidInput:  // an environment variable
    case ErrorCode::kMismatch:
      return plaitInvalidUsage;
    case ErrorCode::kPeerFailed:
      return plaitRemoteError;
    case ErrorCode::kTimeout:
      return plaitTimeout;
    case ErrorCode::kResources:
    case ErrorCode::kSystem:
      return plaitSystemError;
    case ErrorCode::kInvalidPlan:
    case ErrorCode::kInternal:
      return plaitInternalError;
  }
  return plaitInternalError;
}

Answer answer_of_exception(const char* function) {
  const auto answer = [&](plaitResult_t result, const char* text) {
    return Answer{result, join(function, ": ", text)};
  };
  try {
    throw;
  } catch (const Refusal& refusal) {
    Answer refused = answer(refusal.result(), refusal.what());
    refused.is_echo = refusal.is_echo();
    return refused;
  } catch (const Error& error) {
    return answer(result_of(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    return answer(plaitSystemError, "no memory left");
  } catch (const std::system_error& error) {  // such as of a thread that could not be started
    return answer(plaitSystemError, error.what());
  } catch (const std::exception& error) {
    return answer(plaitInternalError, error.what());
  } catch (...) {
    return answer(plaitInternalError, "an exception of unknown type");
  }
}

const char* last_error() { return last_text; }

void remember_failure(const Answer& answer) noexcept {
  const size_t length = std::min(answer.text.size(), kMostTextBytes);
  std::memcpy(last_text, answer.text.data(), length);
  last_text[length] = '\0';
}

}  // namespace plait::c

extern "C" const char* plaitGetErrorString(plaitResult_t result) {
  switch (result) {
    case plaitSuccess:
      return "no error";
    case plaitUnhandledCudaError:
      return "CUDA error";
    case plaitSystemError:
      return "system error";
    case plaitInternalError:
      return "internal error: a defect of Plait";
    case plaitInvalidArgument:
      return "invalid argument";
    case plaitInvalidUsage:
      return "invalid usage";
    case plaitRemoteError:
      return "another rank failed, left or aborted";
    case plaitInProgress:
      return "in progress";
    case plaitTimeout:
      return "a rank did not come in time";
    case plaitNumResults:
      break;
  }
  return "unknown result";
}
