// The matrix of launchers: each alone, one inside of another, and beside variables that are left over from elsewhere.
#include "runtime/launchers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "runtime/launch_environment.hpp"

namespace plait {
namespace {

std::string nearest(const std::string& prefix) { return prefix + "above 4242 99"; }

// "Slurm: rank 3 of 4", "none", or the error's text.
std::string told(const Environment& environment) {
  try {
    const auto launch = detect_launch_environment(environment, nearest);
    return launch ? join(launch->launcher, ": rank ", launch->rank, " of ", launch->size) : "none";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    return error.what();
  }
}

testing::AssertionResult refused(const Environment& environment, const std::vector<std::string>& parts) {
  const std::string text = told(environment);
  for (const std::string& part : parts) {
    if (text.find(part) == text.npos)
      return testing::AssertionFailure() << "\"" << text << "\" has no \"" << part << "\"";
  }
  return testing::AssertionSuccess();
}

Environment with(Environment environment, const Environment& changes) {
  for (const auto& [name, value] : changes) environment[name] = value;
  return environment;
}

struct Sample {
  const char* what;
  Environment environment;
  const char* told;
  const char* job_key;
};

// The environments of ranks that each launcher started alone, cut down to what is read or could be taken for it.
const std::vector<Sample>& samples() {
  static const std::vector<Sample> kSamples = {
      {"plait run",
       {{"PLAIT_RANK", "1"}, {"PLAIT_WORLD_SIZE", "4"}, {"PLAIT_LOCAL_RANK", "1"}, {"PLAIT_JOB", "d1c7"}},
       "plait run: rank 1 of 4",
       "job/PLAIT_JOB=d1c7"},
      {"Horovod with Gloo",
       {{"HOROVOD_RANK", "1"},
        {"HOROVOD_SIZE", "4"},
        {"HOROVOD_LOCAL_RANK", "1"},
        {"HOROVOD_LOCAL_SIZE", "4"},
        {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "10.0.0.1"},
        {"HOROVOD_GLOO_RENDEZVOUS_PORT", "4711"}},
       "Horovod: rank 1 of 4",
       "Horovod/HOROVOD_GLOO_RENDEZVOUS_PORT=4711/HOROVOD_GLOO_RENDEZVOUS_ADDR=10.0.0.1"},
      {"Open MPI 5",
       {{"OMPI_COMM_WORLD_RANK", "3"},
        {"OMPI_COMM_WORLD_SIZE", "4"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
        {"PMIX_NAMESPACE", "prterun-host-4242@1"},
        {"PMIX_RANK", "3"}},
       "Open MPI: rank 3 of 4",
       "Open MPI/PMIX_NAMESPACE=prterun-host-4242@1"},
      {"MVAPICH2 by mpirun_rsh",
       {{"MV2_COMM_WORLD_RANK", "2"},
        {"MV2_COMM_WORLD_SIZE", "4"},
        {"MV2_COMM_WORLD_LOCAL_RANK", "2"},
        {"MV2_COMM_WORLD_LOCAL_SIZE", "4"},
        {"PMI_ID", "2"},
        {"MPIRUN_ID", "77"},
        {"PMI_PORT", "host:4711"}},
       "MVAPICH: rank 2 of 4",
       "MVAPICH/PMI_PORT=host:4711/MPIRUN_ID=77"},
      {"MVAPICH 3",
       {{"MVP_COMM_WORLD_RANK", "2"}, {"MVP_COMM_WORLD_SIZE", "4"}, {"MVP_COMM_WORLD_LOCAL_RANK", "2"}},
       "MVAPICH: rank 2 of 4",
       "MVAPICH/mpispawnabove 4242 99"},
      {"MPICH",
       {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"PMI_FD", "9"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}},
       "MPICH: rank 1 of 2",
       "MPICH/hydra_above 4242 99"},
      {"Intel MPI",
       {{"PMI_RANK", "1"},
        {"PMI_SIZE", "2"},
        {"PMI_FD", "9"},
        {"MPI_LOCALRANKID", "1"},
        {"MPI_LOCALNRANKS", "2"},
        {"I_MPI_MPIRUN", "mpirun"},
        {"I_MPI_HYDRA_TOPOLIB", "hwloc"}},
       "MPICH: rank 1 of 2",
       "MPICH/hydra_above 4242 99"},
      {"PALS with PMI",
       {{"PALS_RANKID", "3"},
        {"PALS_LOCAL_RANKID", "3"},
        {"PALS_LOCAL_SIZE", "4"},
        {"PALS_APID", "a-b-c"},
        {"PMI_RANK", "3"},
        {"PMI_SIZE", "4"},
        {"PMI_LOCAL_RANK", "3"},
        {"PMI_LOCAL_SIZE", "4"}},
       "MPICH: rank 3 of 4",
       "MPICH/PALS_APID=a-b-c"},
      {"Flux",
       {{"FLUX_TASK_RANK", "3"},
        {"FLUX_JOB_SIZE", "4"},
        {"FLUX_TASK_LOCAL_ID", "3"},
        {"FLUX_JOB_NNODES", "1"},
        {"FLUX_JOB_ID", "f4xW"},
        {"FLUX_URI", "local:///tmp/flux-a/local-0"},
        {"FLUX_KVS_NAMESPACE", "job-1"}},
       "Flux: rank 3 of 4",
       "Flux/FLUX_JOB_ID=f4xW/FLUX_URI=local:///tmp/flux-a/local-0/FLUX_KVS_NAMESPACE=job-1"},
      {"jsrun",
       {{"JSM_NAMESPACE_RANK", "3"},
        {"JSM_NAMESPACE_SIZE", "4"},
        {"JSM_NAMESPACE_LOCAL_RANK", "3"},
        {"PMIX_RANK", "3"},
        {"PMIX_NAMESPACE", "12"},
        {"LSB_JOBID", "1234"}},
       "jsrun: rank 3 of 4",
       "jsrun/PMIX_NAMESPACE=12"},
      {"srun --mpi=pmix",
       {{"SLURM_PROCID", "3"},
        {"SLURM_NTASKS", "16"},
        {"SLURM_LOCALID", "3"},
        {"SLURM_JOB_ID", "77"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_STEP_NUM_TASKS", "4"},
        {"SLURM_STEP_NUM_NODES", "1"},
        {"PMIX_RANK", "3"},
        {"PMIX_NAMESPACE", "slurm.pmix.77.0"}},
       "Slurm: rank 3 of 4",
       "Slurm/SLURM_JOB_ID=77/SLURM_STEP_ID=0"},
  };
  return kSamples;
}

Environment sample(const std::string& what) {
  return std::ranges::find_if(samples(), [&](const Sample& it) { return it.what == what; })->environment;
}

// An interactive shell of Slurm: a step of one task.
const Environment kShell{{"SLURM_PROCID", "0"},
                         {"SLURM_LOCALID", "0"},
                         {"SLURM_STEP_ID", "4294967290"},
                         {"SLURM_STEP_NUM_TASKS", "1"},
                         {"SLURM_JOB_ID", "77"},
                         {"SLURM_STEP_NUM_NODES", "1"},
                         {"PMIX_RANK", "0"},
                         {"SLURM_NTASKS", "8"}};

Environment torchrun(const std::string& rank, const std::string& size) {
  return {{"RANK", rank},       {"WORLD_SIZE", size},       {"LOCAL_RANK", rank},
          {"MASTER_PORT", "1"}, {"LOCAL_WORLD_SIZE", size}, {"TORCHELASTIC_RUN_ID", "none"}};
}

Environment by_hand(const std::string& rank, const std::string& size) {
  return {{"RANK", rank}, {"WORLD_SIZE", size}, {"MASTER_PORT", "1"}};
}

Environment open_mpi(const std::string& rank, const std::string& size) {
  return {{"OMPI_COMM_WORLD_RANK", rank},
          {"OMPI_COMM_WORLD_SIZE", size},
          {"OMPI_COMM_WORLD_LOCAL_RANK", rank},
          {"PMIX_RANK", rank},
          {"PMIX_NAMESPACE", "x"}};
}

TEST(Launchers, EachIsKnown) {
  for (const Sample& sample : samples()) {
    EXPECT_EQ(told(sample.environment), sample.told) << sample.what;
    EXPECT_EQ(detect_launch_environment(sample.environment, nearest)->job_key, sample.job_key) << sample.what;
  }
}

// It must never be a communicator of one rank in silence.
TEST(Launchers, ARankWithoutASizeIsAnError) {
  for (const Launcher& launcher : launchers()) {
    EXPECT_TRUE(refused({{launcher.rank, "1"}}, {launcher.rank, "set PLAIT_RANK, PLAIT_WORLD_SIZE and PLAIT_JOB"}));
    if (launcher.rank == std::string("SLURM_PROCID")) continue;  // a batch script has it
    EXPECT_TRUE(refused({{launcher.rank, "0"}}, {launcher.rank, "to run alone"}));
  }
  EXPECT_TRUE(refused({{"PALS_RANKID", "0"}, {"PALS_LOCAL_SIZE", "4"}}, {"PALS_RANKID is set but PMI_SIZE is not"}));
  EXPECT_TRUE(
      refused({{"PMIX_RANK", "2"}}, {"PMIX_RANK is 2", "one of several ranks", "no variable says of how many"}));
  EXPECT_TRUE(
      refused({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"}}, {"SLURM_PROCID is 1", "SLURM_STEP_ID is not set"}));
}

// The variables that a cluster gives every pod.
TEST(Launchers, RankZeroOfOneThatIsLeftOverHarmsNone) {
  for (const Sample& sample : samples()) {
    EXPECT_EQ(told(with(sample.environment, by_hand("0", "1"))), sample.told) << sample.what;
    EXPECT_EQ(told(with(sample.environment, {{"WORLD_SIZE", "1"}})), sample.told) << sample.what;
    EXPECT_EQ(told(with(sample.environment, {{"RANK", "16"}})), sample.told) << sample.what;
    EXPECT_EQ(told(with(sample.environment, {{"RANK", "major"}})), sample.told) << sample.what;
  }
  EXPECT_TRUE(refused({{"PMIX_RANK", "0"}, {"RANK", "0"}, {"WORLD_SIZE", "1"}},
                      {"env:// says that this process is rank 0 of 1 (RANK=0, WORLD_SIZE=1)",
                       "PMIx that it is rank 0 (PMIX_RANK=0)", "env -u RANK -u WORLD_SIZE"}));
}

TEST(Launchers, MoreRanksThatAreLeftOverAreAnErrorThatNamesBothSets) {
  for (const Sample& sample : samples()) {
    const bool is_ours = sample.what == std::string("plait run");  // PLAIT_RANK is meant for nobody else
    const Environment both = with(sample.environment, by_hand("0", "3"));
    if (is_ours) {
      EXPECT_EQ(told(both), sample.told);
    } else {
      EXPECT_TRUE(refused(both, {"launchers contradict each other: ",
                                 "env:// that it is rank 0 of 3 (RANK=0, WORLD_SIZE=3)", "env -u RANK -u WORLD_SIZE"}))
          << sample.what;
    }
    EXPECT_EQ(told(with(sample.environment, {{"WORLD_SIZE", "3"}})) == sample.told, is_ours) << sample.what;
  }
  EXPECT_TRUE(
      refused(with(open_mpi("2", "4"), by_hand("0", "2")),
              {"Open MPI says that this process is rank 2 of 4 (OMPI_COMM_WORLD_RANK=2, OMPI_COMM_WORLD_SIZE=4)",
               "env:// that it is rank 0 of 2 (RANK=0, WORLD_SIZE=2)"}));
}

// Scripts set these from the launcher's variables, for torch.distributed.
TEST(Launchers, TheSameSaidTwiceIsSaidOnce) {
  for (const Sample& sample : samples()) {
    const auto launch = detect_launch_environment(sample.environment, nearest);
    const std::string rank = std::to_string(launch->rank), size = std::to_string(launch->size);
    EXPECT_EQ(told(with(sample.environment, by_hand(rank, size))), sample.told) << sample.what;
    EXPECT_EQ(told(with(sample.environment, {{"WORLD_SIZE", size}})), sample.told) << sample.what;
  }
  EXPECT_EQ(told(with({{"PMIX_RANK", "2"}}, by_hand("2", "4"))), "env://: rank 2 of 4");
  // The key comes from any launcher that has one.
  const Environment no_key{{"MVP_COMM_WORLD_RANK", "3"}, {"MVP_COMM_WORLD_SIZE", "4"}};
  const auto none = [](const std::string&) { return std::string(); };
  EXPECT_EQ(detect_launch_environment(with(no_key, sample("Flux")), none)->job_key.substr(0, 5), "Flux/");
}

TEST(Launchers, InAShellOfAResourceManager) {
  EXPECT_EQ(told(kShell), "Slurm: rank 0 of 1");
  for (const Sample& sample : samples()) {
    if (sample.what == std::string("srun --mpi=pmix")) continue;
    EXPECT_EQ(told(with(kShell, sample.environment)), sample.told) << sample.what;
  }
  EXPECT_EQ(told(with(kShell, torchrun("2", "4"))), "torchrun: rank 2 of 4");
  // A program starts its ranks itself, as users of torch.multiprocessing do.
  EXPECT_EQ(told(with(kShell, by_hand("2", "4"))), "env://: rank 2 of 4");
  EXPECT_EQ(told(with(open_mpi("0", "1"), by_hand("2", "4"))), "env://: rank 2 of 4");
}

// One process per host starts the ranks of that host.
TEST(Launchers, InsideOfAnother) {
  const Environment step = with(sample("srun --mpi=pmix"), {{"SLURM_PROCID", "0"}, {"PMIX_RANK", "0"}});
  EXPECT_EQ(told(with(step, torchrun("2", "8"))), "torchrun: rank 2 of 8");
  EXPECT_EQ(told(with(step, open_mpi("2", "8"))), "Open MPI: rank 2 of 8");
  EXPECT_EQ(told(with(open_mpi("0", "2"), torchrun("2", "8"))), "torchrun: rank 2 of 8");
  EXPECT_EQ(told(with(open_mpi("0", "1"), sample("MPICH"))), "MPICH: rank 1 of 2");
  EXPECT_EQ(told(with(with(sample("MPICH"), {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}), open_mpi("2", "8"))),
            "Open MPI: rank 2 of 8");
  // Parts of a job that a user named.
  EXPECT_EQ(told(with(open_mpi("2", "8"), sample("plait run"))), "plait run: rank 1 of 4");
}

TEST(Launchers, AnInnerOneThatSaysAloneContradictsAnOuterOneThatDoesNot) {
  const Environment plait{{"PLAIT_RANK", "0"}, {"PLAIT_WORLD_SIZE", "1"}};
  for (const Environment& outer : {open_mpi("2", "4"), by_hand("2", "4"), sample("srun --mpi=pmix"), sample("MPICH")}) {
    EXPECT_TRUE(refused(with(outer, plait), {"plait run says that this process is rank 0 of 1 (PLAIT_RANK=0, "
                                             "PLAIT_WORLD_SIZE=1), "}));
  }
  EXPECT_TRUE(refused(with(open_mpi("2", "4"), torchrun("0", "1")), {"torchrun says", "Open MPI that"}));
  EXPECT_TRUE(refused(with(sample("srun --mpi=pmix"), open_mpi("0", "1")), {"Open MPI says", "Slurm that"}));
}

TEST(Launchers, TwoOfOneKindThatDifferAreAnError) {
  EXPECT_TRUE(refused(with(open_mpi("2", "4"), sample("MPICH")), {"Open MPI says that this process is rank 2 of 4",
                                                                  "MPICH that it is rank 1 of 2 (PMI_RANK=1, "}));
  EXPECT_TRUE(refused(with(sample("Horovod with Gloo"), open_mpi("2", "4")), {"Horovod says", "Open MPI that"}));
}

// `plait run` removes them from the environment of its ranks, so that no variable is left that speaks of a rank.
TEST(Launchers, WithoutTheirVariablesThereIsNone) {
  std::vector<Environment> all{
      kShell, torchrun("2", "4"), by_hand("2", "4"), open_mpi("2", "4"), {{"ALPS_APP_PE", "1"}}};
  for (const Sample& sample : samples()) all.push_back(sample.environment);
  for (Environment environment : all) {
    for (const std::string& name : launcher_variables()) environment.erase(name);
    EXPECT_EQ(told(environment), "none");
  }
  const std::vector<std::string> names = launcher_variables();
  for (const char* kept : {"MASTER_PORT", "SLURM_JOB_ID", "FLUX_URI", "PLAIT_JOB"}) {
    EXPECT_EQ(std::ranges::count(names, kept), 0) << kept;
  }
  const std::vector<std::string> all_names = all_launcher_variables();
  EXPECT_TRUE(std::ranges::includes(all_names, names));
  for (const char* looked_at : {"MASTER_PORT", "SLURM_JOB_ID", "SLURM_STEPID", "FLUX_URI", "FLUX_JOB_NNODES"}) {
    EXPECT_EQ(std::ranges::count(all_names, looked_at), 1) << looked_at;
  }
}

}  // namespace
}  // namespace plait
