// Machines, their groups and their paths.
#include "topology/topology.hpp"

#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "bindings/bindings.hpp"
#include "topology/change.hpp"
#include "topology/describe.hpp"
#include "topology/gpu_models.hpp"
#include "topology/groups.hpp"
#include "topology/live.hpp"
#include "topology/machines.hpp"
#include "topology/paths.hpp"
#include "topology/readers.hpp"
#include "tuner/machine.hpp"

namespace plait::python {
namespace {

// None or "": not stated.
const GpuModel* stated_model(const std::optional<std::string>& name) {
  return name && !name->empty() ? &gpu_model_named(*name) : nullptr;
}

GroupRule parse_rule(const std::string& text) {
  if (text == "nvgroup") return GroupRule::kNvGroup;
  if (text == "gpu-only") return GroupRule::kGpuOnly;
  fail(ErrorCode::kInvalidArgument, "rule '", text, "' is none of: nvgroup, gpu-only");
}

std::optional<std::string> device_name(const Topology& topology, int device) {
  if (device < 0) return std::nullopt;
  return topology.devices[static_cast<size_t>(device)].name;
}

// A group for Python: names instead of indices.
struct NamedGroup {
  std::vector<std::string> gpus;
  std::optional<std::string> cpu;
};

std::vector<NamedGroup> named_groups(const Topology& topology, const std::string& rule) {
  std::vector<NamedGroup> named;
  for (const Group& group : find_groups(topology, parse_rule(rule))) {
    NamedGroup& last = named.emplace_back();
    for (const int gpu : group.gpus) last.gpus.push_back(*device_name(topology, gpu));
    last.cpu = device_name(topology, group.cpu);
  }
  return named;
}

std::vector<std::string> path_texts(const Topology& topology, const std::string& from, const std::string& to) {
  std::vector<std::string> texts;
  const PathFinder finder(topology);
  for (const Path& path : finder.between(device_named(topology, from), device_named(topology, to))) {
    texts.push_back(to_text(topology, path));
  }
  return texts;
}

// GPUs by their numbers, counted through the machine from 0.
Topology select_numbers(const Topology& topology, const std::vector<int>& numbers) {
  const std::vector<int> all = devices_of(topology, DeviceKind::kGpu);
  std::vector<int> gpus;
  for (const int number : numbers) {
    if (number < 0 || number >= static_cast<int>(all.size())) {
      fail(ErrorCode::kInvalidArgument, "GPU ", number, " is not one of the ", counted(all.size(), "GPU"), " of ",
           topology.name);
    }
    gpus.push_back(all[static_cast<size_t>(number)]);
  }
  return select(topology, gpus);
}

void bind_parts(nb::module_& module) {
  nb::class_<Device>(module, "Device", "A GPU or another end of links. What the source does not say is empty or 0.")
      .def_prop_ro(
          "kind", [](const Device& device) { return name(device.kind); },
          "\"gpu\", \"cpu\", \"memory\", \"nvswitch\", \"pcieswitch\", \"nic\" or \"netswitch\"")
      .def_ro("name", &Device::name, "unique in the machine: \"gpu0\", or \"n1.gpu0\" where there are several nodes")
      .def_ro("node", &Device::node, "the node that it is in, from 0")
      .def_ro("model", &Device::model, "what its maker calls it")
      .def_ro("bus_id", &Device::bus_id, "its PCI address, such as \"0000:17:00.0\"")
      .def_ro("uuid", &Device::uuid, "of a GPU, as its driver gives it")
      .def_ro("fabric", &Device::fabric, "the NVLink domain of several hosts that a GPU is in, or empty")
      .def_ro("cores", &Device::cores, "of a CPU socket")
      .def_ro("memory_gb", &Device::memory_gb, "of a CPU socket, 10^9 bytes")
      .def_ro("port_gbps", &Device::port_gbps, "of the ports of a network adapter, 10^9 bytes/s per direction")
      .def_ro("source", &Device::source, "where the figures are from")
      .def("__repr__", [](const Device& device) { return join("<plait.topology.Device ", device.name, ">"); });
  nb::class_<Link>(module, "Link", "A link between two devices, the same in both directions.")
      .def_ro("a", &Link::a, "index into Topology.devices")
      .def_ro("b", &Link::b, "the other end, as `a`")
      .def_prop_ro(
          "kind", [](const Link& link) { return name(link.kind); },
          "\"nvlink\", \"xgmi\", \"pcie\", \"socket\", \"memory\" or \"network\"")
      .def_ro("width", &Link::width, "lanes")
      .def_ro("gbps", &Link::gbps, "10^9 bytes/s per direction, all lanes together")
      .def_ro("source", &Link::source, "where the figures are from");
  nb::class_<NamedGroup>(module, "Group", "GPUs that are pairwise joined by NVLink, and the CPU where it is too.")
      .def_ro("gpus", &NamedGroup::gpus, "names")
      .def_ro("cpu", &NamedGroup::cpu, "name, or None");
}

}  // namespace

void bind_topology(nb::module_& module) {
  bind_parts(module);
  nb::class_<Topology>(module, "Topology", "A machine as a graph: devices joined by links. str() describes it.")
      .def_ro("name", &Topology::name, "what the machine is called, such as \"summit\"")
      .def_ro("source", &Topology::source, "where the figures are from")
      .def_ro(
          "notes", &Topology::notes,
          "What to know before the figures are believed: what the source lacks, what was left out of it or assumed.")
      .def_ro("nodes", &Topology::nodes, "how many nodes it has")
      .def_ro("devices", &Topology::devices, "of all nodes; indices of links count them from 0")
      .def_ro("links", &Topology::links, "of all nodes, and between them")
      .def(
          "to_json", [](const Topology& topology) { return to_json(topology); },
          "The machine as JSON in Plait's own form, which parse() takes, and read() from a file.")
      .def("groups", &named_groups, nb::arg("rule") = "nvgroup",
           "Divides the GPUs into groups. `rule`: \"nvgroup\" (with the CPU where NVLink joins it) or \"gpu-only\". "
           "Raises InvalidArgument.")
      .def(
          "groups_text",
          [](const Topology& topology, const std::string& rule) {
            return to_text(topology, find_groups(topology, parse_rule(rule)));
          },
          nb::arg("rule") = "nvgroup",
          "One line a group: \"group 0: gpu0 gpu1 cpu0\". `rule`: as for groups(). Raises InvalidArgument.")
      .def(
          "paths", &path_texts, nb::arg("source"), nb::arg("destination"),
          "All paths between two memories in words, the best first. `source`, `destination`: names of devices, such as "
          "\"gpu0\". Raises InvalidArgument.")
      .def("select", &select_numbers, nb::arg("gpus"),
           "The same machine with only some GPUs. `gpus`: their numbers, counted through the machine from 0. Raises "
           "InvalidArgument.")
      .def(
          "changed", [](const Topology& topology, const std::string& changes) { return changed(topology, changes); },
          nb::arg("changes"),
          "The machine with other links or fewer GPUs. `changes`: a GPU less (drop:gpu3), another link "
          "(add:nvlink:gpu0:gpu3:50, of 50 GB/s), faster ones (scale:pcie:2), or several of these, separated by "
          "commas. Raises InvalidArgument.")
      .def("replicate", &replicate, nb::arg("nodes"),
           "Copies of a machine of one node, joined by its network. `nodes`: how many. Raises InvalidArgument.")
      .def(nb::self == nb::self)
      .def("__str__", [](const Topology& topology) { return to_text(topology); })
      .def("__repr__", [](const Topology& topology) { return join("<plait.topology.Topology ", topology.name, ">"); });
  module.def("machine_names", &machine_names,
             "The names of the machines that Plait comes with, which machine() takes.");
  module.def(
      "machine", [](const std::string& name, int nodes) { return machine(name, nodes); }, nb::arg("name"),
      nb::arg("nodes") = 1,
      "A described machine. `name`: one of machine_names(). `nodes`: how many copies, joined by its "
      "network. Raises InvalidArgument that lists the names.");
  module.def(
      "stated_topology",
      [](const nb::bytes& text) { return described_topology(std::string_view(text.c_str(), text.size())); },
      nb::arg("text"),
      "The machine that PLAIT_TOPOLOGY names by this text, as communicators read it. Errors name the variable.");
  module.def(
      "read_topology",
      [](const std::string& path, const std::optional<std::string>& gpu_model) {
        return read_topology(path, stated_model(gpu_model));
      },
      nb::arg("path"), nb::arg("gpu_model") = nb::none(),
      "A machine from a file: Plait's JSON, NCCL's XML, or what `nvidia-smi topo -m` prints. `path`: \"-\" for "
      "standard input. `gpu_model`: which GPUs these are, such as \"B200\", where the file does not say it. Raises "
      "InvalidInput, and InvalidArgument for a model that Plait does not know.");
  module.def(
      "parse_topology",
      [](const std::string& text, const std::string& file, const std::optional<std::string>& gpu_model) {
        return parse_topology(text, file, stated_model(gpu_model));
      },
      nb::arg("text"), nb::arg("file") = "text", nb::arg("gpu_model") = nb::none(),
      "As read(), from a text. `file`: what messages call it. `gpu_model`: as for read(). Raises InvalidInput and "
      "InvalidArgument.");
  module.def(
      "live_topology", [] { return read_live(); }, nb::call_guard<nb::gil_scoped_release>(),
      "The machine that this process runs on, with the GPUs that it sees. Topology.source says what was read, and "
      "Topology.notes what was assumed.");
}

}  // namespace plait::python
