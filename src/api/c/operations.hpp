// Operations that users make: pre-multiplied sums.
#pragma once

#include <map>
#include <mutex>
#include <optional>

#include "plait/plait.h"
#include "runtime/premul_scalar.hpp"

namespace plait::c {

// The operations of one communicator, by number. Any thread may use it.
class Operations {
 public:
  // Refuses more than a communicator may have.
  plaitRedOp_t add(const Scalar& scalar);
  // False where there is none of this number.
  bool remove(plaitRedOp_t op);
  std::optional<Scalar> find(plaitRedOp_t op) const;
  void clear();

 private:
  mutable std::mutex mutex_;
  std::map<int, Scalar> scalars_;
};

// Whether plaitRedOpCreatePreMulSum may have given this number.
bool is_user_defined(plaitRedOp_t op);

}  // namespace plait::c
