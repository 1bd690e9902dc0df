#include "topology/nvidia_smi_matrix.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/figures.hpp"

namespace plait::internal {
namespace {

constexpr size_t kMaxColumns = 128;
constexpr size_t kMaxLineBytes = 1 << 16;

// Splits a line into words, without the codes that underline the header and without carriage returns.
std::vector<std::string> split_words(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  const auto close = [&] {
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
  };
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '\x1b' && i + 1 < line.size() && line[i + 1] == '[') {
      while (i < line.size() && !std::isalpha(static_cast<unsigned char>(line[i]))) ++i;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\x1b') {
      close();
    } else {
      word += c;
    }
  }
  close();
  return words;
}

bool is_numbered(const std::string& word, std::string_view prefix) {
  return word.size() > prefix.size() && word.compare(0, prefix.size(), prefix) == 0 &&
         std::all_of(word.begin() + static_cast<ptrdiff_t>(prefix.size()), word.end(),
                     [](unsigned char c) { return std::isdigit(c); });
}
bool is_gpu(const std::string& word) { return is_numbered(word, "GPU"); }

struct TextLine {
  int number = 0;
  std::string_view text;
  std::vector<std::string> words;
};

// Reads one line after the other, so that a long report is never held in pieces.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {}

  // Returns the next line that has words, among those that `wanted` accepts before they are split; false at the end.
  template <class Wanted>
  bool next(TextLine& line, Wanted wanted) {
    while (start_ < text_.size()) {
      const size_t end = std::min(text_.find('\n', start_), text_.size());
      line.text = text_.substr(start_, end - start_);
      line.number = ++number_;
      start_ = end + 1;
      if (!wanted(line.text)) continue;
      line.words = split_words(line.text.substr(0, kMaxLineBytes + 1));
      if (!line.words.empty()) return true;
    }
    return false;
  }
  bool next(TextLine& line) {
    return next(line, [](std::string_view) { return true; });
  }
  int last_number() const { return number_ + 1; }

 private:
  std::string_view text_;
  size_t start_ = 0;
  int number_ = 0;
};

// Most lines of a report are not part of the matrix, and this shows at a glance.
bool may_start_with_gpu(std::string_view line) {
  return line.size() <= kMaxLineBytes && line.substr(0, 128).find("GPU") != std::string_view::npos;
}

bool is_row(const TextLine& line) { return std::find(line.words.begin(), line.words.end(), "X") != line.words.end(); }

// Finds the first line that starts with a GPU, is not a row (a row has an X), and is followed by the first row. If
// there is none, finds the first line that is like one of the two. The lines to read further follow it.
struct Header {
  TextLine line;
  Lines rest;
  bool has_row = false;
};

std::optional<Header> find_header(std::string_view text) {
  Lines lines(text);
  std::optional<Header> found;
  for (TextLine line; lines.next(line, may_start_with_gpu);) {
    if (!is_gpu(line.words[0])) continue;
    Lines ahead = lines;
    TextLine first_row;
    const bool has_row = !is_row(line) && ahead.next(first_row) && first_row.words[0] == line.words[0];
    if (found && !has_row) continue;
    found = Header{line, lines, has_row};
    if (has_row) break;
  }
  return found;
}

class MatrixParser {
 public:
  MatrixParser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  NvidiaSmiMatrix parse() {
    std::optional<Header> header = find_header(text_);
    if (!header) {
      const auto lines = std::count(text_.begin(), text_.end(), '\n');
      fail_at(static_cast<int>(lines) + 1, "the header line \"GPU0 GPU1 …\" of the matrix", "the end of the text");
    }
    if (is_row(header->line)) {
      fail_at(header->line.number, "the header line \"GPU0 GPU1 …\" above the first row",
              "the row of " + header->line.words[0]);
    }
    read_labels(header->line);
    read_rows(header->rest);
    check_symmetry(header->line.number);
    read_legend(header->rest);
    read_models();
    read_fabric();
    return std::move(matrix_);
  }

 private:
  [[noreturn]] void fail_at(int line, const std::string& expected, const std::string& found) const {
    // Words of a damaged file may hold anything, so a message shows only printable characters.
    std::string shown;
    for (const char c : found.substr(0, 60)) shown += static_cast<unsigned char>(c) >= 0x20 && c != 0x7f ? c : '?';
    fail(ErrorCode::kInvalidInput, file_, ":", line, ": expected ", expected, ", found ", shown);
  }

