// PLAIT_ALGORITHM: the algorithms on which the user insists.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/spec.hpp"
#include "plan/plan.hpp"

namespace plait {

// The way of a message from one GPU's rank to another.
struct MessageChoice {
  std::optional<Engine> direct;  // copies it straight from buffer to buffer; none: through the receiver's FIFO
  bool insists = false;          // the user does
};

// "all_reduce:ring,broadcast:chain(parts=8)", or by the size of the message, each size once:
//
//     all_reduce:0-64K=one_shot,64K-8M=hierarchical_ring(3x2),8M-=nvgroup_ring(parts=4)
//
// A range begins at its first size and ends below its second. Further ranges of a collective need not name it again.
// Algorithms are written as parse_spec() reads them. Messages between two ranks have no plan, but "send_receive:push"
// has the sender store them, and "send_receive:pull" (pull(sm), pull(copy)) the receiver copy them.
class AlgorithmOverrides {
 public:
  struct Entry {
    Collective collective;
    size_t from = 0, below = 0;  // bytes of the message; `below` 0: no end
    AlgorithmSpec spec;
    std::string text;

    bool holds(size_t bytes) const { return bytes >= from && (below == 0 || bytes < below); }
  };

  // Throws kInvalidArgument that names PLAIT_ALGORITHM, with the expected form.
  static AlgorithmOverrides parse(std::string_view text);

  // Null where the user leaves the choice to the library.
  const Entry* find(Collective collective, size_t bytes) const {
    const auto found =
        std::ranges::find_if(entries_, [&](const Entry& it) { return it.collective == collective && it.holds(bytes); });
    return found == entries_.end() ? nullptr : &*found;
  }
  const std::vector<Entry>& entries() const { return entries_; }
  const std::optional<MessageChoice>& for_messages() const { return messages_; }
  const std::string& text() const { return text_; }

 private:
  void add(std::string_view entry, std::optional<Collective>& last);
  void add_range(std::string_view range, std::string_view spec, Collective collective, std::string_view entry);

  std::string text_;
  std::vector<Entry> entries_;
  std::optional<MessageChoice> messages_;
};

}  // namespace plait
