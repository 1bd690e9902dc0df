#include "topology/readers.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/printable.hpp"
#include "topology/text_file.hpp"

namespace plait {
namespace {

constexpr size_t kMaxFileBytes = size_t{64} << 20;

// The matrix has no magic word: its first line that is not empty names GPU0, perhaps after codes for underlining.
bool looks_like_matrix(std::string_view text) { return text.substr(0, 4096).find("GPU0") != std::string_view::npos; }

}  // namespace

namespace internal {

std::string stem(const std::string& path) {
  const size_t slash = path.rfind('/');
  std::string file = slash == std::string::npos ? path : path.substr(slash + 1);
  const size_t dot = file.rfind('.');
  if (dot != std::string::npos && dot > 0) file.resize(dot);
  std::replace_if(file.begin(), file.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  file = printable(file);  // it becomes a machine's name
  return file.empty() || file == "-" ? "machine" : file;
}

}  // namespace internal

Topology parse_topology(std::string_view text, const std::string& file) {
  std::string_view start = text.substr(text.substr(0, 3) == "\xef\xbb\xbf" ? 3 : 0);
  const size_t first = start.find_first_not_of(" \t\r\n");
  start = first == std::string_view::npos ? std::string_view() : start.substr(first);
  if (start.substr(0, 1) == "{") return parse_machine_json(text, file);
  if (start.substr(0, 1) == "<") return parse_nccl_xml(text, file);
  if (looks_like_matrix(start)) return parse_nvidia_smi(text, file);
  fail(ErrorCode::kInvalidInput, file,
       ":1: expected a machine in JSON, an NCCL topology file (XML) or the text of `nvidia-smi topo -m`, found ",
       start.empty() ? "nothing" : "none of them");
}

Topology read_topology(const std::string& path) { return parse_topology(read_text_file(path, kMaxFileBytes), path); }

}  // namespace plait
