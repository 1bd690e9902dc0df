// Draws plans as SVG.
#include "plan/picture.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "plan/arrows.hpp"
#include "plan/layout.hpp"
#include "plan/shorthand.hpp"
#include "plan/svg.hpp"

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
// Gaps of many queues: one without arrows, and one whose arrows go far. A bus and what is between two take a lane.
constexpr double kIdleGap = 5, kHighestGap = 90, kWideToHigh = 10, kBusLane = 9;
constexpr double kDotBelow = 8;

enum class Completeness { kRaw, kUnfinished, kFinished };

class Picture {
 public:
  explicit Picture(const VerifiedPlan& verified)
      : plan_(verified.plan()), report_(verified.report()), layout_(lay_out(plan_)) {
    shown_ranks_ = std::min(plan_.rank_count(), kMaxPictureRanks);
    shown_gaps_ = std::min(layout_.gaps, kMaxPictureRows);
    scale_ = shown_queues() <= kMostLabelledQueues && shown_ranks_ <= kMaxLabelledRanks ? kLabelled : kDense;
    place_columns();
    arrows_ = arrows_of(plan_, layout_);
    std::erase_if(arrows_, [&](const Arrow& it) { return !is_shown(it); });
    if (!scale_.labels) {
      FewArrows few = thinned_out(arrows_);
      arrows_ = std::move(few.arrows);
      lay_buses(few.buses);
    }
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
    draw_arrows();
    draw_boxes();
    draw_legend(legend_top);
    out_ << "</svg>\n";
    return out_.str();
  }

