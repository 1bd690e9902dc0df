// Communicators and how their ranks meet.
#include "api/communicator.hpp"

#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>

#include "api/split.hpp"
#include "base/printable.hpp"
#include "bindings/array_view.hpp"
#include "bindings/bindings.hpp"
#include "bindings/by_counts.hpp"
#include "bindings/collective.hpp"
#include "bindings/messages.hpp"
#include "bindings/operation.hpp"
#include "bindings/python_text.hpp"
#include "bindings/scattered_blocks.hpp"
#include "bindings/tensor_call.hpp"
#include "bindings/torch_tensor.hpp"
#include "plan/conditions.hpp"
#include "tuner/neighbours.hpp"
#include "tuner/tuner.hpp"

namespace plait::python {
namespace {

using Handle = CommunicatorHandle;

UniqueId id_from_bytes(const nb::bytes& bytes) {
  if (bytes.size() != sizeof(UniqueId)) {
    fail(ErrorCode::kInvalidArgument, "a unique id has ", sizeof(UniqueId), " bytes, not ", bytes.size());
  }
  UniqueId id;
  std::memcpy(&id, bytes.data(), sizeof(id));
  id.check();
  return id;
}

nb::bytes bytes_of(const UniqueId& id) { return nb::bytes(&id, sizeof(id)); }

std::unique_ptr<Handle> create(const UniqueId& id, int rank, int size, const Settings& settings, int device,
                               nb::handle check) {
  const InterruptCheck interrupt_check = interrupt_check_of(check);
  const nb::gil_scoped_release release;
  return std::make_unique<Handle>(Communicator::create(id, rank, size, settings, device, interrupt_check),
                                  interrupt_check);
}

std::unique_ptr<Handle> from_environment(const Settings& settings, uint64_t sequence, int device) {
  const nb::gil_scoped_release release;
  return std::make_unique<Handle>(Communicator::from_environment(settings, sequence, device, &hear_python_signals));
}

nb::typed<nb::list, Handle> handles_of(std::vector<Communicator> ranks) {
  nb::typed<nb::list, Handle> handles;
  for (Communicator& rank : ranks) handles.append(std::make_unique<Handle>(std::move(rank)));
  return handles;
}

nb::typed<nb::list, Handle> in_process(int size, const Settings& settings) {
  return handles_of(Communicator::in_process(size, settings));
}

nb::typed<nb::list, Handle> in_process_on(const std::vector<int>& devices, const Settings& settings) {
  return handles_of(Communicator::in_process(devices, settings));
}

std::vector<std::pair<std::string, std::string>> candidates_of(Communicator& communicator, Collective collective,
                                                               int root) {
  std::vector<std::pair<std::string, std::string>> found;
  for (const Candidate& it : communicator.tuner().candidates(collective, root).all) {
    found.emplace_back(it.choice.text(), name(it.protocol));
  }
  return found;
}

// Those that can be made on the communicator's machine.
std::vector<std::string> neighbours_of_text(Communicator& communicator, Collective collective, const std::string& text,
                                            int root) {
  const AlgorithmSpec spec = parse_spec(text, collective);
  std::vector<std::string> found;
  if (spec.zero_copy) return found;
  const AlgorithmArguments machine = communicator.tuner().machine().arguments(collective, root);
  const PlanChoice choice{std::string(find_algorithm(spec.name, collective).name), resolve(spec, machine), ""};
  for (const PlanChoice& it : neighbours_of(choice)) {
    try {
      make_plan(it.algorithm, it.arguments);
      found.push_back(it.text());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidArgument) throw;
    }
  }
  return found;
}

// Through host memory, also where the ranks have GPUs.
std::vector<std::string> shared_among(Communicator& communicator, const std::string& mine) {
  const auto ranks = static_cast<size_t>(communicator.size());
  const uint64_t bytes = mine.size();
  std::vector<uint64_t> bytes_of(ranks);
  communicator.all_gather(&bytes, bytes_of.data(), 1, DataType::kUint64);
  const uint64_t most = *std::max_element(bytes_of.begin(), bytes_of.end());
  std::string padded = mine, all(ranks * most, '\0');
  padded.resize(most);
  communicator.all_gather(padded.data(), all.data(), most, DataType::kUint8);
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < ranks; ++rank) texts.push_back(all.substr(rank * most, bytes_of[rank]));
  return texts;
}

