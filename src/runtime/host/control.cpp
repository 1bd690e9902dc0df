#include "runtime/host/control.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <optional>

#include "base/deadline.hpp"
#include "base/error.hpp"
#include "base/library_thread.hpp"
#include "base/wake_event.hpp"
#include "runtime/bootstrap_messages.hpp"
#include "runtime/stream_socket.hpp"

namespace plait {
namespace {

struct ControlMessage {
  enum class Kind : uint32_t {
    kFailure,  // `rank` has found a failure, or nobody in particular (-1); a text follows
    kLeft,     // `rank` has left
  };
  Kind kind = Kind::kFailure;
  int32_t rank = -1;
  int32_t code = 0;
  uint32_t text_bytes = 0;
  uint64_t completed_call = 0;  // kLeft: of `rank`
};
static_assert(sizeof(ControlMessage) == 24);

constexpr size_t kMostTextBytes = sizeof(FailureRecord::message);

std::string packed(ControlMessage message, const std::string& text = "") {
  message.text_bytes = static_cast<uint32_t>(std::min(text.size(), kMostTextBytes));
  std::string bytes(reinterpret_cast<const char*>(&message), sizeof message);
  return bytes.append(text, 0, message.text_bytes);
}

// One connection with what has arrived and what is still to be sent.
class ControlLink {
 public:
  explicit ControlLink(UniqueFd socket) : socket_(std::move(socket)) {}

  bool is_open() const { return static_cast<bool>(socket_); }
  void close() { socket_.reset(); }
  bool has_sent_all() const { return unsent_.empty(); }
  pollfd entry() const { return {socket_.get(), static_cast<short>(unsent_.empty() ? POLLIN : POLLIN | POLLOUT), 0}; }

  // Sends what can be sent now. A connection that has ended shows when something is received.
  void send(const std::string& bytes) {
    if (!is_open()) return;
    unsent_ += bytes;
    std::span<const std::byte> rest = std::as_bytes(std::span(unsent_));
    try {
      send_some(socket_.get(), rest);
    } catch (const Error&) {
      return close();
    }
    unsent_.erase(0, unsent_.size() - rest.size());
  }

  // Calls `take` with each message that has arrived whole. Returns false once the connection has ended, or brings what
  // no rank sends.
  template <class Take>
  bool receive(Take take) {
    for (;;) {
      std::array<std::byte, 4096> buffer;
      std::span<std::byte> rest = buffer;
      const Progress progress = receive_without_errors(rest);
      received_.append(reinterpret_cast<const char*>(buffer.data()), buffer.size() - rest.size());
      for (std::optional<ControlMessage> message; (message = first());) {
        if (message->text_bytes > kMostTextBytes) return false;
        if (received_.size() < sizeof *message + message->text_bytes) break;
        take(*message, received_.substr(sizeof *message, message->text_bytes));
        received_.erase(0, sizeof *message + message->text_bytes);
      }
      if (progress != Progress::kDone) return progress == Progress::kMore;
    }
  }

 private:
  Progress receive_without_errors(std::span<std::byte>& rest) const {
    try {
      return receive_some(socket_.get(), rest);
    } catch (const Error&) {
      return Progress::kGone;
    }
  }

  std::optional<ControlMessage> first() const {
    if (received_.size() < sizeof(ControlMessage)) return std::nullopt;
    ControlMessage message;
    std::memcpy(&message, received_.data(), sizeof message);
    return message;
  }

  UniqueFd socket_;
  std::string received_, unsent_;
};

}  // namespace

// One rank's end of the star, on the thread of run() but for tell() and leave().
class Control::Star {
 public:
  Star(int rank, std::vector<RankLink> links, std::shared_ptr<Segment> segment, std::vector<std::string> names)
      : rank_(rank), segment_(std::move(segment)), names_(std::move(names)), has_left_(links.size()) {
    for (RankLink& link : links) {
      if (link.socket) notice_silence(link.socket.get());
      links_.emplace_back(std::move(link.socket));
    }
  }

  // The two calls for other threads: something has failed here; this rank leaves.
  void tell() const { news_.set(); }
  // Returns when that has been said: a process may end at once when its rank has left.
  void leave() {
    leaves_.store(true);
    tell();
    has_said_goodbye_.wait(false);
  }

  void run() {
    while (!is_over()) {
      wait();
      for (size_t rank = 0; rank < links_.size(); ++rank) serve(static_cast<int>(rank));
      if (mourning_ && mourning_->passed()) report_gone();
      pass_on_failure();
      if (leaves_.load()) say_goodbye();
    }
    say_goodbye();  // to nobody, for who waits in leave()
  }

 private:
  // Rank 0 stays for as long as others may have something to tell each other.
  bool is_over() const {
    const bool is_alone = std::ranges::none_of(links_, &ControlLink::is_open);
    if (rank_ == 0) return is_alone && has_said_goodbye_.load();
    return is_alone ? !mourning_ : has_said_goodbye_.load() && links_[0].has_sent_all();
  }

