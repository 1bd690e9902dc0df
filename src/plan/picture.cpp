// Draws plans as SVG.
#include "plan/picture.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <sstream>
#include <vector>

#include "plan/layout.hpp"
#include "plan/shorthand.hpp"

namespace plait {
namespace {

// All sizes are in pixels.
constexpr double kMargin = 28, kTitleHeight = 64, kHeaderHeight = 44, kEmptyRow = 8, kLegendLine = 24;

// Boxes have words in them where few queues are side by side. Of many, only their colours can be told apart.
constexpr int kMostLabelledQueues = 64;
struct Scale {
  bool labels = true;
  double box_height = 38, gap = 40, rank_gap = 14;
  double between_boxes = 26;  // of neighbouring queues
};
constexpr Scale kLabelled, kDense = {false, 10, 24, 4, 3};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

// Formats a number with at most one decimal, the same on every machine.
std::string px(double value) {
  const int64_t tenths = std::llround(value * 10);
  const std::string sign = tenths < 0 ? "-" : "";
  const int64_t size = tenths < 0 ? -tenths : tenths;
  return sign + std::to_string(size / 10) + (size % 10 != 0 ? join(".", size % 10) : "");
}

// Gives neighbouring chunks colours that are far apart on the wheel, by the golden angle. The colour is #rrggbb, which
// every viewer knows; saturation and lightness are in [0, 1].
std::string colour(int chunk, double saturation, double lightness) {
  const double hue = std::fmod(205 + 137.508 * chunk, 360) / 30;
  std::string text = "#";
  for (const double shift : {0.0, 8.0, 4.0}) {
    const double k = std::fmod(shift + hue, 12);
    const double part =
        lightness - saturation * std::min(lightness, 1 - lightness) * std::max(-1.0, std::min({k - 3, 9 - k, 1.0}));
    const int byte = static_cast<int>(std::lround(part * 255));
    text += "0123456789abcdef"[byte / 16];
    text += "0123456789abcdef"[byte % 16];
  }
  return text;
}

enum class Completeness { kRaw, kUnfinished, kFinished };

class Picture {
 public:
  explicit Picture(const VerifiedPlan& verified)
      : plan_(verified.plan()), report_(verified.report()), layout_(lay_out(plan_)) {
    shown_ranks_ = std::min(plan_.rank_count(), kMaxPictureRanks);
    shown_gaps_ = std::min(layout_.gaps, kMaxPictureRows);
    scale_ = shown_queues() <= kMostLabelledQueues && shown_ranks_ <= kMaxLabelledRanks ? kLabelled : kDense;
    place_columns();
    place_rows();
  }

  std::string svg() {
    const double legend_top = row_top(shown_gaps_) + 26;
    const double height = legend_top + (plan_.chunk_count() == 0 ? 1 : 3) * kLegendLine + kMargin / 2;
    out_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << px(width_) << " " << px(height)
         << "\" width=\"" << px(width_) << "\" height=\"" << px(height)
         << "\" font-family=\"Inter,Helvetica,Arial,sans-serif\">\n";
    define_arrows();
    out_ << "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
    draw_title();
    draw_columns();
    draw_signals();
    draw_data();
    draw_boxes();
    draw_legend(legend_top);
    out_ << "</svg>\n";
    return out_.str();
  }

 private:
  // --- geometry ---

  int columns(int rank) const { return std::max(1, static_cast<int>(plan_.ranks[rank].queues.size())); }

  int shown_queues() const {
    int queues = 0;
    for (int rank = 0; rank < shown_ranks_; ++rank) queues += columns(rank);
    return queues;
  }

  void place_columns() {
    const int queues = shown_queues();
    if (scale_.labels) {
      queue_width_ = queues <= 6 ? 170 : queues <= 10 ? 138 : queues <= 18 ? 112 : 92;
    } else {
      queue_width_ = std::clamp(2400.0 / queues, 6.0, 32.0);
    }
    double x = kMargin;
    for (int rank = 0; rank < shown_ranks_; ++rank) {
      rank_left_.push_back(x);
      x += queue_width_ * columns(rank) + scale_.rank_gap;
    }
    rank_left_.push_back(x);
    width_ = std::max(x - scale_.rank_gap + kMargin, 760.0);
  }

