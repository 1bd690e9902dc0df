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

// Whether blocks of all ranks lie one after the other, each aligned as its size has it.
bool has_blocks(CallKind kind) {
  return kind == CallKind::kAllGather || kind == CallKind::kReduceScatter || kind == CallKind::kAlltoAll ||
         kind == CallKind::kGather || kind == CallKind::kScatter;
}
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

// NCCL's types have the numbers of Plait's first ones.
int read_type(const JsonValue& value) {
  const auto type = parse_data_type(value.as_string());
  if (!type || static_cast<int>(*type) >= ncclNumTypes) value.fail_expected("a type of NCCL, such as \"float32\"");
  return static_cast<int>(*type);
}
static_assert(static_cast<int>(DataType::kFloat8E5M2) == ncclFloat8e5m2);

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
  return std::ranges::any_of(wins_[static_cast<size_t>(kind)][static_cast<size_t>(type)], [&](const Win& win) {
    return win.from <= bytes && bytes <= win.to && win.op == operation && win.is_captured == is_captured;
  });
}

std::string WinsTable::collectives(bool is_captured) const {
  std::string text;
  for (int kind = 0; kind < kCollectiveKinds; ++kind) {
    const auto is_won = [&](const std::vector<Win>& wins) {
      return std::ranges::any_of(wins, [&](const Win& win) { return win.is_captured == is_captured; });
    };
    if (std::ranges::none_of(wins_[static_cast<size_t>(kind)], is_won)) continue;
    text += join(text.empty() ? "" : ", ", nccl::name(static_cast<CallKind>(kind)));
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace plait::nccl