 private:
  // A bus with its place: `lane` of its gap, from one column to another.
  struct LaidBus {
    Bus bus;
    int lane = 0;
    double left = 0, right = 0;
  };

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
    place_gaps();
    double y = kTitleHeight + kHeaderHeight;
    for (int row = 0; row <= shown_gaps_; ++row) {
      y += gap_height_[row];
      row_top_.push_back(y);
      if (row < shown_gaps_) y += used[row] ? scale_.box_height : kEmptyRow;
    }
  }

  // A gap between many queues is as high as its longest arrow needs, so that arrows beside it can be told apart.
  void place_gaps() {
    gap_height_.assign(shown_gaps_ + 1, scale_.gap);
    if (scale_.labels) return;
    std::fill(gap_height_.begin(), gap_height_.end(), kIdleGap);
    for (const Arrow& it : arrows_) {
      const double wide = std::abs(queue_center(it.from) - queue_center(it.to));
      double& high = gap_height_[it.first_gap];
      high = std::max(high, std::clamp(wide / kWideToHigh, scale_.gap, kHighestGap));
    }
    for (const LaidBus& it : buses_) {
      double& high = gap_height_[it.bus.gap];
      high = std::max(high, kBusLane * (it.lane + 2));
    }
  }

  // Buses of one gap that would cover each other are laid side by side.
  void lay_buses(const std::vector<Bus>& buses) {
    std::map<std::pair<int, int>, double> ends;  // of what is laid already, by gap and lane
    std::vector<LaidBus> order;
    for (const Bus& it : buses) {
      LaidBus laid{it, 0, width_, 0};
      for (const auto& columns : {it.from, it.to}) {
        for (const PictureColumn& column : columns) {
          laid.left = std::min(laid.left, queue_center(column));
          laid.right = std::max(laid.right, queue_center(column));
        }
      }
      order.push_back(std::move(laid));
    }
    std::stable_sort(order.begin(), order.end(), [](const LaidBus& a, const LaidBus& b) { return a.left < b.left; });
    for (LaidBus& it : order) {
      while (ends.contains({it.bus.gap, it.lane}) && ends[{it.bus.gap, it.lane}] >= it.left) ++it.lane;
      ends[{it.bus.gap, it.lane}] = it.right;
    }
    buses_ = std::move(order);
  }

  static bool is_box(const Operation& o) { return o.kind != OpKind::kSignal && o.kind != OpKind::kWait; }
  double row_top(int row) const { return row_top_[std::min<size_t>(row, row_top_.size() - 1)]; }
  double gap_top(int gap) const { return row_top(gap) - gap_height_[gap]; }
  bool shown(int rank, int row) const { return rank < shown_ranks_ && row < shown_gaps_; }
  double queue_center(int rank, int queue) const { return rank_left_[rank] + queue_width_ * (queue + 0.5); }
  double queue_center(const PictureColumn& of) const { return queue_center(of.rank, of.queue); }
  // Data that the last row stores is shown below it.
  bool is_shown(const Arrow& it) const {
    const int last = it.kind == ArrowKind::kStored ? it.last_gap - 1 : it.last_gap;
    return layout_.at(it.operation) < shown_gaps_ && shown(it.from.rank, 0) && shown(it.to.rank, last);
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

  // Few arrows are bent, so that they leave and reach boxes straight. Many are straight, so that they can be told
  // apart.
  void line(double x0, double y0, double x1, double y1, const std::string& style) {
    out_ << "<path d=\"M" << px(x0) << " " << px(y0);
    if (scale_.labels) {
      const double bend = (y1 - y0) * 0.55;
      out_ << "C" << px(x0) << " " << px(y0 + bend) << " " << px(x1) << " " << px(y1 - bend) << " " << px(x1) << " "
           << px(y1);
    } else {
      out_ << "L" << px(x1) << " " << px(y1);
    }
    out_ << "\" fill=\"none\" " << style << "/>\n";
  }

  // Draws an arrow from its first gap to its last: across in the first one, then down beside the boxes.
  void hop(const Arrow& it, double offset, const std::string& style) {
    const double x0 = queue_center(it.from) + offset, x1 = queue_center(it.to) + offset;
    if (it.first_gap == it.last_gap) return line(x0, gap_top(it.first_gap), x1, row_top(it.last_gap) - 1, style);
    const double side = queue_center(it.to) + queue_width_ / 2 - (scale_.labels ? 5 : 1);
    const double turn = row_top(it.first_gap), y0 = gap_top(it.first_gap);
    const double last = gap_top(it.last_gap), y1 = row_top(it.last_gap) - 1;
    if (!scale_.labels) {
      out_ << "<path d=\"M" << px(x0) << " " << px(y0) << "L" << px(side) << " " << px(turn) << "V" << px(last) << "L"
           << px(x1) << " " << px(y1) << "\" fill=\"none\" " << style << "/>\n";
      return;
    }
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
  // Where arrows are many, those of data have the colour of their chunk.
  std::string style_of(ArrowKind kind, int chunk) const {
    switch (kind) {
      case ArrowKind::kSignal:
        return join("stroke=\"#94a3b8\" stroke-width=\"", scale_.labels ? "1" : "0.6",
                    "\" stroke-dasharray=\"3 2\" marker-end=\"url(#signal)\"");
      case ArrowKind::kMessage:
        return join("stroke=\"#b45309\" stroke-width=\"", scale_.labels ? "2" : "0.9", "\" marker-end=\"url(#net)\"");
      case ArrowKind::kStored:
      case ArrowKind::kLoaded:
        break;
    }
    return scale_.labels
               ? "stroke=\"#334155\" stroke-width=\"1.8\" marker-end=\"url(#data)\""
               : join("stroke=\"", colour(chunk, 0.55, 0.45), "\" stroke-width=\"0.8\" marker-end=\"url(#data)\"");
  }

  // Signals lie below data.
  void draw_arrows() {
    out_ << "<g>\n";
    for (const Arrow& it : arrows_) {
      if (it.kind == ArrowKind::kSignal) hop(it, arrow_shift() * 1.7, style_of(it.kind, 0));
    }
    out_ << "</g>\n";
    for (const LaidBus& it : buses_) draw_bus(it);
    for (const Arrow& it : arrows_) {
      if (it.kind != ArrowKind::kSignal) draw_data(it);
    }
  }

  // Draws bytes that cross to another rank: above a box those that it loads, below it those that it stores.
  void draw_data(const Arrow& it) {
    const double shift = arrow_shift(), from = queue_center(it.from) - shift, to = queue_center(it.to) - shift;
    const double top = gap_top(it.first_gap), bottom = row_top(it.last_gap);
    const std::string style = style_of(it.kind, it.chunk);
    switch (it.kind) {
      case ArrowKind::kMessage:
        return hop(it, -shift, style);
      case ArrowKind::kLoaded:
        dot(from, top + kDotBelow);
        return line(from, top + kDotBelow, to, bottom - 1, style);
      case ArrowKind::kStored:
        return line(from, top, to, bottom - 6, style);
      case ArrowKind::kSignal:
        return;
    }
  }

  // A line across, which ends of boxes above go down to, and from which arrows go down to boxes.
  void draw_bus(const LaidBus& it) {
    const bool is_signal = it.bus.kind == ArrowKind::kSignal;
    const double shift = is_signal ? arrow_shift() * 1.7 : -arrow_shift();
    const double top = gap_top(it.bus.gap), y = top + kBusLane * (it.lane + 1), bottom = row_top(it.bus.gap) - 1;
    const char* ink = is_signal ? "#94a3b8" : it.bus.kind == ArrowKind::kMessage ? "#b45309" : "#334155";
    out_ << "<path class=\"bus\" d=\"M" << px(it.left + shift) << " " << px(y) << "H" << px(it.right + shift)
         << "\" fill=\"none\" stroke=\"" << ink << "\" stroke-width=\"" << (is_signal ? "1" : "2.4") << "\"/>\n";
    for (const PictureColumn& from : it.bus.from) {
      const double x = queue_center(from) + shift;
      if (it.bus.kind == ArrowKind::kLoaded) {
        dot(x, y);
        continue;
      }
      out_ << "<path d=\"M" << px(x) << " " << px(top) << "V" << px(y) << "\" fill=\"none\" stroke=\"" << ink
           << "\" stroke-width=\"0.8\"/>\n";
    }
    const char* marker = is_signal ? "signal" : it.bus.kind == ArrowKind::kMessage ? "net" : "data";
    for (const PictureColumn& to : it.bus.to) {
      out_ << "<path d=\"M" << px(queue_center(to) + shift) << " " << px(y) << "V" << px(bottom)
           << "\" fill=\"none\" stroke=\"" << ink << "\" stroke-width=\"0.8\" marker-end=\"url(#" << marker
           << ")\"/>\n";
    }
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
    const auto arrow = [&](const std::string& how, const std::string& what, double wide) {
      out_ << "<path d=\"M" << px(x) << " " << px(top) << "h24\" fill=\"none\" " << how << "/>\n";
      item(what, wide);
    };
    if (plan_.chunk_count() > 0) {
      arrow(style_of(ArrowKind::kStored, 0), "data, stored", 82);
      if (loads_from_others()) {
        dot(x, top);
        arrow(style_of(ArrowKind::kLoaded, 0), "data, loaded from where the dot is", 206);
      }
    }
    const bool messages =
        std::any_of(plan_.ranks.begin(), plan_.ranks.end(), [](const RankPlan& r) { return r.messages > 0; });
    if (messages) arrow(style_of(ArrowKind::kMessage, 0), "data, by message", 110);
    arrow(style_of(ArrowKind::kSignal, 0), scale_.labels ? "signal" : "signal, where no data goes",
          scale_.labels ? 60 : 160);
    if (!buses_.empty()) {
      out_ << "<path d=\"M" << px(x) << " " << px(top) << "h24\" stroke=\"#334155\" stroke-width=\"2.4\"/>\n";
      item("from each above to each other below", 200);
    }
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
  std::vector<Arrow> arrows_;
  std::vector<LaidBus> buses_;
  int shown_ranks_ = 0, shown_gaps_ = 0;
  Scale scale_;
  double queue_width_ = 0, width_ = 0;
  std::vector<double> rank_left_, row_top_, gap_height_;
  std::ostringstream out_;
};

}  // namespace

std::string to_svg(const VerifiedPlan& plan) { return Picture(plan).svg(); }

}  // namespace plait
