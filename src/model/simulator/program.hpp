// A plan as the simulator performs it: what each queue does in order, and what that asks of the machine.
//
// It takes a fraction of the plan's memory, and depends neither on the size of the message nor on costs. So it is made
// once for many runs, and the plan may be gone by then. The program of a launch on GPUs is for one size alone
// (api/launch_program.hpp).
#pragma once

#include <cstdint>
#include <vector>

#include "model/machine_symmetry.hpp"
#include "model/routes.hpp"
#include "plan/fold.hpp"
#include "plan/form.hpp"
#include "plan/plan.hpp"
#include "topology/paths.hpp"

namespace plait {

// A capacity that flows share.
struct SimulatedResource {
  enum class Kind : uint8_t {
    kLink,    // one direction of a link
    kNicOut,  // what all ports of a NIC send together, where its links could carry more
    kNicIn,
    kMemory,  // of a rank: what its engines read and write
    kCore,    // of a rank with a GPU: what a core of its CPU reads and writes, in a queue that combines
    kCtas,    // of a queue of a launch on GPUs: what its threads read and write in their own memory
    kPace,    // of a rank: the most that a launch stores to host memory
  };
  Kind kind = Kind::kLink;
  int index = 0;  // of the link, the device or the rank; of kCtas and kPace: in SimulatorProgram::limits
  bool forward = true;

  auto operator<=>(const SimulatedResource&) const = default;
};

// Who moves bytes over links. The share of a link's bandwidth that they get depends on it. Spread stores go to several
// peers at once; spread loads come from several that others load from as well. Copy engines load.
enum class Mover : uint8_t { kAny, kStores, kSpreadStores, kLoads, kSpreadLoads, kCopyEngine };
inline constexpr int kMoverCount = 6;

// A way that bytes take, from one device to another or into and out of a rank's memory.
struct SimulatedRoute {
  struct Use {
    uint32_t resource = 0;  // of SimulatorProgram::resources
    double share = 1;       // of the bytes
    bool is_back = false;   // the other direction of a link, on which loads send their requests
    uint32_t alike = 1;     // flows of other ranks for which this one stands that are there as well, and itself
  };
  static constexpr int kInMemory = -1, kPaced = -2, kByCore = -3;
  int from = kInMemory, to = kInMemory;  // devices; kPaced, kByCore: no way, but a limit of what goes elsewhere
  LinkKind medium = LinkKind::kNvlink;
  Mover mover = Mover::kAny;
  std::vector<Use> uses;

  bool is_memory() const { return from == kInMemory; }
  bool is_on_links() const { return from >= 0; }
};

// The flows of one operation. All are under way at once.
struct SimulatedWork {
  struct Flow {
    uint32_t route = 0;
    uint32_t chunks = 0;
    auto operator<=>(const Flow&) const = default;
  };
  std::vector<Flow> flows;
  bool combines = false;  // several sources
  auto operator<=>(const SimulatedWork&) const = default;
};

struct SimulatedStep {
  enum class Kind : uint8_t { kWork, kTell, kHear };
  static constexpr uint8_t kLocal = kLinkKindCount;
  // Only launches on GPUs have these.
  static constexpr uint8_t kBetweenCopies = kLinkKindCount + 1, kThroughHost = kLinkKindCount + 2,
                           kInStream = kLinkKindCount + 3;
  // The kind of work that a step needs before it does anything.
  enum class Begin : uint8_t {
    kOperation,
    kNothing,  // it belongs to the step before: a message's bytes, once it was heard; another signal of a run
    kFence,    // a run of signals on a GPU: the stores before them have to arrive
    kHostFence,
    kBarrier,  // a kernel between copies: it tells all ranks, and hears them
    kCopy,     // by a copy engine
    kWait,     // a run of waits on a GPU
    kWords,    // of LL or LL128, whose flags lie in the data
    kCall,     // the next call of a stream, behind the one before
    kCallWithoutPdl,
    kStagger,  // of CTAs that begin one after the other
    kMessage,  // an end of a message between nodes
  };
  static constexpr int kBegins = 12;

  Kind kind = Kind::kWork;
  // For a signal or message that is heard: the narrowest kind of link between its ends, or kLocal where they share a
  // device.
  uint8_t link_kind = kLocal;
  bool between_ranks = false;  // likewise
  Begin begin = Begin::kOperation;
  uint32_t index = 0;  // of the work, or of the signal; messages count as signals
};

struct SimulatedQueue {
  int rank = 0, queue = 0;    // of a launch, channels of one queue are several here
  size_t first = 0, end = 0;  // in SimulatorProgram::steps
};

struct SimulatorProgram {
  int chunks_of_size = 1;  // of what is called the size of the message
  // Bytes of a chunk of a launch on GPUs, whose program is for messages of one size alone. Else 0.
  double chunk_bytes = 0;
  // How much of each resource a launch has, by SimulatedResource::index: CTAs of 512 threads (kCtas), or bytes a
  // second (kPace).
  std::vector<double> limits;
  // The last step of each queue in each call, [call][queue], where several calls follow each other in a stream.
  std::vector<std::vector<size_t>> call_ends;
  // Queues that do one queue's work, as channels of a launch do: they share links with each other.
  int groups = 1;
  bool by_host = false;  // the host launches each call; else a graph does
  std::vector<SimulatedResource> resources;
  std::vector<SimulatedRoute> routes;
  std::vector<SimulatedWork> works;
  std::vector<SimulatedQueue> queues;
  std::vector<SimulatedStep> steps;
  uint32_t signals = 0;

  bool is_launch() const { return chunk_bytes > 0; }
  size_t queue_of(size_t step) const;  // that performs it
  double bytes_of_chunk(double message_bytes) const {
    return is_launch() ? chunk_bytes : message_bytes / chunks_of_size;
  }
};

// Compiles a plan whose form is right. Throws kInvalidArgument where no path leads where the plan wants one, or ranks
// share host memory that is on different hosts, or where ranks and placement do not fit.
SimulatorProgram compile(const Plan& plan, const Pairing& pairing, Routes& routes);
// The same for the ranks that stand for all. Each resource then stands for those that shifts take it to, and a flow for
// those of all ranks for which its rank stands: a link carries as many of them as there are flows for each such link.
// The run is that of the whole program: each step ends when it would there.
SimulatorProgram compile(const FoldedPlan& folded, const MachineSymmetry& symmetry, Routes& routes);

}  // namespace plait
