// Names that people write, for the command line.
#include "base/names.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.hpp"
#include "plan/plan.hpp"

namespace plait::python {

void bind_names(nb::module_& module) {
  module.def("same_name", &same_name, nb::arg("a"), nb::arg("b"),
             "Whether two names differ in case, separators and the prefix of NCCL or MPI at most.");
  module.def(
      "did_you_mean",
      [](const std::string& wanted, const std::vector<std::string>& names) {
        return did_you_mean(wanted, std::vector<std::string_view>(names.begin(), names.end()));
      },
      nb::arg("wanted"), nb::arg("names"), "The end of an error: \"; did you mean 'ring'?\", or nothing.");
  module.def(
      "collective_name", [](const std::string& text) { return name(parse_collective(text)); }, nb::arg("text"),
      "Plait's name of a collective that NCCL and MPI have too. Raises InvalidArgument.");
}

}  // namespace plait::python
