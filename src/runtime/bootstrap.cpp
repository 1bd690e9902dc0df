#include "runtime/bootstrap.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <numeric>

#include "base/deadline.hpp"
#include "base/error.hpp"
#include "base/figures.hpp"
#include "runtime/bootstrap_messages.hpp"
#include "runtime/rendezvous.hpp"
#include "runtime/stream_socket.hpp"

namespace plait {
namespace {

constexpr int kMostBootstrapRanks = 4096;

// The other ranks wait a little longer than rank 0 does. Rank 0 sees everyone, so it should be the one to report the
// reason of a timeout.
constexpr double kGraceSeconds = 0.5;

// The kernel counts the descriptors that a user has sent and nobody has received yet. It refuses more than a process
// may have open, often 1024. Rank 0 stays far below.
constexpr int kMostDescriptorsUnderWay = 256;

void check_arguments(int rank, int size, double timeout_seconds) {
  if (size < 1 || size > kMostBootstrapRanks) {
    fail(ErrorCode::kInvalidArgument, "a communicator of ", counted(size, "rank"), "; 1 to ", kMostBootstrapRanks,
         " are possible");
  }
  if (rank < 0 || rank >= size) {
    fail(ErrorCode::kInvalidArgument, "rank ", rank, " of ", counted(size, "rank"), "; they are 0 to ", size - 1);
  }
  if (!(timeout_seconds > 0)) {
    fail(ErrorCode::kInvalidArgument, "a bootstrap timeout of ", timeout_seconds, " s; it must be more than 0");
  }
}

// An id made by RendezvousPoint::create() has a port, unless there was no loopback interface. Where there is one, a
// name was wanted.
void tell_where_ranks_meet(const UniqueId& id, const Logger& log) {
  if (id.origin != UniqueId::Origin::kProcess || id.port != 0 || has_loopback()) return;
  log.info("bootstrap: the loopback interface (lo) is missing or down, so ranks meet at a name instead of a port");
}

// Duplicates a descriptor of the caller. `does` says for messages what the rank does with it.
UniqueFd duplicate(int descriptor, int rank, const char* does) {
  UniqueFd mine(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  if (mine) return mine;
  if (errno == EBADF) {
    fail(ErrorCode::kInvalidArgument, "rank ", rank, " ", does, " ", descriptor, ", which is not a descriptor");
  }
  if (errno == EMFILE) {
    fail(ErrorCode::kResources, "rank ", rank, " ", does,
         " a descriptor and can open no more; raise the limit (ulimit -n)");
  }
  fail_system(errno, join("rank ", rank, " cannot duplicate the descriptor that it ", does));
}

// Says behind the errors of `step` what numbers of ranks mean.
template <class Step>
auto with_note(const std::string& about_ranks, Step step) {
  try {
    return step();
  } catch (const Error& error) {
    if (about_ranks.empty()) throw;
    throw Error(error.code(), error.what() + about_ranks);
  }
}

}  // namespace

class Bootstrap::End {
 public:
  End(int rank, int size, const BootstrapOptions& options) : rank_(rank), size_(size), options_(options) {}
  virtual ~End() = default;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const BootstrapOptions& options() const { return options_; }

