// A machine's profile: the costs of its operations, and tables of what was measured to be fastest on it. The data lies
// in profiles/*.json, with the machine, date, command and commit of the figures.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/kernel_costs.hpp"
#include "model/line.hpp"
#include "model/ring_costs.hpp"
#include "plan/plan.hpp"
#include "topology/topology.hpp"

namespace plait {

// The costs of a plan's operations besides their bytes over links.
struct Costs {
  double launch_seconds = 0;     // of a call: until its first operation begins, and from its last to its return
  double operation_seconds = 0;  // of each operation: reading it, addressing what it names
  double message_seconds = 0;    // of a message to another node, what each of its ends does for it, besides
  // From a signal to the wait that it ends, by the narrowest kind of link between the two.
  std::array<double, kLinkKindCount> signal_seconds = {};
  double local_signal_seconds = 0;  // between queues of one rank, and ranks of one device
  double link_efficiency = 1;       // the share of a link's stated bandwidth that a long message gets
  // Few bytes get less of it (UEN-42): what one operation moves over such a link gets half of that bandwidth where it
  // is so many bytes. 0: any number gets all. Only the simulator looks at it.
  std::array<double, kLinkKindCount> half_bytes = {};
  double memory_gbps = 0;  // what a rank reads and writes in its own memory, 10^9 bytes/s; 0: not looked at
  // The first bytes that a rank reads and writes in a call are in its cache; 0: none are.
  double cache_gbps = 0, cache_bytes = 0;
  double combine_share = 1;  // what bytes count there that an operation combines, over those that it copies; 1 or more
  // What the CPU core of a rank with a GPU reads and writes, 10^9 bytes/s, in queues that combine; 0: not looked at.
  double core_gbps = 0;

