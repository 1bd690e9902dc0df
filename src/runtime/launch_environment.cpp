// Derives one rank of one job from the variables that are set. Shells, allocations and launchers nest, so variables of
// several launchers are often set at once, and some are left over from elsewhere:
//
//   variables that are set                        result
//   several launchers that say the same           what they say
//   one says "rank 0 of 1", another says more     the other: the first speaks of a shell, or is left over. But an
//                                                 error if the first is the inner one, as in mpirun -n 1 in srun -n 4:
//                                                 nobody may want a communicator of one rank there
//   an inner and an outer launcher, of several    the inner one
//   ranks each
//   launchers that differ in other ways           an error, which names the variables of both
//   only one launcher, which says only a part     an error
#include "runtime/launch_environment.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "runtime/internet_address.hpp"
#include "runtime/launchers.hpp"
#include "runtime/stream_socket.hpp"

namespace plait {
namespace {

// Returns the first of `names` that is set, or null.
const char* first_set(const Environment& environment, const VariableNames& names) {
  for (const char* name : names) {
    if (name != nullptr && !value_in(environment, name).empty()) return name;
  }
  return nullptr;
}

// Reads the number in variable `name`. No value if the variable is unset or `name` is null.
std::optional<int> number_in(const Environment& environment, const Launcher& launcher, const char* name) {
  const std::string value = name == nullptr ? "" : value_in(environment, name);
  if (value.empty()) return std::nullopt;
  int number = 0;
  const char* end = value.data() + value.size();
  const auto [read_to, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || read_to != end || number < 0) {
    fail(ErrorCode::kInvalidInput, launcher.name, ": environment variable ", name, " is \"", value,
         "\"; expected a whole number from 0");
  }
  return number;
}

// The claim about this process that one launcher makes, or variables that look like a launcher's.
struct Claim {
  const Launcher* launcher = nullptr;
  const char* size_name = nullptr;
  std::optional<int> rank, size;

  bool is_complete() const { return rank && size; }
  bool is_alone() const { return size == 1; }
  bool is_proven() const { return launcher->layer != LauncherLayer::kUnknown; }