  virtual std::vector<pid_t> meet() = 0;
  virtual void gather(Stage stage, std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  virtual UniqueFd broadcast(int descriptor) = 0;
  virtual std::vector<UniqueFd> gather_descriptors(int descriptor) = 0;
  virtual std::vector<RankLink> release() = 0;
  virtual std::span<const RankLink> links() const = 0;
  // Called after a call has thrown: tells the other ranks, as far as that is possible without waiting.
  virtual void abandon() = 0;

 protected:
  Frame frame(Frame::Kind kind, Stage stage, size_t bytes) const {
    Frame frame;
    frame.kind = kind;
    frame.stage = stage;
    frame.sequence = sequence_;
    frame.bytes = bytes;
    return frame;
  }

  // Packs a Frame and its payload into one message.
  static std::vector<std::byte> packed(const Frame& frame, std::span<const std::byte> payload) {
    std::vector<std::byte> message(sizeof frame + payload.size());
    std::memcpy(message.data(), &frame, sizeof frame);
    std::copy(payload.begin(), payload.end(), message.begin() + sizeof frame);
    return message;
  }

  // In gather_descriptors: tells whether all ranks synchronize after rank 0 has passed on the descriptor of `rank`.
  // They also synchronize at the end, so that a rank that has no room for a descriptor fails the call for all.
  bool all_meet_after(int rank) const {
    const int descriptors_of = std::max(1, kMostDescriptorsUnderWay / size_);
    return (rank + 1) % descriptors_of == 0 || rank + 1 == size_;
  }

  int rank_;
  int size_;
  BootstrapOptions options_;
  uint64_t sequence_ = 0;
};

// Rank 0, the centre of the star.
class Bootstrap::RankZero : public Bootstrap::End {
 public:
  RankZero(std::vector<RankLink> links, const BootstrapOptions& options)
      : End(0, static_cast<int>(links.size()), options), links_(std::move(links)) {}

  std::vector<pid_t> meet() override {
    std::vector<pid_t> process_ids{::getpid()};
    for (int rank = 1; rank < size_; ++rank) process_ids.push_back(link(rank).process_id);
    const auto bytes = std::as_bytes(std::span(process_ids));
    begin(Stage::kRendezvous);
    send_to_all(packed(frame(Frame::Kind::kResult, stage_, sizeof(pid_t)), bytes));
    return process_ids;
  }

  void gather(Stage stage, std::span<const std::byte> mine, std::span<std::byte> all) override {
    begin(stage);
    std::copy(mine.begin(), mine.end(), all.begin());
    struct Incoming {
      Frame frame;
      size_t received = 0;
    };
    std::vector<Incoming> incoming(links_.size());
    drive_all(links_, POLLIN, [&](int rank, int socket) {
      auto& [frame, received] = incoming[static_cast<size_t>(rank)];
      if (received < sizeof frame) {
        std::span<std::byte> rest = writable_bytes_of(frame).subspan(received);
        const Progress progress = receive_some(socket, rest);
        received = sizeof frame - rest.size();
        if (progress != Progress::kDone) return progress;
        check_contribution(rank, frame, mine.size());
      }
      const auto part = all.subspan(static_cast<size_t>(rank) * mine.size(), mine.size());
      std::span<std::byte> rest = part.subspan(received - sizeof frame);
      const Progress progress = receive_some(socket, rest);
      received = sizeof frame + part.size() - rest.size();
      return progress;
    });
    send_to_all(packed(frame(Frame::Kind::kResult, stage, mine.size()), all));
  }

  UniqueFd broadcast(int descriptor) override {
    gather(Stage::kBroadcastDescriptor, {}, {});
    UniqueFd mine = duplicate(descriptor, 0, "broadcasts");
    if (size_ == 1) return mine;
    std::vector<RankLink> second;
    send_descriptor(links_for_descriptors(second), mine.get());
    return mine;
  }

  std::vector<UniqueFd> gather_descriptors(int descriptor) override {
    gather(Stage::kAllGatherDescriptors, {}, {});
    std::vector<UniqueFd> all(links_.size());
    all[0] = duplicate(descriptor, 0, "gives all ranks");
    if (size_ == 1) return all;
    std::vector<RankLink> second;
    const std::span<const RankLink> links = links_for_descriptors(second);
    // Rank 0 sends its own descriptor first. It tells the others that all ranks have joined the call, so that they may
    // send theirs.
    send_descriptor(links, all[0].get());
    receive_descriptors(links, all);
    for (int rank = 1; rank < size_; ++rank) {
      send_descriptor(links, all[static_cast<size_t>(rank)].get(), rank);
      if (all_meet_after(rank)) gather(Stage::kAllGatherDescriptors, {}, {});
    }
    return all;
  }

  std::vector<RankLink> release() override { return std::move(links_); }
  std::span<const RankLink> links() const override { return links_; }

