// Arrays and counts in, calls by counts out.
#include "bindings/by_counts.hpp"

#include <optional>
#include <vector>

#include "base/figures.hpp"
#include "bindings/array_view.hpp"
#include "bindings/new_array.hpp"
#include "bindings/operation.hpp"
#include "bindings/python_text.hpp"
#include "bindings/staged_array.hpp"

namespace plait::python {
namespace {

template <class... Parts>
[[noreturn]] void refuse_counts(const Parts&... parts) {
  fail(ErrorCode::kInvalidArgument, parts...);
}

size_t number_of_rows(nb::handle number, const char* name) {
  const auto whole = nb::steal(PyNumber_Index(number.ptr()));
  if (!whole.is_valid()) PyErr_Clear();
  size_t rows = 0;
  if (whole.is_valid() && nb::try_cast(whole, rows)) return rows;
  refuse_counts(name, ": ", text_of(nb::repr(number)), " is no number of rows; expected whole numbers from 0");
}

std::vector<size_t> numbers_of_rows(nb::handle sequence, const char* name) {
  std::vector<size_t> all;
  if (sequence.is_none()) return all;
  const auto iterator = nb::steal(PyObject_GetIter(sequence.ptr()));
  if (!iterator.is_valid()) {
    PyErr_Clear();
    refuse_counts(name, ": a ", text_of(sequence.type().attr("__name__")),
                  " is no sequence; pass a number for each rank");
  }
  while (const auto item = nb::steal(PyIter_Next(iterator.ptr()))) all.push_back(number_of_rows(item, name));
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  return all;
}

// An array's blocks in elements of the core: complex numbers have two.
struct Blocks {
  std::vector<size_t> counts, displacements;
  size_t rows = 0;  // up to the end of the last block
  bool have_gaps = false;

