// libplait.so, opened when the first communicator might be taken over. The drop-in links none, so that a program gets
// on without it, and so that no symbol of Plait's gets in the way of the program's.
#pragma once

#include <string>

#include "base/settings.hpp"
#include "plait/plait.h"

namespace plait::nccl {

// The functions that the drop-in calls.
#define PLAIT_NCCL_CALLS(each)                                                                                        \
  each(GetVersion) each(GetLastError) each(GetUniqueId) each(CommInitRankConfig) each(CommFinalize) each(CommDestroy) \
      each(CommAbort) each(CommGetAsyncError) each(GroupStart) each(GroupEnd) each(AllReduce) each(AllGather)         \
          each(ReduceScatter) each(Broadcast) each(Reduce) each(AlltoAll) each(Gather) each(Scatter) each(Send)       \
              each(Recv) each(RedOpCreatePreMulSum) each(RedOpDestroy)

class PlaitLibrary {
 public:
  // Opens what PLAIT_LIBRARY names, and nothing else where it is set; else libplait.so in the drop-in's own folder, in
  // the one above it, or where the loader looks. Throws nothing but std::bad_alloc.
  PlaitLibrary(const Environment& environment, const std::string& own_path);

  bool is_open() const { return error_.empty(); }
  const std::string& error() const { return error_; }
  const std::string& path() const { return path_; }
  int version() const { return version_; }

#define PLAIT_NCCL_DECLARE(name) decltype(&::plait##name) name = nullptr;
  PLAIT_NCCL_CALLS(PLAIT_NCCL_DECLARE)
#undef PLAIT_NCCL_DECLARE

 private:
  void* open(const std::string& name);
  void find_calls(void* handle);

  std::string path_;
  std::string error_;
  std::string tried_;
  int version_ = 0;
};

}  // namespace plait::nccl