  void abandon() override {
    told_.stage = stage_;
    told_.size = size_;
    send_failure(links_, told_);
  }

 private:
  void begin(Stage stage) {
    stage_ = stage;
    ++sequence_;
  }

  // Returns connections that can pass descriptors. If the ranks met over TCP, they meet once more at a name, and
  // `second` gets the new links. Only ranks learn the secret of that rendezvous.
  std::span<const RankLink> links_for_descriptors(std::vector<RankLink>& second) {
    if (passes_descriptors(link(1).socket.get())) return links_;
    RendezvousPoint point = RendezvousPoint::create_at_name();
    send_to_all(packed(frame(Frame::Kind::kResult, stage_, sizeof(UniqueId)), bytes_of(point.id())));
    second = gather_ranks_again(std::move(point), links_, stage_, options_);
    return second;
  }

  // Sends a descriptor to all other ranks except `owner`, which has it already.
  void send_descriptor(std::span<const RankLink> links, int descriptor, int owner = 0) {
    const Frame message = frame(Frame::Kind::kResult, stage_, 0);
    std::vector<std::span<const std::byte>> rest(links.size(), bytes_of(message));
    drive_all(links, POLLOUT, [&](int rank, int socket) {
      if (rank == owner) return Progress::kDone;
      auto& left = rest[static_cast<size_t>(rank)];
      const bool begun = left.size() < sizeof message;
      return begun ? send_some(socket, left) : send_some_with_descriptor(socket, left, descriptor);
    });
  }

  // Receives one descriptor from each other rank.
  void receive_descriptors(std::span<const RankLink> links, std::vector<UniqueFd>& all) {
    struct Incoming {
      Frame frame;
      size_t received = 0;
    };
    std::vector<Incoming> incoming(links.size());
    drive_all(links, POLLIN, [&](int rank, int socket) {
      auto& [theirs, received] = incoming[static_cast<size_t>(rank)];
      UniqueFd& descriptor = all[static_cast<size_t>(rank)];
      std::span<std::byte> rest = writable_bytes_of(theirs).subspan(received);
      const Progress progress = receive_some_with_descriptor(socket, rest, descriptor);
      received = sizeof theirs - rest.size();
      if (progress != Progress::kDone) return progress;
      check_contribution(rank, theirs, 0);
      if (!descriptor) fail(ErrorCode::kInternal, "rank 0: rank ", rank, " sent no descriptor");
      return progress;
    });
  }

  // Calls `step` for each rank whenever its connection is ready, until every rank is done.
  void drive_all(std::span<const RankLink> links, short events,
                 const std::function<Progress(int rank, int socket)>& step) {
    const auto socket = [&](int rank) { return links[static_cast<size_t>(rank)].socket.get(); };
    std::vector<int> pending(links_.size() - 1);
    std::iota(pending.begin(), pending.end(), 1);
    const Deadline deadline =
        options_.deadline([&] { return join(list_ranks(pending), " of ", size_, " to reach ", name(stage_)); });
    std::vector<pollfd> polled;
    while (!pending.empty()) {
      polled.clear();
      for (const int rank : pending) polled.push_back({socket(rank), events, 0});
      const int ready = ::poll(polled.data(), polled.size(), deadline.poll_milliseconds());
      if (ready < 0 && errno != EINTR) fail_system(errno, "cannot poll the ranks' connections");
      if (ready <= 0) deadline.hear_interrupts();
      std::vector<int> still;
      for (size_t i = 0; i < pending.size(); ++i) {
        const Progress progress = polled[i].revents != 0 ? step(pending[i], socket(pending[i])) : Progress::kMore;
        if (progress == Progress::kGone) give_up(about(Reason::kLeft, pending[i]));
        if (progress == Progress::kMore) still.push_back(pending[i]);
      }
      pending = std::move(still);
      if (!pending.empty() && deadline.passed()) give_up_waiting(pending);
    }
  }