  BlockCounts view() const { return {counts, displacements}; }
};

size_t row_elements(const ArrayView& array) {
  size_t elements = array.type().parts();
  for (size_t axis = 1; axis < array.shape().size(); ++axis) elements *= array.shape()[axis];
  return elements;
}

Blocks read_rows(const RowBlocks& given, size_t ranks, const char* counts_name, const char* displacements_name) {
  Blocks blocks;
  if (given.counts.is_none())
    refuse_counts(counts_name, ": needed, a number of rows for each of the ", counted(ranks, "rank"));
  blocks.counts = numbers_of_rows(given.counts, counts_name);
  blocks.displacements = numbers_of_rows(given.displacements, displacements_name);
  blocks.have_gaps = !given.displacements.is_none();
  const auto check_size = [&](const std::vector<size_t>& all, const char* name) {
    if (all.size() != ranks)
      refuse_counts(name, ": ", counted(all.size(), "number"), "; expected one for each rank, ", ranks);
  };
  check_size(blocks.counts, counts_name);
  if (blocks.have_gaps) check_size(blocks.displacements, displacements_name);
  for (const BufferBlock& block : read_blocks(blocks.view(), static_cast<int>(ranks), 1, counts_name)) {
    if (block.count > 0) blocks.rows = std::max(blocks.rows, block.end());
  }
  return blocks;
}

// Turns counts of rows into counts of the core's elements. The last block ends in the array, so nothing overflows.
void count_in_elements(Blocks& blocks, size_t elements) {
  for (size_t& count : blocks.counts) count *= elements;
  for (size_t i = 0; i < blocks.displacements.size(); ++i) {
    size_t& displacement = blocks.displacements[i];
    displacement = blocks.counts[i] == 0 ? 0 : displacement * elements;  // that of no rows may be anywhere
  }
}

void check_rows(const ArrayView& array, const Blocks& blocks, const char* role, const char* counts_name) {
  const size_t rows = array.shape().empty() ? 0 : array.shape()[0];
  if (array.shape().empty()) refuse_counts(role, ": blocks lie along the first axis, and this array has none");
  if (rows == blocks.rows || (blocks.have_gaps && rows > blocks.rows)) return;
  refuse_counts(role, ": it has ", counted(rows, "row"), " (first axis), and its blocks, by ", counts_name,
                ", end after ", blocks.rows);
}

std::vector<size_t> with_rows(std::vector<size_t> shape, size_t rows) {
  shape.at(0) = rows;
  return shape;
}

void check_alike(const ArrayView& input, const ArrayView& output) {
  if (output.type() != input.type()) {
    refuse_counts("out: its elements are ", name(output.type()), ", those of array ", name(input.type()),
                  "; they must be equal");
  }
  if (with_rows(output.shape(), 0) != with_rows(input.shape(), 0)) {
    refuse_counts("out: the shape is ", shape_text(output.shape()), ", that of array ", shape_text(input.shape()),
                  "; they may differ in the first axis only");
  }
}

Blocks one_block(const ArrayView& array, const char* role) {
  if (array.shape().empty()) refuse_counts(role, ": rows lie along the first axis, and this array has none");
  Blocks block;
  block.counts = {array.shape()[0]};
  block.rows = array.shape()[0];
  return block;
}

// The names of the arguments, for messages.
struct Names {
  const char *counts, *displacements;
};

}  // namespace

nb::object run_by_counts(CommunicatorHandle& handle, const char* collective_name, nb::handle input, nb::object output,
                         nb::handle dtype, nb::handle op, int root, const RowBlocks& given, const RowBlocks& got) {
  const auto communicator = handle.open();
  const auto ranks = static_cast<size_t>(communicator->size());
  const int rank = communicator->rank();
  Call call;
  call.collective = parse_collective(collective_name);
  call.root = root;
  call.by_counts = true;
  const bool gives = has_input(call, rank), gets = has_output(call, rank);
  const bool both = call.collective == Collective::kAllToAll;
  const Names in_names = both ? Names{"send_counts", "send_displacements"} : Names{"counts", "displacements"};
  const Names out_names = both ? Names{"receive_counts", "receive_displacements"} : Names{"counts", "displacements"};
  std::optional<ArrayView> from, to;
  Blocks in_blocks, out_blocks;
  if (gives) {
    from.emplace(input, dtype, "array");
    in_blocks = gathers(call.collective) ? one_block(*from, "array")
                                         : read_rows(given, ranks, in_names.counts, in_names.displacements);
    check_rows(*from, in_blocks, "array", in_names.counts);
  }
  if (gets) {
    if (!scatters(call.collective)) out_blocks = read_rows(got, ranks, out_names.counts, out_names.displacements);
    nb::object output_type = nb::borrow(dtype);
    if (output.is_none()) {
      if (!from) {
        refuse_counts("out: scatter_v needs it on every rank but the root, ", root,
                      ": the array for this rank's part, whose rows tell how many come");
      }
      const size_t rows = scatters(call.collective) ? in_blocks.counts[static_cast<size_t>(rank)] : out_blocks.rows;
      output = new_like(input, *from, dtype, with_rows(from->shape(), rows), {});
      output_type = nb::str(name(from->type()));
    }
    to.emplace(output, output_type, "out");
    to->check_writable();
    if (scatters(call.collective)) out_blocks = one_block(*to, "out");
    check_rows(*to, out_blocks, "out", out_names.counts);
    if (from) check_alike(*from, *to);
  }
  if (call.collective == Collective::kAllGather && in_blocks.rows != out_blocks.counts[static_cast<size_t>(rank)]) {
    refuse_counts("array: it has ", counted(in_blocks.rows, "row"), ", and counts say ",
                  out_blocks.counts[static_cast<size_t>(rank)], " for this rank, ", rank);
  }
  if (call.collective == Collective::kReduceScatter && out_blocks.rows != in_blocks.counts[static_cast<size_t>(rank)]) {
    refuse_counts("out: it has ", counted(out_blocks.rows, "row"), ", and counts say ",
                  in_blocks.counts[static_cast<size_t>(rank)], " for this rank, ", rank);
  }
  const ArrayView& array = from ? *from : *to;
  call.type = array.type().type;
  const Operation operation = reduces(call.collective) ? operation_of(op, array.type()) : Operation{};
  call.op = operation.op;
  const size_t elements = row_elements(array);
  count_in_elements(in_blocks, elements);
  count_in_elements(out_blocks, elements);
  const CallByCounts made = call_by_counts(call, static_cast<int>(ranks), rank, in_blocks.view(), out_blocks.view());
  handle.use([&](Communicator& c) {
    std::optional<StagedArray> source, result;
    if (from) {
      source.emplace(*from, AxisOrder());
      source->load();
    }
    if (to) {
      result.emplace(*to, AxisOrder());
      result->load();  // for what lies between blocks
    }
    c.run_by_counts(made, source ? source->data() : nullptr, result ? result->data() : nullptr,
                    operation.factor_or_null());
    if (result) result->store();
  });
  return gets ? output : nb::none();
}

}  // namespace plait::python
