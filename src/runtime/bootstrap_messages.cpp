#include "runtime/bootstrap_messages.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/figures.hpp"
#include "runtime/stream_socket.hpp"

namespace plait {
namespace {

// The bytes that a tag covers. The speaker is part of them, so that a tag of one side is never valid for the other.
struct Transcript {
  std::array<char, 8> speaker{};
  Hello hello;
  uint32_t challenge_version = 0;
  int32_t challenge_process_id = 0;
  Nonce challenge_nonce{};
};
static_assert(sizeof(Transcript) == 80);

Tag tag_by(const Secret& secret, const char (&speaker)[9], const Hello& hello, const Challenge& challenge) {
  Transcript transcript;
  std::memcpy(transcript.speaker.data(), speaker, transcript.speaker.size());
  transcript.hello = hello;
  transcript.challenge_version = challenge.version;
  transcript.challenge_process_id = challenge.process_id;
  transcript.challenge_nonce = challenge.nonce;
  return tag_of(secret, bytes_of(transcript));
}

std::string process_text(int process_id) { return process_id > 0 ? join(" (pid ", process_id, ")") : ""; }

std::string timed_out_text(const Failure& failure, const std::string& ranks) {
  const std::string limit = join(" within ", failure.seconds, " s (PLAIT_BOOTSTRAP_TIMEOUT_SEC)");
  if (failure.stage != Stage::kRendezvous) {
    return join(ranks, " of ", failure.size, " did not reach ", name(failure.stage), limit,
                "; stopped, or elsewhere in the program?");
  }
  const std::string strangers = failure.refused_connections == 0
                                    ? ""
                                    : join("; refused ", counted(failure.refused_connections, "connection"),
                                           " that could not prove to be a rank");
  return join(ranks, " of ", failure.size, " did not arrive", limit, "; started with another id, or not started?",
              strangers);
}

}  // namespace

Challenge make_challenge(const Secret& secret, const Hello& hello, const Nonce& nonce, uint32_t version) {
  Challenge challenge;
  challenge.version = version;
  challenge.process_id = ::getpid();
  challenge.nonce = nonce;
  challenge.mac = tag_by(secret, "rank 0  ", hello, challenge);
  return challenge;
}

bool is_genuine(const Secret& secret, const Hello& hello, const Challenge& challenge) {
  return equal_tags(challenge.mac, tag_by(secret, "rank 0  ", hello, challenge));
}

Proof make_proof(const Secret& secret, const Hello& hello, const Challenge& challenge) {
  return {tag_by(secret, "rank r  ", hello, challenge)};
}

bool is_genuine(const Secret& secret, const Hello& hello, const Challenge& challenge, const Proof& proof) {
  return equal_tags(proof.mac, tag_by(secret, "rank r  ", hello, challenge));
}

const char* name(Stage stage) {
  switch (stage) {
    case Stage::kRendezvous:
      return "rendezvous";
    case Stage::kAllGather:
      return "all_gather";
    case Stage::kBarrier:
      return "barrier";
    case Stage::kBroadcastDescriptor:
      return "broadcast_descriptor";
    case Stage::kAllGatherDescriptors:
      return "all_gather_descriptors";
  }
  return "an unknown call";
}

void Failure::set_ranks(std::span<const int> all) {
  rank_count = static_cast<int32_t>(all.size());
  std::copy_n(all.begin(), std::min(all.size(), ranks.size()), ranks.begin());
}

ErrorCode code_of(const Failure& failure) {
  switch (failure.reason) {
    case Reason::kTimedOut:
      return ErrorCode::kTimeout;
    case Reason::kLeft:
    case Reason::kRankZeroFailed:
      return ErrorCode::kPeerFailed;
    default:
      return ErrorCode::kMismatch;
  }
}

std::string text_of(const Failure& failure) {
  const auto count = static_cast<size_t>(std::max(0, failure.rank_count));
  const std::string ranks = list_ranks(std::span(failure.ranks).first(std::min(count, failure.ranks.size())), count);
  const int rank = failure.ranks[0];
  switch (failure.reason) {
    case Reason::kTimedOut:
      return timed_out_text(failure, ranks);
    case Reason::kLeft:
      return join(ranks, process_text(failure.process_id), " of ", failure.size,
                  " ended or closed its communicator during ", name(failure.stage), "; its own output tells why");
    case Reason::kDuplicateRank:
      return join("two processes say that they are rank ", rank, " of ", failure.size, " (pids ", failure.process_id,
                  " and ", failure.other_process_id, "); give every rank a number of its own");
    case Reason::kWrongSize:
      return join(ranks, process_text(failure.process_id), " was started with ", counted(failure.found, "rank"),
                  ", rank 0 with ", failure.size, "; give all ranks the same size");
    case Reason::kWrongVersion:
      return join(ranks, process_text(failure.process_id), " speaks version ", failure.found,
                  " of the bootstrap's protocol, rank 0 version ", failure.expected,
                  "; use one build of Plait in all ranks");
    case Reason::kRankOutOfRange:
      return join("a process", process_text(failure.process_id), " says that it is rank ", rank, " of ", failure.size,
                  "; beside rank 0 there are ranks 1 to ", failure.size - 1);
    case Reason::kDifferentCall:
      return join(ranks, process_text(failure.process_id), " is in ", name(failure.found_stage), " with ",
                  counted(failure.found, "byte"), " a rank, rank 0 in ", name(failure.stage), " with ",
                  failure.expected, "; all ranks must make the same calls in the same order");
    case Reason::kRankZeroFailed:
      return join("rank 0 failed during ", name(failure.stage), "; its own output tells why");
  }
  return "unknown reason";
}

std::string list_ranks(std::span<const int> shown, size_t count) {
  std::string text = count == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < shown.size(); ++i) {
    const bool last = i + 1 == shown.size();
    if (i > 0) text += last && shown.size() == count ? " and " : ", ";
    text += std::to_string(shown[i]);
  }
  if (count > shown.size()) text += join(" and ", count - shown.size(), " more");
  return text;
}

std::string list_ranks(std::span<const int> all) {
  return list_ranks(all.first(std::min(all.size(), Failure().ranks.size())), all.size());
}

}  // namespace plait
