#include "runtime/launchers.hpp"

#include <set>

namespace plait {
namespace {

using enum LauncherLayer;

constexpr Launcher kLaunchers[] = {
    {.name = "plait run",
     .layer = kPlait,
     .rank = "PLAIT_RANK",
     .size = {"PLAIT_WORLD_SIZE"},
     .local_rank = {"PLAIT_LOCAL_RANK"},
     .unique = {"PLAIT_JOB"}},

    // Only one job at a time can hold the store's port, so the port tells jobs apart even if the run id is the default
    // "none". The address alone would be the same for all jobs.
    {.name = "torchrun",
     .layer = kAgent,
     .rank = "RANK",
     .size = {"WORLD_SIZE"},
     .local_rank = {"LOCAL_RANK"},
     .local_size = {"LOCAL_WORLD_SIZE"},
     .proof = {"LOCAL_RANK", "TORCHELASTIC_RUN_ID"},
     .unique = {"MASTER_PORT"},
     .beside = {"MASTER_ADDR", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}},

    // Horovod without MPI. With MPI its ranks are those of mpirun.
    {.name = "Horovod",
     .layer = kProcessManager,
     .rank = "HOROVOD_RANK",
     .size = {"HOROVOD_SIZE"},
     .local_rank = {"HOROVOD_LOCAL_RANK"},
     .local_size = {"HOROVOD_LOCAL_SIZE"},
     .unique = {"HOROVOD_GLOO_RENDEZVOUS_PORT"},
     .beside = {"HOROVOD_GLOO_RENDEZVOUS_ADDR"}},

    // Version 5, and version 4 with PMIx, set PMIX_NAMESPACE. Version 4 always sets the job id, and a random key beside
    // it.
    {.name = "Open MPI",
     .layer = kProcessManager,
     .rank = "OMPI_COMM_WORLD_RANK",
     .size = {"OMPI_COMM_WORLD_SIZE"},
     .local_rank = {"OMPI_COMM_WORLD_LOCAL_RANK"},
     .local_size = {"OMPI_COMM_WORLD_LOCAL_SIZE"},
     .unique = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_precondition_transports"}},

    // mpirun_rsh of MVAPICH2 and of MVAPICH 3. MVAPICH's mpiexec is Hydra, like MPICH's.
    {.name = "MVAPICH",
     .layer = kProcessManager,
     .rank = "MV2_COMM_WORLD_RANK",
     .size = {"MV2_COMM_WORLD_SIZE"},
     .local_rank = {"MV2_COMM_WORLD_LOCAL_RANK"},
     .local_size = {"MV2_COMM_WORLD_LOCAL_SIZE"},
     .unique = {"PMI_PORT", "MPIRUN_ID"},
     .ancestor = "mpispawn"},
    {.name = "MVAPICH",
     .layer = kProcessManager,
     .rank = "MVP_COMM_WORLD_RANK",
     .size = {"MVP_COMM_WORLD_SIZE"},
     .local_rank = {"MVP_COMM_WORLD_LOCAL_RANK"},
     .local_size = {"MVP_COMM_WORLD_LOCAL_SIZE"},
     .unique = {"PMI_PORT", "MPIRUN_ID"},
     .ancestor = "mpispawn"},

    // Hydra of MPICH and Intel MPI, and the PMI that Slurm, PALS and Flux offer to MPI programs. Slurm's PMI and PMI
    // over TCP name the job. Hydra does not (PMI_FD is a pipe of each rank), but all ranks of a host are descendants of
    // one hydra_pmi_proxy, however many shells are between.
    {.name = "MPICH",
     .layer = kProcessManager,
     .rank = "PMI_RANK",
     .size = {"PMI_SIZE"},
     .local_rank = {"MPI_LOCALRANKID", "PMI_LOCAL_RANK"},
     .local_size = {"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"},
     .unique = {"PMI_JOBID", "PMI_PORT", "PALS_APID"},
     .ancestor = "hydra_"},

    // The launcher of Cray and HPE. It sets a size only where it offers PMI to MPI programs.
    {.name = "PALS",
     .layer = kResourceManager,
     .rank = "PALS_RANKID",
     .size = {"PMI_SIZE"},
     .local_rank = {"PALS_LOCAL_RANKID"},
     .local_size = {"PALS_LOCAL_SIZE"},
     .unique = {"PALS_APID"}},

    // Every instance numbers its jobs from the beginning, and instances may run inside instances.
    {.name = "Flux",
     .layer = kResourceManager,
     .rank = "FLUX_TASK_RANK",
     .size = {"FLUX_JOB_SIZE"},
     .local_rank = {"FLUX_TASK_LOCAL_ID"},
     .hosts = "FLUX_JOB_NNODES",
     .unique = {"FLUX_JOB_ID"},
     .beside = {"FLUX_URI", "FLUX_KVS_NAMESPACE"}},

    // IBM's Job Step Manager. Several jsrun in one job would share LSF's job id.
    {.name = "jsrun",
     .layer = kResourceManager,
     .rank = "JSM_NAMESPACE_RANK",
     .size = {"JSM_NAMESPACE_SIZE"},
     .local_rank = {"JSM_NAMESPACE_LOCAL_RANK"},
     .local_size = {"JSM_NAMESPACE_LOCAL_SIZE"},
     .unique = {"PMIX_NAMESPACE"}},

    // A batch script has SLURM_PROCID=0 and SLURM_NTASKS too, although it is not a rank. Only a step is a job of ranks,
    // and only srun sets the variables of a step.
    {.name = "Slurm",
     .layer = kResourceManager,
     .rank = "SLURM_PROCID",
     .size = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
     .local_rank = {"SLURM_LOCALID"},
     .hosts = "SLURM_STEP_NUM_NODES",
     .proof = {"SLURM_STEP_ID", "SLURM_STEPID"},
     .unique = {"SLURM_JOB_ID"},
     .beside = {"SLURM_STEP_ID", "SLURM_RESTART_COUNT"}},

    // The launchers from here on give a rank but no size.
    {.name = "PMIx", .layer = kResourceManager, .rank = "PMIX_RANK", .unique = {"PMIX_NAMESPACE"}},
    {.name = "aprun", .layer = kResourceManager, .rank = "ALPS_APP_PE"},

    // torch.distributed's variables for starting ranks by hand. They come last, because nothing proves who set them.
    {.name = "env://",
     .layer = kUnknown,
     .rank = "RANK",
     .size = {"WORLD_SIZE"},
     .local_size = {"LOCAL_WORLD_SIZE"},
     .unique = {"MASTER_PORT"},
     .beside = {"MASTER_ADDR"}},
};

using NameLists = std::vector<VariableNames>;

// Names of the variables of all launchers, each once, in alphabetical order.
std::vector<std::string> names_of(NameLists (*lists_of)(const Launcher&)) {
  std::set<std::string> names;
  for (const Launcher& launcher : kLaunchers) {
    for (const VariableNames& some : lists_of(launcher)) {
      for (const char* name : some) {
        if (name != nullptr) names.insert(name);
      }
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace

std::span<const Launcher> launchers() { return kLaunchers; }

std::vector<std::string> launcher_variables() {
  return names_of([](const Launcher& it) -> NameLists { return {it.size, it.local_rank, it.local_size, {it.rank}}; });
}

std::vector<std::string> all_launcher_variables() {
  return names_of([](const Launcher& it) -> NameLists {
    return {it.size, it.local_rank, it.local_size, it.proof, it.unique, it.beside, {it.rank, it.hosts}};
  });
}

}  // namespace plait
