// The format of profiles/*.json.
#include <cmath>
#include <set>

#include "algorithms/spec.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "model/profile.hpp"

namespace plait {
namespace {

constexpr std::string_view kFormat = "plait-profile 1";
constexpr double kMicro = 1e-6;

constexpr const char* kFlagNames[kFlagCount] = {"few_sms", "wide_partials", "stays_mapped", "copies", "rooted"};
constexpr const char* kMeasureNames[] = {"message", "stored", "crossing", "pieces"};
constexpr const char* kFabricNames[] = {"any", "cpu", "tcp", "nvswitch"};

template <size_t count>
int find_name(const JsonValue& value, std::string_view text, const char* const (&names)[count]) {
  std::string known;
  for (size_t i = 0; i < count; ++i) {
    if (text == names[i]) return static_cast<int>(i);
    known += join(i == 0 ? "" : ", ", names[i]);
  }
  value.fail_expected("one of " + known);
}

double number_or(const JsonValue& object, const char* member, double otherwise) {
  const auto value = object.find(member);
  if (!value) return otherwise;
  const double number = value->as_number();
  if (!(number >= 0) || !std::isfinite(number)) value->fail_expected("a number from 0 on");
  return number;
}

// "64K", "3M", or a number of bytes.
size_t read_bytes(const JsonValue& value) {
  if (!value.is_string()) return static_cast<size_t>(value.as_integer(0));
  const std::string_view text = value.as_string();
  size_t bytes = 0, digits = 0;
  for (; digits < text.size() && digits < 12 && text[digits] >= '0' && text[digits] <= '9'; ++digits) {
    bytes = bytes * 10 + static_cast<size_t>(text[digits] - '0');
  }
  const std::string_view unit = text.substr(digits);
  const int shift = unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : -1;
  if (digits == 0 || shift < 0) value.fail_expected("bytes, such as 4096, \"64K\" or \"3M\"");
  return bytes << shift;
}

Limit read_limit(const JsonValue& object) {
  if (!object.is_object() || object.size() != 1) object.fail_expected("an object of one measure and its bytes");
  const int measure = find_name(object, object.key(0), kMeasureNames);
  return {static_cast<Measure>(measure), read_bytes(object.at(size_t{0}))};
}

std::vector<std::string> read_texts(const JsonValue& array) {
  if (!array.is_array()) array.fail_expected("an array of texts");
  std::vector<std::string> texts;
  for (size_t i = 0; i < array.size(); ++i) texts.emplace_back(array.at(i).as_string());
  return texts;
}

std::pair<int, int> read_range(const JsonValue& array) {
  if (!array.is_array() || array.size() != 2) array.fail_expected("the least and the most, [2, 4]");
  const int least = static_cast<int>(array.at(size_t{0}).as_integer(0, 1 << 30));
  return {least, static_cast<int>(array.at(size_t{1}).as_integer(least, 1 << 30))};
}

std::vector<Collective> read_collectives(const JsonValue& object) {
  std::vector<Collective> all;
  if (const auto names = object.find("collectives")) {
    for (const std::string& name : read_texts(*names)) all.push_back(parse_collective(name));
  }
  return all;
}

RuleCondition read_condition(const JsonValue& rule) {
  RuleCondition when;
  when.collectives = read_collectives(rule);
  if (const auto ranks = rule.find("ranks")) std::tie(when.least_ranks, when.most_ranks) = read_range(*ranks);
  if (const auto steps = rule.find("steps")) std::tie(when.least_steps, when.most_steps) = read_range(*steps);
  if (const auto flags = rule.find("if")) {
    for (std::string_view text : read_texts(*flags)) {
      constexpr std::string_view kNot = "not ";
      const bool wanted = !text.starts_with(kNot);
      if (!wanted) text.remove_prefix(kNot.size());
      when.flags.emplace_back(static_cast<Flag>(find_name(*flags, text, kFlagNames)), wanted);
    }
  }
  if (const auto bytes = rule.find("most_element_bytes")) when.most_element_bytes = read_bytes(*bytes);
  if (const auto from = rule.find("from")) when.from = read_limit(*from);
  if (const auto above = rule.find("above")) {
    when.from = read_limit(*above);
    ++when.from->bytes;
  }
  if (const auto to = rule.find("to")) when.to = read_limit(*to);
  if (const auto below = rule.find("below")) {
    when.to = read_limit(*below);
    if (when.to->bytes == 0) below->fail_expected("more than 0 bytes");
    --when.to->bytes;
  }
  return when;
}

std::vector<MeasuredRule> read_rules(const JsonValue& root, const char* member) {
  std::vector<MeasuredRule> rules;
  const auto array = root.find(member);
  for (size_t i = 0; array && i < array->size(); ++i) {
    const JsonValue it = array->at(i);
    it.allow_only({"collectives", "ranks", "steps", "if", "most_element_bytes", "from", "above", "to", "below",
                   "choose", "threads", "reason"});
    MeasuredRule& rule = rules.emplace_back();
    rule.when = read_condition(it);
    rule.choice = it.at("choose").as_string();
    if (const auto threads = it.find("threads")) rule.threads = static_cast<int>(threads->as_integer(32, 1024));
    if (const auto reason = it.find("reason")) rule.reason = reason->as_string();
  }
  return rules;
}

HostPathProfile read_host_path(const JsonValue& object) {
  object.allow_only({"gpus", "ranks", "least_share", "rules"});
  HostPathProfile path;
  path.gpus = read_texts(object.at("gpus"));
  const JsonValue ranks = object.at("ranks"), rules = object.at("rules");
  for (size_t i = 0; i < ranks.size(); ++i) path.ranks.push_back(static_cast<int>(ranks.at(i).as_integer(1, 1 << 20)));
  path.least_share = object.at("least_share").as_number();
  for (size_t i = 0; i < rules.size(); ++i) {
    const JsonValue it = rules.at(i);
    it.allow_only({"collectives", "ranks", "if", "most_element_bytes", "links_gbps", "host_gbps", "lateness_us",
                   "pace_gbps", "in_place_of_others"});
    HostPathRule& rule = path.rules.emplace_back();
    rule.when = read_condition(it);
    rule.links_gbps = it.at("links_gbps").as_number();
    rule.host_gbps = it.at("host_gbps").as_number();
    rule.lateness_seconds = it.at("lateness_us").as_number() * kMicro;
    rule.pace_gbps = it.at("pace_gbps").as_number();
    if (const auto flag = it.find("in_place_of_others")) rule.in_place_of_others = flag->as_bool();
  }
  return path;
}

Costs::Protocol read_protocol(const JsonValue& costs, const char* member) {
  const auto object = costs.find(member);
  if (!object) return {};
  object->allow_only({"signal_share", "bytes_share"});
  return {number_or(*object, "signal_share", 1), number_or(*object, "bytes_share", 1)};
}

// A number for each kind of link that the member names.
std::array<double, kLinkKindCount> read_by_link(const JsonValue& numbers, double unit) {
  std::array<double, kLinkKindCount> by_link = {};
  for (size_t i = 0; i < numbers.size(); ++i) {
    LinkKind kind{};
    if (!parse(numbers.key(i), kind)) numbers.fail_expected(join("kinds of links, not \"", numbers.key(i), "\""));
    const double number = numbers.at(i).as_number();
    if (number < 0) numbers.at(i).fail_expected("a number that is not negative");
    by_link[static_cast<size_t>(kind)] = number * unit;
  }
  return by_link;
}

double read_share(const JsonValue& object, const char* member, double otherwise) {
  const double share = number_or(object, member, otherwise);
  if (share <= 0 || share > 1) object.at(member).fail_expected("a share, more than 0 and at most 1");
  return share;
}

RingCosts read_ring_costs(const JsonValue& object, RingCosts costs) {
  object.allow_only({"step_us", "efficiency", "half_bytes", "exposed_steps"});
  costs.step_seconds = number_or(object, "step_us", costs.step_seconds / kMicro) * kMicro;
  costs.efficiency = read_share(object, "efficiency", costs.efficiency);
  if (const auto bytes = object.find("half_bytes")) costs.half_bytes = static_cast<double>(read_bytes(*bytes));
  costs.exposed_steps = number_or(object, "exposed_steps", costs.exposed_steps);
  return costs;
}

// The media that the profile names, and the others as its signals and its links are.
RingTable read_rings(const JsonValue& object, const Costs& costs) {
  RingTable rings;
  for (int kind = 0; kind < kLinkKindCount; ++kind) {
    rings.of_medium[static_cast<size_t>(kind)] = {costs.signal_seconds[static_cast<size_t>(kind)],
                                                  costs.link_efficiency, 0, 0};
  }
  const auto given = object.find("rings");
  std::optional<JsonValue> mixed;
  for (size_t i = 0; given && i < given->size(); ++i) {
    LinkKind kind{};
    if (given->key(i) == "parts") {
      rings.parts = static_cast<int>(given->at(i).as_integer(1, 64));
    } else if (given->key(i) == name(kMixed)) {
      mixed = given->at(i);
    } else if (parse(given->key(i), kind)) {
      rings.of(medium_of(kind)) = read_ring_costs(given->at(i), rings.of(medium_of(kind)));
    } else {
      given->fail_expected(join("parts, kinds of links and mixed, not \"", given->key(i), "\""));
    }
  }
  const RingCosts& network = rings.of(medium_of(LinkKind::kNetwork));
  rings.of(kMixed) = mixed ? read_ring_costs(*mixed, network) : network;
  return rings;
}

std::string read_source(const JsonValue& object) {
  object.allow_only({"machine", "date", "command", "commit", "notes"});
  std::string text = join(object.at("machine").as_name(), "; ", object.at("date").as_name(), ", commit ",
                          object.at("commit").as_name(), ": ", object.at("command").as_name());
  if (const auto notes = object.find("notes")) text += join("; ", notes->as_name());
  return text;
}

struct KernelMember {
  const char* name;
  double KernelCosts::* value;
};
constexpr KernelMember kKernelTimes[] = {
    {"call_us", &KernelCosts::call_seconds},
    {"pdl_us", &KernelCosts::pdl_seconds},
    {"stagger_us", &KernelCosts::stagger_seconds},
    {"launched_us", &KernelCosts::launched_seconds},
    {"host_us", &KernelCosts::host_seconds},
    {"operation_us", &KernelCosts::operation_seconds},
    {"fence_us", &KernelCosts::fence_seconds},
    {"signal_us", &KernelCosts::signal_seconds},
    {"local_signal_us", &KernelCosts::local_signal_seconds},
    {"wait_us", &KernelCosts::wait_seconds},
    {"ll_words_us", &KernelCosts::ll_words_seconds},
    {"ll128_words_us", &KernelCosts::ll128_words_seconds},
    {"ll_signal_us", &KernelCosts::ll_signal_seconds},
    {"ll128_signal_us", &KernelCosts::ll128_signal_seconds},
    {"host_fence_us", &KernelCosts::host_fence_seconds},
    {"host_signal_us", &KernelCosts::host_signal_seconds},
    {"barrier_us", &KernelCosts::barrier_seconds},
    {"barrier_signal_us", &KernelCosts::barrier_signal_seconds},
    {"copy_us", &KernelCosts::copy_seconds},
};
constexpr KernelMember kKernelRates[] = {
    {"request_share", &KernelCosts::request_share},
    {"cta_gbps", &KernelCosts::cta_gbps},
    {"memory_gbps", &KernelCosts::memory_gbps},
    {"cache_gbps", &KernelCosts::cache_gbps},
};
constexpr KernelMember kKernelEfficiencies[] = {
    {"store_efficiency", &KernelCosts::store_efficiency}, {"spread_efficiency", &KernelCosts::spread_efficiency},
    {"load_efficiency", &KernelCosts::load_efficiency},   {"copy_efficiency", &KernelCosts::copy_efficiency},
    {"host_efficiency", &KernelCosts::host_efficiency},
};

KernelCosts read_kernel_costs(const JsonValue& object) {
  std::set<std::string_view> known = {"source", "gpus", "half_bytes", "cache_bytes", "combine_share"};
  if (const auto source = object.find("source")) read_source(*source);  // for people
  KernelCosts costs;
  if (const auto gpus = object.find("gpus")) costs.gpus = read_texts(*gpus);
  const auto read = [&](const auto& members, double unit, const auto& number_of) {
    for (const KernelMember& it : members) {
      known.insert(it.name);
      costs.*it.value = number_of(object, it.name, costs.*it.value / unit) * unit;
    }
  };
  read(kKernelTimes, kMicro, number_or);
  read(kKernelRates, 1, number_or);
  read(kKernelEfficiencies, 1, read_share);
  for (size_t i = 0; i < object.size(); ++i) {
    if (!known.contains(object.key(i))) object.fail_expected(join("costs of kernels, not \"", object.key(i), "\""));
  }
  if (const auto bytes = object.find("half_bytes")) costs.half_bytes = static_cast<double>(read_bytes(*bytes));
  if (const auto bytes = object.find("cache_bytes")) costs.cache_bytes = static_cast<double>(read_bytes(*bytes));
  costs.combine_share = number_or(object, "combine_share", 1);
  if (costs.combine_share < 1) object.at("combine_share").fail_expected("a number from 1 on");
  return costs;
}

Costs read_costs(const JsonValue& object) {
  object.allow_only({"launch_us", "operation_us", "message_us", "signal_us", "local_signal_us", "link_efficiency",
                     "half_bytes", "memory_gbps", "cache_gbps", "cache_bytes", "combine_share", "core_gbps", "LL",
                     "LL128", "rings", "kernels"});
  Costs costs;
  costs.launch_seconds = number_or(object, "launch_us", 0) * kMicro;
  costs.operation_seconds = number_or(object, "operation_us", 0) * kMicro;
  costs.message_seconds = number_or(object, "message_us", 0) * kMicro;
  costs.local_signal_seconds = number_or(object, "local_signal_us", 0) * kMicro;
  costs.memory_gbps = number_or(object, "memory_gbps", 0);
  costs.cache_gbps = number_or(object, "cache_gbps", 0);
  if (const auto bytes = object.find("cache_bytes")) costs.cache_bytes = static_cast<double>(read_bytes(*bytes));
  costs.combine_share = number_or(object, "combine_share", 1);
  if (costs.combine_share < 1) object.at("combine_share").fail_expected("a number from 1 on");
  costs.core_gbps = number_or(object, "core_gbps", 0);
  costs.link_efficiency = read_share(object, "link_efficiency", 1);
  costs.signal_seconds = read_by_link(object.at("signal_us"), kMicro);
  if (const auto bytes = object.find("half_bytes")) costs.half_bytes = read_by_link(*bytes, 1);
  costs.ll = read_protocol(object, "LL");
  costs.ll128 = read_protocol(object, "LL128");
  costs.rings = read_rings(object, costs);
  if (const auto kernels = object.find("kernels")) costs.kernels = read_kernel_costs(*kernels);
  return costs;
}

// {"flat(store)": [[64, 1.8], ["1K", 1.9]]}: microseconds by size.
void read_points(const JsonValue& object, MeasuredTimes& times) {
  for (size_t i = 0; i < object.size(); ++i) {
    const std::string plan(object.key(i));
    if (to_text(parse_spec(plan, times.collective)) != plan) object.fail_expected("plans as they are called");
    std::vector<MeasuredTimes::Point>& points = times.of_plan[plan];
    const JsonValue rows = object.at(i);
    for (size_t row = 0; row < rows.size(); ++row) {
      const JsonValue it = rows.at(row);
      if (!it.is_array() || it.size() != 2) it.fail_expected("bytes and microseconds, [1024, 2.5]");
      points.push_back({read_bytes(it.at(size_t{0})), it.at(size_t{1}).as_number() * kMicro});
      if (row > 0 && points[row - 1].bytes >= points[row].bytes) it.fail_expected("more bytes than in the row before");
    }
  }
}

std::vector<MeasuredTimes> read_times(const JsonValue& root) {
  std::vector<MeasuredTimes> all;
  const auto array = root.find("times");
  for (size_t i = 0; array && i < array->size(); ++i) {
    const JsonValue it = array->at(i);
    it.allow_only({"collective", "ranks", "gpus", "source", "us"});
    MeasuredTimes& times = all.emplace_back();
    times.collective = parse_collective(it.at("collective").as_string());
    times.ranks = static_cast<int>(it.at("ranks").as_integer(1, 1 << 20));
    times.gpus = read_texts(it.at("gpus"));
    times.source = read_source(it.at("source"));
    read_points(it.at("us"), times);
  }
  return all;
}

MeasuredOn read_measured_on(const JsonValue& object) {
  object.allow_only({"gpus", "ranks", "most_ranks"});
  MeasuredOn on;
  on.gpus = read_texts(object.at("gpus"));
  on.ranks = static_cast<int>(object.at("ranks").as_integer(1, 1 << 20));
  on.most_ranks = static_cast<int>(object.at("most_ranks").as_integer(on.ranks, 1 << 20));
  return on;
}

TunedPlace read_tuned_place(const JsonValue& object) {
  object.allow_only({"machine", "device", "devices", "cores", "nodes"});
  TunedPlace place;
  place.machine = object.at("machine").as_name();
  place.device = object.at("device").as_string();
  place.devices = static_cast<int>(object.at("devices").as_integer(1, 1 << 20));
  place.cores = static_cast<int>(object.at("cores").as_integer(0, 1 << 20));
  place.nodes = static_cast<int>(object.at("nodes").as_integer(1, 1 << 20));
  return place;
}

// A name of an algorithm as it is called, so that who reads the file knows what runs.
std::string read_plan(const JsonValue& text, Collective collective) {
  std::string plan(text.as_string());
  if (to_text(parse_spec(plan, collective)) != plan) text.fail_expected("a plan as it is called");
  return plan;
}

TunedRule read_tuned_rule(const JsonValue& object, Collective collective) {
  object.allow_only({"from", "to", "choose", "protocol", "reason"});
  TunedRule rule;
  rule.from = read_bytes(object.at("from"));
  rule.to = read_bytes(object.at("to"));
  if (rule.to < rule.from) object.at("to").fail_expected("at least as many bytes as in \"from\"");
  rule.choice = read_plan(object.at("choose"), collective);
  if (const auto protocol = object.find("protocol")) {
    constexpr const char* kProtocols[] = {"Simple", "LL", "LL128"};
    rule.protocol = kProtocols[find_name(*protocol, protocol->as_string(), kProtocols)];
  }
  rule.reason = object.at("reason").as_string();
  return rule;
}

// Rows that `plait tune` keeps for itself, too: only times of what was the fastest matter here.
void read_tuned_rows(const JsonValue& rows, MeasuredTimes& times) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const JsonValue it = rows.at(i);
    const std::string plan = read_plan(it.at("choose"), times.collective);
    std::vector<MeasuredTimes::Point>& points = times.of_plan[plan];
    points.push_back({read_bytes(it.at("bytes")), it.at("us").as_number() * kMicro});
    if (points.size() > 1 && points[points.size() - 2].bytes >= points.back().bytes) {
      it.fail_expected("more bytes than in the row before");
    }
  }
}

