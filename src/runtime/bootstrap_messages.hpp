// The messages that ranks exchange while they find each other, and those that report a failure. All are plain structs
// of fixed size, so nothing that arrives decides how much is read.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "base/error.hpp"
#include "runtime/secret.hpp"

namespace plait {

inline constexpr uint32_t kBootstrapVersion = 2;

// --- the handshake: three messages whose layout no version may change, so that versions can tell each other apart ---
//
//   rank r                                   rank 0
//     Hello {version, r, p, pid, nonce a}  ────►         a claim, not believed yet
//                                          ◄────  Challenge {version, pid, nonce b, MAC("0", Hello, b)}
//                                                        rank 0 knows the secret
//     Proof {MAC("r", Hello, b)}           ────►         rank r knows it, and said what the Hello says
//
// Both tags are keyed by the secret and cover both nonces, so neither side's tag can be replayed or played back to it.

struct Hello {
  static constexpr uint64_t kMagic = 0x6f6c6c65'48746c50;
  uint64_t magic = kMagic;
  uint32_t version = kBootstrapVersion;
  int32_t rank = 0;
  int32_t size = 0;
  // The sender, and the process namespace (as the kernel numbers them) in which it has this number. Rank 0 believes
  // them if the kernel does not vouch for the sender.
  int32_t process_id = 0;
  uint64_t process_namespace = 0;
  Nonce nonce{};
};
static_assert(sizeof(Hello) == 48);

struct Challenge {
  uint32_t version = kBootstrapVersion;
  int32_t process_id = 0;  // of rank 0, for messages
  Nonce nonce{};
  Tag mac{};
};
static_assert(sizeof(Challenge) == 40);

struct Proof {
  Tag mac{};
};
static_assert(sizeof(Proof) == 16);

// Makes the challenge that answers `hello`, with `nonce` in it. (Tests speak another version.)
Challenge make_challenge(const Secret& secret, const Hello& hello, const Nonce& nonce,
                         uint32_t version = kBootstrapVersion);
bool is_genuine(const Secret& secret, const Hello& hello, const Challenge& challenge);
Proof make_proof(const Secret& secret, const Hello& hello, const Challenge& challenge);
bool is_genuine(const Secret& secret, const Hello& hello, const Challenge& challenge, const Proof& proof);

// --- after the handshake ---

// The call that a rank is in, for messages, and to notice ranks that do different things.
enum class Stage : uint32_t { kRendezvous, kAllGather, kBarrier, kBroadcastDescriptor, kAllGatherDescriptors };
const char* name(Stage stage);

struct Frame {
  enum class Kind : uint32_t {
    kAccepted,    // rank 0: you are accepted, wait for the others
    kContribute,  // rank r: my part; `bytes` follow
    kResult,      // rank 0: everything; `bytes` follow
    kFailure,     // rank 0: the call has failed; a Failure follows
  };
  Kind kind = Kind::kAccepted;
  Stage stage = Stage::kRendezvous;
  uint64_t sequence = 0;    // number of calls so far
  uint64_t bytes = 0;       // kContribute, kResult: size of one rank's part, as the sender sees it
  double seconds_left = 0;  // kAccepted: how long rank 0 still waits
};
static_assert(sizeof(Frame) == 32);

enum class Reason : uint32_t {
  kTimedOut,        // `ranks` did not come in time
  kLeft,            // ranks[0] closed its endpoint, or its process ended
  kDuplicateRank,   // two processes are ranks[0]
  kWrongSize,       // ranks[0] was started with `found` ranks, rank 0 with `size`
  kWrongVersion,    // ranks[0] speaks version `found`, rank 0 `expected`
  kRankOutOfRange,  // a process says that it is ranks[0], which does not exist
  kDifferentCall,   // ranks[0] is at another call, or passes another number of bytes
  kRankZeroFailed,  // rank 0 failed for another reason
};

// The failure that rank 0 found. It is sent to all ranks so that each gives the same reason.
struct Failure {
  Reason reason = Reason::kRankZeroFailed;
  Stage stage = Stage::kRendezvous;
  int32_t size = 0;
  int32_t rank_count = 0;          // number of ranks that it is about …
  std::array<int32_t, 8> ranks{};  // … and the first of them
  int32_t process_id = 0;          // of ranks[0]; 0: unknown
  int32_t other_process_id = 0;
  uint64_t found = 0;
  uint64_t expected = 0;
  Stage found_stage = Stage::kRendezvous;
  int32_t refused_connections = 0;  // kRendezvous: connections that could not prove to be a rank
  double seconds = 0;               // kTimedOut: length of the wait

  void set_ranks(std::span<const int> all);
};
static_assert(sizeof(Failure) == 88);

ErrorCode code_of(const Failure& failure);
// One sentence that says what happened, to whom, and what to do.
std::string text_of(const Failure& failure);

// "rank 3", "ranks 2 and 5", "ranks 1, 2, 3 and 12 more".
std::string list_ranks(std::span<const int> shown, size_t count);
// Lists any number of ranks, as many of them as a Failure can name.
std::string list_ranks(std::span<const int> all);

}  // namespace plait