  void place_rows() {
    std::vector<bool> used(shown_gaps_, false);
    for (int rank = 0; rank < shown_ranks_; ++rank) {
      for (size_t queue = 0; queue < plan_.ranks[rank].queues.size(); ++queue) {
        const auto& operations = plan_.ranks[rank].queues[queue].operations;
        for (size_t i = 0; i < operations.size(); ++i) {
          const int row = layout_.position[rank][queue][i];
          if (is_box(operations[i]) && row < shown_gaps_) used[row] = true;
        }
      }
    }
    double y = kTitleHeight + kHeaderHeight;
    for (int row = 0; row < shown_gaps_; ++row) {
      row_top_.push_back(y + scale_.gap);
      y += scale_.gap + (used[row] ? scale_.box_height : kEmptyRow);
    }
    row_top_.push_back(y + scale_.gap);
  }

  static bool is_box(const Operation& o) { return o.kind != OpKind::kSignal && o.kind != OpKind::kWait; }
  double row_top(int row) const { return row_top_[std::min<size_t>(row, row_top_.size() - 1)]; }
  double gap_top(int gap) const { return row_top(gap) - scale_.gap; }
  bool shown(int rank, int row) const { return rank < shown_ranks_ && row < shown_gaps_; }
  double queue_center(int rank, int queue) const { return rank_left_[rank] + queue_width_ * (queue + 0.5); }

  // The memory of a place, as slots or chunks: a range that may overlap with another operation's.
  static ChunkRange memory(const Place& place, const Operation& o) {
    return {has_slots(place.buffer) ? place.slot : o.chunk, o.chunks};
  }
  static bool overlap(const Place& a, const Operation& of_a, const Place& b, const Operation& of_b) {
    if (a.rank != b.rank || a.buffer != b.buffer) return false;
    const ChunkRange one = memory(a, of_a), two = memory(b, of_b);
    return one.first < two.end() && two.first < one.end();
  }

  // Where a rank's arrow begins or ends at the memory of another: at the queue of that rank that reads the place next,
  // below `row`, or that wrote it last, above. Else at queue 0.
  enum class Touch { kReadsNext, kWroteLast };
  double beside(const Place& place, const Operation& o, int row, Touch touch) const {
    int queue = 0, nearest = layout_.gaps + 1;
    const auto& queues = plan_.ranks[place.rank].queues;
    for (size_t l = 0; l < queues.size(); ++l) {
      const auto& operations = queues[l].operations;
      for (size_t i = 0; i < operations.size(); ++i) {
        const int at = layout_.position[place.rank][l][i];
        const int distance = touch == Touch::kReadsNext ? at - row : row - at;
        if (distance <= 0 || distance >= nearest) continue;
        const auto& places = touch == Touch::kReadsNext ? operations[i].sources : operations[i].destinations;
        const bool touches = std::any_of(places.begin(), places.end(),
                                         [&](const Place& it) { return overlap(it, operations[i], place, o); });
        if (!touches) continue;
        nearest = distance;
        queue = static_cast<int>(l);
      }
    }
    return queue_center(place.rank, queue);
  }

  // --- parts ---

  void define_arrows() {
    const auto marker = [&](const char* id, const char* fill, int size) {
      out_ << "<marker id=\"" << id << "\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerUnits=\"userSpaceOnUse\""
           << " markerWidth=\"" << size << "\" markerHeight=\"" << size
           << "\" orient=\"auto\"><path d=\"M0 0.8L10 5L0 9.2z\" fill=\"" << fill << "\"/></marker>\n";
    };
    out_ << "<defs>\n";
    marker("data", "#334155", scale_.labels ? 9 : 5);
    marker("signal", "#94a3b8", scale_.labels ? 6 : 4);
    marker("net", "#b45309", scale_.labels ? 9 : 5);
    out_ << "</defs>\n";
  }

  void text(double x, double y, const std::string& what, const char* style) {
    out_ << "<text x=\"" << px(x) << "\" y=\"" << px(y) << "\" " << style << ">" << escaped(what) << "</text>\n";
  }

  void draw_title() {
    text(kMargin, 32, join(plan_.algorithm, ": ", name(plan_.collective)),
         "font-size=\"20\" font-weight=\"600\" fill=\"#0f172a\"");
    std::string facts = join(plan_.rank_count(), plan_.rank_count() == 1 ? " rank" : " ranks");
    if (has_root(plan_.collective)) facts += join(", root ", plan_.root);
    if (plan_.chunk_count() > 0)
      facts += join(", ", plan_.chunk_count(), plan_.chunk_count() == 1 ? " chunk" : " chunks");
    facts += join(", ", report_.steps, report_.steps == 1 ? " step" : " steps", " between ranks, access ",
                  name(plan_.access), plan_.in_place ? ", in place or not" : ", never in place");
    if (shown_ranks_ < plan_.rank_count()) {
      facts += join("; ranks ", shown_ranks_, " to ", plan_.rank_count() - 1, " are not drawn");
    }
    if (shown_gaps_ < layout_.gaps) facts += join("; ", layout_.gaps - shown_gaps_, " more rows are not drawn");
    text(kMargin, 52, facts, "font-size=\"12.5\" fill=\"#475569\"");
  }