std::vector<TunedTable> read_tuned(const JsonValue& root) {
  std::vector<TunedTable> all;
  const auto array = root.find("tuned");
  for (size_t i = 0; array && i < array->size(); ++i) {
    const JsonValue it = array->at(i);
    it.allow_only({"collective", "ranks", "place", "source", "rules", "rows"});
    TunedTable& table = all.emplace_back();
    table.collective = parse_collective(it.at("collective").as_string());
    table.ranks = static_cast<int>(it.at("ranks").as_integer(1, 1 << 20));
    table.place = read_tuned_place(it.at("place"));
    const JsonValue rules = it.at("rules");
    for (size_t row = 0; row < rules.size(); ++row) {
      table.rules.push_back(read_tuned_rule(rules.at(row), table.collective));
    }
    table.times.collective = table.collective;
    table.times.ranks = table.ranks;
    table.times.source = read_source(it.at("source"));
    read_tuned_rows(it.at("rows"), table.times);
  }
  return all;
}

std::vector<UnsuitedAlgorithm> read_unsuited(const JsonValue& root) {
  std::vector<UnsuitedAlgorithm> all;
  const auto list = root.find("unsuited");
  for (size_t i = 0; list && i < list->size(); ++i) {
    const JsonValue it = list->at(i);
    it.allow_only({"algorithm", "collectives", "radix", "most_nodes", "why"});
    UnsuitedAlgorithm& unsuited = all.emplace_back();
    unsuited.name = it.at("algorithm").as_name();
    unsuited.why = it.at("why").as_string();
    unsuited.collectives = read_collectives(it);
    if (const auto radix = it.find("radix")) unsuited.least_radix = static_cast<int>(radix->as_integer(2, 8));
    if (const auto nodes = it.find("most_nodes")) unsuited.most_nodes = static_cast<int>(nodes->as_integer(1, 1 << 30));
  }
  return all;
}

}  // namespace

