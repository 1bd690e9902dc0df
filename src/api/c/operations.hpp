// Operations that users make: sums of products with a scalar.
#pragma once

#include <map>
#include <mutex>
#include <optional>

#include "plait/plait.h"
#include "runtime/premul_scalar.hpp"

namespace plait::c {

// Those of one communicator, by their numbers. Any thread.
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

// Whether it is a number that plaitRedOpCreatePreMulSum may have given.
bool is_user_defined(plaitRedOp_t op);

}  // namespace plait::c
