/* A library that calls NCCL: linked with it, or, with OPENS_NCCL, by its name at the first call. */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>

typedef int (*get_version_t)(int* version);

#ifdef OPENS_NCCL
static get_version_t get_version(void) {
  void* nccl = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  return nccl == 0 ? 0 : (get_version_t)dlsym(nccl, "ncclGetVersion");
}
#else
int ncclGetVersion(int* version);
static get_version_t get_version(void) { return ncclGetVersion; }
#endif

/* The version that NCCL says; 0 where there is none. */
int user_version(void) {
  int version = 0;
  const get_version_t function = get_version();
  if (function != 0) function(&version);
  return version;
}

/* The file that its calls go to. */
const char* user_library(void) {
  Dl_info info;
  const get_version_t function = get_version();
  return function != 0 && dladdr((void*)function, &info) != 0 ? info.dli_fname : "";
}
