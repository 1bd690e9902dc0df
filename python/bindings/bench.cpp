// Timing of one call, beside other libraries.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bench/measure.hpp"
#include "bench/uneven.hpp"
#include "bindings/array_view.hpp"
#include "bindings/bindings.hpp"
#include "bindings/communicator_handle.hpp"
#include "bindings/measure_options.hpp"

namespace plait::python {
namespace {

// A peer and the communicator that it was made for.
struct Entrant {
  std::shared_ptr<Communicator> communicator;
  std::unique_ptr<PeerLibrary> peer;
};

template <std::unique_ptr<PeerLibrary> (*make)(Communicator&)>
std::unique_ptr<Entrant> enter(CommunicatorHandle& handle) {
  auto communicator = handle.open();
  auto peer = handle.use([](Communicator& c) { return make(c); });
  return std::make_unique<Entrant>(Entrant{std::move(communicator), std::move(peer)});
}

std::vector<PeerLibrary*> peers_of(const std::vector<Entrant*>& entrants) {
  std::vector<PeerLibrary*> peers;
  for (Entrant* entrant : entrants) peers.push_back(entrant->peer.get());
  return peers;
}

std::vector<Measurement> measure_call(CommunicatorHandle& handle, const std::vector<Entrant*>& entrants,
                                      const Call& call, int iterations, int warmup, int cycles, bool in_place,
                                      bool check, bool multiplied) {
  const MeasureOptions options = options_of(iterations, warmup, cycles, in_place, check, multiplied);
  return handle.use([&](Communicator& c) { return measure(c, peers_of(entrants), call, options); });
}

std::vector<Measurement> measure_shift(CommunicatorHandle& handle, const std::vector<Entrant*>& entrants, size_t count,
                                       nb::handle dtype, int window, bool one_way, int iterations, int warmup,
                                       int cycles, bool in_place, bool check) {
  const MeasureOptions options = options_of(iterations, warmup, cycles, in_place, check);
  const DataType type = data_type_of(dtype);
  const ShiftPattern pattern{window, one_way};
  return handle.use(
      [&](Communicator& c) { return measure_ring_shift(c, peers_of(entrants), type, count, pattern, options); });
}

std::vector<Measurement> measure_by_counts(CommunicatorHandle& handle, const std::vector<Entrant*>& entrants,
                                           const Call& call, double imbalance, int iterations, int warmup, int cycles,
                                           bool in_place, bool check, bool multiplied) {
  const MeasureOptions options = options_of(iterations, warmup, cycles, in_place, check, multiplied);
  return handle.use([&](Communicator& c) { return measure_uneven(c, peers_of(entrants), call, imbalance, options); });
}

}  // namespace

void bind_bench(nb::module_& module) {
  nb::class_<Entrant>(module, "PeerLibrary", "A library that performs calls on the ranks of one communicator.")
      .def_prop_ro("name", [](const Entrant& entrant) { return entrant.peer->name(); })
      .def(
          "serves", [](const Entrant& entrant, const Call& call) { return entrant.peer->serves(call); },
          nb::arg("call"))
      .def_static("plait", &enter<make_plait_peer>, nb::arg("communicator"))
      .def_static("mpi", &enter<make_mpi_peer>, nb::arg("communicator"))
      .def_static("gloo", &enter<make_gloo_peer>, nb::arg("communicator"));

  nb::class_<Measurement>(module, "Measurement")
      .def(nb::init<>(), "Of what was not measured: no seconds.")
      .def_ro("seconds", &Measurement::seconds, "of one operation, one figure a cycle")
      .def_ro("wrong", &Measurement::wrong, "wrong elements over all ranks; -1: not checked")
      .def_ro("iterations", &Measurement::iterations)
      .def_ro("host_seconds", &Measurement::host_seconds, "to enqueue one call on a GPU; -1: not measured");
  module.def("measure", &measure_call, nb::arg("communicator"), nb::arg("libraries"), nb::arg("call"),
             nb::arg("iterations"), nb::arg("warmup"), nb::arg("cycles"), nb::arg("in_place"), nb::arg("check"),
             nb::arg("multiplied") = false,
             "Times one call with each library in turn; collective. One Measurement a library.");
  module.def("measure_by_counts", &measure_by_counts, nb::arg("communicator"), nb::arg("libraries"), nb::arg("call"),
             nb::arg("imbalance"), nb::arg("iterations"), nb::arg("warmup"), nb::arg("cycles"), nb::arg("in_place"),
             nb::arg("check"), nb::arg("multiplied") = false,
             "The same by counts. `call` has the mean count; the block of rank 0 is `imbalance` times as long.");
  module.def("measure_ring_shift", &measure_shift, nb::arg("communicator"), nb::arg("libraries"), nb::arg("count"),
             nb::arg("dtype"), nb::arg("window"), nb::arg("one_way"), nb::arg("iterations"), nb::arg("warmup"),
             nb::arg("cycles"), nb::arg("in_place"), nb::arg("check"),
             "The same for messages from every rank to the next one, or from even ranks alone, so many at once.");
  module.def(
      "measure_copy_bandwidth",
      [](CommunicatorHandle& handle, size_t bytes) {
        return handle.use([&](Communicator& communicator) { return measure_copy_bandwidth(communicator, bytes); });
      },
      nb::arg("communicator"), nb::arg("bytes"), "Bytes a second that each rank copies while all do; collective.");
}

}  // namespace plait::python
