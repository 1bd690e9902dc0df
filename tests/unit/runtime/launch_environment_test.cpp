// The environments below are what each launcher sets, cut down to what is read. Those of Open MPI 4.1.4 and 5.0.11,
// MPICH 5.0 and PRRTE were seen with `mpirun -n 2 env`. The others follow the launchers' documentation and environments
// that users published.
#include "runtime/launch_environment.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.hpp"

namespace plait {
namespace {

std::string no_ancestor(const std::string&) { return ""; }

LaunchEnvironment detect(const Environment& environment, const AncestorFinder& ancestor = no_ancestor) {
  const auto launch = detect_launch_environment(environment, ancestor);
  EXPECT_TRUE(launch.has_value());
  return launch.value_or(LaunchEnvironment{});
}

testing::AssertionResult refused(const Environment& environment, const std::string& reason) {
  try {
    detect_launch_environment(environment, no_ancestor);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    if (std::string(error.what()).find(reason) != std::string::npos) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "\"" << error.what() << "\" has no \"" << reason << "\"";
  }
  return testing::AssertionFailure() << "nothing was thrown";
}

Environment with(Environment environment, const Environment& changes) {
  for (const auto& [name, value] : changes) environment[name] = value;
  return environment;
}

Environment without(Environment environment, const std::string& name) {
  environment.erase(name);
  return environment;
}

const Environment& plait_run() {
  static const Environment kEnvironment{{"PLAIT_RANK", "1"},   {"PLAIT_WORLD_SIZE", "4"}, {"PLAIT_LOCAL_RANK", "1"},
                                        {"PLAIT_JOB", "d1c7"}, {"LOCAL_RANK", "1"},       {"LOCAL_WORLD_SIZE", "2"}};
  return kEnvironment;
}

const Environment& torchrun() {
  static const Environment kEnvironment{{"RANK", "2"},
                                        {"WORLD_SIZE", "4"},
                                        {"LOCAL_RANK", "2"},
                                        {"LOCAL_WORLD_SIZE", "4"},
                                        {"MASTER_ADDR", "127.0.0.1"},
                                        {"MASTER_PORT", "29500"},
                                        {"TORCHELASTIC_RUN_ID", "none"},
                                        {"TORCHELASTIC_RESTART_COUNT", "0"}};
  return kEnvironment;
}

const Environment& open_mpi_4() {
  static const Environment kEnvironment{{"OMPI_COMM_WORLD_RANK", "1"},
                                        {"OMPI_COMM_WORLD_SIZE", "2"},
                                        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                        {"OMPI_MCA_ess_base_jobid", "2129461249"},
                                        {"OMPI_MCA_orte_precondition_transports", "1fa46b78712bbe95-7f10d1707c00e8ce"},
                                        {"PMIX_NAMESPACE", "2129461249"},
                                        {"PMIX_RANK", "1"}};
  return kEnvironment;
}

const Environment& mpich() {
  static const Environment kEnvironment{
      {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"PMI_FD", "9"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
  return kEnvironment;
}

const Environment& slurm() {
  static const Environment kEnvironment{
      {"SLURM_PROCID", "3"},  {"SLURM_NTASKS", "4"},         {"SLURM_LOCALID", "3"},       {"SLURM_JOB_ID", "77"},
      {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_STEP_NUM_NODES", "1"}};
  return kEnvironment;
}

TEST(LaunchEnvironment, WithoutALauncherThereIsNone) {
  EXPECT_FALSE(detect_launch_environment({}, no_ancestor).has_value());
  EXPECT_FALSE(detect_launch_environment({{"PATH", "/bin"}, {"LOCAL_RANK", "0"}, {"PLAIT_JOB", "x"}}, no_ancestor));
}

TEST(LaunchEnvironment, PlaitRun) {
  const LaunchEnvironment launch = detect(plait_run());
  EXPECT_EQ(launch.launcher, "plait run");
  EXPECT_EQ(launch.rank, 1);
  EXPECT_EQ(launch.size, 4);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_NE(launch.job_key.find("d1c7"), std::string::npos);
  EXPECT_EQ(detect(without(plait_run(), "PLAIT_LOCAL_RANK")).local_rank, 1);
}

// What `plait run` says for programs of torchrun is about no other launcher, also where one starts within its ranks.
TEST(LaunchEnvironment, PlaitRunIsNotTwoLaunchers) {
  const Environment left{{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}};
  EXPECT_FALSE(detect_launch_environment(left, no_ancestor).has_value());
  for (const Environment& environment : {open_mpi_4(), slurm()}) {
    const LaunchEnvironment alone = detect(environment), launch = detect(with(environment, left));
    EXPECT_EQ(launch.launcher, alone.launcher);
    EXPECT_EQ(launch.local_rank, alone.local_rank);
    EXPECT_EQ(launch.job_key, alone.job_key);
    EXPECT_EQ(launch.master, alone.master);
  }
}

TEST(LaunchEnvironment, Torchrun) {
  const LaunchEnvironment launch = detect(torchrun());
  EXPECT_EQ(launch.launcher, "torchrun");
  EXPECT_EQ(launch.rank, 2);
  EXPECT_EQ(launch.size, 4);
  EXPECT_EQ(launch.local_rank, 2);
  EXPECT_EQ(launch.job_key,
            "torchrun/MASTER_PORT=29500/MASTER_ADDR=127.0.0.1/TORCHELASTIC_RUN_ID=none/TORCHELASTIC_RESTART_COUNT=0");
}

// Variables set by hand, as for init_method="env://".
TEST(LaunchEnvironment, RankAndWorldSizeAlone) {
  const LaunchEnvironment launch = detect({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1"}});
  EXPECT_EQ(launch.launcher, "env://");
  EXPECT_EQ(launch.rank, 1);
  EXPECT_EQ(launch.size, 2);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.job_key, "env:///MASTER_PORT=1");
}

TEST(LaunchEnvironment, ARestartedJobIsAnotherJob) {
  EXPECT_NE(detect(torchrun()).job_key, detect(with(torchrun(), {{"TORCHELASTIC_RESTART_COUNT", "1"}})).job_key);
  EXPECT_NE(detect(slurm()).job_key, detect(with(slurm(), {{"SLURM_STEP_ID", "1"}})).job_key);
}

TEST(LaunchEnvironment, OpenMpi) {
  const LaunchEnvironment launch = detect(open_mpi_4());
  EXPECT_EQ(launch.launcher, "Open MPI");
  EXPECT_EQ(launch.rank, 1);
  EXPECT_EQ(launch.size, 2);
  EXPECT_EQ(launch.local_rank, 1);
  const LaunchEnvironment version_5 = detect({{"OMPI_COMM_WORLD_RANK", "0"},
                                              {"OMPI_COMM_WORLD_SIZE", "2"},
                                              {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                              {"PMIX_NAMESPACE", "prterun-host-4242@1"}});
  EXPECT_EQ(version_5.job_key, "Open MPI/PMIX_NAMESPACE=prterun-host-4242@1");
  EXPECT_NE(launch.job_key, detect(with(open_mpi_4(), {{"PMIX_NAMESPACE", "2129461250"}})).job_key);
}

TEST(LaunchEnvironment, MpichAsksForTheProxyAboveAllRanks) {
  std::string asked;
  const LaunchEnvironment launch = detect(mpich(), [&](const std::string& prefix) {
    asked = prefix;
    return "hydra_pmi_proxy 4242 99";
  });
  EXPECT_EQ(launch.launcher, "MPICH");
  EXPECT_EQ(launch.rank, 1);
  EXPECT_EQ(launch.size, 2);
  EXPECT_EQ(launch.job_key, "MPICH/hydra_pmi_proxy 4242 99");
  EXPECT_EQ(asked, "hydra_");
  EXPECT_EQ(detect(with(mpich(), {{"PMI_JOBID", "77.0"}})).job_key, "MPICH/PMI_JOBID=77.0");
}

TEST(LaunchEnvironment, TheLocalRankFollowsFromTheRanksOfAHostWhereNobodySaysIt) {
  const Environment by_hand{{"RANK", "5"},
                            {"WORLD_SIZE", "8"},
                            {"MASTER_ADDR", "node0"},
                            {"PLAIT_JOB", "d1c7"},
                            {"PLAIT_MASTER_ADDR", "node0"},
                            {"MASTER_PORT", "29500"}};
  EXPECT_EQ(detect(by_hand).local_rank, 5);
  EXPECT_EQ(detect(with(by_hand, {{"LOCAL_WORLD_SIZE", "4"}})).local_rank, 1);
  EXPECT_EQ(detect(with(by_hand, {{"LOCAL_WORLD_SIZE", "1"}})).local_rank, 0);
  EXPECT_EQ(detect(with(by_hand, {{"LOCAL_WORLD_SIZE", "0"}})).local_rank, 0);
}

TEST(LaunchEnvironment, Slurm) {
  const LaunchEnvironment launch = detect(slurm());
  EXPECT_EQ(launch.launcher, "Slurm");
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.size, 4);
  EXPECT_EQ(launch.local_rank, 3);
  EXPECT_EQ(launch.job_key, "Slurm/SLURM_JOB_ID=77/SLURM_STEP_ID=0");
  // The step decides, not the allocation around it.
  EXPECT_EQ(detect(with(slurm(), {{"SLURM_NTASKS", "16"}})).size, 4);
  EXPECT_EQ(detect(without(slurm(), "SLURM_STEP_NUM_TASKS")).size, 4);
}

TEST(LaunchEnvironment, ASlurmBatchScriptIsNoRank) {
  EXPECT_FALSE(detect_launch_environment(
      {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_LOCALID", "0"}, {"SLURM_JOB_ID", "77"}}, no_ancestor));
}

TEST(LaunchEnvironment, TheInnermostLauncherIsAskedFirst) {
  Environment all = with(slurm(), mpich());
  EXPECT_EQ(detect(all, [](const std::string&) { return "proxy"; }).launcher, "MPICH");
  all = with(all, open_mpi_4());
  EXPECT_EQ(detect(all).launcher, "Open MPI");
  all = with(all, torchrun());
  EXPECT_EQ(detect(all).launcher, "torchrun");
  all = with(all, plait_run());
  EXPECT_EQ(detect(all).launcher, "plait run");
}

TEST(LaunchEnvironment, RanksOfOneJobComputeOneIdAndOtherJobsAnother) {
  const UniqueId id = detect(torchrun()).id(0);
  EXPECT_EQ(id, detect(with(torchrun(), {{"RANK", "0"}, {"LOCAL_RANK", "0"}})).id(0));
  EXPECT_NE(id.secret, detect(torchrun()).id(1).secret);
  EXPECT_NE(id.secret, detect(with(torchrun(), {{"MASTER_PORT", "29501"}})).id(0).secret);
}

TEST(LaunchEnvironment, PlaitJobIsTheKeyUnderEveryLauncher) {
  for (const Environment& environment : {torchrun(), open_mpi_4(), mpich(), slurm()}) {
    EXPECT_EQ(detect(with(environment, {{"PLAIT_JOB", "mine"}})).job_key, "job/PLAIT_JOB=mine");
  }
}

TEST(LaunchEnvironment, AHalfSetEnvironmentIsAnError) {
  EXPECT_TRUE(refused(without(plait_run(), "PLAIT_WORLD_SIZE"), "PLAIT_RANK is set but PLAIT_WORLD_SIZE is not"));
  EXPECT_TRUE(refused(without(plait_run(), "PLAIT_RANK"), "PLAIT_WORLD_SIZE is set but PLAIT_RANK is not"));
  EXPECT_TRUE(refused({{"RANK", "0"}}, "env://: environment variable RANK is set but WORLD_SIZE is not"));
  EXPECT_TRUE(refused({{"WORLD_SIZE", "2"}}, "WORLD_SIZE is set but RANK is not"));
  EXPECT_TRUE(refused({{"OMPI_COMM_WORLD_RANK", "0"}}, "OMPI_COMM_WORLD_SIZE is not"));
  EXPECT_TRUE(refused({{"PMI_SIZE", "2"}}, "PMI_RANK is not"));
  EXPECT_TRUE(refused({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}}, "SLURM_STEP_NUM_TASKS is not"));
}

TEST(LaunchEnvironment, NumbersThatAreNoneAreAnError) {
  for (const char* text : {"x", "-1", "1.0", " 1", "1 ", "99999999999"}) {
    EXPECT_TRUE(refused(with(plait_run(), {{"PLAIT_RANK", text}}), "expected a whole number from 0")) << text;
    EXPECT_TRUE(refused(with(torchrun(), {{"LOCAL_RANK", text}}), "torchrun: environment variable LOCAL_RANK")) << text;
  }
}

TEST(LaunchEnvironment, RanksBeyondTheSizeAreAnError) {
  EXPECT_TRUE(refused(with(plait_run(), {{"PLAIT_RANK", "4"}}), "PLAIT_RANK is 4 but PLAIT_WORLD_SIZE is 4"));
  EXPECT_TRUE(refused(with(plait_run(), {{"PLAIT_RANK", "0"}, {"PLAIT_WORLD_SIZE", "0"}}), "PLAIT_WORLD_SIZE is 0"));
  EXPECT_TRUE(refused(with(plait_run(), {{"PLAIT_LOCAL_RANK", "4"}}), "PLAIT_LOCAL_RANK is 4"));
}

TEST(LaunchEnvironment, SeveralHostsNeedThatOfRankZeroAndASecret) {
  const Environment slurm_on_two = with(slurm(), {{"SLURM_STEP_NUM_NODES", "2"}});
  for (const Environment& several : {with(open_mpi_4(), {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}),
                                     with(mpich(), {{"MPI_LOCALNRANKS", "1"}}), slurm_on_two}) {
    EXPECT_TRUE(refused(several,
                        "so ranks are on several hosts; set on all of them PLAIT_MASTER_ADDR to the name or "
                        "address of the host of rank 0, and PLAIT_JOB to one random text"));
  }
  EXPECT_TRUE(refused(with(slurm_on_two, {{"PLAIT_JOB", "x"}}), "SLURM_STEP_NUM_NODES is 2, so ranks are on several"));
  EXPECT_TRUE(refused(with(slurm_on_two, {{"PLAIT_MASTER_ADDR", "10.0.0.1"}}), "set on all of them PLAIT_JOB"));
  // torchrun has said where rank 0 is.
  EXPECT_TRUE(
      refused(with(torchrun(), {{"LOCAL_WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}), "set on all of them PLAIT_JOB"));
}

TEST(LaunchEnvironment, RanksOfSeveralHostsMeetAtThatOfRankZero) {
  Environment several =
      with(slurm(), {{"SLURM_STEP_NUM_NODES", "2"}, {"PLAIT_JOB", "x"}, {"PLAIT_MASTER_ADDR", "10.0.0.7"}});
  const LaunchEnvironment launch = detect(several);
  EXPECT_EQ(launch.id(0).address.text(), "10.0.0.7");
  EXPECT_EQ(launch.id(0), detect(several).id(0));
  EXPECT_NE(launch.id(0).secret, launch.id(1).secret);
  EXPECT_GE(ntohs(launch.id(0).port), 20000);
  several["PLAIT_MASTER_PORT"] = "4000";
  EXPECT_EQ(ntohs(detect(several).id(3).port), 4000);
  for (const char* port : {"0", "65536", "x", "80 "}) {
    several["PLAIT_MASTER_PORT"] = port;
    EXPECT_TRUE(refused(several, "expected a whole number from 1 to 65535")) << port;
  }
  EXPECT_EQ(detect(with(torchrun(), {{"LOCAL_WORLD_SIZE", "2"}, {"MASTER_ADDR", "::1"}, {"PLAIT_JOB", "x"}})).master,
            "::1");
  EXPECT_EQ(detect(with(torchrun(), {{"MASTER_ADDR", "a"}, {"PLAIT_JOB", "x"}})).master, "");
}

TEST(LaunchEnvironment, AJobThatNothingTellsFromOthersIsAnErrorUnlessItIsOneRank) {
  EXPECT_TRUE(refused(without(plait_run(), "PLAIT_JOB"), "set PLAIT_JOB to one random text on all ranks"));
  EXPECT_TRUE(refused(without(torchrun(), "MASTER_PORT"), "set PLAIT_JOB"));
  EXPECT_TRUE(refused(mpich(), "MPICH started rank 1 of 2, but nothing in the environment tells"));
  EXPECT_EQ(detect({{"PLAIT_RANK", "0"}, {"PLAIT_WORLD_SIZE", "1"}}).size, 1);
}

TEST(FindAncestor, FindsAProcessAboveThisOne) {
  std::ifstream file("/proc/" + std::to_string(::getppid()) + "/comm");
  std::string parent;
  std::getline(file, parent);
  const std::string found = find_ancestor(parent);
  EXPECT_TRUE(found.starts_with(parent + " " + std::to_string(::getppid()) + " ")) << found;
  EXPECT_EQ(found, find_ancestor(parent));
  EXPECT_EQ(find_ancestor("no process has this name"), "");
}

}  // namespace
}  // namespace plait