  void send_to_all(std::span<const std::byte> message) {
    std::vector<std::span<const std::byte>> rest(links_.size(), message);
    drive_all(links_, POLLOUT,
              [&](int rank, int socket) { return send_some(socket, rest[static_cast<size_t>(rank)]); });
  }

  void check_contribution(int rank, const Frame& theirs, size_t bytes) {
    if (theirs.kind == Frame::Kind::kContribute && theirs.stage == stage_ && theirs.sequence == sequence_ &&
        theirs.bytes == bytes) {
      return;
    }
    Failure failure = about(Reason::kDifferentCall, rank);
    failure.found_stage = theirs.stage;
    failure.found = theirs.bytes;
    failure.expected = bytes;
    give_up(failure);
  }

  Failure about(Reason reason, int rank) {
    Failure failure;
    failure.reason = reason;
    failure.stage = stage_;
    failure.size = size_;
    failure.set_ranks(std::span(&rank, 1));
    failure.process_id = link(rank).process_id;
    return failure;
  }

  [[noreturn]] void give_up_waiting(const std::vector<int>& ranks) {
    Failure failure = about(Reason::kTimedOut, ranks.front());
    failure.set_ranks(ranks);
    failure.seconds = options_.timeout_seconds;
    give_up(failure);
  }

  [[noreturn]] void give_up(const Failure& failure) {
    told_ = failure;
    fail(code_of(failure), "rank 0: ", text_of(failure));
  }

  const RankLink& link(int rank) const { return links_[static_cast<size_t>(rank)]; }

  std::vector<RankLink> links_;  // by rank; the link of rank 0 is empty
  Stage stage_ = Stage::kRendezvous;
  Failure told_;  // sent to the others when a call throws
};

// A rank other than 0, a leaf of the star.
class Bootstrap::OtherRank : public Bootstrap::End {
 public:
  OtherRank(RankLink link, int rank, int size, double seconds_left, const BootstrapOptions& options)
      : End(rank, size, options), link_(std::move(link)), seconds_left_(seconds_left) {}

  std::vector<pid_t> meet() override {
    begin(Stage::kRendezvous, seconds_left_);
    std::vector<pid_t> process_ids(static_cast<size_t>(size_));
    receive_frame(sizeof(pid_t));
    receive(std::as_writable_bytes(std::span(process_ids)));
    return process_ids;
  }

  void gather(Stage stage, std::span<const std::byte> mine, std::span<std::byte> all) override {
    begin(stage, options_.timeout_seconds);
    const auto message = packed(frame(Frame::Kind::kContribute, stage, mine.size()), mine);
    // If rank 0 has hung up, its reason may still be there to read.
    if (send_all(socket(), message, deadline_) == Progress::kMore) time_out();
    receive_frame(mine.size());
    receive(all);
  }

  UniqueFd broadcast(int) override {
    gather(Stage::kBroadcastDescriptor, {}, {});
    wait_at_most(options_.timeout_seconds);
    RankLink second;
    return receive_descriptor(socket_for_descriptors(second));
  }

  std::vector<UniqueFd> gather_descriptors(int descriptor) override {
    std::vector<UniqueFd> all(static_cast<size_t>(size_));
    UniqueFd& mine = all[static_cast<size_t>(rank_)];
    mine = duplicate(descriptor, rank_, "gives all ranks");
    gather(Stage::kAllGatherDescriptors, {}, {});
    wait_at_most(options_.timeout_seconds);
    RankLink second;
    const int socket = socket_for_descriptors(second);
    all[0] = receive_descriptor(socket);
    const Frame message = frame(Frame::Kind::kContribute, stage_, 0);
    // If rank 0 has hung up, its reason may still be there to read.
    if (send_all_with_descriptor(socket, bytes_of(message), mine.get(), deadline_) == Progress::kMore) time_out();
    for (int rank = 1; rank < size_; ++rank) {
      if (rank != rank_) all[static_cast<size_t>(rank)] = receive_descriptor(socket);
      if (!all_meet_after(rank)) continue;
      gather(Stage::kAllGatherDescriptors, {}, {});
      wait_at_most(options_.timeout_seconds);
    }
    return all;
  }