  // The time that so many bytes take in a rank's memory, as a maximum of lines: one for those in its cache, one for the
  // others.
  std::array<Line, 2> memory_lines() const;
  double memory_seconds(double bytes) const;
  // With the flag inside the data a step costs less and the message more.
  struct Protocol {
    double signal_share = 1;  // of signal_seconds
    double bytes_share = 1;   // of the bytes, on links
  };
  Protocol ll, ll128;
  // For hierarchies by closed form; as far as a profile does not have them, as signal_seconds and link_efficiency say.
  RingTable rings;
  // Costs of launches on GPUs, which are simulated slice by slice. Without them plans are simulated as on CPUs.
  std::optional<KernelCosts> kernels;
};

// The quantity of a call that a rule's limits bound, in bytes.
enum class Measure : uint8_t {
  kMessage,   // the message
  kStored,    // the stores of a rank that stores the whole message at every other
  kCrossing,  // the bytes over the links of the busiest rank, in its busier direction, if everything goes straight to
              // the rank that needs it, and one rank combines each element
  kPieces,    // the stores of a rank in a step of the plan that gives every other rank a piece
};

struct Limit {
  Measure measure = Measure::kMessage;
  size_t bytes = 0;
};

// Other facts on which a rule may depend.
enum class Flag : uint8_t {
  kFewSms,        // a call may keep few SMs busy
  kWidePartials,  // unfinished reductions travel in a wider type
  kStaysMapped,   // GPUs load over NVLink what peers hold, and peers that end do not take it away
  kCopies,        // copy engines carry what links carry
  kRooted,        // one rank gives or gets everything
};
inline constexpr int kFlagCount = 5;
using Flags = std::array<bool, kFlagCount>;

// The condition of a rule. Fields that are left out do not matter.
struct RuleCondition {
  std::vector<Collective> collectives;  // empty: all
  int least_ranks = 1, most_ranks = std::numeric_limits<int>::max();
  int least_steps = 0, most_steps = std::numeric_limits<int>::max();  // of the plan
  std::vector<std::pair<Flag, bool>> flags;
  size_t most_element_bytes = std::numeric_limits<size_t>::max();
  std::optional<Limit> from, to;  // both included
};

// A row of a measured table. The first row of each kind whose condition holds counts.
struct MeasuredRule {
  RuleCondition when;
  std::string choice;  // an algorithm's spec, or the name of a protocol
  int threads = 0;     // of a channel, with the protocol Simple; 0: as the plan suggests
  std::string reason;  // one sentence
};

// Measured times of plans that rules choose: float32, out of place.
struct MeasuredTimes {
  struct Point {
    size_t bytes = 0;  // of the message
    double seconds = 0;
  };
  Collective collective = Collective::kAllReduce;
  int ranks = 0;
  std::vector<std::string> gpus;                      // parts of their models' names
  std::string source;                                 // machine, date, command and commit, for people
  std::map<std::string, std::vector<Point>> of_plan;  // by its name, in order of size
};

// The machine of ranks, as measurements of `plait tune` name it. Equal places have equal times.
struct TunedPlace {
  std::string machine;  // the topology's name: "live", or that of a described machine
  std::string device;   // the model of each rank's device; of several models, all of them
  int devices = 0;      // GPUs that the ranks have, or CPU sockets of their hosts
  int cores = 0;        // of these sockets; 0 for GPUs
  int nodes = 1;
  bool operator==(const TunedPlace&) const = default;
};

// The choice that was measured to be the fastest for messages of some sizes.
struct TunedRule {
  size_t from = 0, to = 0;              // bytes of the message, both included
  std::string choice;                   // an algorithm's spec, also of a zero-copy plan
  std::optional<std::string> protocol;  // on GPUs; none: as the profile's other tables say
  std::string reason;                   // one sentence
};

// The rules of one collective, for these ranks and no others: they go before all other tables.
struct TunedTable {
  Collective collective = Collective::kAllReduce;
  int ranks = 0;
  TunedPlace place;
  std::vector<TunedRule> rules;
  MeasuredTimes times;  // of the plans that the rules choose
};

// The host path: how much goes through host memory while links carry the rest.
struct HostPathRule {
  RuleCondition when;
  double links_gbps = 0, host_gbps = 0;  // over the links of the busiest GPU, and through host memory beside them
  double lateness_seconds = 0;           // of the host path's last byte
  double pace_gbps = 0;                  // the most that SMs of one GPU may store there
  bool in_place_of_others = false;       // its CTAs are taken from those of the links
};

struct HostPathProfile {
  std::vector<std::string> gpus;  // parts of their models' names, as Profile::gpus
  std::vector<int> ranks;         // how many were measured to gain by it
  double least_share = 1;         // less of a message is not worth it
  std::vector<HostPathRule> rules;
};

enum class Fabric : uint8_t {
  kAny,
  kCpu,       // ranks on CPUs of one host
  kTcp,       // ranks on CPUs of several hosts, none of which has an RDMA device
  kNvSwitch,  // GPUs of one group that a switch joins, or two that NVLink joins, or ranks that share one
};

// Where the rules of a profile were measured. On other GPUs, or with more ranks, they are a guess from there.
struct MeasuredOn {
  std::vector<std::string> gpus;  // parts of their models' names, as Profile::gpus; empty: anywhere
  int ranks = 0;                  // at most; 0: any number
  int most_ranks = 0;             // up to which they choose algorithms; 0: any number. Beyond, the model does
  std::string text() const;       // "up to 4 ranks of H100, H200"
};

// An algorithm that is no candidate, alone or as the outermost level of a hierarchy, since measurements say what the
// model does not know.
struct UnsuitedAlgorithm {
  std::string name, why;
  std::vector<Collective> collectives;               // empty: all
  int least_radix = 0;                               // a tree of a lower radix is a candidate
  int most_nodes = std::numeric_limits<int>::max();  // over more nodes it is a candidate
};

struct Profile {
  std::string name;
  std::string source;  // machine, date, command and commit, for people
  Fabric fabric = Fabric::kAny;
  std::vector<std::string> gpus;      // parts of their models' names; empty: any
  std::vector<std::string> machines;  // their names; empty: any
  Costs costs;
  std::vector<MeasuredRule> algorithms, zero_copy, endings, protocols;
  std::vector<MeasuredRule> messages;  // straight from buffer to buffer, by which engine
  std::vector<MeasuredTimes> times;
  std::vector<TunedTable> tuned;
  MeasuredOn measured_on;
  std::optional<HostPathProfile> host_path;
  std::vector<UnsuitedAlgorithm> unsuited;
  int few_sms = 0;  // a limit below this is few
};

// Reads a profile; throws kInvalidInput with FILE:LINE.
Profile parse_profile(std::string_view text, std::string file);

// All profiles of the library, by name.
const std::vector<Profile>& profiles();
// The first profile that fits the devices of the ranks. More specific ones come first, and there is always one.
const Profile& profile_for(const Topology& topology, const std::vector<int>& device_of_rank);

// Whether the profile is for ranks on these devices.
bool fits(const Profile& profile, const Topology& topology, const std::vector<int>& device_of_rank);

// Whether rules were measured on such GPUs with so many ranks.
bool was_measured(const MeasuredOn& on, const Topology& topology, const std::vector<int>& device_of_rank);
// Measured times of the collective over as many such GPUs; null if there are none.
const MeasuredTimes* times_for(const Profile& profile, Collective collective, const Topology& topology,
                               const std::vector<int>& device_of_rank);

// The place of ranks on these devices.
TunedPlace tuned_place(const Topology& topology, const std::vector<int>& device_of_rank);

// Whether costs of kernels hold for these GPUs.
bool suits(const KernelCosts& kernels, const Topology& topology, const std::vector<int>& device_of_rank);

// Whether the host path was measured to help these ranks.
bool suits(const HostPathProfile& path, const Topology& topology, const std::vector<int>& device_of_rank);

namespace internal {
struct ProfileText {
  const char* name;
  const char* text;
};
// Written by cmake/EmbedTexts.cmake, sorted by name.
std::span<const ProfileText> profile_texts();
}  // namespace internal

}  // namespace plait
