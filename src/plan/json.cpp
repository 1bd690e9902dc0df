// Writes plans as JSON, and reads them.
#include "plan/json.hpp"

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "base/json.hpp"
#include "plan/conditions.hpp"

namespace plait {
namespace {

constexpr int64_t kIntMin = std::numeric_limits<int>::min();
constexpr int64_t kIntMax = std::numeric_limits<int>::max();

// --- writing ---

void append_member(std::string& out, const char* key, int value) {
  out += "\"";
  out += key;
  out += "\": ";
  out += std::to_string(value);
}

void append_places(std::string& out, const char* key, const std::vector<Place>& places) {
  out += join(", \"", key, "\": [");
  for (size_t i = 0; i < places.size(); ++i) {
    const Place& place = places[i];
    out += i == 0 ? "\"r" : ", \"r";
    out += std::to_string(place.rank);
    out += ".";
    out += name(place.buffer);
    if (has_slots(place.buffer) || place.slot != 0) {
      out += "[";
      out += std::to_string(place.slot);
      out += "]";
    }
    out += "\"";
  }
  out += "]";
}

// Members that an operation's kind does not use are written all the same if they are set, so that nothing is lost.
void append_operation(std::string& out, const Operation& operation) {
  const bool moves = operation.kind != OpKind::kSignal && operation.kind != OpKind::kWait;
  const bool peer = operation.kind != OpKind::kReduce;
  out += "{\"op\": \"";
  out += name(operation.kind);
  out += "\"";
  const auto append = [&](const char* key, int value) {
    out += ", ";
    append_member(out, key, value);
  };
  if (peer || operation.number != -1) append("number", operation.number);
  if (peer || operation.peer_rank != -1) append("rank", operation.peer_rank);
  if (peer || operation.peer_queue != -1) append("queue", operation.peer_queue);
  if (!operation.destinations.empty()) append_places(out, "to", operation.destinations);
  if (!operation.sources.empty()) append_places(out, "from", operation.sources);
  if (moves || operation.chunk != 0) append("chunk", operation.chunk);
  if (operation.chunks != (moves ? 1 : 0)) append("chunks", operation.chunks);
  out += "}";
}

void append_rank(std::string& out, const RankPlan& rank) {
  out += "    {";
  append_member(out, "scratch_slots", rank.scratch_slots);
  out += ", ";
  append_member(out, "host_slots", rank.host_slots);
  out += ", ";
  append_member(out, "signals", rank.signals);
  out += ", ";
  append_member(out, "messages", rank.messages);
  out += ", \"queues\": [";
  for (size_t queue = 0; queue < rank.queues.size(); ++queue) {
    out += join(queue == 0 ? "\n" : ",\n", "      {\"engine\": \"", name(rank.queues[queue].engine),
                "\", \"operations\": [");
    const auto& operations = rank.queues[queue].operations;
    for (size_t i = 0; i < operations.size(); ++i) {
      out += i == 0 ? "\n        " : ",\n        ";
      append_operation(out, operations[i]);
    }
    out += "]}";
  }
  out += "]}";
}

std::string quoted(const std::string& text) {
  std::string out = JsonWriter().value(text).take();
  while (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

// --- reading ---

int read_int(const JsonValue& value) { return static_cast<int>(value.as_integer(kIntMin, kIntMax)); }

// Reads the name of an enumerator. The `count` enumerators follow one another from 0.
template <class Enum>
Enum read_name(const JsonValue& value, int count, const char* what) {
  const std::string_view text = value.as_string();
  std::string known;
  for (int i = 0; i < count; ++i) {
    if (text == name(static_cast<Enum>(i))) return static_cast<Enum>(i);
    known += join(i == 0 ? "" : ", ", name(static_cast<Enum>(i)));
  }
  value.fail_expected(join(what, " (", known, ")"));
}

// Takes a number off the front of `text`.
std::optional<int> take_number(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

std::optional<Place> parse_place(std::string_view text) {
  Place place;
  if (!take(text, "r")) return std::nullopt;
  const std::optional<int> rank = take_number(text);
  if (!rank || !take(text, ".")) return std::nullopt;
  place.rank = *rank;
  const std::string_view buffer = text.substr(0, text.find('['));
  text.remove_prefix(buffer.size());
  bool known = false;
  for (const Buffer b : {Buffer::kInput, Buffer::kOutput, Buffer::kScratch, Buffer::kHost}) {
    if (buffer != name(b)) continue;
    place.buffer = b;
    known = true;
  }
  if (!known) return std::nullopt;
  if (text.empty() && !has_slots(place.buffer)) return place;
  if (!take(text, "[")) return std::nullopt;
  const std::optional<int> slot = take_number(text);
  if (!slot || text != "]") return std::nullopt;
  place.slot = *slot;
  return place;
}

std::vector<Place> read_places(const std::optional<JsonValue>& list) {
  std::vector<Place> places;
  if (!list) return places;
  if (!list->is_array()) list->fail_expected("an array of places");
  places.reserve(list->size());
  for (size_t i = 0; i < list->size(); ++i) {
    const JsonValue value = list->at(i);
    const auto place = value.is_string() ? parse_place(value.as_string()) : std::nullopt;
    if (!place) value.fail_expected("a place such as \"r1.scratch[3]\", \"r1.host[0]\", \"r0.input\" or \"r0.output\"");
    places.push_back(*place);
  }
  return places;
}

Operation read_operation(const JsonValue& value) {
  value.allow_only({"op", "number", "rank", "queue", "to", "from", "chunk", "chunks"});
  Operation operation;
  operation.kind = read_name<OpKind>(value.at("op"), 5, "a kind of operation");
  const bool moves = operation.kind != OpKind::kSignal && operation.kind != OpKind::kWait;
  const bool peer = operation.kind != OpKind::kReduce;
  const auto optional_int = [&](const char* key, int otherwise) {
    const auto member = value.find(key);
    return member ? read_int(*member) : otherwise;
  };
  operation.number = peer ? read_int(value.at("number")) : optional_int("number", -1);
  operation.peer_rank = peer ? read_int(value.at("rank")) : optional_int("rank", -1);
  operation.peer_queue = peer ? read_int(value.at("queue")) : optional_int("queue", -1);
  operation.destinations = read_places(value.find("to"));
  operation.sources = read_places(value.find("from"));
  operation.chunk = moves ? read_int(value.at("chunk")) : optional_int("chunk", 0);
  operation.chunks = optional_int("chunks", moves ? 1 : 0);
  return operation;
}

RankPlan read_rank(const JsonValue& value) {
  value.allow_only({"scratch_slots", "host_slots", "signals", "messages", "queues"});
  RankPlan rank;
  rank.scratch_slots = read_int(value.at("scratch_slots"));
  rank.host_slots = read_int(value.at("host_slots"));
  rank.signals = read_int(value.at("signals"));
  rank.messages = read_int(value.at("messages"));
  const JsonValue queues = value.at("queues");
  if (!queues.is_array()) queues.fail_expected("an array of queues");
  for (size_t i = 0; i < queues.size(); ++i) {
    const JsonValue queue = queues.at(i);
    queue.allow_only({"engine", "operations"});
    Queue& read = rank.queues.emplace_back();
    read.engine = read_name<Engine>(queue.at("engine"), 4, "an engine");
    const JsonValue operations = queue.at("operations");
    if (!operations.is_array()) operations.fail_expected("an array of operations");
    read.operations.reserve(operations.size());
    for (size_t j = 0; j < operations.size(); ++j) read.operations.push_back(read_operation(operations.at(j)));
  }
  return rank;
}

}  // namespace

std::string to_json(const Plan& plan) {
  std::string out = join("{\n  \"plait_plan\": ", kPlanJsonVersion, ",\n  \"algorithm\": ", quoted(plan.algorithm),
                         ",\n  \"collective\": \"", name(plan.collective), "\",\n  \"access\": \"", name(plan.access),
                         "\",\n  \"root\": ", plan.root, ",\n  \"blocks\": ", plan.blocks,
                         ",\n  \"chunks_per_block\": ", plan.chunks_per_block,
                         ",\n  \"in_place\": ", plan.in_place ? "true" : "false", ",\n  \"node_of\": [");
  for (size_t i = 0; i < plan.node_of.size(); ++i) out += join(i == 0 ? "" : ", ", plan.node_of[i]);
  out += "],\n  \"ranks\": [";
  for (size_t i = 0; i < plan.ranks.size(); ++i) {
    out += i == 0 ? "\n" : ",\n";
    append_rank(out, plan.ranks[i]);
  }
  out += "]\n}\n";
  return out;
}

Plan plan_from_json(std::string_view text, const std::string& file) {
  const JsonDocument document = JsonDocument::parse(text, file);
  const JsonValue root = document.root();
  if (!root.is_object() || !root.find("plait_plan")) {
    root.fail_expected("a plan: an object with \"plait_plan\", as `plait plan --format json` writes it");
  }
  const JsonValue version = root.at("plait_plan");
  if (version.as_number() != kPlanJsonVersion) version.fail_expected(join("version ", kPlanJsonVersion, " of plans"));
  root.allow_only({"plait_plan", "algorithm", "collective", "access", "root", "blocks", "chunks_per_block", "in_place",
                   "node_of", "ranks"});
  Plan plan;
  plan.algorithm = root.at("algorithm").as_name();
  plan.collective = read_name<Collective>(root.at("collective"), kCollectiveCount, "a collective");
  plan.access = read_name<Access>(root.at("access"), 2, "an access");
  plan.root = read_int(root.at("root"));
  // chunk_count(), the product of the two, has to fit an int even before the plan is verified.
  plan.blocks = static_cast<int>(root.at("blocks").as_integer(0, kMaxChunks));
  const int64_t most_chunks = kMaxChunks / (plan.blocks > 1 ? plan.blocks : 1);
  plan.chunks_per_block = static_cast<int>(root.at("chunks_per_block").as_integer(0, most_chunks));
  plan.in_place = root.at("in_place").as_bool();
  const JsonValue nodes = root.at("node_of");
  if (!nodes.is_array()) nodes.fail_expected("an array with the node of every rank");
  for (size_t i = 0; i < nodes.size(); ++i) plan.node_of.push_back(read_int(nodes.at(i)));
  const JsonValue ranks = root.at("ranks");
  if (!ranks.is_array() || ranks.size() != nodes.size()) {
    ranks.fail_expected(join("an array of ", counted(nodes.size(), "rank"), ", as many as in \"node_of\""));
  }
  for (size_t i = 0; i < ranks.size(); ++i) plan.ranks.push_back(read_rank(ranks.at(i)));
  return plan;
}

}  // namespace plait
