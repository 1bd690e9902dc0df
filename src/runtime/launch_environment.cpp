#include "runtime/launch_environment.hpp"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <sstream>
#include <string_view>

#include "base/error.hpp"
#include "base/small_file.hpp"

namespace plait {
namespace {

// The variables of one launcher, with the launcher's name for error messages.
class Reader {
 public:
  Reader(const char* launcher, const Environment& environment) : launcher_(launcher), environment_(environment) {}

  const char* launcher() const { return launcher_; }

  bool has(const char* name) const { return !text(name).empty(); }

  std::string text(const char* name) const {
    const auto found = environment_.find(name);
    return found == environment_.end() ? "" : found->second;
  }

  // The number in variable `name`; nothing where it is unset.
  std::optional<int> number(const char* name) const {
    const std::string value = text(name);
    if (value.empty()) return std::nullopt;
    int number = 0;
    const char* end = value.data() + value.size();
    const auto [read_to, error] = std::from_chars(value.data(), end, number);
    if (error != std::errc() || read_to != end || number < 0) {
      fail(ErrorCode::kInvalidInput, launcher_, ": environment variable ", name, " is \"", value,
           "\"; expected a whole number from 0");
    }
    return number;
  }

  // One that must be there because `because` is.
  int required(const char* name, const char* because) const {
    const auto value = number(name);
    if (value) return *value;
    fail(ErrorCode::kInvalidInput, launcher_, ": environment variable ", because, " is set but ", name,
         " is not; a rank needs both (unset both to run alone)");
  }