  // "rank 1 of 4 (PMI_RANK=1, PMI_SIZE=4)"
  std::string text() const {
    std::string said, names;
    if (rank) said = join("rank ", *rank), names = join(launcher->rank, "=", *rank);
    if (rank && size) said += " of ", names += ", ";
    if (size) said += join(rank ? "" : "one of ", *size, rank ? "" : " ranks"), names += join(size_name, "=", *size);
    return join(said, " (", names, ")");
  }
};

constexpr const char* kOrSayIt = "set PLAIT_RANK, PLAIT_WORLD_SIZE and PLAIT_JOB on every rank";

// Without its proof, "rank 0" of a resource manager means nothing: a batch script of Slurm has it. Any other rank is an
// error.
void check_unproven(const Launcher& launcher, const Environment& environment) {
  if (launcher.layer != LauncherLayer::kResourceManager) return;
  const int rank = number_in(environment, launcher, launcher.rank).value_or(0);
  if (rank == 0) return;
  fail(ErrorCode::kInvalidInput, launcher.name, ": environment variable ", launcher.rank, " is ", rank, ", but ",
       launcher.proof[0], " is not set, as it is where ", launcher.name, " starts ranks; unset ", launcher.rank,
       " to run alone, or ", kOrSayIt);
}

std::optional<Claim> claim_of(const Launcher& launcher, const Environment& environment) {
  if (launcher.proof[0] != nullptr && first_set(environment, launcher.proof) == nullptr) {
    check_unproven(launcher, environment);
    return std::nullopt;
  }
  Claim claim;
  claim.launcher = &launcher;
  claim.rank = number_in(environment, launcher, launcher.rank);
  claim.size_name = first_set(environment, launcher.size);
  claim.size = number_in(environment, launcher, claim.size_name);
  // Resource managers tell shells how many ranks the shells could start.
  if (!claim.rank && (!claim.size || launcher.layer == LauncherLayer::kResourceManager)) return std::nullopt;
  return claim;
}

// Whether everything that `part` says agrees with `whole`.
bool says_the_same(const Claim& part, const Claim& whole) {
  return (!part.rank || part.rank == whole.rank) && (!part.size || part.size == whole.size);
}

// Collects the claims in the order of the table: inner launchers first, unproven ones last.
std::vector<Claim> claims_in(const Environment& environment) {
  std::vector<Claim> claims;
  for (const Launcher& launcher : launchers()) {
    const std::string_view rank = launcher.rank;
    const bool is_read = std::ranges::any_of(claims, [&](const Claim& claim) { return claim.launcher->rank == rank; });
    // Programs use RANK for other purposes too, so RANK without a size does not count beside the ranks of a launcher.
    const bool is_word = launcher.layer == LauncherLayer::kUnknown && first_set(environment, launcher.size) == nullptr;
    if (is_read || (is_word && !claims.empty())) continue;
    if (const auto claim = claim_of(launcher, environment)) claims.push_back(*claim);
  }
  // A partial claim that agrees with another launcher's whole one adds nothing: PMIX_RANK stands beside the variables
  // of mpirun.
  const auto is_explained = [&, all = claims](const Claim& claim) {
    return !claim.is_complete() && std::ranges::any_of(all, [&](const Claim& other) {
      return other.is_complete() && other.is_proven() && says_the_same(claim, other);
    });
  };
  std::erase_if(claims, is_explained);
  return claims;
}

// Whether a job of `inner` is commonly started by a process that `outer` has started.
bool may_enclose(const Claim& outer, const Claim& inner) {
  const LauncherLayer layer = inner.launcher->layer;
  if (!outer.is_proven()) return layer == LauncherLayer::kPlait;  // PLAIT_RANK is meant for nobody else
  return inner.is_proven() && layer < outer.launcher->layer;
}

// Chooses the innermost complete claim. One that says "alone" gives way to another that may be inside of it. Null if
// there is none.
const Claim* choose(const std::vector<Claim>& claims) {
  const Claim* chosen = nullptr;
  for (const Claim& claim : claims) {
    if (!claim.is_complete()) continue;
    const bool gives_way = chosen != nullptr && chosen->is_alone() && !claim.is_alone() && !may_enclose(claim, *chosen);
    if (chosen == nullptr || gives_way) chosen = &claim;
  }
  return chosen;
}

// Whether one of the two must be wrong about this process.
bool contradicts(const Claim& other, const Claim& chosen) {
  if (other.is_alone()) return false;
  if (chosen.is_alone()) return true;  // if `other` gives a size, it is more than 1
  return !says_the_same(other, chosen) && !may_enclose(other, chosen);
}

[[noreturn]] void fail_contradiction(const Claim& chosen, const Claim& other) {
  const Claim& doubtful = chosen.is_proven() ? other : chosen;
  std::string unset;
  for (const char* name : {doubtful.rank ? doubtful.launcher->rank : nullptr, doubtful.size_name}) {
    if (name != nullptr) unset += join(" -u ", name);
  }
  fail(ErrorCode::kInvalidInput, "launchers contradict each other: ", chosen.launcher->name,
       " says that this process is ", chosen.text(), ", ", other.launcher->name, " that it is ", other.text(),
       ". Remove the variables that do not belong to this job, for instance by `env", unset, "`, or ", kOrSayIt);
}

[[noreturn]] void fail_incomplete(const Claim& claim) {
  const Launcher& launcher = *claim.launcher;
  if (launcher.size[0] == nullptr) {
    fail(ErrorCode::kInvalidInput, launcher.name, ": environment variable ", launcher.rank, " is ", *claim.rank,
         ", so a launcher has started this process as one of several ranks, but no variable says of how many; ",
         kOrSayIt, ", or unset ", launcher.rank, " to run alone");
  }
  const char* there = claim.rank ? launcher.rank : claim.size_name;
  const char* missing = claim.rank ? launcher.size[0] : launcher.rank;
  fail(ErrorCode::kInvalidInput, launcher.name, ": environment variable ", there, " is set but ", missing,
       " is not; a rank needs both. Unset ", there, " to run alone, or ", kOrSayIt);
}

// Why the ranks are known to be on several hosts; empty if they are not. "SLURM_STEP_NUM_NODES is 2".
std::string several_hosts(const Claim& claim, const Environment& environment) {
  const Launcher& launcher = *claim.launcher;
  const char* local_size_name = first_set(environment, launcher.local_size);
  const auto local_size = number_in(environment, launcher, local_size_name);
  if (local_size && *local_size != *claim.size) {
    return join(local_size_name, " is ", *local_size, " but ", claim.size_name, " is ", *claim.size);
  }
  const auto hosts = number_in(environment, launcher, launcher.hosts);
  return hosts && *hosts != 1 ? join(launcher.hosts, " is ", *hosts) : "";
}

// Any process of the network could guess what launchers say of a job. So PLAIT_JOB has to be a secret.
void find_master(const Claim& claim, const Environment& environment, LaunchEnvironment& launch) {
  const std::string given = value_in(environment, "PLAIT_MASTER_ADDR"), why = several_hosts(claim, environment);
  if (given.empty() && why.empty()) return;
  launch.master = given.empty() ? value_in(environment, "MASTER_ADDR") : given;
  const bool has_job = !value_in(environment, "PLAIT_JOB").empty();
  if (launch.master.empty() || !has_job) {
    fail(ErrorCode::kInvalidInput, claim.launcher->name, ": ", why.empty() ? "PLAIT_MASTER_ADDR is set" : why,
         ", so ranks are on several hosts; set on all of them ",
         launch.master.empty() ? "PLAIT_MASTER_ADDR to the name or address of the host of rank 0" : "",
         launch.master.empty() && !has_job ? ", and " : "",
         has_job ? "" : "PLAIT_JOB to one random text, by which they recognise each other");
  }
  const std::string port = value_in(environment, "PLAIT_MASTER_PORT");
  if (port.empty()) return;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), launch.master_port);
  if (error == std::errc() && end == port.data() + port.size() && launch.master_port > 0) return;
  fail(ErrorCode::kInvalidInput, "environment variable PLAIT_MASTER_PORT is \"", port,
       "\"; expected a whole number from 1 to 65535");
}