  void wait() {
    std::vector<pollfd> polled{{news_.descriptor(), POLLIN, 0}};
    for (const ControlLink& link : links_) polled.push_back(link.entry());  // poll() skips -1
    ::poll(polled.data(), polled.size(), mourning_ ? mourning_->poll_milliseconds() : -1);
    news_.clear();
  }

  void serve(int from) {
    ControlLink& link = links_[static_cast<size_t>(from)];
    if (!link.is_open()) return;
    link.send("");
    const bool goes_on = link.is_open() && link.receive([&](const ControlMessage& message, const std::string& text) {
      take(message, text);
    });
    if (goes_on) return;
    link.close();
    if (has_left_[static_cast<size_t>(from)]) return;
    gone_.push_back(from);
    if (!mourning_) mourning_ = Deadline::after(kGraceSeconds);
  }

  void take(const ControlMessage& message, const std::string& text) {
    if (message.kind == ControlMessage::Kind::kFailure) {
      set_failure(segment_->failure(), static_cast<ErrorCode>(message.code), message.rank, text);
      if (rank_ != 0) has_passed_on_ = true;  // rank 0 has sent it to all
      return;
    }
    if (message.rank < 0 || static_cast<size_t>(message.rank) >= links_.size()) return;
    has_left_[static_cast<size_t>(message.rank)] = true;
    if (rank_ == 0) send_to_all(packed(message));
    mirror(message);
  }

  // Writes what a rank of another host would have written into this memory itself. Ranks of this host have done so.
  void mirror(const ControlMessage& message) const {
    RankStatus& status = segment_->status(message.rank);
    if (status.state.load(std::memory_order_relaxed) != RankState::kAbsent) return;
    status.completed_call.store(message.completed_call, std::memory_order_relaxed);
    status.state.store(RankState::kClosed, std::memory_order_seq_cst);
  }

  void report_gone() {
    mourning_.reset();
    const bool one = gone_.size() == 1;
    std::string who;
    for (size_t i = 0; i < gone_.size() && i < Failure().ranks.size(); ++i) {
      who += (i == 0 ? "" : ", ") + names_[static_cast<size_t>(gone_[i])];
    }
    if (gone_.size() > Failure().ranks.size()) who += join(" and ", gone_.size() - Failure().ranks.size(), " more");
    set_failure(segment_->failure(), ErrorCode::kPeerFailed, rank_,
                join(who, one ? " has died, or its host is" : " have died, or their hosts are", " out of reach; ",
                     one ? "its" : "their", " own output tells why"));
  }

  void pass_on_failure() {
    if (has_passed_on_) return;
    const std::optional<RecordedFailure> failure = recorded_failure(segment_->failure());
    if (!failure) return;
    has_passed_on_ = true;
    ControlMessage message;
    message.rank = failure->reporter;
    message.code = static_cast<int32_t>(failure->code);
    send_to_all(packed(message, failure->message));
  }

  void say_goodbye() {
    if (has_said_goodbye_.load()) return;
    ControlMessage message;
    message.kind = ControlMessage::Kind::kLeft;
    message.rank = rank_;
    message.completed_call = segment_->status(rank_).completed_call.load(std::memory_order_relaxed);
    send_to_all(packed(message));
    has_said_goodbye_.store(true);
    has_said_goodbye_.notify_all();
  }

  void send_to_all(const std::string& bytes) {
    for (ControlLink& link : links_) link.send(bytes);
  }

  const int rank_;
  const std::shared_ptr<Segment> segment_;
  const std::vector<std::string> names_;
  std::vector<ControlLink> links_;  // by rank: of rank 0 to all others, of others to rank 0
  std::vector<bool> has_left_;      // by rank, as far as is known
  std::vector<int> gone_;           // without a word
  std::optional<Deadline> mourning_;
  bool has_passed_on_ = false;  // the failure
  std::atomic<bool> leaves_{false};
  std::atomic<bool> has_said_goodbye_{false};
  const WakeEvent news_;  // of this process, for the thread
};

Control::Control(Bootstrap bootstrap, std::shared_ptr<Segment> segment, std::vector<std::string> names) {
  const int rank = bootstrap.rank();
  star_ = std::make_shared<Star>(rank, bootstrap.release(), segment, std::move(names));
  thread_ = start_library_thread(join("the connections between hosts of rank ", rank), [star = star_] { star->run(); });
  segment->when_failed([star = std::weak_ptr(star_)] {
    if (const auto alive = star.lock()) alive->tell();
  });
}

Control::~Control() { leave(); }

void Control::leave() {
  if (has_left_) return;
  has_left_ = true;
  if (fork_mark_.is_in_child()) {  // the thread is the parent's
    new std::thread(std::move(thread_));
    return;
  }
  star_->leave();
  thread_.detach();
}

}  // namespace plait