nb::dict tuned_place_of(const Communicator& communicator) {
  const RankMachine& machine = communicator.tuner().machine();
  const TunedPlace place = tuned_place(machine.topology, machine.placement.device_of_rank);
  nb::dict members;
  members["machine"] = place.machine;
  members["device"] = place.device;
  members["devices"] = place.devices;
  members["cores"] = place.cores;
  members["nodes"] = place.nodes;
  return members;
}

// Converts anything that Python takes for an integer. Throws kInvalidArgument.
int whole_number(nb::handle number, const char* name) {
  const auto whole = nb::steal(PyNumber_Index(number.ptr()));
  if (!whole.is_valid()) PyErr_Clear();
  int value = 0;
  if (whole.is_valid() && nb::try_cast(whole, value)) return value;
  fail(ErrorCode::kInvalidArgument, name, " is ", text_of(nb::repr(number)), "; expected a whole number of 32 bits");
}

void read_split(const Communicator& parent, nb::handle color, nb::handle key, nb::handle settings,
                SplitRequest& request) {
  if (!color.is_none()) {
    const int number = whole_number(color, "color");
    if (number >= 0) request.color = number;
  }
  request.key = whole_number(key, "key");
  request.settings = parent.settings();
  if (!settings.is_none() && !nb::try_cast(settings, request.settings)) {
    fail(ErrorCode::kInvalidArgument, "settings: a ", text_of(settings.type().attr("__name__")),
         " is none; pass plait.Settings(...) or None for those of this communicator");
  }
}

// Also where the arguments cannot be used, so that the other ranks hear of it.
std::unique_ptr<Handle> split(Handle& handle, nb::handle color, nb::handle key, nb::handle settings) {
  SplitRequest request;
  try {
    read_split(*handle.open(), color, key, settings, request);
  } catch (const Error&) {
    request.refusal = std::current_exception();
  }
  return handle.use([&](Communicator& parent) {
    auto part = plait::split(parent, request, &hear_python_signals);
    return part ? std::make_unique<Handle>(std::move(*part)) : nullptr;
  });
}

ErrorCode error_code_of(const std::string& code) {
  for (int it = 0; it <= static_cast<int>(ErrorCode::kInternal); ++it) {
    if (code == name(static_cast<ErrorCode>(it))) return static_cast<ErrorCode>(it);
  }
  fail(ErrorCode::kInvalidArgument, "code '", code, "' is none of plait.errors");
}

void finish(Communicator& communicator) {
  communicator.finish();
  if (const auto error = communicator.async_error()) throw *error;
}

Call make_call(const std::string& collective, size_t count, nb::handle dtype, const std::string& op, int root) {
  const ElementType type = element_type_of(dtype);
  const auto by_counts = collective_by_counts(collective);
  const Collective parsed = by_counts ? *by_counts : parse_collective(collective);
  const ReduceOp reduction = reduce_op_of(op);
  check_no_vain_root(parsed, root);
  Call call{parsed, type.type, reduces(parsed) ? reduce_op_for(reduction, type) : reduction, root,
            count * type.parts()};
  call.by_counts = by_counts.has_value();
  return call;
}