// Where a launcher does not say it, it follows from how many ranks a host has: launchers fill host after host.
int local_rank(const Claim& claim, const Environment& environment) {
  const Launcher& launcher = *claim.launcher;
  const char* const name = first_set(environment, launcher.local_rank);
  const auto said = number_in(environment, launcher, name);
  if (!said) {
    const auto of_host = number_in(environment, launcher, first_set(environment, launcher.local_size));
    return *claim.rank % std::max(1, of_host.value_or(*claim.size));
  }
  if (*said < *claim.size) return *said;
  fail(ErrorCode::kInvalidInput, launcher.name, ": ", name, " is ", *said, " but there are ",
       counted(*claim.size, "rank"));
}

LaunchEnvironment checked(const Claim& claim, const Environment& environment) {
  const Launcher& launcher = *claim.launcher;
  LaunchEnvironment launch;
  launch.launcher = launcher.name;
  launch.rank = *claim.rank;
  launch.size = *claim.size;
  if (launch.rank >= launch.size) {
    fail(ErrorCode::kInvalidInput, launcher.name, ": ", launcher.rank, " is ", launch.rank, " but ", claim.size_name,
         " is ", launch.size, "; ranks are numbered from 0");
  }
  find_master(claim, environment, launch);
  launch.local_rank = local_rank(claim, environment);
  return launch;
}

// Builds a key from the launcher's name and its variables, such as "torchrun/MASTER_PORT=29500", so that keys of two
// launchers never collide.
std::string key_of(const Launcher& launcher, const Environment& environment, const AncestorFinder& ancestor) {
  std::string key;
  const auto add = [&](const VariableNames& names) {
    for (const char* name : names) {
      const std::string value = name == nullptr ? "" : value_in(environment, name);
      if (!value.empty()) key += join("/", name, "=", value);
    }
  };
  add(launcher.unique);
  if (!key.empty()) {
    add(launcher.beside);
  } else if (launcher.ancestor != nullptr) {
    const std::string process = ancestor(launcher.ancestor);
    if (!process.empty()) key = "/" + process;
  }
  return key.empty() ? "" : launcher.name + key;
}

// PLAIT_JOB takes precedence over whatever launchers offer. Users set it if launchers offer nothing.
std::string job_key(const Claim& chosen, const std::vector<Claim>& claims, const Environment& environment,
                    const AncestorFinder& ancestor) {
  const std::string given = value_in(environment, "PLAIT_JOB");
  if (!given.empty()) return "job/PLAIT_JOB=" + given;
  if (chosen.is_alone()) return "";
  for (const Claim& claim : claims) {
    if (!claim.is_complete() || !says_the_same(claim, chosen)) continue;
    std::string key = key_of(*claim.launcher, environment, ancestor);
    if (!key.empty()) return key;
  }
  fail(ErrorCode::kInvalidInput, chosen.launcher->name, " started rank ", *chosen.rank, " of ", *chosen.size,
       ", but nothing in the environment tells this job from others; set PLAIT_JOB to one random text on all ranks");
}

}  // namespace

// A name may have addresses of both families where this host has only one.
UniqueId LaunchEnvironment::id(uint64_t sequence) const {
  if (master.empty()) return UniqueId::for_job(job_key, sequence);
  const std::vector<InternetAddress> all = resolve(master, "PLAIT_MASTER_ADDR, or the launcher's MASTER_ADDR");
  const auto found = std::ranges::find_if(all, has_way_to);
  return UniqueId::for_job(job_key, sequence, found == all.end() ? all.front() : *found, master_port);
}

std::optional<LaunchEnvironment> detect_launch_environment(const Environment& environment,
                                                           const AncestorFinder& ancestor) {
  const std::vector<Claim> claims = claims_in(environment);
  if (claims.empty()) return std::nullopt;
  const Claim* chosen = choose(claims);
  if (chosen == nullptr) fail_incomplete(claims.front());
  for (const Claim& other : claims) {
    if (&other != chosen && contradicts(other, *chosen)) fail_contradiction(*chosen, other);
  }
  LaunchEnvironment launch = checked(*chosen, environment);
  launch.job_key = job_key(*chosen, claims, environment, ancestor);
  return launch;
}

}  // namespace plait