Profile parse_profile(std::string_view text, std::string file) {
  const JsonDocument document = JsonDocument::parse(text, std::move(file));
  const JsonValue root = document.root();
  const JsonValue format = root.at("format");
  if (format.as_string() != kFormat) format.fail_expected(join("\"", kFormat, "\""));
  root.allow_only({"format", "name", "source", "fits", "measured_on", "costs", "few_sms", "algorithms", "zero_copy",
                   "endings", "protocols", "messages", "times", "tuned", "host_path", "unsuited"});
  Profile profile;
  profile.name = root.at("name").as_name();
  profile.source = read_source(root.at("source"));
  const JsonValue fits = root.at("fits");
  fits.allow_only({"fabric", "gpus", "machines"});
  profile.fabric = static_cast<Fabric>(find_name(fits, fits.at("fabric").as_string(), kFabricNames));
  if (const auto gpus = fits.find("gpus")) profile.gpus = read_texts(*gpus);
  if (const auto machines = fits.find("machines")) profile.machines = read_texts(*machines);
  if (const auto on = root.find("measured_on")) profile.measured_on = read_measured_on(*on);
  profile.costs = read_costs(root.at("costs"));
  if (const auto few = root.find("few_sms")) profile.few_sms = static_cast<int>(few->as_integer(0, 1 << 20));
  profile.algorithms = read_rules(root, "algorithms");
  profile.zero_copy = read_rules(root, "zero_copy");
  profile.endings = read_rules(root, "endings");
  profile.protocols = read_rules(root, "protocols");
  profile.messages = read_rules(root, "messages");
  profile.times = read_times(root);
  profile.tuned = read_tuned(root);
  if (const auto path = root.find("host_path")) profile.host_path = read_host_path(*path);
  profile.unsuited = read_unsuited(root);
  return profile;
}

}  // namespace plait
