// plait._core: the core's types and functions for Python. Thin: nothing here that a C++ user would miss.
#include "bindings/bindings.hpp"

extern const char plait_commit[];  // cmake/Commit.cmake writes it

NB_MODULE(_core, module) {
  // Communicators may live in modules of the user's, which Python does not clear at its end.
  nb::set_leak_warnings(false);
  module.doc() = "The C++ core of Plait. Use it through the package `plait`.";
  module.attr("__version__") = PLAIT_VERSION;
  module.attr("__commit__") = &plait_commit[0];
  plait::python::bind_errors();
  plait::python::bind_names(module);
  plait::python::bind_settings(module);
  plait::python::bind_topology(module);
  plait::python::bind_plan(module);
  plait::python::bind_model(module);
  plait::python::bind_closed_forms(module);
  plait::python::bind_communicator(module);
  plait::python::bind_bench(module);
  plait::python::bind_cuda_bench(module);
  plait::python::bind_simulation(module);
}
