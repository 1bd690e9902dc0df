// Which algorithm a call gets. A pure function of arguments that are equal on all ranks, so that all choose alike.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "algorithms/spec.hpp"
#include "base/settings.hpp"
#include "base/types.hpp"
#include "plan/verifier.hpp"
#include "tuner/launch_shape.hpp"

namespace plait {

// What a choice may depend on.
struct SelectionQuery {
  Collective collective = Collective::kAllReduce;
  size_t bytes = 0;  // of the whole message
  int ranks = 1;
  int root = 0;
  bool beside_gpus = false;  // calls on the host, of ranks that have GPUs
  // Of GPUs, the least and the most of any rank's.
  int processors = 132;        // SMs
  int ranks_per_device = 1;    // that share one GPU
  bool lines = true;           // Protocol::kLines is right between them
  size_t element_bytes = 4;    // of the type
  bool wide_partials = false;  // unfinished reductions of the type travel in a wider one
  bool host_path = false;      // all ranks share pinned host memory besides
  bool maps_buffers = true;    // of other ranks; else nothing goes straight from buffer to buffer
  bool blocks_stay = true;     // of a rank that is done with all calls and ends, while others still read from it
  int most_sms = 0;            // that a call may keep busy; 0: as many as make it fast

  // How GPUs reach each other's memory, ranks of one process or of several: where they do not, they do not reach
  // buffers either.
  void set_reach(ReachKind reach, bool in_one_process);

  // So few that kernels which store everything at others are slow.
  bool has_few_sms() const { return most_sms > 0 && most_sms < 96; }
};

// An algorithm and its parameters; equal choices are equal plans.
struct Choice {
  std::string algorithm;
  AlgorithmArguments arguments;
  std::string reason;        // one sentence, for `--explain`
  AlgorithmSpec asked = {};  // what the user insists on, with what is left open

  bool is(std::string_view name, Direction direction) const {
    return algorithm == name && arguments.direction == direction;
  }
};

// How a message from one rank to another goes, between GPUs.
struct MessageChoice {
  std::optional<Engine> direct;  // copies it straight from buffer to buffer; none: through the receiver's inbox
  bool insists = false;          // the user does
};

// Algorithms that the user insists on, by collective: PLAIT_ALGORITHM such as
// "all_reduce:ring,broadcast:chain(parts=8)", as parse_spec() reads them. Messages between two ranks have no plan, but
// "send_receive:push" has the sender store them, and "send_receive:pull" the receiver copy them.
class AlgorithmOverrides {
 public:
  // Throws kInvalidArgument that names PLAIT_ALGORITHM, with the expected form.
  static AlgorithmOverrides parse(std::string_view text);
  // Throws kInvalidArgument where ranks of one host, so many, cannot perform some of it, as far as that is known before
  // there are calls. `beside_gpus`: of ranks that have GPUs.
  void check(int ranks, bool beside_gpus) const;
  // Null where the user leaves the choice to the library.
  const Choice* find(Collective collective) const;
  const std::optional<MessageChoice>& for_messages() const { return messages_; }

 private:
  void add(std::string_view entry);

  std::string text_;
  std::map<Collective, Choice> choices_;
  std::optional<MessageChoice> messages_;
};

// Reads what parse_spec() reads into a choice for `collective`.
Choice parse_choice(std::string_view text, Collective collective);

// The choice for ranks that share one host's memory.
Choice select_for_host(const SelectionQuery& query, const AlgorithmOverrides& overrides);

// The choice for ranks whose GPUs reach each other's memory, and how it is launched.
inline constexpr int kOwnCopySms = 8;  // for what a rank copies to itself while copy engines serve the links
// For all that a rank copies where SMs do it: 16 that load from peers are as fast as all, 335 GB/s on H200.
inline constexpr int kPullSms = 48;
// For what they combine straight out of all inputs: over 4 H200 8 of them take in 325 GB/s, as many as all, and over
// two 304, where 16 take 334.
inline constexpr int kFoldSms = 16;
struct CudaChoice {
  Choice plan;
  LaunchShape launch;
  // The plan for the last slice of each strand, where another one than `plan` is done sooner there. Only with signals.
  std::optional<Choice> ending;
  // Better than that, where every rank's buffers can be mapped by the others: data goes straight from buffer to buffer,
  // by copy engines or, where their starts would last too long, by SMs.
  std::optional<Choice> direct;
  bool insists_on_direct = false;  // the user does

  std::string ending_text() const;  // ", the last slice of each strand as flat(both)", or nothing
  // Signals where `plan`, here verified, or the machine of `query` is not for the protocol: users insist on algorithms
  // and launches that know nothing of each other, and a barrier has no data.
  void fit_protocol(const SelectionQuery& query, const VerifiedPlan& verified, DataType type);
};
CudaChoice select_for_cuda(const SelectionQuery& query, const AlgorithmOverrides& overrides,
                           const std::optional<LaunchShape>& launch);

// Of `query` it takes what is said of GPUs, and the bytes of the message: so that both ends choose alike.
MessageChoice select_message_for_cuda(const SelectionQuery& query, const AlgorithmOverrides& overrides);

// Whether ranks should share pinned host memory, for a HostPart: where that was measured to help, on two or four GPUs
// of compute capability 9 (`architecture` 90) with NVLink, or where the user insists.
bool wants_host_path(int ranks, int ranks_per_device, int architecture, bool nvlink,
                     const std::optional<LaunchShape>& launch);

}  // namespace plait
