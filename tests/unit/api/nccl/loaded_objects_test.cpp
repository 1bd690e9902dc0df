// What the process has loaded, and the loader's cache.
#include "api/nccl/loaded_objects.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace plait::nccl {
namespace {

TEST(LoadedObjects, TheProgramAndItsLibraries) {
  const auto objects = loaded_objects();
  ASSERT_FALSE(objects.empty());
  EXPECT_EQ(objects.front().path, std::filesystem::read_symlink("/proc/self/exe"));
  EXPECT_TRUE(objects.front().needs("libc.so.6"));
  EXPECT_FALSE(objects.front().needs("libc.so"));
  bool has_c = false;
  for (const LoadedObject& object : objects) has_c = has_c || object.soname == "libc.so.6";
  EXPECT_TRUE(has_c);
}

TEST(LoadedObjects, TheCacheOfTheLoader) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("plait-cache-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "lib");
  // Any library will do under another name.
  std::string some;
  for (const LoadedObject& object : loaded_objects()) {
    if (object.soname == "libc.so.6") some = object.path;
  }
  std::filesystem::copy_file(some, folder / "lib" / "libc.so.6");
  std::ofstream(folder / "conf") << (folder / "lib").string() << '\n';
  const std::string cache = folder / "cache";
  const std::string make =
      "PATH=$PATH:/sbin:/usr/sbin ldconfig -X -C '" + cache + "' -f '" + (folder / "conf").string() + "' 2> /dev/null";
  const bool is_made = std::system(make.c_str()) == 0;
  const std::string found = find_in_loader_cache("libc.so.6", cache);
  const std::string nothing = find_in_loader_cache("libno.so.9", cache);
  std::string cut;
  if (is_made) {
    std::filesystem::resize_file(cache, 100);  // in the midst of its entries
    cut = find_in_loader_cache("libno.so.9", cache);
  }
  std::filesystem::remove_all(folder);
  if (!is_made) GTEST_SKIP() << "there is no ldconfig";
  EXPECT_EQ(found, (folder / "lib" / "libc.so.6").string());
  EXPECT_EQ(nothing, "");
  EXPECT_EQ(cut, "");
  EXPECT_EQ(find_in_loader_cache("libc.so.6", "/no/such/file"), "");
}

}  // namespace
}  // namespace plait::nccl