  void draw_columns() {
    const double top = kTitleHeight, bottom = row_top(shown_gaps_);
    for (int rank = 0; rank < shown_ranks_; ++rank) {
      const double left = rank_left_[rank], wide = rank_left_[rank + 1] - scale_.rank_gap - left;
      out_ << "<rect x=\"" << px(left) << "\" y=\"" << px(top) << "\" width=\"" << px(wide) << "\" height=\""
           << px(bottom - top) << "\" rx=\"8\" fill=\"" << (plan_.node_of[rank] % 2 == 0 ? "#f1f5f9" : "#f5f3ec")
           << "\"/>\n";
      text(left + wide / 2, top + 19, heading(rank, wide),
           "font-size=\"13\" font-weight=\"600\" fill=\"#0f172a\" text-anchor=\"middle\"");
      const auto& queues = plan_.ranks[rank].queues;
      for (size_t queue = 0; queue < queues.size(); ++queue) {
        const double x = queue_center(rank, static_cast<int>(queue));
        const char* engine = name(queues[queue].engine);
        if (scale_.labels) {
          text(x, top + 35, queues.size() == 1 ? engine : join("queue ", queue, " · ", engine),
               "font-size=\"10.5\" fill=\"#64748b\" text-anchor=\"middle\"");
        }
        out_ << "<path d=\"M" << px(x) << " " << px(top + kHeaderHeight) << "V" << px(bottom - 8)
             << "\" stroke=\"#cbd5e1\" stroke-width=\"1\"/>\n";
      }
    }
  }

  // The first of these that fits, in letters of the headings and of the boxes, which are bold; else the last.
  static std::string first_that_fits(std::initializer_list<std::string> forms, double letter, double wide) {
    for (const std::string& form : forms) {
      if (static_cast<double>(form.size()) * letter <= wide) return form;
    }
    return *(forms.end() - 1);
  }

  std::string heading(int rank, double wide) const {
    const int node = plan_.node_of[rank];
    const bool nodes = plan_.node_of.front() != plan_.node_of.back();
    constexpr double kLetter = 8.2;
    if (!nodes) return first_that_fits({join("rank ", rank), std::to_string(rank)}, kLetter, wide);
    return first_that_fits({join("rank ", rank, " · node ", node), join("r", rank, " · n", node), std::to_string(rank)},
                           kLetter, wide);
  }

  static std::string chunk_label(const Operation& o, double wide) {
    if (o.chunks == 0) return "no data";
    return first_that_fits({join(o.chunks == 1 ? "chunk " : "chunks ", chunk_text(o)), chunk_text(o)}, 7.4, wide);
  }

  void line(double x0, double y0, double x1, double y1, const char* style) {
    const double bend = (y1 - y0) * 0.55;
    out_ << "<path d=\"M" << px(x0) << " " << px(y0) << "C" << px(x0) << " " << px(y0 + bend) << " " << px(x1) << " "
         << px(y1 - bend) << " " << px(x1) << " " << px(y1) << "\" fill=\"none\" " << style << "/>\n";
  }

  // Draws from the gap `from` of one queue to the gap `to` of another: across in the first gap, then down beside the
  // boxes.
  void hop(const OperationId& a, int from, const OperationId& b, int to, double offset, const char* style) {
    const double x0 = queue_center(a.rank, a.queue) + offset, x1 = queue_center(b.rank, b.queue) + offset;
    if (from == to) return line(x0, gap_top(from), x1, row_top(to) - 1, style);
    const double side = queue_center(b.rank, b.queue) + queue_width_ / 2 - 5;
    const double turn = row_top(from), y0 = gap_top(from), last = gap_top(to), y1 = row_top(to) - 1;
    out_ << "<path d=\"M" << px(x0) << " " << px(y0) << "C" << px(x0) << " " << px((y0 + turn) / 2) << " " << px(side)
         << " " << px((y0 + turn) / 2) << " " << px(side) << " " << px(turn) << "V" << px(last) << "C" << px(side)
         << " " << px((last + y1) / 2) << " " << px(x1) << " " << px((last + y1) / 2) << " " << px(x1) << " " << px(y1)
         << "\" fill=\"none\" " << style << "/>\n";
  }

