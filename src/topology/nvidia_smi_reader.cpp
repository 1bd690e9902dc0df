// The matrix that `nvidia-smi topo -m` prints. A cell names the nearest thing two devices share: NV# lanes of NVLink,
// PIX one PCIe switch, PXB several, PHB a host bridge, NODE a NUMA node, SYS (once SOC) only the machine.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "topology/builder.hpp"
#include "topology/readers.hpp"

namespace plait {
namespace {

using internal::MachineBuilder;

constexpr size_t kMaxColumns = 128;

enum class Relation { kSelf, kNvlink, kOneSwitch, kSwitches, kHostBridge, kNumaNode, kSystem };

struct Cell {
  Relation relation = Relation::kSelf;
  int lanes = 0;
  bool operator==(const Cell&) const = default;
};

struct Line {
  int number;
  std::vector<std::string> words;
};

// Words of a line without the codes that underline the header and without carriage returns.
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

// Sets of devices that belong together.
class Sets {
 public:
  explicit Sets(size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), size_t{0}); }
  size_t root(size_t i) const {
    while (parent_[i] != i) i = parent_[i];
    return i;
  }
  // The smallest member is always the root.
  void join(size_t a, size_t b) {
    a = root(a);
    b = root(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }
  size_t size() const { return parent_.size(); }

 private:
  std::vector<size_t> parent_;
};

struct Matrix {
  std::vector<std::string> labels;            // "GPU0", "NIC0", "mlx5_0", in order
  std::vector<std::vector<Cell>> cells;       // [row][column]
  std::vector<std::string> affinity;          // of CPUs or, where the text has it, of NUMA nodes; empty where unknown
  std::map<std::string, std::string> legend;  // "NIC0" -> "mlx5_0"

  bool gpu(size_t i) const { return is_gpu(labels[i]); }
  const Cell& at(size_t i, size_t j) const { return cells[i][j]; }
  size_t size() const { return labels.size(); }
};

class MatrixParser {
 public:
  MatrixParser(std::string_view text, const std::string& file) : file_(file) {
    constexpr size_t kMaxLineBytes = 1 << 16;
    int number = 1;
    for (size_t start = 0; start < text.size(); ++number) {
      const size_t end = std::min(text.find('\n', start), text.size());
      if (end - start > kMaxLineBytes) fail_at(number, "a line of the matrix", "a line of more than 65536 bytes");
      std::vector<std::string> words = split_words(text.substr(start, end - start));
      if (!words.empty()) lines_.push_back({number, std::move(words)});
      if (lines_.size() > 4 * kMaxColumns) fail_at(number, "at most 512 lines", "more");
      start = end + 1;
    }
    last_line_ = number;
  }

  Matrix parse() {
    size_t line = read_header();
    for (size_t row = 0; row < matrix_.size(); ++row, ++line) read_row(row, line);
    check_symmetry();
    for (; line < lines_.size(); ++line) read_legend(lines_[line]);
    return std::move(matrix_);
  }

 private:
  [[noreturn]] void fail_at(int line, const std::string& expected, const std::string& found) const {
    // Words of a damaged file may hold anything; a message shows only what can be read.
    std::string shown;
    for (const char c : found.substr(0, 60)) shown += static_cast<unsigned char>(c) >= 0x20 && c != 0x7f ? c : '?';
    fail(ErrorCode::kInvalidInput, file_, ":", line, ": expected ", expected, ", found ", shown);
  }

  // The header is the first line that starts with a GPU and is not a row, which has an X in it.
  size_t read_header() {
    for (size_t i = 0; i < lines_.size(); ++i) {
      const std::vector<std::string>& words = lines_[i].words;
      if (!is_gpu(words[0])) continue;
      if (std::find(words.begin(), words.end(), "X") != words.end()) {
        fail_at(lines_[i].number, "the header line \"GPU0 GPU1 …\" above the first row", "the row of " + words[0]);
      }
      read_labels(lines_[i]);
      return i + 1;
    }
    fail_at(last_line_, "the header line \"GPU0 GPU1 …\" of the matrix", "the end of the text");
  }

  void read_labels(const Line& header) {
    std::set<std::string> seen;
    for (size_t i = 0; i < header.words.size(); ++i) {
      const std::string& word = header.words[i];
      if (i + 1 < header.words.size() && header.words[i + 1] == "Affinity") {
        has_numa_ = std::find(header.words.begin(), header.words.end(), "NUMA") != header.words.end();
        has_affinity_ = word == "CPU";
        break;
      }
      if (!seen.insert(word).second) fail_at(header.number, "each device once in the header", word + " again");
      matrix_.labels.push_back(word);
    }
    if (matrix_.size() > kMaxColumns) fail_at(header.number, "at most 128 devices", join(matrix_.size()));
    matrix_.cells.resize(matrix_.size());
    matrix_.affinity.resize(matrix_.size());
  }

