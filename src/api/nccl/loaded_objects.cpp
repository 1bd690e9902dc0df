// Reading what the dynamic loader has loaded (ELF's dynamic sections), and its cache.
#include "api/nccl/loaded_objects.hpp"

#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <sstream>

#include "base/small_file.hpp"

namespace plait::nccl {
namespace {

std::string path_of_program() {
  char path[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof(path));
  return length < 0 ? "" : std::string(path, static_cast<size_t>(length));
}

std::string with_origin(std::string folder, const std::string& origin) {
  for (const std::string_view word : {"${ORIGIN}", "$ORIGIN"}) {
    for (size_t at; (at = folder.find(word)) != folder.npos;) folder.replace(at, word.size(), origin);
  }
  return folder;
}

std::vector<std::string> folders_of(const char* list, const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string origin = slash == path.npos ? "." : path.substr(0, slash);
  std::vector<std::string> folders;
  std::istringstream all(list);
  for (std::string folder; std::getline(all, folder, ':');) {
    if (!folder.empty()) folders.push_back(with_origin(folder, origin));
  }
  return folders;
}

const ElfW(Dyn) * dynamic_section(const dl_phdr_info& info) {
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    if (info.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    return reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
  }
  return nullptr;
}

// The loader has made an address of it in most objects, but not in those whose section cannot be written.
const char* texts_of(const ElfW(Dyn) * section, ElfW(Addr) base) {
  for (const ElfW(Dyn)* entry = section; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag != DT_STRTAB) continue;
    const ElfW(Addr) address = entry->d_un.d_ptr < base ? base + entry->d_un.d_ptr : entry->d_un.d_ptr;
    return reinterpret_cast<const char*>(address);
  }
  return nullptr;
}

void add_object(const dl_phdr_info& info, std::vector<LoadedObject>& objects) {
  const ElfW(Dyn)* section = dynamic_section(info);
  const char* texts = section == nullptr ? nullptr : texts_of(section, info.dlpi_addr);
  if (texts == nullptr) return;
  LoadedObject object;
  const bool is_program = info.dlpi_name == nullptr || info.dlpi_name[0] == '\0';
  object.path = is_program ? path_of_program() : info.dlpi_name;
  for (const ElfW(Dyn)* entry = section; entry->d_tag != DT_NULL; ++entry) {
    const auto text = [&] { return texts + entry->d_un.d_val; };  // of those whose value is a place among texts
    if (entry->d_tag == DT_SONAME) object.soname = text();
    if (entry->d_tag == DT_NEEDED) object.needed.emplace_back(text());
    if (entry->d_tag == DT_RPATH) object.rpath = folders_of(text(), object.path);
    if (entry->d_tag == DT_RUNPATH) object.runpath = folders_of(text(), object.path);
  }
  if (!object.runpath.empty()) object.rpath.clear();  // as the loader has it
  objects.push_back(std::move(object));
}

// The cache of glibc 2.2 and later; numbers are in the machine's order of bytes.
constexpr std::string_view kCacheMagic = "glibc-ld.so.cache1.1";
struct CacheHeader {
  char magic[20];
  uint32_t entries, text_bytes;
  uint32_t unused[5];
};
struct CacheEntry {
  int32_t flags;
  uint32_t key, value;  // places of texts, from the header on
  uint32_t os_version;
  uint64_t hardware;
};
static_assert(sizeof(CacheHeader) == 48 && sizeof(CacheEntry) == 24);

// What the cache says of libraries for this machine: ELF of glibc, and the architecture; 0 where that is not known
// here.
constexpr int32_t flags_of_this_machine() {
#if defined(__x86_64__)
  return 0x0303;
#elif defined(__aarch64__)
  return 0x0a03;
#else
  return 0;
#endif
}

std::string text_at(std::string_view cache, uint32_t at) {
  if (at >= cache.size()) return "";
  const std::string_view rest = cache.substr(at);
  return std::string(rest.substr(0, rest.find('\0')));
}

}  // namespace

bool LoadedObject::needs(std::string_view name) const { return std::ranges::find(needed, name) != needed.end(); }

std::vector<LoadedObject> loaded_objects() {
  std::vector<LoadedObject> objects;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* all) {
        add_object(*info, *static_cast<std::vector<LoadedObject>*>(all));
        return 0;
      },
      &objects);
  return objects;
}

std::string find_in_loader_cache(std::string_view name, const std::string& cache) {
  constexpr size_t kMostCacheBytes = size_t{16} << 20;
  const std::string file = read_small_file(cache, kMostCacheBytes);
  const size_t begin = file.find(kCacheMagic);  // an older cache may stand before it
  if (begin == file.npos) return "";
  const std::string_view whole = std::string_view(file).substr(begin);
  CacheHeader header;
  if (whole.size() < sizeof(header)) return "";
  std::memcpy(&header, whole.data(), sizeof(header));
  constexpr int32_t kWanted = flags_of_this_machine();
  for (uint32_t i = 0; i < header.entries; ++i) {
    CacheEntry entry;
    const size_t at = sizeof(header) + size_t{i} * sizeof(entry);
    if (at + sizeof(entry) > whole.size()) return "";
    std::memcpy(&entry, whole.data() + at, sizeof(entry));
    // What is for some processors of an architecture alone has bits in `hardware`.
    const bool is_of_this_machine = (kWanted == 0 || entry.flags == kWanted) && entry.hardware == 0;
    if (is_of_this_machine && text_at(whole, entry.key) == name) return text_at(whole, entry.value);
  }
  return "";
}

}  // namespace plait::nccl