  std::vector<RankLink> release() override {
    std::vector<RankLink> links(static_cast<size_t>(size_));
    links[0] = std::move(link_);
    return links;
  }
  std::span<const RankLink> links() const override { return std::span(&link_, 1); }

  // The closed connection tells rank 0.
  void abandon() override {}

 private:
  void begin(Stage stage, double seconds) {
    stage_ = stage;
    ++sequence_;
    wait_at_most(seconds);
  }

  void wait_at_most(double seconds) {
    seconds_ = seconds;
    deadline_ = Deadline::after(seconds + kGraceSeconds, options_.interrupt_check);
  }

  // Returns a connection that can pass descriptors; see RankZero::links_for_descriptors().
  int socket_for_descriptors(RankLink& second) {
    if (passes_descriptors(socket())) return socket();
    UniqueId meeting;
    receive_frame(sizeof meeting);
    receive(writable_bytes_of(meeting));
    double seconds_left = 0;
    second = reach_rank_zero(meeting, rank_, size_, options_, seconds_left);
    wait_at_most(seconds_left);
    return second.socket.get();
  }

  UniqueFd receive_descriptor(int from) {
    Frame theirs;
    UniqueFd descriptor;
    const Progress progress = receive_all_with_descriptor(from, writable_bytes_of(theirs), descriptor, deadline_);
    // If rank 0 has given up, its reason comes over the first connection.
    if (progress == Progress::kGone) receive_frame(0);
    expect(progress);
    check_result(theirs, 0, from);
    if (!descriptor) fail(ErrorCode::kInternal, "rank ", rank_, ": rank 0 sent no descriptor");
    return descriptor;
  }

  void receive_frame(size_t bytes) {
    Frame theirs;
    receive(writable_bytes_of(theirs));
    check_result(theirs, bytes, socket());
  }

  void check_result(const Frame& theirs, size_t bytes, int from) {
    if (theirs.kind == Frame::Kind::kFailure) receive_failure(from, rank_, deadline_);
    if (theirs.kind == Frame::Kind::kResult && theirs.stage == stage_ && theirs.sequence == sequence_ &&
        theirs.bytes == bytes) {
      return;
    }
    fail(ErrorCode::kMismatch, "rank ", rank_, " is in ", name(stage_), " with ", counted(bytes, "byte"),
         " a rank, rank 0 in ", name(theirs.stage), " with ", theirs.bytes,
         "; all ranks must make the same calls in the same order");
  }

  void receive(std::span<std::byte> bytes) { expect(receive_all(socket(), bytes, deadline_)); }

  void expect(Progress progress) const {
    if (progress == Progress::kMore) time_out();
    if (progress == Progress::kDone) return;
    fail(ErrorCode::kPeerFailed, "rank ", rank_, ": rank 0 (pid ", link_.process_id,
         ") ended or closed its communicator during ", name(stage_), "; its own output tells why");
  }

  [[noreturn]] void time_out() const {
    fail(ErrorCode::kTimeout, "rank ", rank_, " of ", size_, ": rank 0 (pid ", link_.process_id, ") did not answer in ",
         name(stage_), " within ", seconds_, " s (PLAIT_BOOTSTRAP_TIMEOUT_SEC); stopped, or elsewhere in the program?");
  }

  int socket() const { return link_.socket.get(); }

