#include "api/c/operations.hpp"

#include <atomic>
#include <cstring>

#include "api/c/arguments.hpp"
#include "api/c/handle.hpp"
#include "api/c/result.hpp"
#include "base/reductions.hpp"

namespace plait::c {
namespace {

std::atomic<uint32_t> numbers_used{0};

constexpr size_t kMostOperations = 4096;  // of a communicator: more are operations that nobody destroys

int next_number() {
  return kFirstOperation + static_cast<int>(numbers_used++ % (static_cast<uint32_t>(plaitMaxRedOp) - kFirstOperation));
}

Scalar scalar_from(void* scalar, plaitDataType_t datatype, plaitScalarResidence_t residence, bool on_host) {
  Scalar read;
  read.type = data_type(datatype);
  require(scalar, "scalar");
  switch (static_cast<int>(residence)) {
    case plaitScalarHostImmediate:
      std::memcpy(read.value.data(), scalar, size_of(read.type));
      return read;
    case plaitScalarDevice:
      if (on_host) {
        refuse(plaitInvalidArgument,
               "residence is plaitScalarDevice, but comm was made without a CUDA device, so its scalars are read from "
               "host memory: pass plaitScalarHostImmediate");
      }
      read.on_device = scalar;
      return read;
    default:
      refuse(plaitInvalidArgument, "residence is ", static_cast<int>(residence),
             "; it is none of plaitScalarResidence_t");
  }
}

}  // namespace

plaitRedOp_t Operations::add(const Scalar& scalar) {
  const std::lock_guard lock(mutex_);
  if (scalars_.size() >= kMostOperations) {
    refuse(plaitInvalidUsage, "comm already has ", kMostOperations,
           " operations; destroy those that are no longer needed with plaitRedOpDestroy");
  }
  int number = next_number();
  while (scalars_.contains(number)) number = next_number();
  scalars_[number] = scalar;
  return static_cast<plaitRedOp_t>(number);
}

bool Operations::remove(plaitRedOp_t op) {
  const std::lock_guard lock(mutex_);
  return scalars_.erase(static_cast<int>(op)) > 0;
}

std::optional<Scalar> Operations::find(plaitRedOp_t op) const {
  const std::lock_guard lock(mutex_);
  const auto found = scalars_.find(static_cast<int>(op));
  return found == scalars_.end() ? std::nullopt : std::optional(found->second);
}

void Operations::clear() {
  const std::lock_guard lock(mutex_);
  scalars_.clear();
}

}  // namespace plait::c

using namespace plait::c;

extern "C" plaitResult_t plaitRedOpCreatePreMulSum(plaitRedOp_t* op, void* scalar, plaitDataType_t datatype,
                                                   plaitScalarResidence_t residence, plaitComm_t comm) {
  return at_edge("plaitRedOpCreatePreMulSum", [&] {
    check_handle(comm);
    require(op, "op");
    *op = comm->operations.add(scalar_from(scalar, datatype, residence, comm->device == PLAIT_DEVICE_HOST));
  });
}

extern "C" plaitResult_t plaitRedOpDestroy(plaitRedOp_t op, plaitComm_t comm) {
  return at_edge("plaitRedOpDestroy", [&] {
    check_handle(comm);
    const int number = static_cast<int>(op);
    if (plait::reduce_op_of_number(number)) {
      refuse(plaitInvalidArgument, "op is ", number, ", one of the library's own; there is nothing to destroy");
    }
    if (comm->operations.remove(op)) return;
    refuse(plaitInvalidArgument, "op is ", number,
           "; comm has no such operation: it was destroyed, or made for another communicator, or never made");
  });
}
