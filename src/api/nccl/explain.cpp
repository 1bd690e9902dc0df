// What the drop-in would do here, in JSON, for `plait doctor`: it asks the library that programs get, so that it says
// what happens.
#include <algorithm>
#include <cstring>
#include <exception>
#include <nccl_functions.hpp>
#include <string>

#include "api/nccl/drop_in.hpp"
#include "api/nccl/terms.hpp"
#include "base/json.hpp"
#include "base/types.hpp"

namespace plait::nccl {
namespace {

constexpr int kMostRanksAsked = 64;

void write_nccl(const RealLibrary& real, JsonWriter& json) {
  json.key("nccl").begin_object();
  json.key("path").value(real.path()).key("version").value(real.version()).key("error").value(real.error());
  json.end();
}

void write_plait(const PlaitLibrary& plait, JsonWriter& json) {
  json.key("plait").begin_object();
  json.key("path").value(plait.path()).key("error").value(plait.error());
  json.end();
}

void write_variables(const NcclVariables& variables, JsonWriter& json) {
  json.key("conf_files").begin_array();
  for (const std::string& file : variables.files()) json.value(file);
  json.end();
  json.key("variables").begin_array();
  for (const SetVariable& variable : variables.set()) {
    json.begin_object();
    json.key("name").value(variable.name).key("value").value(variable.value).key("source").value(variable.source);
    json.key("is_known").value(variable.is_known).key("effect").value(name(variable.effect));
    json.key("meaning").value(variable.meaning);
    json.end();
  }
  json.end();
}

void write_wins(const WinsTable& table, bool has_graphs, JsonWriter& json) {
  json.key("table").value(table.name()).key("leaves_nvls").value(table.leaves_out());
  json.key("wins").begin_array();
  for (const WinRow& row : table.rows()) {
    if (row.is_captured && !has_graphs) continue;
    json.begin_object();
    json.key("collective").value(name(row.kind)).key("captured").value(row.is_captured);
    json.key("from").value(row.from).key("to").value(row.to);
    if (is_reducing(row.kind)) json.key("operation").value(name_of_operation(row.op));
    json.key("types").begin_array();
    for (const int type : row.types) json.value(plait::name(static_cast<DataType>(type)));
    json.end().end();
  }
  json.end();
}

void write_communicators(DropIn& drop_in, const RankGpu& gpu, int most_ranks, JsonWriter& json) {
  json.key("communicators").begin_array();
  for (int ranks = 2; ranks <= most_ranks; ++ranks) {
    const Terms terms = terms_of(drop_in, gpu, ranks);
    json.begin_object().key("ranks").value(ranks).key("objection").value(terms.objection);
    if (terms.objection.empty()) json.key("takes").value(what_is_taken(drop_in, terms));
    const bool has_wins = terms.objection.empty() && terms.table != nullptr;
    if (has_wins) write_wins(*terms.table, drop_in.setting().graphs, json);
    json.end();
  }
  json.end();
}

void write_functions(JsonWriter& json) {
  json.key("functions").begin_object();
  for (const SymbolFacts& symbol : kSymbols) {
    json.key(symbol.name).begin_array().value(symbol.major).value(symbol.minor).end();
  }
  json.end();
}

std::string explain(const RankGpu& gpu, int most_ranks) {
  DropIn& drop_in = DropIn::of_this_process();
  JsonWriter json;
  json.begin_object().key("path").value(drop_in.own_path()).key("take").value(drop_in.setting().text());
  write_nccl(drop_in.real(), json);
  write_plait(drop_in.plait(), json);
  write_variables(drop_in.nccl(), json);
  write_communicators(drop_in, gpu, std::min(most_ranks, kMostRanksAsked), json);
  write_functions(json);
  drop_in.tables();  // without GPUs nobody has asked for them, and flaws are known once they are read
  json.key("flaws").begin_array();
  for (const std::string& flaw : drop_in.flaws()) json.value(flaw);
  return json.end().end().take();
}

}  // namespace
}  // namespace plait::nccl

// For communicators of 2 to `most_ranks` GPUs called `gpu`. Returns the bytes of the text, and copies it to `text`,
// with a zero at its end, if `room` is larger than that. 0: there was no memory.
extern "C" __attribute__((visibility("default"))) size_t plait_drop_in_explain(const char* gpu, int has_multicast,
                                                                               int most_ranks, char* text,
                                                                               size_t room) {
  try {
    const std::string json = plait::nccl::explain({0, gpu, has_multicast != 0}, most_ranks);
    if (json.size() < room) std::memcpy(text, json.c_str(), json.size() + 1);
    return json.size();
  } catch (const std::exception&) {
    return 0;
  }
}