 private:
  const char* launcher_;
  const Environment& environment_;
};

// A name and what is said about it, such as "torchrun/MASTER_PORT=29500": keys of two launchers never meet.
std::string key_of(const Reader& reader, std::initializer_list<const char*> names) {
  std::string key;
  for (const char* name : names) {
    if (reader.has(name)) key += join("/", name, "=", reader.text(name));
  }
  return key.empty() ? "" : reader.launcher() + key;
}

struct Names {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;  // where set and smaller than size, there are several hosts
};

// Rank, size and local rank, checked; nothing where neither rank nor size is set.
std::optional<LaunchEnvironment> read_ranks(const Reader& reader, const Names& names) {
  if (!reader.has(names.rank) && !reader.has(names.size)) return std::nullopt;
  LaunchEnvironment launch;
  launch.launcher = reader.launcher();
  launch.rank = reader.required(names.rank, names.size);
  launch.size = reader.required(names.size, names.rank);
  launch.local_rank = reader.number(names.local_rank).value_or(launch.rank);
  if (launch.rank >= launch.size) {
    fail(ErrorCode::kInvalidInput, launch.launcher, ": ", names.rank, " is ", launch.rank, " but ", names.size, " is ",
         launch.size, "; ranks are numbered from 0");
  }
  const int local_size = names.local_size ? reader.number(names.local_size).value_or(launch.size) : launch.size;
  if (local_size != launch.size) {
    fail(ErrorCode::kInvalidInput, launch.launcher, ": ", names.local_size, " is ", local_size, " but ", names.size,
         " is ", launch.size, "; ranks on several hosts are not supported yet, start all ranks on one host");
  }
  if (launch.local_rank >= launch.size) {
    fail(ErrorCode::kInvalidInput, launch.launcher, ": ", names.local_rank, " is ", launch.local_rank,
         " but there are ", launch.size, " ranks");
  }
  return launch;
}

// PLAIT_JOB goes before whatever a launcher offers, and is what to set where it offers nothing.
LaunchEnvironment with_job_key(LaunchEnvironment launch, const Environment& environment, const std::string& offered) {
  const std::string given = key_of(Reader("job", environment), {"PLAIT_JOB"});
  launch.job_key = given.empty() ? offered : given;
  if (launch.job_key.empty() && launch.size > 1) {
    fail(ErrorCode::kInvalidInput, launch.launcher, " started rank ", launch.rank, " of ", launch.size,
         ", but nothing in the environment tells this job from others; set PLAIT_JOB to one random text on all ranks");
  }
  return launch;
}

std::optional<LaunchEnvironment> from_plait(const Environment& environment) {
  const Reader reader("plait run", environment);
  const auto launch = read_ranks(reader, {"PLAIT_RANK", "PLAIT_WORLD_SIZE", "PLAIT_LOCAL_RANK", nullptr});
  if (!launch) return std::nullopt;
  return with_job_key(*launch, environment, "");
}

std::optional<LaunchEnvironment> from_torchrun(const Environment& environment) {
  const Reader reader("torchrun", environment);
  const auto launch = read_ranks(reader, {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"});
  if (!launch) return std::nullopt;
  // The store's port is held by one job at a time, so it tells jobs apart even where the run id is the default "none".
  // Without it the address alone would be the same for all jobs.
  const bool unique = reader.has("MASTER_PORT");
  return with_job_key(
      *launch, environment,
      unique ? key_of(reader, {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"})
             : "");
}

std::optional<LaunchEnvironment> from_open_mpi(const Environment& environment) {
  const Reader reader("Open MPI", environment);
  const auto launch = read_ranks(reader, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                                          "OMPI_COMM_WORLD_LOCAL_SIZE"});
  if (!launch) return std::nullopt;
  // Version 5 and 4 with PMIx set PMIX_NAMESPACE; version 4 sets the job id in any case, and a random key beside it.
  return with_job_key(
      *launch, environment,
      key_of(reader, {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_precondition_transports"}));
}

std::optional<LaunchEnvironment> from_mpich(const Environment& environment, const AncestorFinder& ancestor) {
  const Reader reader("MPICH", environment);
  const auto launch = read_ranks(reader, {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"});
  if (!launch) return std::nullopt;
  // Slurm's PMI-2 plugin and PMI over TCP name the job. Hydra does not (PMI_FD is a pipe of each rank), but all ranks
  // of a host are below one hydra_pmi_proxy, however many shells are between.
  std::string key = key_of(reader, {"PMI_JOBID", "PMI_PORT", "PALS_APID"});
  if (key.empty() && launch->size > 1) {
    const std::string proxy = ancestor("hydra_");
    if (!proxy.empty()) key = "MPICH/" + proxy;
  }
  return with_job_key(*launch, environment, key);
}

std::optional<LaunchEnvironment> from_slurm(const Environment& environment) {
  const Reader reader("Slurm", environment);
  // A batch script has SLURM_PROCID=0 and SLURM_NTASKS too, without being a rank of anything: only a step is a job of
  // ranks, and only `srun` sets the step's variables.
  if (!reader.has("SLURM_STEP_ID") || !reader.has("SLURM_PROCID")) return std::nullopt;
  const char* size = reader.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  const auto launch = read_ranks(reader, {"SLURM_PROCID", size, "SLURM_LOCALID", nullptr});
  if (reader.number("SLURM_STEP_NUM_NODES").value_or(1) != 1) {
    fail(ErrorCode::kInvalidInput, "Slurm: SLURM_STEP_NUM_NODES is ", reader.text("SLURM_STEP_NUM_NODES"),
         "; ranks on several hosts are not supported yet, use srun --nodes=1");
  }
  return with_job_key(*launch, environment, key_of(reader, {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"}));
}

// What /proc says about one process: its command, parent and start time since boot.
struct ProcessFacts {
  std::string command;
  pid_t parent = 0;
  std::string start_time;
};

std::optional<ProcessFacts> process_facts(pid_t process) {
  const std::string text = read_small_file(join("/proc/", process, "/stat"));
  // The command is in parentheses and may hold any letter, parentheses too.
  const size_t open = text.find('(');
  const size_t close = text.rfind(')');
  if (open == text.npos || close == text.npos) return std::nullopt;
  ProcessFacts facts;
  facts.command = text.substr(open + 1, close - open - 1);
  // Fields 3 (state), 4 (parent), …, 22 (start time) of proc(5).
  std::istringstream rest(text.substr(close + 1));
  std::string field;
  for (int number = 3; number <= 22 && rest >> field; ++number) {
    if (number == 4) facts.parent = static_cast<pid_t>(std::atoi(field.c_str()));
    if (number == 22) facts.start_time = field;
  }
  if (facts.start_time.empty()) return std::nullopt;
  return facts;
}

}  // namespace

std::string find_ancestor(const std::string& prefix) {
  pid_t process = ::getppid();
  while (process > 0) {
    const auto facts = process_facts(process);
    if (!facts) return "";
    if (facts->command.starts_with(prefix)) return join(facts->command, " ", process, " ", facts->start_time);
    process = facts->parent;
  }
  return "";
}

std::optional<LaunchEnvironment> detect_launch_environment(const Environment& environment,
                                                           const AncestorFinder& ancestor) {
  if (auto launch = from_plait(environment)) return launch;
  if (auto launch = from_torchrun(environment)) return launch;
  if (auto launch = from_open_mpi(environment)) return launch;
  if (auto launch = from_mpich(environment, ancestor)) return launch;
  return from_slurm(environment);
}

}  // namespace plait
