// Timing of calls on GPUs, beside NCCL.
#include "bench/cuda_bench.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bench/cuda_machine.hpp"
#include "bindings/array_view.hpp"
#include "bindings/bindings.hpp"
#include "bindings/communicator_handle.hpp"
#include "bindings/measure_options.hpp"
#include "runtime/kernel_targets.hpp"

namespace plait::python {
namespace {

// A benchmark with the communicator that it needs to the end.
class Bench {
 public:
  Bench(CommunicatorHandle& handle, size_t largest_bytes)
      : handle_(handle), communicator_(handle.open()), bench_(handle.use([&](Communicator& communicator) {
          return std::make_unique<CudaBench>(communicator, largest_bytes);
        })) {}

  void add_nccl(const std::vector<std::string>& libraries) {
    handle_.use([&](Communicator&) { bench_->add_nccl(libraries); });
  }
  void add_plait(CommunicatorHandle& other) {
    others_.push_back(other.open());
    handle_.use([&](Communicator&) { bench_->add_plait(*others_.back()); });
  }
  std::vector<std::string> peers() const { return bench_->peers(); }
  std::vector<Measurement> measure(const Call& call, int iterations, int warmup, int cycles, int graph, int unalign,
                                   bool in_place, bool check, bool multiplied, bool blocking) {
    const CudaMeasureOptions options{options_of(iterations, warmup, cycles, in_place, check, multiplied), graph,
                                     unalign, blocking};
    return handle_.use([&](Communicator&) { return bench_->measure(call, options); });
  }
  std::vector<Measurement> measure_ring_shift(size_t count, nb::handle dtype, int window, bool one_way, int iterations,
                                              int warmup, int cycles, int graph, int unalign, bool in_place,
                                              bool check) {
    const CudaMeasureOptions options{options_of(iterations, warmup, cycles, in_place, check), graph, unalign};
    const DataType type = data_type_of(dtype);
    return handle_.use(
        [&](Communicator&) { return bench_->measure_ring_shift(type, count, {window, one_way}, options); });
  }
  void close() {
    handle_.use([&](Communicator&) { bench_->close(); });
  }

 private:
  CommunicatorHandle& handle_;
  std::shared_ptr<Communicator> communicator_;
  std::vector<std::shared_ptr<Communicator>> others_;
  std::unique_ptr<CudaBench> bench_;
};

std::optional<std::string> why_not_served(const std::string& name, int capability) {
  const KernelTargets targets = KernelTargets::built();
  if (targets.serve(capability)) return std::nullopt;
  return no_kernels_text(name, capability, targets);
}

}  // namespace

void bind_cuda_bench(nb::module_& module) {
  nb::class_<CudaDevice>(module, "CudaDevice")
      .def_ro("name", &CudaDevice::name)
      .def_ro("bus_id", &CudaDevice::bus_id)
      .def_ro("capability", &CudaDevice::capability, "compute capability: 90 for 9.0");
  nb::class_<CudaMachine>(module, "CudaMachine", "The GPUs that this process sees.")
      .def_ro("driver_version", &CudaMachine::driver_version, "the newest CUDA that the driver serves: 13000 for 13.0")
      .def_ro("runtime_version", &CudaMachine::runtime_version, "the CUDA that Plait was built with")
      .def_ro("devices", &CudaMachine::devices);
  module.def("look_at_cuda", &look_at_cuda,
             "The GPUs that this process sees. Raises InvalidArgument where it sees none.");
  module.def(
      "kernel_targets", [] { return KernelTargets::built().text(); },
      "The GPUs that there are kernels for, in words: \"machine code for 9.0, and PTX for all from 7.5 on\".");
  module.def("why_not_served", &why_not_served, nb::arg("name"), nb::arg("capability"),
             "Why there are no kernels for a GPU of this compute capability, and what to do; None where there are.");

  nb::class_<Bench>(module, "CudaBench", "Times calls on GPUs, Plait's and NCCL's in turn; collective.")
      .def(nb::init<CommunicatorHandle&, size_t>(), nb::arg("communicator"), nb::arg("largest_bytes"),
           nb::keep_alive<1, 2>())
      .def("add_nccl", &Bench::add_nccl, nb::arg("libraries"),
           "The first of these libraries that there is. Raises InvalidArgument on all ranks where there is none.")
      .def("add_plait", &Bench::add_plait, nb::arg("communicator"), "Another one of the same ranks, on the same GPUs.")
      .def_prop_ro("libraries", &Bench::peers, "names, Plait's first")
      .def("measure", &Bench::measure, nb::arg("call"), nb::arg("iterations"), nb::arg("warmup"), nb::arg("cycles"),
           nb::arg("graph"), nb::arg("unalign"), nb::arg("in_place"), nb::arg("check"), nb::arg("multiplied") = false,
           nb::arg("blocking") = false, "One Measurement a peer.")
      .def("measure_ring_shift", &Bench::measure_ring_shift, nb::arg("count"), nb::arg("dtype"), nb::arg("window"),
           nb::arg("one_way"), nb::arg("iterations"), nb::arg("warmup"), nb::arg("cycles"), nb::arg("graph"),
           nb::arg("unalign"), nb::arg("in_place"), nb::arg("check"),
           "The same for messages from every rank to the next one, or from even ranks alone, so many at once.")
      .def("close", &Bench::close);
}

}  // namespace plait::python
