// Memory for buffers, and hints about it.
#include "api/c/device.hpp"
#include "api/c/handle.hpp"
#include "api/c/result.hpp"

using namespace plait::c;

extern "C" plaitResult_t plaitMemAlloc(void** ptr, size_t size) {
  return at_edge("plaitMemAlloc", [&] {
    require(ptr, "ptr");
    *ptr = nullptr;
    if (size > 0) *ptr = allocate(size);
  });
}

extern "C" plaitResult_t plaitMemFree(void* ptr) {
  return at_edge("plaitMemFree", [&] {
    if (ptr != nullptr) release(ptr);
  });
}

extern "C" plaitResult_t plaitCommRegister(plaitComm_t comm, void* buff, size_t size, void** handle) {
  return at_edge("plaitCommRegister", [&] {
    check_handle(comm);
    require(handle, "handle");
    *handle = nullptr;
    if (size > 0) require(buff, "buff");
    *handle = buff;  // any value will do: plaitCommDeregister has nothing to undo
  });
}

extern "C" plaitResult_t plaitCommDeregister(plaitComm_t comm, void* handle) {
  static_cast<void>(handle);
  return at_edge("plaitCommDeregister", [&] { check_handle(comm); });
}
