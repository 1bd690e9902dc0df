// The papers' closed forms that are plain functions of numbers.
#include <nanobind/nanobind.h>

#include "bindings/bindings.hpp"
#include "model/closed_forms/awan.hpp"
#include "model/closed_forms/temucin.hpp"
#include "model/closed_forms/ueno_yokota.hpp"

namespace plait::python {
namespace {

using closed_forms::LinkCost;
using closed_forms::StagedPath;

// The equations for ABCI, whose nodes have four GPUs.
void bind_ueno_yokota(nb::module_& module) {
  using Equation = double (*)(double, int, double, const closed_forms::Start&);
  const auto bind = [&](const char* name, Equation equation, const char* words) {
    module.def(
        name,
        [equation](double bytes, int nodes, double seconds_per_byte, double start_seconds, int parts) {
          return equation(bytes, nodes, seconds_per_byte, {start_seconds, parts});
        },
        nb::arg("message_bytes"), nb::arg("nodes"), nb::arg("seconds_per_byte"), nb::arg("start_seconds"),
        nb::arg("parts"), words);
  };
  bind("ueno_two_layers", closed_forms::two_layer_seconds, "Equation (1) of Ueno and Yokota, seconds (UEN-21).");
  bind("ueno_flat_ring", closed_forms::flat_ring_seconds, "Equation (2), both network adapters busy (UEN-24).");
  bind("ueno_flat_ring_one_adapter", closed_forms::flat_ring_seconds_one_hca,
       "Equation (2) with one adapter, as was measured for 8 to 256 processes (UEN-34).");
}

// Broadcasts over ranks that are all joined by such links.
void bind_awan(nb::module_& module) {
  module.def(
      "awan_tree",
      [](double bytes, int ranks, int radix, double start_seconds, double bytes_per_second) {
        return closed_forms::tree_broadcast_seconds(bytes, ranks, radix, {start_seconds, bytes_per_second});
      },
      nb::arg("message_bytes"), nb::arg("ranks"), nb::arg("radix"), nb::arg("start_seconds"),
      nb::arg("bytes_per_second"), "A k-nomial tree, seconds (AWA-13, AWA-14).");
  using Scattered = double (*)(double, int, const LinkCost&);
  const auto bind_scattered = [&](const char* name, Scattered equation, const char* words) {
    module.def(
        name,
        [equation](double bytes, int ranks, double start_seconds, double bytes_per_second) {
          return equation(bytes, ranks, {start_seconds, bytes_per_second});
        },
        nb::arg("message_bytes"), nb::arg("ranks"), nb::arg("start_seconds"), nb::arg("bytes_per_second"), words);
  };
  bind_scattered("awan_scatter_ring", closed_forms::scatter_ring_broadcast_seconds,
                 "Scatter, then all-gather along a ring, seconds (AWA-15).");
  bind_scattered("awan_scatter_doubling", closed_forms::scatter_doubling_broadcast_seconds,
                 "Scatter, then all-gather by recursive doubling, seconds (AWA-16).");
  module.def(
      "awan_chain",
      [](double bytes, int ranks, int parts, double start_seconds, double bytes_per_second) {
        return closed_forms::chain_broadcast_seconds(bytes, ranks, parts, {start_seconds, bytes_per_second});
      },
      nb::arg("message_bytes"), nb::arg("ranks"), nb::arg("parts"), nb::arg("start_seconds"),
      nb::arg("bytes_per_second"), "A chain, so many parts under way, seconds (UEN-X1).");
}

// A message over the direct link and host memory.
void bind_temucin(nb::module_& module) {
  const auto staged = [](double start, double bandwidth, int parts) {
    return StagedPath{LinkCost{start, bandwidth}, parts};
  };
  module.def(
      "temucin_two_paths",
      [staged](double bytes, double host_share, double direct_start, double direct, double host_start, double host,
               int parts) {
        return closed_forms::two_paths_seconds(bytes, host_share, {direct_start, direct},
                                               staged(host_start, host, parts));
      },
      nb::arg("message_bytes"), nb::arg("host_share"), nb::arg("direct_start_seconds"),
      nb::arg("direct_bytes_per_second"), nb::arg("host_start_seconds"), nb::arg("host_bytes_per_second"),
      nb::arg("parts"), "Seconds of a message with that share through the host, in so many parts (TEM-06, TEM-07).");
  module.def(
      "temucin_best_share",
      [staged](double bytes, double direct_start, double direct, double host_start, double host, int parts) {
        return closed_forms::best_host_share(bytes, {direct_start, direct}, staged(host_start, host, parts));
      },
      nb::arg("message_bytes"), nb::arg("direct_start_seconds"), nb::arg("direct_bytes_per_second"),
      nb::arg("host_start_seconds"), nb::arg("host_bytes_per_second"), nb::arg("parts"),
      "The share through the host that takes least, 0 to 1 (TEM-09).");
}

}  // namespace

void bind_closed_forms(nb::module_& module) {
  bind_ueno_yokota(module);
  bind_awan(module);
  bind_temucin(module);
}

}  // namespace plait::python
