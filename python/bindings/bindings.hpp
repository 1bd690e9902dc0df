// The parts of the module plait._core. Each adds its classes and functions.
#pragma once

#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace plait::python {

void bind_errors();
void bind_names(nb::module_& module);
void bind_settings(nb::module_& module);
void bind_topology(nb::module_& module);
void bind_plan(nb::module_& module);
void bind_model(nb::module_& module);
void bind_closed_forms(nb::module_& module);
void bind_communicator(nb::module_& module);
void bind_bench(nb::module_& module);
void bind_cuda_bench(nb::module_& module);
void bind_simulation(nb::module_& module);

}  // namespace plait::python
