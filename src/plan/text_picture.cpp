// Draws plans as pictures of letters.
#include <algorithm>
#include <sstream>
#include <vector>

#include "plan/layout.hpp"
#include "plan/picture.hpp"
#include "plan/shorthand.hpp"

namespace plait {
namespace {

using Lines = std::vector<std::string>;

// Collects the lines of each rank in each row. If no data moves, collects the signals in each gap.
class TextPicture {
 public:
  explicit TextPicture(const Plan& plan) : plan_(plan), layout_(lay_out(plan)) {
    shown_ranks_ = std::min(plan.rank_count(), kMaxTextPictureRanks);
    shown_rows_ = std::min(signals_only() ? layout_.gaps : layout_.rows, kMaxTextPictureRows);
    cells_.assign(shown_rows_, std::vector<Lines>(shown_ranks_));
    for (int rank = 0; rank < shown_ranks_; ++rank) {
      for (size_t queue = 0; queue < plan.ranks[rank].queues.size(); ++queue) fill(rank, static_cast<int>(queue));
    }
  }

  std::string text() const {
    std::ostringstream out;
    out << plan_.algorithm << ": " << name(plan_.collective) << " over " << plan_.rank_count()
        << (plan_.rank_count() == 1 ? " rank\n" : " ranks\n");
    if (const std::string rule = chunk_rule(plan_); !rule.empty()) out << rule << "\n";
    std::vector<size_t> widths;
    for (int rank = 0; rank < shown_ranks_; ++rank) widths.push_back(width(rank));
    std::vector<Lines> head;
    for (int rank = 0; rank < shown_ranks_; ++rank) head.push_back({join("rank ", rank)});
    append_row(out, "step", head, widths);
    out << "----";
    for (const size_t w : widths) out << "-+-" << std::string(w, '-');
    out << "\n";
    for (int row = 0; row < shown_rows_; ++row) append_row(out, std::to_string(row), cells_[row], widths);
    const int rows = signals_only() ? layout_.gaps : layout_.rows;
    if (rows > shown_rows_) out << "... and " << rows - shown_rows_ << " more steps\n";
    if (plan_.rank_count() > shown_ranks_) out << "... and " << plan_.rank_count() - shown_ranks_ << " more ranks\n";
    return out.str();
  }

 private:
  bool signals_only() const { return layout_.rows == 0; }

  void fill(int rank, int queue) {
    const auto& operations = plan_.ranks[rank].queues[queue].operations;
    for (size_t i = 0; i < operations.size(); ++i) {
      const int row = layout_.position[rank][queue][i];
      if (row >= shown_rows_) continue;
      const Operation& o = operations[i];
      const bool signal = o.kind == OpKind::kSignal, wait = o.kind == OpKind::kWait;
      if (!signal && !wait) cells_[row][rank].push_back(join(chunk_text(o), ": ", movement(o, rank, 3, ">")));
      if (signals_only() && signal) cells_[row][rank].push_back(join("signal r", o.peer_rank));
      if (signals_only() && wait) cells_[row][rank].push_back(join("wait for r", o.peer_rank));
    }
  }

  size_t width(int rank) const {
    size_t width = join("rank ", rank).size();
    for (const auto& row : cells_) {
      for (const std::string& line : row[rank]) width = std::max(width, line.size());
    }
    return width;
  }

  static void append_row(std::ostream& out, const std::string& label, const std::vector<Lines>& cells,
                         const std::vector<size_t>& widths) {
    size_t lines = 1;
    for (const Lines& cell : cells) lines = std::max(lines, cell.size());
    for (size_t line = 0; line < lines; ++line) {
      std::string text = line == 0 ? std::string(4 - std::min<size_t>(4, label.size()), ' ') + label : "    ";
      for (size_t rank = 0; rank < cells.size(); ++rank) {
        const std::string cell = line < cells[rank].size() ? cells[rank][line] : "";
        text += " | " + cell + std::string(widths[rank] - cell.size(), ' ');
      }
      text.erase(text.find_last_not_of(' ') + 1);
      out << text << "\n";
    }
  }

  const Plan& plan_;
  const PlanLayout layout_;
  int shown_ranks_ = 0, shown_rows_ = 0;
  std::vector<std::vector<Lines>> cells_;  // [row][rank]
};

}  // namespace

std::string to_text_picture(const Plan& plan) { return TextPicture(plan).text(); }

}  // namespace plait
