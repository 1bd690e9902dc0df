// Chrome's trace event format: complete events ("X"), names of rows ("M") and flows ("s" to "f").
#include "model/simulator/trace.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "base/json.hpp"
#include "model/simulator/report.hpp"
#include "plan/text.hpp"

namespace plait {
namespace {

constexpr size_t kEventWidth = 2000;  // columns, so that each event is a line
constexpr double kPerSecond = 1e6;    // microseconds
constexpr double kNanosecond = 1e-9;

// Numbers of the processes that a timeline shows, in the order of their rows.
constexpr int kPathProcess = 1, kLinksProcess = 2, kFirstRank = 3;

// Rounds to a picosecond.
double microseconds(double seconds) { return std::round(seconds * kPerSecond * 1e6) / 1e6; }

class TraceWriter {
 public:
  TraceWriter(const Plan& plan, const SimulatorProgram& program, const SimulatedMachine& machine,
              const SimulatedRun& run, const CriticalPath& path, const Topology& topology, const Placement& placement)
      : plan_(plan), program_(program), run_(run), path_(path), topology_(topology), placement_(placement) {
    find_waits(machine);
  }

  std::string write() {
    json_.begin_object().key("displayTimeUnit").value("ns").key("traceEvents").begin_array();
    write_path();
    write_links();
    for (const SimulatedQueue& queue : program_.queues) write(queue);
    json_.end().end();
    return json_.take();
  }

 private:
  void name_row(const char* what, int process, int thread, const std::string& name) {
    begin("M", what, process, thread).key("args").begin_object().key("name").value(name).end();
    json_.end();
    if (thread != 0 || what != std::string_view("process_name")) return;
    begin("M", "process_sort_index", process, 0).key("args").begin_object().key("sort_index").value(process).end();
    json_.end();
  }

  JsonWriter& begin(const char* phase, const std::string& name, int process, int thread) {
    return json_.begin_object()
        .key("ph")
        .value(phase)
        .key("name")
        .value(name)
        .key("pid")
        .value(process)
        .key("tid")
        .value(thread);
  }

  JsonWriter& begin_stretch(const std::string& name, int process, int thread, double from, double to) {
    // The length is that from the rounded begin, so that what follows without a gap does so here as well.
    const double begun = microseconds(from);
    return begin("X", name, process, thread)
        .key("ts")
        .value(begun)
        .key("dur")
        .value(std::max(0.0, microseconds(to - begun / kPerSecond)));
  }

  void write_path() {
    name_row("process_name", kPathProcess, 0, "critical path");
    name_row("thread_name", kPathProcess, 1, "cause");
    name_row("thread_name", kPathProcess, 2, "operation");
    for (const CriticalPath::Piece& piece : path_.pieces) {
      double now = piece.from;
      for (int cause = 0; cause < kCauseCount; ++cause) {
        const double seconds = piece.seconds[static_cast<size_t>(cause)];
        if (seconds <= 0) continue;
        begin_stretch(name(static_cast<Cause>(cause)), kPathProcess, 1, now, now + seconds);
        json_.end();
        now += seconds;
      }
      if (piece.to > piece.from) write_operation_of(piece);
    }
  }

  void write_operation_of(const CriticalPath::Piece& piece) {
    const SimulatedQueue& queue = program_.queues[program_.queue_of(piece.step)];
    begin_stretch(join("rank ", queue.rank, " queue ", queue.queue), kPathProcess, 2, piece.from, piece.to);
    if (piece.resource != SimulatedRun::Last::kNothing) {
      const std::string slowest = plait::to_text(program_.resources[piece.resource], topology_);
      json_.key("args").begin_object().key("slowest at").value(slowest).end();
    }
    json_.end();
  }

  void write_links() {
    name_row("process_name", kLinksProcess, 0, "links");
    std::vector<bool> is_named(program_.resources.size());
    for (const SimulatedRun::Stretch& it : run_.busy) {
      const int thread = static_cast<int>(it.resource) + 1;
      if (!is_named[it.resource]) {
        name_row("thread_name", kLinksProcess, thread, plait::to_text(program_.resources[it.resource], topology_));
        is_named[it.resource] = true;
      }
      begin_stretch("busy", kLinksProcess, thread, it.from, it.to);
      json_.end();
    }
  }

