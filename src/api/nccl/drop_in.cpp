// Making the drop-in, and the line by which it introduces itself.
#include "api/nccl/drop_in.hpp"

#include <dlfcn.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/small_file.hpp"

namespace plait::nccl {
namespace {

constexpr double kMostVoteSeconds = 30;

// A variable that cannot be read is no reason to keep a program from NCCL.
Settings settings_of(const Environment& environment) {
  try {
    return Settings::from_environment(environment);
  } catch (const Error& error) {
    Logger().warn(error.what());
    return {};
  }
}

std::string path_of_this() {
  Dl_info info{};
  const bool is_known = dladdr(reinterpret_cast<void*>(&settings_of), &info) != 0 && info.dli_fname != nullptr;
  return is_known ? info.dli_fname : "Plait";
}

}  // namespace

DropIn& DropIn::of_this_process() {
  static DropIn* const drop_in = new DropIn(process_environment());
  return *drop_in;
}

DropIn::DropIn(const Environment& environment)
    : environment_(environment),
      own_path_(path_of_this()),
      settings_(settings_of(environment)),
      real_(environment),
      nccl_(environment, conf_files(environment, real_.version())),
      notices_(nccl_, settings_.log_level) {
  read_setting();
  introduce();
}

// One that cannot be read takes nothing over.
void DropIn::read_setting() {
  try {
    setting_ = TakeSetting::parse(variable("PLAIT_NCCL_TAKE"));
  } catch (const Error& error) {
    setting_ = {TakeMode::kNone};
    complain(join(error.what(), "; no call is taken over"));
  }
}

void DropIn::complain(const std::string& flaw) {
  notices_.log().warn(flaw);
  flaws_.push_back(flaw);
}

void DropIn::introduce() const {
  if (!real_.is_open()) {
    notices_.log().error(real_.error());
    return;
  }
  const char* what = setting_.mode == TakeMode::kNone  ? "it takes over none"
                     : setting_.mode == TakeMode::kAll ? "it takes over all that Plait can perform"
                                                       : "it takes over those at which Plait was measured to be faster";
  notices_.say(Subsystem::kInit,
               join(own_path_, " (Plait " PLAIT_VERSION_TEXT ") stands in for NCCL and passes calls on to NCCL ",
                    real_.version_text(), " (", real_.path(), "); ", what, " (PLAIT_NCCL_TAKE=", setting_.text(), ")"));
  if (setting_.mode != TakeMode::kNone && notices_.shows(Subsystem::kEnv)) say_variables();
}

// One line for each variable that keeps Plait from calls, and one for all that do not matter.
void DropIn::say_variables() const {
  std::string others;
  for (const SetVariable& variable : nccl_.set()) {
    const bool keeps = variable.effect == VariableEffect::kLeavesAll || variable.effect == VariableEffect::kLeavesWins;
    const bool is_other = variable.is_known && variable.effect == VariableEffect::kNone;
    if (is_other) others += join(others.empty() ? "" : ", ", variable.name);
    if (!keeps) continue;
    const char* what = variable.effect == VariableEffect::kLeavesAll ? "leaves all calls to NCCL"
                                                                     : "makes the wins that Plait brings void";
    notices_.say(Subsystem::kEnv,
                 join(variable.name, '=', variable.value, " (", variable.source, ") ", what, ": ", variable.meaning));
  }
  if (!others.empty()) notices_.say(Subsystem::kEnv, join("no matter for calls that Plait performs: ", others));
}

std::string DropIn::variable(std::string_view name) const { return value_in(environment_, name); }

const PlaitLibrary& DropIn::plait() {
  std::call_once(opens_, [&] { plait_ = std::make_unique<PlaitLibrary>(environment_, own_path_); });
  return *plait_;
}

const std::vector<WinsTable>& DropIn::tables() {
  std::call_once(reads_, [&] { tables_ = read_tables(); });
  return tables_;
}

// A table that cannot be read is none.
std::vector<WinsTable> DropIn::read_tables() {
  std::vector<WinsTable> tables;
  const std::string named = variable("PLAIT_NCCL_WINS");
  try {
    if (!named.empty()) {
      const std::string text = read_small_file(named);
      if (text.empty()) fail(ErrorCode::kInvalidInput, named, " cannot be read");
      tables.push_back(WinsTable::parse(text, named));
      return tables;
    }
    for (const auto& [name, text] : plait::internal::nccl_wins_texts()) tables.push_back(WinsTable::parse(text, name));
  } catch (const Error& error) {
    const char* which = named.empty() ? "" : " that PLAIT_NCCL_WINS names";
    complain(join("the table of wins", which, " cannot be used: ", error.what()));
    tables.clear();
  }
  return tables;
}

double DropIn::vote_seconds() const { return std::min(kMostVoteSeconds, settings_.bootstrap_timeout_seconds); }

}  // namespace plait::nccl
