// The plan: who moves what where, and in which order. The same object is verified, costed, simulated, drawn and run.
//
// A plan lists a few queues for every rank. A queue is a sequence of operations that one engine performs in order.
// Sizes are fractions of the message until launch. The message has `blocks` equal blocks: one per rank for collectives
// that scatter or gather, one for each pair of ranks for all_to_all, else one. Each block is cut into
// `chunks_per_block` chunks. Chunks are numbered through the message. Their number is the index of a place in the input
// and in the output of every rank, even if a rank's buffer covers only some blocks. So "input chunk i" and "output
// chunk i" of one rank are the same memory when a collective runs in place (except in all_to_all, see conditions.hpp).
// Scratch and host buffers have slots, each as large as the largest chunk.
#pragma once

#include <compare>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plait {

enum class Collective : uint8_t {
  kAllReduce,
  kReduce,
  kBroadcast,
  kReduceScatter,
  kAllGather,
  kGather,
  kScatter,
  kAllToAll,
  kBarrier
};
inline constexpr int kCollectiveCount = 9;

// The engine that performs a queue.
enum class Engine : uint8_t {
  kSm,    // a set of CTAs of the rank's GPU
  kCopy,  // a copy engine of the rank's GPU
  kCpu,   // a thread of the rank's process
  kNet,   // the network transport
};

enum class Buffer : uint8_t {
  kInput,    // the user's; only ever read
  kOutput,   // the user's; the collective fills it
  kScratch,  // the library's, in the rank's own memory (GPU memory if the rank has a GPU)
  kHost,     // the library's, in host memory next to the rank
};

// Whether a place in this buffer names a slot. Only the library's own memory is divided into slots.
constexpr bool has_slots(Buffer buffer) { return buffer == Buffer::kScratch || buffer == Buffer::kHost; }

// The memory that an engine may load from and store to.
enum class Access : uint8_t {
  kStaged,    // its own rank's input and output; scratch and host buffers of every rank of its node
  kZeroCopy,  // every buffer of every rank of its node; GPUs then leave out copies of memory onto itself
};

struct Place {
  int rank = 0;
  Buffer buffer = Buffer::kInput;
  int slot = 0;  // scratch and host: the slot of the operation's first chunk. Input and output: 0, the chunk says where

  friend auto operator<=>(const Place&, const Place&) = default;
};

enum class OpKind : uint8_t {
  kReduce,   // destinations <- sources combined in the listed order; one source: a copy
  kSend,     // sources[0] to peer_rank, for paths without load and store; a barrier's send carries no data
  kReceive,  // from peer_rank into destinations[0]
  kSignal,   // tell queue peer_queue of peer_rank that everything this queue did before is visible
  kWait,     // do not go on before signal `number` of this rank has come (from peer_queue of peer_rank)
};

struct Operation {
  OpKind kind = OpKind::kReduce;
  int chunk = 0;  // reduce, send, receive: the chunks [chunk, chunk + chunks) of the message
  int chunks = 0;
  std::vector<Place> destinations;
  std::vector<Place> sources;
  int peer_rank = -1;
  int peer_queue = -1;
  // Signal and wait: number of the signal, among those of the waiting rank. Send and receive: number of the message,
  // among those of the receiving rank. Every number is used by one sender and one receiver, once in a plan.
  int number = -1;

  friend bool operator==(const Operation&, const Operation&) = default;
};

struct Queue {
  Engine engine = Engine::kCpu;
  std::vector<Operation> operations;

  friend bool operator==(const Queue&, const Queue&) = default;
};

struct RankPlan {
  std::vector<Queue> queues;
  int scratch_slots = 0;
  int host_slots = 0;
  int signals = 0;   // signals that queues of this rank wait for
  int messages = 0;  // messages that queues of this rank receive

  friend bool operator==(const RankPlan&, const RankPlan&) = default;
};

struct Plan {
  std::string algorithm;  // registered name and parameters, such as "hierarchical_ring(4x2)"
  Collective collective = Collective::kAllReduce;
  Access access = Access::kStaged;
  int root = 0;  // of broadcast, reduce, gather and scatter
  int blocks = 1;
  int chunks_per_block = 1;
  bool in_place = true;      // claims to be right even if output and input are the same memory
  std::vector<int> node_of;  // node of each rank; loads and stores do not leave it
  std::vector<RankPlan> ranks;

  int rank_count() const { return static_cast<int>(ranks.size()); }
  int64_t operation_count() const {
    int64_t operations = 0;
    for (const RankPlan& rank : ranks) {
      for (const Queue& queue : rank.queues) operations += std::ssize(queue.operations);
    }
    return operations;
  }
  int chunk_count() const { return blocks * chunks_per_block; }

  friend bool operator==(const Plan&, const Plan&) = default;
};

// A half-open range of chunks.
struct ChunkRange {
  int first = 0;
  int count = 0;

  int end() const { return first + count; }
  bool contains(int chunk) const { return chunk >= first && chunk < end(); }
  friend bool operator==(const ChunkRange&, const ChunkRange&) = default;
};

// "all_reduce", "reduce", "scratch", …: the names used in text, in JSON and on the command line.
const char* name(Collective collective);
const char* name(Engine engine);
const char* name(Buffer buffer);
const char* name(OpKind kind);
const char* name(Access access);
// Parses a name. Also takes the spellings of NCCL and MPI, in any case: "allreduce", "AllReduce", "bcast". Throws
// kInvalidArgument with the known names.
Collective parse_collective(std::string_view text);
// Returns the collective of a name that ends in v, for a count for each rank: "all_to_all_v", "MPI_Allgatherv". None
// for other names.
std::optional<Collective> collective_by_counts(std::string_view text);

// True if the result combines contributions of several ranks.
constexpr bool reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduce ||
         collective == Collective::kReduceScatter;
}

// True if the input of a rank is its own block of the message, and the output holds several.
constexpr bool gathers(Collective collective) {
  return collective == Collective::kAllGather || collective == Collective::kGather;
}

// True if the output of a rank is its own block of the message, and the input holds several.
constexpr bool scatters(Collective collective) {
  return collective == Collective::kReduceScatter || collective == Collective::kScatter;
}

// True if the message consists of one block per rank, or in all_to_all of one for each pair of ranks.
constexpr bool has_rank_blocks(Collective collective) {
  return gathers(collective) || scatters(collective) || collective == Collective::kAllToAll;
}

// Number of blocks of the message; 0 for a barrier.
constexpr int64_t block_count(Collective collective, int ranks) {
  if (collective == Collective::kBarrier) return 0;
  if (collective == Collective::kAllToAll) return int64_t{ranks} * ranks;
  return has_rank_blocks(collective) ? ranks : 1;
}

// True if one rank plays a special part.
constexpr bool has_root(Collective collective) {
  return collective == Collective::kReduce || collective == Collective::kBroadcast ||
         collective == Collective::kGather || collective == Collective::kScatter;
}

}  // namespace plait