  void read_row(size_t row, size_t line) {
    const std::string& label = matrix_.labels[row];
    if (line >= lines_.size()) fail_at(last_line_, "the row of " + label, "the end of the text");
    const auto& [number, words] = lines_[line];
    if (words[0] != label) fail_at(number, "the row of " + label, words[0]);
    if (words.size() < matrix_.size() + 1) {
      fail_at(number, join(matrix_.size(), " cells in the row of ", label), join(words.size() - 1));
    }
    for (size_t column = 0; column < matrix_.size(); ++column) {
      matrix_.cells[row].push_back(parse_cell(words[column + 1], number));
      if ((matrix_.cells[row][column].relation == Relation::kSelf) != (row == column)) {
        fail_at(number, row == column ? "X on the diagonal" : "X only on the diagonal", words[column + 1]);
      }
    }
    read_affinity(row, words);
  }

  // "0-19,40-59" of CPUs and then, in newer texts, "0" of NUMA nodes. The latter tells more where it is there.
  void read_affinity(size_t row, const std::vector<std::string>& words) {
    if (!has_affinity_ || !matrix_.gpu(row)) return;
    const size_t place = matrix_.size() + 1;
    if (place < words.size() && words[place] != "N/A") matrix_.affinity[row] = "cpus " + words[place];
    if (has_numa_ && place + 1 < words.size() && words[place + 1] != "N/A") {
      matrix_.affinity[row] = "NUMA node " + words[place + 1];
    }
  }

  Cell parse_cell(const std::string& word, int line) const {
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

  void check_symmetry() const {
    for (size_t i = 0; i < matrix_.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (matrix_.at(i, j) == matrix_.at(j, i)) continue;
        fail_at(lines_.front().number,
                join("the same cell for ", matrix_.labels[j], ", ", matrix_.labels[i], " and for ", matrix_.labels[i],
                     ", ", matrix_.labels[j]),
                "two different ones");
      }
    }
  }

  // "NIC0: mlx5_0"
  void read_legend(const Line& line) {
    if (line.words.size() != 2 || line.words[0].back() != ':') return;
    const std::string label = line.words[0].substr(0, line.words[0].size() - 1);
    if (is_numbered(label, "NIC")) matrix_.legend.emplace(label, line.words[1]);
  }

  const std::string& file_;
  std::vector<Line> lines_;
  int last_line_ = 1;
  Matrix matrix_;
  bool has_affinity_ = false;
  bool has_numa_ = false;
};

// Pairs of sets (by their roots) that the matrix sets apart: some member of one is SYS away from some of the other.
std::set<std::pair<size_t, size_t>> sets_apart(const Matrix& matrix, const Sets& sets) {
  std::set<std::pair<size_t, size_t>> apart;
  for (size_t i = 0; i < matrix.size(); ++i) {
    for (size_t j = 0; j < matrix.size(); ++j) {
      if (matrix.at(i, j).relation == Relation::kSystem) apart.insert({sets.root(i), sets.root(j)});
    }
  }
  return apart;
}

// Joins the sets of every two devices that `fits` accepts and that nothing sets apart.
template <class Fits>
void unite(const Matrix& matrix, Sets& sets, Fits fits) {
  auto apart = sets_apart(matrix, sets);
  for (size_t i = 0; i < matrix.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const size_t a = sets.root(i), b = sets.root(j);
      if (a == b || !fits(matrix.affinity[i], matrix.affinity[j]) || apart.count({a, b})) continue;
      sets.join(a, b);
      apart = sets_apart(matrix, sets);
    }
  }
}

// Devices on one CPU. NV# hides where a GPU sits, so the affinities help; where there are none, devices that nothing
// sets apart are taken to be on one CPU.
Sets sockets_of(const Matrix& matrix) {
  Sets sets(matrix.size());
  for (size_t i = 0; i < matrix.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const Relation relation = matrix.at(i, j).relation;
      if (relation != Relation::kNvlink && relation != Relation::kSystem) sets.join(i, j);
    }
  }
  unite(matrix, sets, [](const std::string& a, const std::string& b) { return !a.empty() && a == b; });
  unite(matrix, sets, [](const std::string& a, const std::string& b) { return a.empty() || b.empty(); });
  return sets;
}

class Builder {
 public:
  Builder(const Matrix& matrix, const std::string& file, const NvidiaSmiAssumptions& assumptions)
      : matrix_(matrix),
        assumptions_(assumptions),
        builder_(internal::stem(file), "text of nvidia-smi topo -m, " + file),
        device_(matrix.size(), -1) {
    builder_.note(join("assumed: ", assumptions.nvlink_lane_gbps, " GB/s for each NVLink lane and ",
                       assumptions.pcie_gbps, " GB/s for each PCIe link"));
  }

  Topology build() {
    add_endpoints();
    add_pcie();
    add_nvlinks();
    return builder_.finish();
  }