  RankLink link_;
  double seconds_left_;
  Stage stage_ = Stage::kRendezvous;
  double seconds_ = 0;
  Deadline deadline_ = Deadline::after(0);
};

template <class Call>
auto Bootstrap::run(Call call) {
  if (!end_) {
    fail(ErrorCode::kInvalidArgument, "rank ", rank_, ": this communicator's bootstrap is closed",
         failure_.empty() ? "" : "; it failed before: ", failure_);
  }
  try {
    return with_note(end_->options().about_ranks, call);
  } catch (const std::exception& error) {
    failure_ = error.what();
    end_->abandon();
    end_.reset();
    throw;
  }
}

Bootstrap::Bootstrap(std::unique_ptr<End> end) : rank_(end->rank()), size_(end->size()), end_(std::move(end)) {
  process_ids_ = run([&] { return end_->meet(); });
}

Bootstrap::Bootstrap(Bootstrap&&) noexcept = default;
Bootstrap& Bootstrap::operator=(Bootstrap&&) noexcept = default;
Bootstrap::~Bootstrap() = default;

Bootstrap Bootstrap::alone() {
  return Bootstrap(std::make_unique<RankZero>(std::vector<RankLink>(1), BootstrapOptions()));
}

Bootstrap Bootstrap::create(const UniqueId& id, int rank, int size, const BootstrapOptions& options) {
  id.check();
  check_arguments(rank, size, options.timeout_seconds);
  tell_where_ranks_meet(id, options.log);
  if (rank == 0) return lead(RendezvousPoint::claim(id), size, options);
  double seconds_left = 0;
  RankLink link =
      with_note(options.about_ranks, [&] { return reach_rank_zero(id, rank, size, options, seconds_left); });
  return Bootstrap(std::make_unique<OtherRank>(std::move(link), rank, size, seconds_left, options));
}

Bootstrap Bootstrap::lead(RendezvousPoint point, int size, const BootstrapOptions& options) {
  check_arguments(0, size, options.timeout_seconds);
  const auto begin = std::chrono::steady_clock::now();
  auto links = with_note(options.about_ranks, [&] { return gather_ranks(std::move(point), size, options); });
  Bootstrap bootstrap(std::make_unique<RankZero>(std::move(links), options));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  options.log.info("bootstrap: ", counted(size, "rank"), " met after ", took.count(), " ms");
  return bootstrap;
}

void Bootstrap::all_gather(std::span<const std::byte> mine, std::span<std::byte> all) {
  run([&] {
    const auto ranks = static_cast<size_t>(size_);
    if (all.size() > kMostBytes || all.size() != ranks * mine.size()) {
      fail(ErrorCode::kInvalidArgument, "rank ", rank_, ": all_gather of ", counted(mine.size(), "byte"), " into ",
           all.size(), "; it needs ", size_, " times as many, at most ", kMostBytes);
    }
    end_->gather(Stage::kAllGather, mine, all);
  });
}

std::vector<std::string> Bootstrap::all_gather_texts(const std::string& mine) {
  const std::vector<uint64_t> lengths = all_gather(static_cast<uint64_t>(mine.size()));
  const auto most = static_cast<size_t>(*std::ranges::max_element(lengths));
  std::string padded = mine, all(most * lengths.size(), '\0');
  padded.resize(most);
  all_gather(std::as_bytes(std::span(padded)), std::as_writable_bytes(std::span(all)));
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < lengths.size(); ++rank) texts.push_back(all.substr(rank * most, lengths[rank]));
  return texts;
}

InternetAddress Bootstrap::own_address() const {
  if (!end_) return {};
  for (const RankLink& link : end_->links()) {
    if (!link.socket) continue;
    const auto address = InternetAddress::of(SocketAddress::of(link.socket.get()).get());
    if (address && !address->is_loopback()) return *address;
  }
  return {};
}

void Bootstrap::barrier() {
  run([&] { end_->gather(Stage::kBarrier, {}, {}); });
}

UniqueFd Bootstrap::broadcast_descriptor(int descriptor) {
  return run([&] { return end_->broadcast(descriptor); });
}

std::vector<UniqueFd> Bootstrap::all_gather_descriptors(int descriptor) {
  return run([&] { return end_->gather_descriptors(descriptor); });
}

const BootstrapOptions& Bootstrap::options() const {
  if (!end_) fail(ErrorCode::kInvalidArgument, "rank ", rank_, ": this communicator's bootstrap is closed");
  return end_->options();
}

std::vector<RankLink> Bootstrap::release() {
  std::vector<RankLink> links = run([&] { return end_->release(); });
  close();
  return links;
}

void Bootstrap::close() { end_.reset(); }

}  // namespace plait