void bind_unique_id(nb::module_& module) {
  nb::class_<UniqueId>(module, "UniqueId",
                       "What the ranks of one communicator share to find each other: 128 bytes with a secret. Rank 0's "
                       "process makes it with plait.create_unique_id(); give bytes(id) or str(id) to the other ranks.")
      .def_static("from_bytes", &id_from_bytes, nb::arg("data"),
                  "The reverse of bytes(id). `data`: 128 bytes. Raises InvalidArgument.")
      .def_static("parse", &UniqueId::parse, nb::arg("text"),
                  "The reverse of str(id). `text`: what that gave. Raises InvalidInput.")
      .def("__bytes__", &bytes_of)
      .def("__str__", &UniqueId::text)
      .def("__repr__", [](const UniqueId&) { return "<plait.UniqueId>"; })  // the secret is not for logs
      .def("__hash__", [](const UniqueId& id) { return nb::hash(bytes_of(id)); })
      .def("__getstate__", &bytes_of)
      .def("__setstate__", [](UniqueId& self, const nb::bytes& bytes) { new (&self) UniqueId(id_from_bytes(bytes)); })
      .def(nb::self == nb::self);
  module.def(
      "create_unique_id",
      [](bool for_hosts) {
        const std::string interfaces = socket_interfaces_in(process_environment());
        RendezvousPoint point =
            for_hosts ? RendezvousPoint::create_for_hosts(interfaces) : RendezvousPoint::create(interfaces);
        return point.release();
      },
      nb::kw_only(), nb::arg("for_hosts") = false,
      "A new id. Rank 0 of its communicator must then be made in this process. Ranks of other hosts reach it where "
      "PLAIT_SOCKET_IFNAME names an interface, or with `for_hosts`: then by the first interface that leads elsewhere, "
      "if "
      "PLAIT_SOCKET_IFNAME is not set. Raises InvalidInput where it names none of this host.");
}

}  // namespace

