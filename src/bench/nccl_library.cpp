// Opening NCCL's library.
#include "bench/nccl_library.hpp"

#include <dlfcn.h>

#include "base/error.hpp"

namespace plait {
namespace {

// ncclResult_t: the two that are no failure.
constexpr int kSuccess = 0;
constexpr int kInProgress = 7;
// The first version with 8-bit floating types.
constexpr int kSmallFloats = 22400;

}  // namespace

NcclLibrary::NcclLibrary(const std::vector<std::string>& candidates) {
  std::string reasons;
  for (const std::string& candidate : candidates) {
    library_ = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ != nullptr) {
      path_ = candidate;
      break;
    }
    reasons += join(reasons.empty() ? "" : "; ", dlerror());
  }
  if (library_ == nullptr) {
    fail(ErrorCode::kInvalidArgument, "cannot open NCCL (", reasons.empty() ? "no library named" : reasons,
         "); install it, or name libnccl.so.2 in PLAIT_NCCL_LIBRARY");
  }
  require("ncclGetVersion", get_version_);
  require("ncclGetUniqueId", get_unique_id);
  require("ncclCommInitRank", comm_init_rank);
  require("ncclCommDestroy", comm_destroy);
  require("ncclCommAbort", comm_abort);
  require("ncclCommGetAsyncError", comm_get_async_error);
  require("ncclGetErrorString", get_error_string);
  require("ncclAllReduce", all_reduce);
  require("ncclReduce", reduce);
  require("ncclBroadcast", broadcast);
  require("ncclReduceScatter", reduce_scatter);
  require("ncclAllGather", all_gather);
  require("ncclSend", send);
  require("ncclRecv", receive);
  require("ncclGroupStart", group_start);
  require("ncclGroupEnd", group_end);
  find("ncclAlltoAll", all_to_all);
  find("ncclGather", gather);
  find("ncclScatter", scatter);
  find("ncclGetLastError", get_last_error);
  find("ncclRedOpCreatePreMulSum", op_create_premul_sum);
  find("ncclRedOpDestroy", op_destroy);
  find("ncclMemAlloc", memory_allocate);
  find("ncclMemFree", memory_free);
  find("ncclCommWindowRegister", window_register);
  find("ncclCommWindowDeregister", window_deregister);
  check(get_version_(&version_), "asking for NCCL's version");
}

template <class Function>
void NcclLibrary::find(const char* symbol, Function& function) const {
  function = reinterpret_cast<Function>(dlsym(library_, symbol));
}

template <class Function>
void NcclLibrary::require(const char* symbol, Function& function) const {
  find(symbol, function);
  if (function == nullptr) {
    fail(ErrorCode::kInvalidArgument, path_, " has no ", symbol, ": it is not NCCL, or not of its version 2");
  }
}

std::string NcclLibrary::name() const {
  // Up to 2.8: 2804 for 2.8.4; then 22803 for 2.28.3.
  const int major = version_ >= 10000 ? version_ / 10000 : version_ / 1000;
  const int minor = version_ >= 10000 ? version_ / 100 % 100 : version_ / 100 % 10;
  return join("NCCL ", major, ".", minor, ".", version_ % 100);
}

bool NcclLibrary::has_windows() const {
  return memory_allocate != nullptr && memory_free != nullptr && window_register != nullptr &&
         window_deregister != nullptr;
}

void NcclLibrary::check(int result, const char* what, NcclCommunicator communicator) const {
  if (result == kSuccess || result == kInProgress) return;
  const char* detail = get_last_error != nullptr ? get_last_error(communicator) : nullptr;
  const bool more = detail != nullptr && *detail != '\0';
  fail(ErrorCode::kSystem, what, ": NCCL says ", get_error_string(result), more ? join(" (", detail, ")") : "",
       "; NCCL_DEBUG=WARN tells more");
}

int NcclLibrary::type_of(DataType type, bool computes) const {
  if (!computes) {
    const size_t bytes = size_of(type);
    return static_cast<int>(bytes == 1   ? DataType::kUint8
                            : bytes == 2 ? DataType::kFloat16
                            : bytes == 4 ? DataType::kUint32
                                         : DataType::kUint64);
  }
  const bool small_float = type == DataType::kFloat8E4M3 || type == DataType::kFloat8E5M2;
  const bool known =
      type != DataType::kInt16 && type != DataType::kUint16 && (!small_float || version_ >= kSmallFloats);
  return known ? static_cast<int>(type) : -1;
}

}  // namespace plait