  template <class Visit>
  void for_each_shown(Visit visit) const {
    for (int rank = 0; rank < shown_ranks_; ++rank) {
      for (size_t queue = 0; queue < plan_.ranks[rank].queues.size(); ++queue) {
        const auto& operations = plan_.ranks[rank].queues[queue].operations;
        for (size_t i = 0; i < operations.size(); ++i) {
          const OperationId id{rank, static_cast<int>(queue), static_cast<int>(i)};
          if (layout_.at(id) < shown_gaps_) visit(id, operations[i]);
        }
      }
    }
  }

  // Data arrives a little left of the middle of a queue, signals a little right.
  double arrow_shift() const { return scale_.labels ? 6 : 1; }
  const char* data_style() const {
    return scale_.labels ? "stroke=\"#334155\" stroke-width=\"1.8\" marker-end=\"url(#data)\""
                         : "stroke=\"#334155\" stroke-width=\"0.7\" marker-end=\"url(#data)\"";
  }
  const char* message_style() const {
    return scale_.labels ? "stroke=\"#b45309\" stroke-width=\"2\" marker-end=\"url(#net)\""
                         : "stroke=\"#b45309\" stroke-width=\"0.9\" marker-end=\"url(#net)\"";
  }

  void draw_signals() {
    out_ << "<g>\n";
    for_each_shown([&](const OperationId& id, const Operation& o) {
      if (o.kind != OpKind::kSignal) return;
      const OperationId& to = layout_.pairing.signals[o.peer_rank][o.number].to;
      if (!shown(to.rank, layout_.at(to))) return;
      hop(id, layout_.at(id), to, layout_.at(to), arrow_shift() * 1.7,
          "stroke=\"#94a3b8\" stroke-width=\"1\" stroke-dasharray=\"3 2\" marker-end=\"url(#signal)\"");
    });
    out_ << "</g>\n";
  }

  // Draws bytes that cross to another rank: above a box those that it loads, below it those that it stores.
  void draw_data() {
    const char* style = data_style();
    for_each_shown([&](const OperationId& id, const Operation& o) {
      if (!is_box(o)) return;
      const int row = layout_.at(id);
      const double shift = arrow_shift(), x = queue_center(id.rank, id.queue) - shift;
      const double top = row_top(row), bottom = top + scale_.box_height;
      if (o.kind == OpKind::kSend) {
        const OperationId& to = layout_.pairing.messages[o.peer_rank][o.number].to;
        if (shown(to.rank, layout_.at(to))) {
          hop(id, row + 1, to, layout_.at(to), -shift, message_style());
        }
        return;
      }
      for (const Place& place : o.sources) {
        if (place.rank == id.rank || place.rank >= shown_ranks_) continue;
        const double from = beside(place, o, row, Touch::kWroteLast) - shift, high = top - scale_.gap + 8;
        dot(from, high);
        line(from, high, x, top - 1, style);
      }
      for (const Place& place : o.destinations) {
        if (place.rank == id.rank || place.rank >= shown_ranks_) continue;
        line(x, bottom, beside(place, o, row, Touch::kReadsNext) - shift, bottom + scale_.gap - 6, style);
      }
    });
  }

  void dot(double x, double y) {
    out_ << "<circle cx=\"" << px(x) << "\" cy=\"" << px(y) << "\" r=\"" << (scale_.labels ? "2.6" : "1.3")
         << "\" fill=\"#334155\"/>\n";
  }

  Completeness stage_of(const OperationId& id) const {
    const ReduceFacts& facts = report_.facts[id.rank][id.queue][id.operation];
    if (facts.result_is_partial) return Completeness::kUnfinished;
    return facts.finishes ? Completeness::kFinished : Completeness::kRaw;
  }

  void box(double x, double y, double wide, double high, int chunk, Completeness stage) {
    const double lightness = stage == Completeness::kFinished ? 0.74 : stage == Completeness::kUnfinished ? 0.87 : 0.97;
    out_ << "<rect x=\"" << px(x) << "\" y=\"" << px(y) << "\" width=\"" << px(wide) << "\" height=\"" << px(high)
         << "\" rx=\"5\" fill=\"" << colour(chunk, 0.78, lightness) << "\" stroke=\"" << colour(chunk, 0.55, 0.45)
         << "\" stroke-width=\"" << (stage == Completeness::kFinished ? "2" : "1.2") << "\"/>\n";
  }

  void draw_boxes() {
    for_each_shown([&](const OperationId& id, const Operation& o) {
      if (!is_box(o)) return;
      const double wide = queue_width_ - scale_.between_boxes;
      const double x = queue_center(id.rank, id.queue), y = row_top(layout_.at(id));
      out_ << "<g><title>" << escaped(join(to_text(id), ": ", to_text(o))) << "</title>\n";
      box(x - wide / 2, y, wide, scale_.box_height, o.chunk, stage_of(id));
      if (scale_.labels) label(o, id.rank, x, y, wide);
      out_ << "</g>\n";
    });
  }