 private:
  void add_endpoints() {
    for (size_t i = 0; i < matrix_.size(); ++i) {
      Device device;
      if (matrix_.gpu(i)) {
        int number = -1;
        const std::string& label = matrix_.labels[i];
        std::from_chars(label.data() + 3, label.data() + label.size(), number);
        device_[i] = builder_.add(DeviceKind::kGpu, 0, number, std::move(device));
      } else {
        const auto known = matrix_.legend.find(matrix_.labels[i]);
        device.model = known == matrix_.legend.end() ? matrix_.labels[i] : known->second;
        device_[i] = builder_.add(DeviceKind::kNic, 0, -1, std::move(device));
      }
    }
  }

  void join_pcie(int below, int above) {
    builder_.join(below, above, LinkKind::kPcie, kAssumedPcieLanes, assumptions_.pcie_gbps, "assumed");
  }

  // From the ends up: a switch for each set of PIX, one above for each set of PXB, then the CPU.
  void add_pcie() {
    const Sets sockets = sockets_of(matrix_);
    std::vector<int> top = device_;  // the highest device yet above each endpoint
    add_switches(top, {Relation::kOneSwitch});
    add_switches(top, {Relation::kOneSwitch, Relation::kSwitches});
    std::map<size_t, int> cpus;
    std::set<int> joined;
    for (size_t i = 0; i < matrix_.size(); ++i) {
      const auto [place, is_new] = cpus.emplace(sockets.root(i), -1);
      if (is_new) place->second = builder_.add(DeviceKind::kCpu, 0, static_cast<int>(cpus.size()) - 1, Device{});
      if (joined.insert(top[i]).second) join_pcie(top[i], place->second);
    }
  }

  void add_switches(std::vector<int>& top, const std::set<Relation>& relations) {
    Sets sets(matrix_.size());
    for (size_t i = 0; i < matrix_.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (relations.count(matrix_.at(i, j).relation)) sets.join(i, j);
      }
    }
    for (size_t root = 0; root < matrix_.size(); ++root) {
      std::set<int> below;
      for (size_t i = 0; i < matrix_.size(); ++i) {
        if (sets.root(i) == root) below.insert(top[i]);
      }
      if (below.size() < 2) continue;
      const int above = builder_.add(DeviceKind::kPcieSwitch, 0, -1, Device{});
      for (const int device : below) join_pcie(device, above);
      for (size_t i = 0; i < matrix_.size(); ++i) {
        if (sets.root(i) == root) top[i] = above;
      }
    }
  }

  // GPUs that NVLink joins into one net are on a switch if some GPU would need more lanes than any GPU has, or some
  // pair more than bridges give. Then every cell shows the lanes of a GPU, not of a pair.
  void add_nvlinks() {
    Sets nets(matrix_.size());
    std::vector<int> sum(matrix_.size()), most(matrix_.size());
    for_each_nvlink([&](size_t i, size_t j, int lanes) {
      nets.join(i, j);
      sum[i] += lanes;
      most[i] = std::max(most[i], lanes);
    });
    std::vector<bool> switched(matrix_.size());
    for (size_t i = 0; i < matrix_.size(); ++i) {
      if (sum[i] > kMostNvlinkLanes || most[i] > kMostBridgeLanes) switched[nets.root(i)] = true;
    }
    for (size_t i = 0; i < matrix_.size(); ++i) {
      if (most[i] == 0 || !switched[nets.root(i)]) continue;
      builder_.add_nvswitch_lanes(
          device_[i], "", most[i], assumptions_.nvlink_lane_gbps,
          "NV# of the matrix; a switch, since point to point would need more lanes than GPUs have");
    }
    for_each_nvlink([&](size_t i, size_t j, int lanes) {
      if (switched[nets.root(i)]) return;
      builder_.add_nvlink_side(device_[i], device_[j], lanes, assumptions_.nvlink_lane_gbps, "NV# of the matrix");
    });
  }

  template <class Visit>
  void for_each_nvlink(Visit visit) const {
    for (size_t i = 0; i < matrix_.size(); ++i) {
      for (size_t j = 0; j < matrix_.size(); ++j) {
        if (!matrix_.gpu(i) || !matrix_.gpu(j) || matrix_.at(i, j).relation != Relation::kNvlink) continue;
        visit(i, j, matrix_.at(i, j).lanes);
      }
    }
  }

  const Matrix& matrix_;
  const NvidiaSmiAssumptions& assumptions_;
  MachineBuilder builder_;
  std::vector<int> device_;  // of each label
};

}  // namespace

Topology parse_nvidia_smi(std::string_view text, const std::string& file, const NvidiaSmiAssumptions& assumptions) {
  const Matrix matrix = MatrixParser(text, file).parse();
  return Builder(matrix, file, assumptions).build();
}

}  // namespace plait
