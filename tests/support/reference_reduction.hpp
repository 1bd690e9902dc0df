// The result that a reducing plan must give to the bit: the plan is executed on expressions instead of numbers, and
// these are evaluated element by element with the plain arithmetic of the reduce's oracle. It uses nothing of
// src/runtime/host.
#pragma once

#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "base/reductions.hpp"
#include "property/interpreter.hpp"
#include "unit/runtime/host/reduce_oracle.hpp"

namespace plait::test {

// Contributions combined in some order: the content of a place of the plan.
class Expression {
 public:
  Expression() = default;
  // The contribution of a rank; negative: a place that nobody wrote.
  explicit Expression(int rank) : rank_(rank) {}

  Expression& operator+=(const Expression& other);

  bool is_contribution() const { return pair_ == nullptr; }
  int rank() const {
    if (rank_ < 0) throw std::logic_error("the plan uses a place that nobody wrote");
    return rank_;
  }

  template <class T, class Read>
  T evaluate(ReduceOp op, const Read& read) const {
    if (!pair_) return read(rank());
    const T value = left().template evaluate<T>(op, read);
    return oracle::combine<T>(op, value, right().template evaluate<T>(op, read));
  }

 private:
  struct Pair;
  const Expression& left() const;
  const Expression& right() const;
  explicit Expression(std::shared_ptr<const Pair> pair) : pair_(std::move(pair)) {}

  int rank_ = -1;
  std::shared_ptr<const Pair> pair_;
};

struct Expression::Pair {
  Pair(Expression l, Expression r) : left(std::move(l)), right(std::move(r)) {}
  Expression left, right;
};

inline Expression& Expression::operator+=(const Expression& other) {
  *this = Expression(std::make_shared<const Pair>(*this, other));
  return *this;
}
inline const Expression& Expression::left() const { return pair_->left; }
inline const Expression& Expression::right() const { return pair_->right; }

class ReferenceReduction {
 public:
  explicit ReferenceReduction(const Plan& plan) : ranks_(plan.rank_count()) {
    Interpreter<Expression> interpreter(plan, false);
    for (int rank = 0; rank < ranks_; ++rank) {
      for (int chunk = 0; chunk < plan.chunk_count(); ++chunk) interpreter.input(rank, chunk, 0) = Expression(rank);
    }
    std::mt19937_64 random(1);
    interpreter.run(random);
    for (int chunk = 0; chunk < plan.chunk_count(); ++chunk) {
      const int owner = plan.collective == Collective::kReduce          ? plan.root
                        : plan.collective == Collective::kReduceScatter ? chunk / plan.chunks_per_block
                                                                        : 0;
      results_.push_back(interpreter.output(owner, chunk, 0));
    }
  }

  // The bits of an element of chunk `chunk`; codes[r] are those of rank r's contribution.
  uint64_t result(int chunk, DataType type, ReduceOp op, const std::vector<uint64_t>& codes) const {
    const Expression& expression = results_.at(static_cast<size_t>(chunk));
    if (expression.is_contribution()) return codes.at(static_cast<size_t>(expression.rank()));
    if (accumulates_in_float32(type)) return narrow_result(expression, format_of(type), op, codes);
    switch (type) {
      case DataType::kInt8:
        return native_result<int8_t>(expression, op, codes);
      case DataType::kUint8:
        return native_result<uint8_t>(expression, op, codes);
      case DataType::kInt16:
        return native_result<int16_t>(expression, op, codes);
      case DataType::kUint16:
        return native_result<uint16_t>(expression, op, codes);
      case DataType::kInt32:
        return native_result<int32_t>(expression, op, codes);
      case DataType::kUint32:
        return native_result<uint32_t>(expression, op, codes);
      case DataType::kInt64:
        return native_result<int64_t>(expression, op, codes);
      case DataType::kUint64:
        return native_result<uint64_t>(expression, op, codes);
      case DataType::kFloat32:
        return native_result<float>(expression, op, codes);
      case DataType::kFloat64:
        return native_result<double>(expression, op, codes);
      default:
        throw std::logic_error("a narrow type is not native");
    }
  }

 private:
  static const oracle::Format& format_of(DataType type) {
    static const oracle::Format float16(DataType::kFloat16), bfloat16(DataType::kBfloat16);
    static const oracle::Format e4m3(DataType::kFloat8E4M3), e5m2(DataType::kFloat8E5M2);
    return type == DataType::kFloat16      ? float16
           : type == DataType::kBfloat16   ? bfloat16
           : type == DataType::kFloat8E4M3 ? e4m3
                                           : e5m2;
  }

  uint64_t narrow_result(const Expression& expression, const oracle::Format& format, ReduceOp op,
                         const std::vector<uint64_t>& codes) const {
    const float total = expression.evaluate<float>(
        op, [&](int rank) { return format.decode(static_cast<uint32_t>(codes.at(static_cast<size_t>(rank)))); });
    return format.encode(oracle::divide<float>(total, divisor_of(op, ranks_)));
  }

  template <class T>
  uint64_t native_result(const Expression& expression, ReduceOp op, const std::vector<uint64_t>& codes) const {
    T total = expression.evaluate<T>(op, [&](int rank) {
      T value;
      std::memcpy(&value, &codes.at(static_cast<size_t>(rank)), sizeof(value));
      return value;
    });
    total = oracle::divide<T>(total, divisor_of(op, ranks_));
    if constexpr (std::is_floating_point_v<T>) {
      if (total != total) total = oracle::the_nan<T>();
    }
    uint64_t code = 0;
    std::memcpy(&code, &total, sizeof(total));
    return code;
  }

  const int ranks_;
  std::vector<Expression> results_;  // by chunk
};

}  // namespace plait::test
