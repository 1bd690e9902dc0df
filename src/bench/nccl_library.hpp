// NCCL's library, opened at run time, with the few functions that a benchmark calls. NCCL's header is not needed: its
// binary interface is stable within libnccl.so.2, and its numbers of types and operations are Plait's.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace plait {

// Opaque here as in NCCL.
struct NcclCommunicatorBody;
struct NcclWindowBody;
using NcclCommunicator = NcclCommunicatorBody*;
using NcclWindow = NcclWindowBody*;

// The id by which NCCL's ranks find each other.
struct NcclUniqueId {
  char bytes[128];
};

class NcclLibrary {
 public:
  // Opens the first of `candidates` that there is. Throws kInvalidArgument with the reason of each.
  explicit NcclLibrary(const std::vector<std::string>& candidates);

  // "NCCL 2.28.3".
  std::string name() const;
  // Whether it has memory and windows of its own (2.27 and newer).
  bool has_windows() const;
  // ncclDataType_t: of `type` where something is computed, else any type of that width. -1 where NCCL has none.
  int type_of(DataType type, bool computes) const;
  // Throws kSystem with NCCL's words where `result` is none of its two kinds of success.
  void check(int result, const char* what, NcclCommunicator communicator = nullptr) const;

  // As in nccl.h; results are ncclResult_t, streams cudaStream_t. Those marked so are null in older libraries.
  int (*get_unique_id)(NcclUniqueId* id) = nullptr;
  int (*comm_init_rank)(NcclCommunicator* communicator, int ranks, NcclUniqueId id, int rank) = nullptr;
  int (*comm_destroy)(NcclCommunicator communicator) = nullptr;
  int (*comm_abort)(NcclCommunicator communicator) = nullptr;
  int (*comm_get_async_error)(NcclCommunicator communicator, int* result) = nullptr;
  const char* (*get_error_string)(int result) = nullptr;
  const char* (*get_last_error)(NcclCommunicator communicator) = nullptr;  // newer
  int (*all_reduce)(const void* input, void* output, size_t count, int type, int op, NcclCommunicator communicator,
                    void* stream) = nullptr;
  int (*reduce)(const void* input, void* output, size_t count, int type, int op, int root,
                NcclCommunicator communicator, void* stream) = nullptr;
  int (*broadcast)(const void* input, void* output, size_t count, int type, int root, NcclCommunicator communicator,
                   void* stream) = nullptr;
  int (*reduce_scatter)(const void* input, void* output, size_t count, int type, int op, NcclCommunicator communicator,
                        void* stream) = nullptr;
  int (*all_gather)(const void* input, void* output, size_t count, int type, NcclCommunicator communicator,
                    void* stream) = nullptr;
  int (*all_to_all)(const void* input, void* output, size_t count, int type, NcclCommunicator communicator,
                    void* stream) = nullptr;  // newer
  int (*gather)(const void* input, void* output, size_t count, int type, int root, NcclCommunicator communicator,
                void* stream) = nullptr;  // newer
  int (*scatter)(const void* input, void* output, size_t count, int type, int root, NcclCommunicator communicator,
                 void* stream) = nullptr;  // newer
  int (*send)(const void* input, size_t count, int type, int peer, NcclCommunicator communicator,
              void* stream) = nullptr;
  int (*receive)(void* output, size_t count, int type, int peer, NcclCommunicator communicator, void* stream) = nullptr;
  // The op is a number that a reduction takes; residence 1: the scalar is host memory, which is read at once.
  int (*op_create_premul_sum)(int* op, void* scalar, int type, int residence,
                              NcclCommunicator communicator) = nullptr;  // newer
  int (*op_destroy)(int op, NcclCommunicator communicator) = nullptr;    // newer
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*memory_allocate)(void** address, size_t bytes) = nullptr;  // newer
  int (*memory_free)(void* address) = nullptr;                     // newer
  int (*window_register)(NcclCommunicator communicator, void* address, size_t bytes, NcclWindow* window,
                         int flags) = nullptr;                                           // newer
  int (*window_deregister)(NcclCommunicator communicator, NcclWindow window) = nullptr;  // newer

 private:
  template <class Function>
  void find(const char* symbol, Function& function) const;
  template <class Function>
  void require(const char* symbol, Function& function) const;

  int (*get_version_)(int* version) = nullptr;
  int version_ = 0;
  void* library_ = nullptr;  // never closed: its threads may outlive this
  std::string path_;
};

}  // namespace plait
