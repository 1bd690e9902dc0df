// An agreement lets ranks decide, call by call, to perform a call in a way that none of them can choose alone. They are
// all ranks of a communicator, or two that exchange messages. It is a two-phase commit in shared memory: propose, vote,
// commit.
//
// An agreement pays only if all ranks are in the call at the same time, and no rank should wait long to find that out.
// Each call therefore has a round: a rank proposes, and waits for the others until its timeout is over. The first rank
// whose timeout is over closes the round for all, and ranks that come later find it closed. If all ranks have come,
// each looks at all proposals and votes. The call is agreed on if all votes are yes.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "runtime/waiting.hpp"

namespace plait {

// A segment has no memory for agreements of more ranks.
inline constexpr int kMostAgreeingRanks = 16;

// A rank's proposal for one call.
struct Proposal {
  uint32_t call = 0;  // the call's signature
  bool willing = false;
  std::array<std::byte, 224> data = {};  // for the other ranks, opaque here
};

struct AgreementTable;
struct ProposalRow;

// One rank's side, which is a state machine. All ranks make the same calls in the same order. One thread at a time.
//
//   kIdle -- begin() --> kBegun -- propose() --> kProposed -- vote() --> kVoted -- commit() --> kIdle
//
// begin() and vote() may also say that this call ends without an agreement, and lead to kIdle. A step in any other
// order throws kInternal. A rank that is in several agreements at a time takes each step in all of them before it takes
// the next one, so that ranks do not wait in a circle.
class Agreement {
 public:
  enum class Stage {
    kIdle,
    kBegun,
    kProposed,
    kVoted,
    kEnded,  // for good: a wait for votes was broken off
  };
  enum class Outcome {
    kAgreed,
    kRefused,    // some rank is not willing, cannot, or makes another call
    kOutOfStep,  // some rank has captured a call that another rank made at once: ranks agree on nothing after that
  };

  // Bytes of shared memory, which is aligned to 64 bytes and zero at first.
  static size_t bytes_for(int ranks);
  Agreement(std::byte* memory, int rank, int ranks, Backoff backoff = {WaitPolicy::kAuto, false});

  // Begins the next call, which may be captured in a graph. False: no agreement is tried, because ranks never agree any
  // more, or because they were late before. A round that some rank came too late to costs the timeout. So the next 1,
  // 2, 4, ... and at most 64 calls after one are skipped. A full round resets that. All ranks see a round end the same
  // way, so all skip the same calls. Never waits.
  bool begin(bool captured);
  // Shows the others this rank's proposal. Never waits.
  void propose(const Proposal& ours);
  // Waits for the proposals of the others, for at most `timeout`, and votes. False on all ranks, including those that
  // come later: some rank came too late or not at all. If all ranks are willing and make the same call, this rank
  // votes what `can` says about the proposals of all, which are ordered by rank; otherwise it votes no. `can` must not
  // throw.
  bool vote(std::chrono::nanoseconds timeout, const std::function<bool(std::span<const Proposal>)>& can);
  // Waits for all votes. The outcome is kAgreed on all ranks or on none; if it is, all ranks are in the same call.
  // Calls `poll` now and then (about every 100 us to 1 ms). `poll` may throw to end the wait. That also ends this
  // rank's agreements: begin() returns false from then on.
  Outcome commit(const std::function<void()>& poll);

  Stage stage() const { return stage_; }
  // A number of the last call that was agreed on: the same on all ranks, and different for every such call.
  uint64_t number() const { return number_; }

 private:
  // Counts the calls before one call.
  struct CallCounts {
    uint32_t all = 0, captured = 0;
    friend bool operator==(const CallCounts&, const CallCounts&) = default;
  };
  friend struct ProposalRow;
  // One kind of calls, with a table and rounds of its own.
  struct Rounds {
    AgreementTable* table;
    uint64_t last = 0;   // number of this rank's last round, from 1
    int skips = 0;       // number of calls that are still to be skipped
    int next_skips = 1;  // number to skip after the next round that some rank came too late to
  };

  Rounds& rounds() { return rounds_[captured_ ? 1 : 0]; }
  ProposalRow& row(int rank);
  void expect(Stage stage, const char* step);
  void join_round();
  bool wait_for_proposals(std::chrono::nanoseconds timeout);
  void cast_vote(bool can);
  void end_round(bool was_full);

  const int rank_;
  const uint64_t ranks_;
  Backoff backoff_;
  // Captured calls have rounds of their own. They are made once and launched often, so they must not be skipped because
  // calls that were not captured came too late.
  std::array<Rounds, 2> rounds_;
  Stage stage_ = Stage::kIdle;
  CallCounts before_, next_;  // the current call, and the next one
  bool captured_ = false;
  // Once ranks have captured different calls, proposals in one round may belong to different calls.
  bool in_step_ = true;
  uint64_t number_ = 0;
};

}  // namespace plait
