// Models: the time of hierarchies.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "base/error.hpp"
#include "bindings/bindings.hpp"
#include "model/hierarchy_search.hpp"
#include "model/profile.hpp"

namespace plait::python {
namespace {

// A model with what it looks at.
struct Hierarchies {
  Hierarchies(Topology of, int ranks, const std::optional<Profile>& given)
      : topology(std::make_unique<Topology>(std::move(of))),
        placement(std::make_unique<Placement>(place_ranks(*topology, ranks > 0 ? ranks : gpus()))),
        profile(given ? *given : profile_for(*topology, placement->device_of_rank)),
        model(*topology, *placement, profile.costs) {}

  int gpus() const {
    const int count = static_cast<int>(devices_of(*topology, DeviceKind::kGpu).size());
    if (count > 0) return count;
    fail(ErrorCode::kInvalidArgument, "the machine \"", topology->name,
         "\" has no GPUs, so say how many ranks its CPUs shall have (--ranks N)");
  }

  std::unique_ptr<Topology> topology;
  std::unique_ptr<Placement> placement;
  Profile profile;
  HierarchyModel model;
};

nb::list ranking_rows(const HierarchyRanking& ranking) {
  nb::list rows;
  for (const Hierarchy& it : ranking.best) rows.append(nb::make_tuple(it.factors, it.seconds));
  return rows;
}

nb::list layer_rows(Hierarchies& hierarchies, const std::vector<int>& factors, double bytes) {
  nb::list rows;
  for (const LayerTime& it : hierarchies.model.layer_times(factors, bytes)) {
    nb::dict row;
    row["ranks"] = it.layer.length;
    row["stride"] = it.layer.stride;
    row["medium"] = name(it.layer.medium);
    row["gbps"] = it.layer.gbps;
    row["bytes"] = it.bytes;
    row["seconds"] = it.seconds;
    rows.append(row);
  }
  return rows;
}

nb::tuple search_all(Hierarchies& hierarchies, double bytes, int ranks, int keep) {
  const HierarchyRanking ranking = search_all_hierarchies(hierarchies.model, ranks, bytes, keep);
  return nb::make_tuple(ranking_rows(ranking), ranking.evaluations);
}

nb::tuple grow(Hierarchies& hierarchies, double bytes, int keep) {
  const auto grown = grow_hierarchies(hierarchies.model, bytes, keep);
  nb::dict of_ranks;
  for (const auto& [ranks, ranking] : grown) {
    if (ranks > 1) of_ranks[nb::cast(ranks)] = ranking_rows(ranking);
  }
  return nb::make_tuple(of_ranks, evaluations_of(grown));
}

nb::tuple profile_that_fits(const Topology& topology, int ranks) {
  const auto gpus = static_cast<int>(devices_of(topology, DeviceKind::kGpu).size());
  const std::string& name = profile_for(topology, place_ranks(topology, ranks > 0 ? ranks : gpus).device_of_rank).name;
  for (const internal::ProfileText& it : internal::profile_texts()) {
    if (it.name == name) return nb::make_tuple(name, it.text);
  }
  fail(ErrorCode::kInternal, "no text of profile ", name);
}

void bind_profile(nb::module_& module) {
  nb::class_<Profile>(module, "Profile", "A machine's costs and measured tables, with their source.")
      .def_ro("name", &Profile::name, "what it is called, such as \"hopper\"")
      .def_ro("source", &Profile::source, "where its figures are from");
  module.def(
      "parse_profile", &parse_profile, nb::arg("text"), nb::arg("file") = "text",
      "A profile from its file. `text`: the JSON of the file. `file`: what messages call it. Raises InvalidInput.");
  module.def(
      "profile_names",
      [] {
        std::vector<std::string> names;
        for (const Profile& it : profiles()) names.push_back(it.name);
        return names;
      },
      "The profiles that Plait comes with.");
  module.def("profile_that_fits", &profile_that_fits, nb::arg("topology"), nb::arg("ranks") = 0,
             "Name and text of the library's profile for so many ranks of a machine (0: one a GPU).");
}

}  // namespace

void bind_model(nb::module_& module) {
  bind_profile(module);
  nb::class_<Hierarchies>(module, "Hierarchies",
                          "The hierarchical ring all-reduces p1 x p2 x … of the ranks of a machine, by closed form: "
                          "docs/models.md.")
      .def(nb::init<Topology, int, const std::optional<Profile>&>(), nb::arg("topology"), nb::arg("ranks") = 0,
           nb::arg("profile") = nb::none(),
           "`topology`: the machine. `ranks`: 0 for one a GPU. `profile`: the one that has the costs, None for the one "
           "that fits the machine. Raises InvalidArgument where nodes have different numbers of ranks.")
      .def_prop_ro(
          "ranks", [](const Hierarchies& it) { return it.model.ranks(); }, "how many ranks there are")
      .def_ro("profile", &Hierarchies::profile, "the one that has the costs")
      .def(
          "seconds",
          [](Hierarchies& it, const std::vector<int>& factors, double bytes) {
            return it.model.seconds(factors, bytes);
          },
          nb::arg("factors"), nb::arg("message_bytes"),
          "The time of one hierarchy, seconds. `factors`: such as [4, 2]; their product is the number of ranks. "
          "`message_bytes`: of the message. Raises InvalidArgument.")
      .def("layers", &layer_rows, nb::arg("factors"), nb::arg("message_bytes"),
           "The layers of one hierarchy, a dict each: `ranks` and `stride` of their rings, `medium`, `gbps` of a ring "
           "(10^9 bytes/s), `bytes`, `seconds`. `factors`, `message_bytes`: as for seconds(). Raises InvalidArgument.")
      .def("search_all", &search_all, nb::arg("message_bytes"), nb::arg("ranks"), nb::arg("keep") = 5,
           "Tries every ordered factorisation. Gives the best as pairs of factors and seconds, and how many times were "
           "computed. `message_bytes`: of the message. `ranks`: which number is factored. `keep`: how many are given. "
           "Raises InvalidArgument.")
      .def("grow", &grow, nb::arg("message_bytes"), nb::arg("keep") = 5,
           "The best of every divisor of the ranks, each grown from the best of fewer ranks. Gives a dict of such "
           "pairs as search_all() gives, and how many times were computed. `message_bytes`, `keep`: as for "
           "search_all(). Raises InvalidArgument.");
  module.def("ordered_factorisations", &ordered_factorisations, nb::arg("number"), nb::arg("most"),
             "How many hierarchies so many ranks have; counts up to `most`.");
  module.def(
      "extension_of",
      [](const std::vector<int>& small, const std::vector<int>& large) { return name(extension_of(small, large)); },
      nb::arg("small"), nb::arg("large"),
      "How a hierarchy of more ranks comes from one of fewer, in words. `small`, `large`: their factors. Raises "
      "InvalidArgument.");
}

}  // namespace plait::python
