// A stand-in for libplait.so behind the drop-in: every function writes down its call, and some fail when told to.
//
// STAND_IN_PLAIT_NO_INIT=RANK   plaitCommInitRankConfig fails on that rank
// STAND_IN_PLAIT_HANG=RANK      plaitCommInitRankConfig never returns on that rank
// STAND_IN_PLAIT_DIE=RANK       plaitCommInitRankConfig ends the process of that rank
// STAND_IN_PLAIT_VERSION=CODE   what plaitGetVersion says
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sstream>
#include <string>

#include "plait/plait.h"

struct plaitComm {
  int rank, ranks;
  plaitConfig_t config;
};

namespace {

std::mutex mutex;
std::string sequence;  // guarded by `mutex`
plaitResult_t async_error = plaitSuccess, result_of_calls = plaitSuccess;
int operations = 100;

template <class... Parts>
plaitResult_t note(const char* function, const Parts&... parts) {
  std::ostringstream line;
  line << function << '(';
  [[maybe_unused]] const char* separator = "";
  ((line << separator << parts, separator = ","), ...);
  line << ") ";
  const std::lock_guard lock(mutex);
  sequence += line.str();
  return result_of_calls;
}

bool is_told(const char* variable, int rank) {
  const char* value = std::getenv(variable);
  return value != nullptr && std::atoi(value) == rank;
}

}  // namespace

extern "C" {

PLAIT_API const char* plait_stand_in_sequence() { return sequence.c_str(); }
PLAIT_API void plait_stand_in_set(int async, int calls) {
  async_error = static_cast<plaitResult_t>(async);
  result_of_calls = static_cast<plaitResult_t>(calls);
}

plaitResult_t plaitGetVersion(int* version) {
  const char* told = std::getenv("STAND_IN_PLAIT_VERSION");
  *version = told != nullptr ? std::atoi(told) : PLAIT_VERSION_CODE;
  return plaitSuccess;
}
const char* plaitGetLastError(plaitComm_t) { return "the stand-in of Plait fails"; }
plaitResult_t plaitGetUniqueId(plaitUniqueId* id) {
  std::memset(id, 0, sizeof(*id));
  std::snprintf(id->internal, sizeof(id->internal), "made by %d", static_cast<int>(getpid()));
  return plaitSuccess;
}

plaitResult_t plaitCommInitRankConfig(plaitComm_t* comm, int ranks, plaitUniqueId id, int rank,
                                      const plaitConfig_t* config) {
  *comm = nullptr;
  const bool has_id = std::strncmp(id.internal, "made by ", 8) == 0;
  while (is_told("STAND_IN_PLAIT_HANG", rank)) pause();
  if (is_told("STAND_IN_PLAIT_DIE", rank)) std::_Exit(9);
  if (!has_id || is_told("STAND_IN_PLAIT_NO_INIT", rank)) return plaitSystemError;
  *comm = new plaitComm{rank, ranks, *config};
  note("init", rank, ranks, config->device, config->timeoutSeconds);
  return plaitSuccess;
}
plaitResult_t plaitCommFinalize(plaitComm_t comm) { return note("finalize", comm->rank); }
plaitResult_t plaitCommDestroy(plaitComm_t comm) { return note("destroy", comm->rank); }
plaitResult_t plaitCommAbort(plaitComm_t comm) { return note("abort", comm->rank); }
plaitResult_t plaitCommGetAsyncError(plaitComm_t, plaitResult_t* error) {
  *error = async_error;
  return plaitSuccess;
}
plaitResult_t plaitGroupStart() { return note("start"); }
plaitResult_t plaitGroupEnd() { return note("end"); }

plaitResult_t plaitAllReduce(const void*, void*, size_t count, plaitDataType_t type, plaitRedOp_t op, plaitComm_t comm,
                             plaitStream_t) {
  return note("all_reduce", comm->rank, count, type, op);
}
plaitResult_t plaitBroadcast(const void*, void*, size_t count, plaitDataType_t type, int root, plaitComm_t comm,
                             plaitStream_t) {
  return note("broadcast", comm->rank, count, type, root);
}
plaitResult_t plaitReduce(const void*, void*, size_t count, plaitDataType_t type, plaitRedOp_t op, int root,
                          plaitComm_t comm, plaitStream_t) {
  return note("reduce", comm->rank, count, type, op, root);
}
plaitResult_t plaitAllGather(const void*, void*, size_t count, plaitDataType_t type, plaitComm_t comm, plaitStream_t) {
  return note("all_gather", comm->rank, count, type);
}
plaitResult_t plaitReduceScatter(const void*, void*, size_t count, plaitDataType_t type, plaitRedOp_t op,
                                 plaitComm_t comm, plaitStream_t) {
  return note("reduce_scatter", comm->rank, count, type, op);
}
plaitResult_t plaitGather(const void*, void*, size_t count, plaitDataType_t type, int root, plaitComm_t comm,
                          plaitStream_t) {
  return note("gather", comm->rank, count, type, root);
}
plaitResult_t plaitScatter(const void*, void*, size_t count, plaitDataType_t type, int root, plaitComm_t comm,
                           plaitStream_t) {
  return note("scatter", comm->rank, count, type, root);
}
plaitResult_t plaitAlltoAll(const void*, void*, size_t count, plaitDataType_t type, plaitComm_t comm, plaitStream_t) {
  return note("all_to_all", comm->rank, count, type);
}
plaitResult_t plaitSend(const void*, size_t count, plaitDataType_t type, int peer, plaitComm_t comm, plaitStream_t) {
  return note("send", comm->rank, count, type, peer);
}
plaitResult_t plaitRecv(void*, size_t count, plaitDataType_t type, int peer, plaitComm_t comm, plaitStream_t) {
  return note("receive", comm->rank, count, type, peer);
}
plaitResult_t plaitRedOpCreatePreMulSum(plaitRedOp_t* op, void*, plaitDataType_t type, plaitScalarResidence_t residence,
                                        plaitComm_t comm) {
  *op = static_cast<plaitRedOp_t>(++operations);
  return note("premul", comm->rank, type, residence);
}
plaitResult_t plaitRedOpDestroy(plaitRedOp_t op, plaitComm_t comm) { return note("drop_op", op, comm->rank); }

}  // extern "C"
