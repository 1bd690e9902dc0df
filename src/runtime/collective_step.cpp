#include "runtime/collective_step.hpp"

#include <cstring>
#include <new>

#include "base/error.hpp"

namespace plait {

std::exception_ptr try_step(StepResult& result, const std::string& context, const std::function<void()>& step) {
  const auto keep = [&](ErrorCode code, const char* what) {
    result.failure = static_cast<int32_t>(code);
    std::strncpy(result.reason, join(context, ": ", what).c_str(), sizeof(result.reason) - 1);
    return std::current_exception();
  };
  result = {};
  try {
    step();
    return nullptr;
  } catch (const Error& error) {
    return keep(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return keep(ErrorCode::kResources, "no memory is left");
  } catch (const std::exception& error) {
    return keep(ErrorCode::kResources, error.what());
  }
}

void throw_failure(const StepResult& result) {
  if (result.has_failed()) fail(static_cast<ErrorCode>(result.failure), result.reason);
}

}  // namespace plait