  void read_labels(const TextLine& header) {
    std::set<std::string> seen;
    for (size_t i = 0; i < header.words.size(); ++i) {
      const std::string& word = header.words[i];
      if (i + 1 < header.words.size() && header.words[i + 1] == "Affinity") {
        has_numa_ = std::find(header.words.begin(), header.words.end(), "NUMA") != header.words.end();
        has_affinity_ = word == "CPU";
        has_own_numa_ = header.words.size() > 2 && header.words.back() == "ID";  // "GPU NUMA ID"
        break;
      }
      if (!seen.insert(word).second) fail_at(header.number, "each device once in the header", word + " again");
      matrix_.labels.push_back(word);
    }
    if (matrix_.size() > kMaxColumns) fail_at(header.number, "at most 128 devices", join(matrix_.size()));
    matrix_.cells.resize(matrix_.size());
    matrix_.affinity.resize(matrix_.size());
    matrix_.own_numa_node.resize(matrix_.size());
  }

  void read_rows(Lines& rest) {
    for (size_t row = 0; row < matrix_.size(); ++row) {
      const Lines before = rest;
      TextLine line;
      const bool there = rest.next(line);
      if (!there || line.words[0] != matrix_.labels[row]) {
        rest = before;
        if (complete_from(row)) return;
        const std::string expected = "the row of " + matrix_.labels[row];
        if (!there) fail_at(rest.last_number(), expected, "the end of the text");
        fail_at(line.number, expected, line.words[0]);
      }
      read_row(row, line);
    }
  }

  // People cut off what is below the rows of GPUs. Returns whether only that is missing from `row` on, and fills in
  // what the existing rows say.
  bool complete_from(size_t row) {
    for (size_t i = row; i < matrix_.size(); ++i) {
      if (matrix_.gpu(i)) return false;
    }
    for (size_t i = row; i < matrix_.size(); ++i) {
      matrix_.without_row.push_back(matrix_.labels[i]);
      for (size_t j = 0; j < matrix_.size(); ++j) {
        matrix_.cells[i].push_back(j < row  ? matrix_.cells[j][i]
                                   : i == j ? MatrixCell{}
                                            : MatrixCell{Relation::kUnknown, 0});
      }
    }
    return true;
  }

  void read_row(size_t row, const TextLine& line) {
    const auto& words = line.words;
    if (line.text.size() > kMaxLineBytes)
      fail_at(line.number, "a line of the matrix", "a line of more than 65536 bytes");
    if (words.size() < matrix_.size() + 1) {
      fail_at(line.number, join(counted(matrix_.size(), "cell"), " in the row of ", words[0]), join(words.size() - 1));
    }
    for (size_t column = 0; column < matrix_.size(); ++column) {
      matrix_.cells[row].push_back(parse_cell(words[column + 1], line.number));
      if ((matrix_.cells[row][column].relation == Relation::kSelf) != (row == column)) {
        fail_at(line.number, row == column ? "X on the diagonal" : "X only on the diagonal", words[column + 1]);
      }
    }
    read_affinity(row, words);
  }

  // Reads "0-19,40-59" of CPUs. In newer texts "0" of NUMA nodes follows, which tells more if it is there, and "N/A" or
  // the NUMA node of the GPU's own memory.
  void read_affinity(size_t row, const std::vector<std::string>& words) {
    if (!has_affinity_ || !matrix_.gpu(row)) return;
    const size_t place = matrix_.size() + 1;
    if (place < words.size() && words[place] != "N/A") matrix_.affinity[row] = "cpus " + words[place];
    if (has_numa_ && place + 1 < words.size() && words[place + 1] != "N/A") {
      matrix_.affinity[row] = "NUMA node " + words[place + 1];
    }
    matrix_.own_numa_node[row] = has_own_numa_ && place + 2 < words.size() && is_numbered(words[place + 2], "");
  }

  MatrixCell parse_cell(const std::string& word, int line) const {
    constexpr std::pair<std::string_view, Relation> kRelations[] = {
        {"X", Relation::kSelf},         {"PIX", Relation::kOneSwitch}, {"PXB", Relation::kSwitches},
        {"PHB", Relation::kHostBridge}, {"NODE", Relation::kNumaNode}, {"SYS", Relation::kSystem},
        {"SOC", Relation::kSystem}};
    for (const auto& [name, relation] : kRelations) {
      if (word == name) return {relation, 0};
    }
    if (is_numbered(word, "NV")) {
      int lanes = 0;
      const char* end = word.data() + word.size();
      const auto result = std::from_chars(word.data() + 2, end, lanes);
      if (result.ec == std::errc() && lanes >= 1 && lanes <= 1024) return {Relation::kNvlink, lanes};
      fail_at(line, "NV1 to NV1024", word);
    }
    fail_at(line, "X, NV#, PIX, PXB, PHB, NODE or SYS", word);
  }

