// The files that this process has loaded, and where each of them has the loader look for others. Where the drop-in has
// NCCL's own name, the loader takes it for NCCL, and looks no further; so the drop-in looks where the loader would
// have.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plait::nccl {

struct LoadedObject {
  std::string path;
  std::string soname;               // "" where it has none
  std::vector<std::string> needed;  // names of libraries that it is linked with
  // Folders with $ORIGIN expanded: before LD_LIBRARY_PATH (DT_RPATH), and behind it (DT_RUNPATH).
  std::vector<std::string> rpath, runpath;

  bool needs(std::string_view name) const;
};

// In the order in which the loader looks symbols up.
std::vector<LoadedObject> loaded_objects();

// The file that a library's name stands for in the loader's cache (ld.so.cache), of this machine's architecture as far
// as it can be told; "" where there is none.
std::string find_in_loader_cache(std::string_view name, const std::string& cache = "/etc/ld.so.cache");

}  // namespace plait::nccl
