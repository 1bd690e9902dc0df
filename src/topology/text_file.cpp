#include "topology/text_file.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "base/unique_fd.hpp"

namespace plait {
namespace {

[[noreturn]] void fail_to_read(const std::string& path, int error_number) {
  const char* hint = error_number == EISDIR ? "; name a file in it" : "";
  fail(ErrorCode::kInvalidInput, path, ": cannot be read: ", std::generic_category().message(error_number), hint);
}

std::FILE* open_to_read(const std::string& path) {
  UniqueFd descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::FILE* file = descriptor ? ::fdopen(descriptor.get(), "rb") : nullptr;
  if (file) descriptor.release();
  return file;
}

}  // namespace

std::string read_text_file(const std::string& path, size_t max_bytes) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> owned(path == "-" ? nullptr : open_to_read(path),
                                                              [](std::FILE* f) { return f ? std::fclose(f) : 0; });
  std::FILE* file = path == "-" ? stdin : owned.get();
  if (!file) fail_to_read(path, errno);
  std::string text;
  constexpr size_t kBlock = 1 << 16;
  for (;;) {
    const size_t old_size = text.size();
    text.resize(old_size + kBlock);
    errno = 0;
    const size_t got = std::fread(text.data() + old_size, 1, kBlock, file);
    text.resize(old_size + got);
    if (text.size() > max_bytes) {
      fail(ErrorCode::kInvalidInput, path, ": expected at most ", counted(max_bytes, "byte"), ", found more");
    }
    if (got < kBlock) {
      if (std::ferror(file)) fail_to_read(path, errno);
      break;
    }
  }
  if (text.size() >= 2 && (text.substr(0, 2) == "\xff\xfe" || text.substr(0, 2) == "\xfe\xff")) {
    fail(ErrorCode::kInvalidInput, path, ":1: expected UTF-8, found UTF-16; save the file again as UTF-8");
  }
  return text;
}

}  // namespace plait