void bind_communicator(nb::module_& module) {
  bind_unique_id(module);
  bind_operation(module);
  nb::class_<Call>(
      module, "Call",
      "One call of a collective, as every rank must make it. `count`: elements, as for the functions of C; "
      "of one block where ranks give or get several.")
      .def(
          "__init__",
          [](Call* self, const std::string& collective, size_t count, nb::handle dtype, const std::string& op,
             int root) { new (self) Call(make_call(collective, count, dtype, op, root)); },
          nb::arg("collective"), nb::arg("count"), nb::arg("dtype") = "float32", nb::arg("op") = "sum",
          nb::arg("root") = 0)
      .def_static(
          "by",
          [](const VerifiedPlan& plan, size_t count, nb::handle dtype, const std::string& op) {
            const Call call = make_call(name(plan.plan().collective), count, dtype, op, 0);
            return call_by(plan, call.type, call.op, call.count);
          },
          nb::arg("plan"), nb::arg("count"), nb::arg("dtype") = "float32", nb::arg("op") = "sum",
          "One by a plan that the communicator is given.")
      .def_ro("count", &Call::count)
      .def_ro("root", &Call::root)
      .def(
          "message_bytes", [](const Call& call, int ranks) { return message_bytes(call, ranks); }, nb::arg("ranks"))
      .def("__str__", [](const Call& call) { return to_text(call); });
  module.def(
      "size_of", [](nb::handle dtype) { return element_type_of(dtype).bytes(); }, nb::arg("dtype"),
      "Bytes of one element.");
  module.def(
      "data_type_name", [](nb::handle dtype) { return name(data_type_of(dtype)); }, nb::arg("dtype"),
      "The one name of a type of the core: \"float32\" for \"float\". Raises InvalidArgument.");
  module.def(
      "element_type_name", [](nb::handle dtype) { return name(element_type_of(dtype)); }, nb::arg("dtype"),
      "The same, also of those that only arrays have: bool, complex64 and complex128.");
  module.def(
      "reduce_op_name", [](const std::string& op) { return name(reduce_op_of(op)); }, nb::arg("op"),
      "The one name of a reduction: \"avg\" for \"mean\". Raises InvalidArgument.");

  module.def("torch_stream", &torch_stream, nb::arg("array").none(),
             "The stream on which torch works now, on the GPU of a tensor. None for whatever else.");

  nb::class_<Handle>(module, "Communicator")
      .def_static("create", &create, nb::arg("id"), nb::arg("rank"), nb::arg("size"), nb::arg("settings"),
                  nb::arg("device") = kNoDevice, nb::arg("check") = nb::none(),
                  "`check`: a function that is called in all waits, also that of ranks to meet; what it raises ends "
                  "them, and the communicator for all ranks.")
      .def_static("from_environment", &from_environment, nb::arg("settings"), nb::arg("sequence"),
                  nb::arg("device") = kNoDevice)
      .def_static("in_process", &in_process, nb::arg("size"), nb::arg("settings"))
      .def_static("in_process_on", &in_process_on, nb::arg("devices"), nb::arg("settings"))
      .def_prop_ro("device", [](const Handle& handle) { return handle.open()->device(); })
      .def_prop_ro("rank", [](const Handle& handle) { return handle.open()->rank(); })
      .def_prop_ro("size", [](const Handle& handle) { return handle.open()->size(); })
      .def_prop_ro("closed", &Handle::closed)
      .def_prop_ro("shared_bytes", [](const Handle& handle) { return handle.open()->shared_bytes(); })
      .def(
          "run",
          [](Handle& handle, const char* collective, nb::handle array, nb::object out, nb::handle dtype, nb::handle op,
             int root, uintptr_t stream) {
            const Called called{parse_collective(collective), root, 0, stream};
            return run_collective(handle, called, array, out, dtype, op);
          },
          nb::arg("collective"), nb::arg("array").none(), nb::arg("out").none(), nb::arg("dtype").none(),
          nb::arg("op").none(), nb::arg("root"), nb::arg("stream") = 0)
      .def(
          "run_on_tensors",
          [](Handle& handle, const char* collective, nb::handle array, nb::handle out, nb::handle op, int root,
             std::optional<uintptr_t> stream) {
            return run_on_tensors(handle, parse_collective(collective), array, out, op, root, stream);
          },
          nb::arg("collective"), nb::arg("array").none(), nb::arg("out").none(), nb::arg("op").none(), nb::arg("root"),
          nb::arg("stream") = nb::none(),
          "run() on tensors of torch as they lie, sooner; false where it has to be run(). Without a stream it takes "
          "torch's current one.")
      .def(
          "run_by_counts",
          [](Handle& handle, const char* collective, nb::handle array, nb::object out, nb::handle dtype, nb::handle op,
             int root, nb::handle send_counts, nb::handle send_displacements, nb::handle receive_counts,
             nb::handle receive_displacements) {
            return run_by_counts(handle, collective, array, std::move(out), dtype, op, root,
                                 {send_counts, send_displacements}, {receive_counts, receive_displacements});
          },
          nb::arg("collective"), nb::arg("array").none(), nb::arg("out").none(), nb::arg("dtype").none(),
          nb::arg("op").none(), nb::arg("root"), nb::arg("send_counts").none(), nb::arg("send_displacements").none(),
          nb::arg("receive_counts").none(), nb::arg("receive_displacements").none())
      .def("run_all_to_all", &run_all_to_all, nb::arg("inputs"), nb::arg("outputs"), nb::arg("dtype").none(),
           "all_to_all_v of arrays that lie anywhere in host memory, one for each rank.")
      .def("run_plan", &run_plan, nb::arg("plan"), nb::arg("array").none(), nb::arg("out").none(),
           nb::arg("dtype").none(), nb::arg("op").none(), nb::arg("stream") = 0)
      .def(
          "finish", [](Handle& handle) { handle.use([](Communicator& communicator) { finish(communicator); }); },
          "Waits until the GPU is done with all calls. Raises what ended the communicator.")
      .def(
          "check",
          [](const Handle& handle) {
            if (const auto error = handle.open()->async_error()) throw *error;
          },
          "Raises what ended the communicator, as far as it is known; waits for nothing. Any thread may ask.")
      .def(
          "departure", [](const Handle& handle, int rank) { return handle.open()->departure(rank); }, nb::arg("rank"),
          "How another rank of this host has gone, in words; empty while it is there. Any thread may ask.")
      .def(
          "give",
          [](Handle& handle, const VerifiedPlan& plan) {
            handle.use([&](Communicator& c) { c.give(std::make_shared<const VerifiedPlan>(plan)); });
          },
          nb::arg("plan"), "Has Call.by(plan, ...) run it.")
      .def("exchange", &exchange_arrays, nb::arg("sends"), nb::arg("receives"), nb::arg("dtype").none(),
           nb::arg("stream") = 0, nb::arg("is_wanted") = nb::none(),
           "`is_wanted`: asked in long waits of host memory, which time out only while it says yes.")
      .def("split", &split, nb::arg("color").none(), nb::arg("key").none(), nb::arg("settings").none())
      .def(
          "share",
          [](Handle& handle, const std::string& mine) {
            return handle.use([&](Communicator& communicator) { return shared_among(communicator, mine); });
          },
          nb::arg("mine"), "The texts of all ranks, in their order, whatever memory the communicator works on.")
      .def("barrier", [](Handle& handle) { handle.use([](Communicator& communicator) { communicator.barrier(); }); })
      .def_prop_ro(
          "topology", [](const Handle& handle) { return Topology(handle.open()->topology()); },
          "The machine that plans are chosen for.")
      .def_prop_ro(
          "network", [](const Handle& handle) { return handle.open()->network(); },
          "What the network between hosts carries, and where that is from; empty on one host.")
      .def_prop_ro(
          "groups", [](const Handle& handle) { return handle.open()->groups(); }, "Ranks that NVLink joins.")
      .def(
          "plan_for",
          [](Handle& handle, const Call& call) {
            return handle.use([&](Communicator& communicator) { return VerifiedPlan(communicator.plan_for(call)); });
          },
          nb::arg("call"))
      .def(
          "candidates",
          [](Handle& handle, const char* collective, int root) {
            return handle.use([&](Communicator& c) { return candidates_of(c, parse_collective(collective), root); });
          },
          nb::arg("collective"), nb::arg("root") = 0,
          "Algorithms that can be chosen, each with a protocol: (\"ring(parts=2)\", \"Simple\").")
      .def(
          "neighbours",
          [](Handle& handle, const char* collective, const std::string& algorithm, int root) {
            return handle.use([&](Communicator& communicator) {
              return neighbours_of_text(communicator, parse_collective(collective), algorithm, root);
            });
          },
          nb::arg("collective"), nb::arg("algorithm"), nb::arg("root") = 0,
          "The algorithms that differ from this one by a step of one argument.")
      .def_prop_ro(
          "tuned_place", [](const Handle& handle) { return tuned_place_of(*handle.open()); },
          "The machine of the ranks as measurements of `plait tune` name it.")
      .def(
          "reason_for",
          [](Handle& handle, const Call& call) {
            return handle.use([&](Communicator& communicator) { return communicator.reason_for(call); });
          },
          nb::arg("call"))
      .def(
          "launch_for",
          [](Handle& handle, const Call& call) {
            return handle.use([&](Communicator& communicator) { return communicator.launch_for(call); });
          },
          nb::arg("call"))
      .def(
          "abort", [](Handle& handle, nb::handle reason) { handle.abort(printable(text_of(reason))); },
          nb::arg("reason").none())
      .def(
          "fail",
          [](Handle& handle, const std::string& code, nb::handle message) {
            handle.abort(Error(error_code_of(code), printable(text_of(message))));
          },
          nb::arg("code"), nb::arg("message"),
          "Ends the calls of all ranks in host memory with an error of that code (plait.Error.code). Any thread may "
          "call it.")
      .def("close", &Handle::close);
}

}  // namespace plait::python