  void label(const Operation& o, int rank, double x, double y, double wide) {
    text(x, y + 15.5, chunk_label(o, wide - 4),
         "font-size=\"11.5\" font-weight=\"600\" fill=\"#0f172a\" text-anchor=\"middle\"");
    text(x, y + 30, fitting(o, rank, wide - 8),
         "font-size=\"10\" fill=\"#1e293b\" text-anchor=\"middle\" font-family=\"ui-monospace,Menlo,DejaVu Sans "
         "Mono,monospace\"");
  }

  // Writes as much of the movement as fits. A letter of the small font is 6 pixels wide.
  static std::string fitting(const Operation& o, int rank, double wide) {
    for (const size_t most : {4, 3, 2, 1}) {
      const std::string whole = movement(o, rank, most, "→");
      if (static_cast<double>(whole.size() - 2) * 6 <= wide) return whole;  // the arrow has three bytes
    }
    return join(o.sources.size(), " → ", o.destinations.size());
  }

  void draw_legend(double top) {
    double x = kMargin;
    const char* style = "font-size=\"11.5\" fill=\"#334155\"";
    const auto item = [&](const std::string& what, double wide) {
      text(x + 32, top + 4, what, style);
      x += 32 + wide;
    };
    const auto sample = [&](Completeness stage, const std::string& what, double wide) {
      box(x, top - 8, 24, 16, 0, stage);
      item(what, wide);
    };
    if (reduces(plan_.collective)) {
      sample(Completeness::kRaw, "copy", 52);
      sample(Completeness::kUnfinished, "unfinished reduction", 136);
      sample(Completeness::kFinished, "finishes the reduction", 146);
    } else if (plan_.chunk_count() > 0) {
      sample(Completeness::kRaw, "copy", 52);
    }
    const auto arrow = [&](const char* how, const std::string& what, double wide) {
      out_ << "<path d=\"M" << px(x) << " " << px(top) << "h24\" fill=\"none\" " << how << "/>\n";
      item(what, wide);
    };
    if (plan_.chunk_count() > 0) {
      arrow(data_style(), "data, stored", 82);
      if (loads_from_others()) {
        dot(x, top);
        arrow(data_style(), "data, loaded from where the dot is", 206);
      }
    }
    const bool messages =
        std::any_of(plan_.ranks.begin(), plan_.ranks.end(), [](const RankPlan& r) { return r.messages > 0; });
    if (messages) arrow(message_style(), "data, by message", 110);
    arrow("stroke=\"#94a3b8\" stroke-width=\"1\" stroke-dasharray=\"3 2\" marker-end=\"url(#signal)\"", "signal", 60);
    draw_places(top + kLegendLine, style);
  }

  bool loads_from_others() const {
    bool loads = false;
    for_each_shown([&](const OperationId& id, const Operation& o) {
      if (o.kind != OpKind::kReduce) return;
      for (const Place& place : o.sources) loads |= place.rank != id.rank;
    });
    return loads;
  }

  void draw_places(double y, const char* style) {
    if (plan_.chunk_count() == 0) return;
    text(kMargin, y + 4,
         scale_.labels ? "in, out: the rank's input and output; s3, h3: slot 3 of its scratch and of its host buffer; "
                         "r2.s3: slot 3 of rank 2"
                       : "each number is a rank; point at a box to read its operation",
         style);
    double x = kMargin;
    const int shown = std::min(plan_.chunk_count(), 16);
    const std::string rule = chunk_rule(plan_);
    for (int chunk = 0; chunk < shown; ++chunk) {
      box(x, y + kLegendLine - 8, 16, 16, chunk, Completeness::kFinished);
      x += 20;
    }
    text(x + 4, y + kLegendLine + 4,
         join(plan_.chunk_count() == 1 ? "chunk 0" : join("chunks 0 to ", shown - 1),
              shown < plan_.chunk_count() ? join(" of ", plan_.chunk_count()) : "", rule.empty() ? "" : "; ", rule),
         style);
  }

  const Plan& plan_;
  const PlanReport& report_;
  const PlanLayout layout_;
  int shown_ranks_ = 0, shown_gaps_ = 0;
  Scale scale_;
  double queue_width_ = 0, width_ = 0;
  std::vector<double> rank_left_, row_top_;
  std::ostringstream out_;
};

}  // namespace

std::string to_svg(const VerifiedPlan& plan) { return Picture(plan).svg(); }

}  // namespace plait