  void write(const SimulatedQueue& queue) {
    const int process = kFirstRank + queue.rank, thread = queue.queue + 1;
    if (queue.queue == 0) {
      const int device = placement_.device_of_rank[static_cast<size_t>(queue.rank)];
      name_row("process_name", process, 0,
               join("rank ", queue.rank, ", ", topology_.devices[static_cast<size_t>(device)].name));
    }
    if (program_.is_launch()) return write_launched(queue, process, thread);
    const Queue& planned = plan_.ranks[static_cast<size_t>(queue.rank)].queues[static_cast<size_t>(queue.queue)];
    name_row("thread_name", process, thread, join("queue ", queue.queue, " (", plait::name(planned.engine), ")"));
    size_t operation = 0;  // of the plan, if steps are its operations
    double from = 0;
    for (size_t step = queue.first; step < queue.end; ++step) {
      if (step > queue.first && program_.steps[step].begin != SimulatedStep::Begin::kNothing) ++operation;
      const std::string text = plait::to_text(planned.operations[operation]);
      begin_stretch(text, process, thread, from, run_.ends[step]);
      json_.end();
      write_arrow(program_.steps[step], process, thread, from, run_.ends[step]);
      from = run_.ends[step];
    }
  }

  // Steps of launches are no operations of the plan.
  void write_launched(const SimulatedQueue& queue, int process, int thread) {
    name_row("thread_name", process, thread, join("queue ", queue.queue));
    double from = 0;
    for (size_t step = queue.first; step < queue.end; ++step) {
      const SimulatedStep& it = program_.steps[step];
      begin_stretch(it.kind == SimulatedStep::Kind::kWork   ? to_text(program_.works[it.index])
                    : it.kind == SimulatedStep::Kind::kTell ? "signal"
                                                            : "wait",
                    process, thread, from, run_.ends[step]);
      json_.end();
      write_arrow(it, process, thread, from, run_.ends[step]);
      from = run_.ends[step];
    }
  }

  std::string to_text(const SimulatedWork& work) const {
    double bytes = 0;
    for (const SimulatedWork::Flow& flow : work.flows) {
      if (program_.routes[flow.route].is_on_links()) bytes += program_.chunk_bytes * flow.chunks;
    }
    return join(work.combines ? "combine" : "copy", bytes > 0 ? join(", ", bytes_text(bytes, 3), " over links") : "");
  }

  void write_arrow(const SimulatedStep& step, int process, int thread, double from, double to) {
    if (step.kind == SimulatedStep::Kind::kWork || !is_waited_for_[step.index]) return;
    const bool begins = step.kind == SimulatedStep::Kind::kTell;
    begin(begins ? "s" : "f", "signal", process, thread)
        .key("cat")
        .value("signal")
        .key("id")
        .value(static_cast<int64_t>(step.index));
    // Both ends lie within events: where one begins to tell, and just before the other has heard.
    json_.key("ts").value(microseconds(begins ? from : to - std::min(kNanosecond, (to - from) / 2)));
    if (!begins) json_.key("bp").value("e");
    json_.end();
  }

  // Signals for which a queue waited longer than an operation takes.
  void find_waits(const SimulatedMachine& machine) {
    is_waited_for_.resize(program_.signals);
    for (const SimulatedQueue& queue : program_.queues) {
      double from = 0;
      for (size_t step = queue.first; step < queue.end; ++step) {
        const SimulatedStep& it = program_.steps[step];
        const double seconds = run_.ends[step] - from;
        if (it.kind == SimulatedStep::Kind::kHear) {
          is_waited_for_[it.index] = seconds > machine.begin_of(it) + kNanosecond;
        }
        from = run_.ends[step];
      }
    }
  }

  const Plan& plan_;
  const SimulatorProgram& program_;
  const SimulatedRun& run_;
  const CriticalPath& path_;
  const Topology& topology_;
  const Placement& placement_;
  std::vector<bool> is_waited_for_;
  JsonWriter json_{kEventWidth};
};

}  // namespace

std::string trace_of(const Plan& plan, const SimulatorProgram& program, const SimulatedMachine& machine,
                     const SimulatedRun& run, const CriticalPath& path, const Topology& topology,
                     const Placement& placement) {
  if (program.steps.size() > kMostTracedSteps) {
    fail(ErrorCode::kInvalidArgument, "trace: the run has ", counted(program.steps.size(), "step"),
         ", and a trace at most ", kMostTracedSteps, "; simulate fewer ranks, or another algorithm");
  }
  return TraceWriter(plan, program, machine, run, path, topology, placement).write();
}

}  // namespace plait
