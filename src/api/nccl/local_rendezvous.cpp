// Doors, and letters between them: datagrams of one host, at names in the abstract namespace.
#include "api/nccl/local_rendezvous.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <map>

#include "base/error.hpp"

namespace plait::nccl {
namespace {

// How long to wait for a letter before looking whether those who are missing have left.
constexpr int kGlanceMilliseconds = 20;

// The head comes first. No field leaves a gap, so that equal letters have equal bytes.
struct LetterHead {
  int32_t is_result = 0;
  int32_t round = 0;
  int32_t place = 0;  // of the sender
};

template <class Body>
struct Letter {
  LetterHead head;
  Body body;
  Sha256Digest proof{};

  Sha256Digest proof_by(const RendezvousKey& key) const {
    return hmac_sha256(std::as_bytes(std::span(key)),
                       std::as_bytes(std::span(this, 1)).first(sizeof(head) + sizeof(body)));
  }
};
static_assert(sizeof(Letter<Vote>) == sizeof(LetterHead) + sizeof(Vote) + sizeof(Sha256Digest));
static_assert(sizeof(Letter<VoteResult>) == sizeof(LetterHead) + sizeof(VoteResult) + sizeof(Sha256Digest));
static_assert(sizeof(Letter<Vote>) != sizeof(Letter<VoteResult>));

struct DoorName {
  sockaddr_un address{};
  socklen_t length = 0;

  DoorName(const RendezvousKey& key, int place) {
    constexpr std::string_view kPrefix = "plait-nccl-";
    constexpr char kHex[] = "0123456789abcdef";
    const std::string what = join("door ", place);
    const Sha256Digest digest = hmac_sha256(std::as_bytes(std::span(key)), std::as_bytes(std::span(what)));
    char* at = address.sun_path + 1;  // after a zero: no file
    at += kPrefix.copy(at, kPrefix.size());
    for (size_t i = 0; i < 16; ++i) {
      *at++ = kHex[digest[i] >> 4];
      *at++ = kHex[digest[i] & 15];
    }
    address.sun_family = AF_UNIX;
    length = static_cast<socklen_t>(at - reinterpret_cast<char*>(&address));
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

UniqueFd datagram_socket() { return UniqueFd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

bool is_open(const RendezvousKey& key, int place) {
  const UniqueFd probe = datagram_socket();
  const DoorName name(key, place);
  return probe && ::connect(probe.get(), name.get(), name.length) == 0;
}

void pause() {
  const timespec moment{0, 1'000'000};
  nanosleep(&moment, nullptr);
}

// False where the door is shut, or its owner does not read until the deadline.
template <class Body>
bool send_letter(const UniqueFd& from, const RendezvousKey& key, int place, Letter<Body> letter,
                 const Deadline& deadline) {
  letter.proof = letter.proof_by(key);
  const DoorName to(key, place);
  for (;;) {
    const ssize_t sent = ::sendto(from.get(), &letter, sizeof(letter), MSG_NOSIGNAL, to.get(), to.length);
    if (sent == sizeof(letter)) return true;
    const bool is_full = sent < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == EINTR);
    if (!is_full || deadline.passed()) return false;
    pause();
  }
}

// The next letter of this kind and round; nothing where none comes for a moment. Others are thrown away: they are of
// strangers, or of a round that is over.
template <class Body>
std::optional<Letter<Body>> next_letter(const UniqueFd& door, const RendezvousKey& key, bool is_result, int round) {
  pollfd waiting{door.get(), POLLIN, 0};
  ::poll(&waiting, 1, kGlanceMilliseconds);
  Letter<Body> letter;
  ssize_t length = 0;
  while ((length = ::recv(door.get(), &letter, sizeof(letter), MSG_TRUNC)) >= 0) {
    const bool fits = length == sizeof(letter) && letter.head.is_result == static_cast<int32_t>(is_result) &&
                      letter.head.round == round && letter.proof == letter.proof_by(key);
    if (fits) return letter;
  }
  return std::nullopt;
}

}  // namespace

RendezvousKey derive_key(std::span<const std::byte> parent, std::span<const std::byte> bytes) {
  return hmac_sha256(parent, bytes);
}

std::optional<LocalRendezvous> LocalRendezvous::enter(const RendezvousKey& key, int place, int places) {
  UniqueFd door = datagram_socket();
  const DoorName name(key, place);
  if (!door || ::bind(door.get(), name.get(), name.length) != 0) return std::nullopt;
  return LocalRendezvous(key, place, places, std::move(door));
}

int LocalRendezvous::count_members() {
  members_.clear();
  for (int place = 0; place < places_; ++place) {
    if (place == place_ || is_open(key_, place)) members_.push_back(place);
  }
  return static_cast<int>(members_.size());
}

VoteResult LocalRendezvous::vote(const Vote& mine, double seconds) {
  ++round_;
  // Those who follow wait longer than the one who counts: it may have come later by so much.
  return place_ == members_.front() ? collect(mine, Deadline::after(seconds))
                                    : follow(mine, Deadline::after(2 * seconds));
}

VoteResult LocalRendezvous::collect(const Vote& mine, const Deadline& deadline) {
  std::map<int, Vote> votes{{place_, mine}};
  std::optional<VoteResult> result;
  while (votes.size() < members_.size() && !result) {
    if (const auto letter = next_letter<Vote>(door_, key_, false, round_)) {
      votes.emplace(letter->head.place, letter->body);
      continue;
    }
    for (const int place : members_) {
      if (votes.contains(place)) continue;
      if (!is_open(key_, place)) result = VoteResult::no(join("the rank at place ", place, " has left"));
      if (deadline.passed()) result = VoteResult::no(join("the rank at place ", place, " does not vote"));
    }
  }
  if (!result) {
    std::vector<Vote> all;
    for (const auto& [place, vote] : votes) all.push_back(vote);
    result = count_votes(all);
    for (const int place : members_) {
      if (place == place_ || is_open(key_, place)) continue;
      result = VoteResult::no(join("the rank at place ", place, " has left"));
    }
  }
  for (const int place : members_) {
    if (place == place_) continue;
    send_letter(door_, key_, place, Letter<VoteResult>{{1, round_, place_}, *result, {}}, Deadline::after(1));
  }
  return *result;
}

VoteResult LocalRendezvous::follow(const Vote& mine, const Deadline& deadline) {
  const int first = members_.front();
  if (!send_letter(door_, key_, first, Letter<Vote>{{0, round_, place_}, mine, {}}, deadline)) {
    return VoteResult::no(join("the rank at place ", first, " has left"));
  }
  for (;;) {
    const bool is_there = is_open(key_, first);  // asked first: it may send the result, and leave
    if (const auto letter = next_letter<VoteResult>(door_, key_, true, round_)) return letter->body;
    if (!is_there) return VoteResult::no(join("the rank at place ", first, " has left"));
    if (deadline.passed()) return VoteResult::no(join("the rank at place ", first, " gives no result"));
  }
}

}  // namespace plait::nccl
