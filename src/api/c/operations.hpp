// Operations that users make: pre-multiplied sums.
#pragma once

#include <map>
#include <mutex>
#include <optional>

#include "plait/plait.h"
#include "runtime/premul_scalar.hpp"

namespace plait::c {

// Numbers of operations leave room for what plaitRedOp_t may come to have. They are used again only when all have been,
// so that an operation that was destroyed, or is another communicator's, is refused.
inline constexpr int kFirstOperation = 1024;

// Whether plaitRedOpCreatePreMulSum may have given this number.
constexpr bool is_user_defined(plaitRedOp_t op) { return static_cast<int>(op) >= kFirstOperation; }

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

}  // namespace plait::c
