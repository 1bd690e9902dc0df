// Reading tables of wins, and looking calls up.
#include "api/nccl/wins.hpp"

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/types.hpp"

namespace plait::nccl {
namespace {

constexpr const char* kFormat = "plait-nccl-wins 1";
constexpr const char* kOperations[] = {"sum", "prod", "max", "min", "avg", "mulsum"};
static_assert(std::size(kOperations) == ncclNumOps + 1);

// Blocks of all ranks lie one after the other, each aligned as its size has it.
constexpr size_t kMeasuredAlignment = 16;

CallKind read_kind(const JsonValue& value) {
  for (int i = 0; i < kCollectiveKinds; ++i) {
    if (value.as_string() == nccl::name(static_cast<CallKind>(i))) return static_cast<CallKind>(i);
  }
  value.fail_expected("a collective, such as \"all_reduce\"");
}

int read_operation(const JsonValue& value) {
  const auto found = std::ranges::find(kOperations, value.as_string());
  if (found == std::end(kOperations)) value.fail_expected("an operation, such as \"sum\"");
  return static_cast<int>(found - std::begin(kOperations));
}

int read_type(const JsonValue& value) {
  const auto type = parse_data_type(value.as_string());
  if (!type || static_cast<int>(*type) >= ncclNumTypes) value.fail_expected("a type of NCCL, such as \"float32\"");
  return static_cast<int>(*type);
}

std::vector<int> read_types(const std::optional<JsonValue>& value) {
  std::vector<int> types;
  if (!value) {
    for (int type = 0; type < ncclNumTypes; ++type) types.push_back(type);  // what copies cares for no type
    return types;
  }
  for (size_t i = 0; i < value->size(); ++i) types.push_back(read_type(value->at(i)));
  return types;
}

}  // namespace

const char* name_of_operation(int op) { return kOperations[static_cast<size_t>(op)]; }

WinsTable WinsTable::parse(std::string_view text, const std::string& file) {
  const JsonDocument document = JsonDocument::parse(text, file);
  const JsonValue root = document.root();
  root.allow_only({"format", "name", "source", "gpu", "ranks", "nvls", "wins"});
  if (root.at("format").as_string() != kFormat) root.at("format").fail_expected(join('"', kFormat, '"'));
  WinsTable table;
  table.name_ = root.at("name").as_name();
  table.gpu_ = root.at("gpu").as_name();
  table.ranks_ = static_cast<int>(root.at("ranks").as_integer(2, 4096));
  table.has_nvls_ = root.at("nvls").as_bool();
  table.digest_ = sha256(std::as_bytes(std::span(text)));
  const JsonValue wins = root.at("wins");
  for (size_t i = 0; i < wins.size(); ++i) {
    const JsonValue row = wins.at(i);
    row.allow_only({"collective", "types", "op", "captured", "from", "to", "least_ratio", "results"});
    const CallKind kind = read_kind(row.at("collective"));
    Win win{};
    win.from = static_cast<size_t>(row.at("from").as_integer(1));
    win.to = static_cast<size_t>(row.at("to").as_integer(static_cast<int64_t>(win.from)));
    win.op = is_reducing(kind) ? read_operation(row.at("op")) : 0;
    win.is_captured = row.at("captured").as_bool();
    for (const int type : read_types(row.find("types"))) table.wins_of(kind, type).push_back(win);
  }
  return table;
}

const WinsTable* WinsTable::choose(const std::vector<WinsTable>& tables, const std::string& gpu, int ranks) {
  const auto found =
      std::ranges::find_if(tables, [&](const WinsTable& table) { return table.gpu_ == gpu && table.ranks_ == ranks; });
  return found == tables.end() ? nullptr : &*found;
}

bool WinsTable::has(CallKind kind, ncclDataType_t type, ncclRedOp_t op, size_t bytes, bool is_captured) const {
  if (is_message(kind) || element_bytes(type) == 0) return false;
  if (has_blocks(kind) && bytes % kMeasuredAlignment != 0) return false;
  const int operation = is_reducing(kind) ? static_cast<int>(op) : 0;
  if (is_left_out(kind, type, operation)) return false;
  return std::ranges::any_of(wins_[static_cast<size_t>(kind)][static_cast<size_t>(type)], [&](const Win& win) {
    return win.from <= bytes && bytes <= win.to && win.op == operation && win.is_captured == is_captured;
  });
}

WinsTable WinsTable::without_nvls(NvlsUse use) const {
  WinsTable table = *this;
  table.left_out_ = use;
  std::string text = join("without NVLS ", static_cast<int>(use), ' ');
  text.append(reinterpret_cast<const char*>(digest_.data()), digest_.size());
  table.digest_ = sha256(std::as_bytes(std::span(text)));
  return table;
}

const char* WinsTable::why_left_out(CallKind kind, ncclDataType_t type, ncclRedOp_t op) const {
  if (!is_left_out(kind, type, is_reducing(kind) ? static_cast<int>(op) : 0)) return nullptr;
  return "NCCL may use NVLS for it, and was measured without";
}

std::vector<WinRow> WinsTable::rows() const {
  std::vector<WinRow> rows;
  for (int kind = 0; kind < kCollectiveKinds; ++kind) {
    for (const bool is_captured : {false, true}) add_rows(static_cast<CallKind>(kind), is_captured, rows);
  }
  return rows;
}

void WinsTable::add_rows(CallKind kind, bool is_captured, std::vector<WinRow>& rows) const {
  const size_t first = rows.size();
  const auto row_of = [&](const Win& win) -> WinRow& {
    const auto same = std::find_if(rows.begin() + static_cast<ptrdiff_t>(first), rows.end(), [&](const WinRow& row) {
      return row.op == win.op && row.from == win.from && row.to == win.to;
    });
    return same != rows.end() ? *same : rows.emplace_back(WinRow{kind, is_captured, win.op, win.from, win.to, {}});
  };
  for (int type = 0; type < ncclNumTypes; ++type) {
    for (const Win& win : wins_[static_cast<size_t>(kind)][static_cast<size_t>(type)]) {
      if (win.is_captured != is_captured || is_left_out(kind, type, win.op)) continue;
      row_of(win).types.push_back(type);
    }
  }
}

std::string WinsTable::collectives(bool is_captured) const {
  std::string text;
  int last = -1;
  for (const WinRow& row : rows()) {
    const int kind = static_cast<int>(row.kind);
    if (row.is_captured != is_captured || kind == last) continue;
    text += join(text.empty() ? "" : ", ", nccl::name(row.kind));
    last = kind;
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace plait::nccl
