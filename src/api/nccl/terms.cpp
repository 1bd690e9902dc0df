// The conditions under which Plait takes calls over.
#include "api/nccl/terms.hpp"

#include "api/nccl/cuda_driver.hpp"
#include "base/error.hpp"
#include "base/figures.hpp"

namespace plait::nccl {
namespace {

constexpr int kMostRanks = 16;  // of Plait's communicators on GPUs

constexpr const char* kNvlsRemedy = "unless NCCL_NVLS_ENABLE=0";

// Why none of the calls that Plait could perform is taken; empty where nothing stands against it.
std::string objection_to_communicator(const DropIn& drop_in, const RankGpu& gpu, int ranks) {
  if (drop_in.setting().mode == TakeMode::kNone) return "PLAIT_NCCL_TAKE=none";
  if (gpu.device < 0) return "no CUDA device is current";
  if (ranks > kMostRanks) {
    return join("there are ", counted(ranks, "rank"), ", and Plait takes at most ", kMostRanks);
  }
  return drop_in.nccl().first_that(VariableEffect::kLeavesAll);
}

std::string objection_to_wins(const DropIn& drop_in, const WinsTable& table) {
  const bool has_graphs = drop_in.setting().graphs;
  const bool wins_launched = table.collectives(false) != "nothing";
  const bool wins_captured = table.collectives(true) != "nothing";
  if (wins_launched || (has_graphs && wins_captured)) return "";
  if (table.leaves_out()) {
    return join("the wins of ", table.name(), " were measured without NVLS, which NCCL may use here, ", kNvlsRemedy);
  }
  return join("the wins of ", table.name(), " are in graphs alone (PLAIT_NCCL_TAKE=wins,graphs)");
}

void choose_table(DropIn& drop_in, const RankGpu& gpu, int ranks, Terms& terms) {
  // One that the user names was measured here, with the variables that are set here.
  const bool is_brought = drop_in.variable("PLAIT_NCCL_WINS").empty();
  if (is_brought) terms.objection = drop_in.nccl().first_that(VariableEffect::kLeavesWins);
  if (!terms.objection.empty()) return;
  const WinsTable* table = WinsTable::choose(drop_in.tables(), gpu.name, ranks);
  if (table == nullptr) {
    terms.objection = join("no wins were measured on ", ranks, " x ", gpu.name);
    return;
  }
  const bool has_nvls = gpu.has_multicast && !drop_in.nccl().is_zero("NCCL_NVLS_ENABLE");
  const NvlsUse use = has_nvls && !table->has_nvls() ? nvls_use(drop_in.real().version(), ranks) : NvlsUse::kNoCall;
  terms.table = use == NvlsUse::kNoCall ? std::shared_ptr<const WinsTable>(table, [](const WinsTable*) {})
                                        : std::make_shared<const WinsTable>(table->without_nvls(use));
  terms.objection = objection_to_wins(drop_in, *terms.table);
}

}  // namespace

RankGpu RankGpu::current() {
  const CudaDriver& cuda = CudaDriver::of_this_process();
  RankGpu gpu;
  gpu.device = cuda.current_device();
  if (gpu.device < 0) return gpu;
  gpu.name = cuda.device_name(gpu.device);
  gpu.has_multicast = cuda.has_multicast(gpu.device);
  return gpu;
}

Terms terms_of(DropIn& drop_in, const RankGpu& gpu, int ranks) {
  Terms terms;
  terms.objection = objection_to_communicator(drop_in, gpu, ranks);
  const bool takes_wins = drop_in.setting().mode == TakeMode::kWins;
  if (terms.objection.empty() && takes_wins) choose_table(drop_in, gpu, ranks, terms);
  if (terms.objection.empty()) terms.objection = drop_in.plait().error();
  return terms;
}

std::string what_is_taken(const DropIn& drop_in, const Terms& terms) {
  const bool has_graphs = drop_in.setting().graphs;
  if (drop_in.setting().mode == TakeMode::kAll) {
    return join("all collectives and messages", has_graphs ? ", also in graphs" : ", but not in graphs");
  }
  std::string text = terms.table->collectives(false);
  if (has_graphs) text += join("; in graphs ", terms.table->collectives(true));
  text += join(", at the sizes at which it won on ", terms.table->name());
  if (terms.table->leaves_out()) text += join("; calls for which NCCL may use NVLS are left to it, ", kNvlsRemedy);
  return text;
}

}  // namespace plait::nccl
