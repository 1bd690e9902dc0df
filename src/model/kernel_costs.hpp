// The costs of launches on GPUs, for simulations of them. docs/simulate/launches.md says how each counts.
#pragma once

#include <string>
#include <vector>

namespace plait {

struct KernelCosts {
  std::vector<std::string> gpus;  // where they hold, parts of their models' names; empty: any

  double call_seconds = 0;      // of a call in a graph, behind another
  double pdl_seconds = 0;       // more, without programmatic dependent launch
  double stagger_seconds = 0;   // from one quarter of a launch's channels to the next
  double launched_seconds = 0;  // more, where each is launched by itself
  double host_seconds = 0;      // the least from one call to the next where the host launches them

  // The protocol Simple.
  double operation_seconds = 0;     // of a reduce or a batch of copies
  double wait_seconds = 0;          // of a run of waits
  double fence_seconds = 0;         // of a run of signals: until the stores before it have arrived
  double signal_seconds = 0;        // until another GPU sees it
  double local_signal_seconds = 0;  // between CTAs of one GPU
  // LL and LL128, whose flags lie in the data.
  double ll_words_seconds = 0, ll128_words_seconds = 0;  // of a step
  double ll_signal_seconds = 0, ll128_signal_seconds = 0;
  // Through host memory.
  double host_fence_seconds = 0, host_signal_seconds = 0;
  // Straight between buffers.
  double barrier_seconds = 0;  // of a kernel with a barrier
  double copy_seconds = 0;     // of starting a copy engine
  double barrier_signal_seconds = 0;

  // Shares of a link's stated bandwidth that are reached, by who moves the data.
  double store_efficiency = 1, spread_efficiency = 1;  // to one peer; to several at once, where loads lose as much
  double load_efficiency = 1, copy_efficiency = 1;
  double request_share = 0;    // of the bytes that are loaded, by copy engines too: what requests take of the way back
  double host_efficiency = 1;  // of PCIe
  double cta_gbps = 0;         // what a CTA of 512 threads reads and writes in its own memory; 0: not looked at
  double memory_gbps = 0, cache_gbps = 0, cache_bytes = 0, combine_share = 1;  // as in Costs
  double half_bytes = 0;  // of what all CTAs of a queue move at once over one link
};

}  // namespace plait
