// Adds digit by digit.
#include "plan/node_shifts.hpp"

#include <limits>
#include <utility>

#include "base/error.hpp"

namespace plait {

NodeShifts::NodeShifts(int ranks, std::vector<NodeDigit> digits) : digits_(std::move(digits)) {
  int64_t nodes = 1;
  for (const NodeDigit& digit : digits_) {
    const bool fits = digit.factor >= 1 && digit.factor <= std::numeric_limits<uint16_t>::max();
    if (fits) weights_.push_back(static_cast<int>(nodes));
    nodes *= digit.factor;
    if (!fits || nodes > ranks) {
      fail(ErrorCode::kInvalidArgument, text(), " do not fit ", ranks, " ranks");
    }
  }
  nodes_ = static_cast<int>(nodes);
  if (ranks < 1 || ranks % nodes_ != 0) {
    fail(ErrorCode::kInvalidArgument, ranks, " ranks are not spread evenly over ", nodes_, " nodes");
  }
  ranks_per_node_ = ranks / nodes_;
  for (int rank = 0; rank < ranks; ++rank) node_of_.push_back(rank / ranks_per_node_);
  for (int node = 0; node < nodes_; ++node) {
    int representative = 0;
    for (size_t i = 0; i < digits_.size(); ++i) {
      const int value = node / weights_[i] % digits_[i].factor;
      values_.push_back(static_cast<uint16_t>(value));
      if (digits_[i].is_fixed) representative += value * weights_[i];
    }
    representative_.push_back(representative);
  }
  for (const NodeDigit& digit : digits_) {
    if (!digit.is_fixed) shifts_ *= digit.factor;
  }
}

int NodeShifts::shifted_node(int node, int like) const {
  const uint16_t* mine = digits_of(node);
  const uint16_t* by = digits_of(like);
  int image = node;
  for (size_t i = 0; i < digits_.size(); ++i) {
    if (digits_[i].is_fixed || by[i] == 0) continue;
    image += (mine[i] + by[i] < digits_[i].factor ? by[i] : by[i] - digits_[i].factor) * weights_[i];
  }
  return image;
}

int NodeShifts::unshifted_node(int node, int like) const {
  if (node == like) return representative_node(node);
  const uint16_t* mine = digits_of(node);
  const uint16_t* by = digits_of(like);
  int image = node;
  for (size_t i = 0; i < digits_.size(); ++i) {
    if (digits_[i].is_fixed || by[i] == 0) continue;
    image -= (mine[i] >= by[i] ? by[i] : by[i] - digits_[i].factor) * weights_[i];
  }
  return image;
}

std::vector<int> NodeShifts::generators() const {
  std::vector<int> found;
  for (size_t i = 0; i < digits_.size(); ++i) {
    if (!digits_[i].is_fixed && digits_[i].factor > 1) found.push_back(weights_[i]);
  }
  return found;
}

std::string NodeShifts::text() const {
  std::string factors;
  for (const NodeDigit& digit : digits_) {
    if (digit.factor == 1) continue;
    factors += factors.empty() ? "" : " x ";
    factors += digit.is_fixed ? join("(", digit.factor, ")") : std::to_string(digit.factor);
  }
  return join("shifts of ", factors.empty() ? "1" : factors, " nodes");
}

}  // namespace plait