  void check_symmetry(int line) const {
    for (size_t i = 0; i < matrix_.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (matrix_.at(i, j) == matrix_.at(j, i)) continue;
        fail_at(line,
                join("the same cell for ", matrix_.labels[j], ", ", matrix_.labels[i], " and for ", matrix_.labels[i],
                     ", ", matrix_.labels[j]),
                "two different ones");
      }
    }
  }

  // "NIC0: mlx5_0"
  void read_legend(Lines& rest) {
    const auto wanted = [](std::string_view line) { return line.size() < 256 && line.find("NIC") < line.find(':'); };
    for (TextLine line; rest.next(line, wanted);) {
      if (line.words.size() != 2 || line.words[0].back() != ':') continue;
      const std::string label = line.words[0].substr(0, line.words[0].size() - 1);
      if (is_numbered(label, "NIC")) matrix_.legend.emplace(label, line.words[1]);
    }
  }

  // "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-…)"
  void read_models() {
    const auto wanted = [](std::string_view line) { return line.size() < 256 && line.find("GPU ") < line.find(':'); };
    Lines lines(text_);
    for (TextLine line; lines.next(line, wanted);) {
      const auto& words = line.words;
      if (words.size() < 3 || words[0] != "GPU" || words[1].back() != ':') continue;
      const std::string digits = words[1].substr(0, words[1].size() - 1);
      if (!is_numbered(digits, "") || digits.size() > 6) continue;
      std::string model;
      for (size_t i = 2; i < words.size() && words[i] != "(UUID:"; ++i) model += (i == 2 ? "" : " ") + words[i];
      constexpr std::string_view kVendorsNames[] = {"NVIDIA", "Tesla", "GeForce", "Quadro"};
      const auto starts_model = [&](std::string_view name) { return words[2].compare(0, name.size(), name) == 0; };
      if (std::none_of(std::begin(kVendorsNames), std::end(kVendorsNames), starts_model)) continue;
      matrix_.models.emplace(std::stoi(digits), std::move(model));
    }
  }

  // Reads "ClusterUUID : 8f1c…" and "CliqueId : 32766" of each GPU. It does not matter which GPU it is if all say the
  // same.
  void read_fabric() {
    const auto wanted = [](std::string_view line) {
      return line.size() < 256 && (line.find("ClusterUUID") < line.find(':') || line.find("CliqueId") < line.find(':'));
    };
    std::set<std::string> uuids, cliques;
    Lines lines(text_);
    for (TextLine line; lines.next(line, wanted);) {
      if (line.words.size() != 3 || line.words[1] != ":") continue;
      if (line.words[0] == "ClusterUUID") uuids.insert(line.words[2]);
      if (line.words[0] == "CliqueId") cliques.insert(line.words[2]);
    }
    if (uuids.size() != 1 || cliques.size() != 1) return;
    const bool none = uuids.begin()->find_first_not_of("0-") == std::string::npos || *uuids.begin() == "N/A";
    if (!none) matrix_.fabric = *uuids.begin() + "." + *cliques.begin();
  }

  const std::string_view text_;
  const std::string& file_;
  NvidiaSmiMatrix matrix_;
  bool has_affinity_ = false;
  bool has_numa_ = false;
  bool has_own_numa_ = false;
};

}  // namespace

bool NvidiaSmiMatrix::gpu(size_t i) const { return is_gpu(labels[i]); }

int NvidiaSmiMatrix::gpu_number(size_t i) const {
  int number = -1;
  std::from_chars(labels[i].data() + 3, labels[i].data() + labels[i].size(), number);
  return number;
}

bool has_nvidia_smi_matrix(std::string_view text) {
  const std::optional<Header> header = find_header(text);
  return header && header->has_row;
}

bool has_nvidia_smi_line(std::string_view text) { return find_header(text).has_value(); }

NvidiaSmiMatrix parse_nvidia_smi_matrix(std::string_view text, const std::string& file) {
  return MatrixParser(text, file).parse();
}

}  // namespace plait::internal
