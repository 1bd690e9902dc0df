#include "api/c/group.hpp"

#include <algorithm>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include "api/c/batches.hpp"
#include "base/figures.hpp"

namespace plait::c {
namespace {

// The failure that came first and is no echo of one on another rank, if there is such.
class FirstFailure {
 public:
  void keep(const Answer& answer) {
    const std::lock_guard lock(mutex_);
    const bool is_better = first_.result == plaitSuccess || (first_.is_echo && !answer.is_echo);
    if (answer.result != plaitSuccess && is_better) first_ = answer;
  }
  const Answer& get() const { return first_; }

 private:
  std::mutex mutex_;
  Answer first_;
};

// Something that may wait for what other jobs do.
struct Job {
  std::function<Answer()> work;   // keeps its failure itself where it ends others' waits by it
  std::function<void()> give_up;  // ends the waits of others for this job, which cannot be started
};

void run(const Job& job, FirstFailure& failure) noexcept {
  try {
    failure.keep(job.work());
  } catch (...) {
    failure.keep({plaitSystemError, ""});  // no memory for the words
  }
}

// Runs all jobs at the same time, the first of them on this thread.
void run_together(const std::vector<Job>& jobs, FirstFailure& failure) {
  std::vector<std::thread> helpers;
  helpers.reserve(jobs.size());
  for (size_t i = 1; i < jobs.size(); ++i) {
    try {
      helpers.emplace_back([&, i] { run(jobs[i], failure); });
    } catch (const std::system_error& error) {
      failure.keep({plaitSystemError, join("cannot start a thread for each of the ", counted(jobs.size(), "rank"),
                                           " of the group: ", error.what())});
      jobs[i].give_up();
    }
  }
  if (!jobs.empty()) run(jobs[0], failure);
  for (std::thread& helper : helpers) helper.join();
}

const Scalar* scalar_of(const CollectiveCall& call) { return call.scalar ? &*call.scalar : nullptr; }

// The system that an enqueueing call deals with is CUDA.
template <class Body>
bool enqueueing(const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kSystem) refuse(plaitUnhandledCudaError, error.what());
    throw;
  }
}

// Sends and receives of one communicator, to be done together.
struct Exchange {
  const char* function;  // of the first
  plaitComm_t comm;
  std::vector<PeerMessage> messages;
  std::vector<void*> streams;  // each once

  explicit Exchange(const MessageCall& first) : function(first.function), comm(first.comm) { add(first); }
  void add(const MessageCall& call) {
    messages.push_back(call.message);
    if (std::find(streams.begin(), streams.end(), call.stream) == streams.end()) streams.push_back(call.stream);
  }
};

// False: it needs more steps, see Communicator::start_enqueue().
bool start(Communicator& communicator, const CollectiveCall& call) {
  if (call.plan) communicator.give(call.plan);
  if (communicator.device() == kNoDevice) {
    if (call.blocks) {
      communicator.run_by_counts({call.call, *call.blocks}, call.input, call.output, scalar_of(call));
    } else {
      communicator.run(call.call, call.input, call.output, scalar_of(call));
    }
    return true;
  }
  return enqueueing(
      [&] { return communicator.start_enqueue(call.call, call.input, call.output, call.stream, scalar_of(call)); });
}

bool start(Communicator& communicator, const Exchange& exchange) {
  if (communicator.device() == kNoDevice) {
    communicator.exchange(exchange.messages);
    return true;
  }
  return enqueueing([&] { return communicator.start_p2p(exchange.messages, exchange.streams); });
}

bool advance(Communicator& communicator) {
  return enqueueing([&] { return communicator.advance(); });
}

template <class Call>
void perform(const Call& call) {
  const Use communicator(call.comm);
  bool is_done = start(*communicator, call);
  while (!is_done) is_done = advance(*communicator);
}

void abort(plaitComm_t comm, const std::string& reason) {
  try {
    if (const auto member = member_of(comm)) member->communicator.abort(reason);
  } catch (const Refusal&) {
    // Its handle has ended: nobody waits for it any more.
  }
}

// Performs a part of a call of a group, or of the exchange of a communicator. If it fails, its communicator ends, since
// this thread may drive ranks that wait for it.
template <class Call, class Part>
Answer perform_in_group(const Call& call, FirstFailure& failure, const Part& part) {
  Answer answer = attempt(call.function, part);
  if (answer.result == plaitSuccess) return answer;
  failure.keep(answer);
  abort(call.comm, "a call of a group failed: " + answer.text);
  return answer;
}

template <class Call>
Answer perform_in_group(const Call& call, FirstFailure& failure) {
  return perform_in_group(call, failure, [&] { perform(call); });
}

// Calls on GPUs, each of another rank, of the same communicator or not. All take a step before any takes the next.
template <class Call>
void perform_together(const std::vector<const Call*>& calls, FirstFailure& failure) {
  struct Started {
    explicit Started(const Call& its_call) : call(its_call), communicator(its_call.comm) {}
    const Call& call;
    Use communicator;
    bool is_over = true;  // also where a step fails
  };
  std::list<Started> started;
  for (const Call* const call : calls) {
    perform_in_group(*call, failure, [&] {
      Started& it = started.emplace_back(*call);
      it.is_over = start(*it.communicator, *call);
    });
  }
  for (;;) {
    started.remove_if([](const Started& it) { return it.is_over; });
    if (started.empty()) return;
    for (Started& it : started) {
      it.is_over = true;
      perform_in_group(it.call, failure, [&] { it.is_over = advance(*it.communicator); });
    }
  }
}

// Calls on GPUs, in the order in which they were made.
template <class Call>
void perform_in_turns(const std::vector<const Call*>& calls, FirstFailure& failure) {
  if (calls.size() == 1) return void(perform_in_group(*calls[0], failure));  // most often
  std::vector<RankCall> callers;
  callers.reserve(calls.size());
  for (const Call* const call : calls) {
    callers.push_back({call->comm->device, call->comm->rank, call->comm->identity});
  }
  std::vector<const Call*> together;
  for (const std::vector<size_t>& turn : turns_of(callers)) {
    together.clear();
    for (const size_t call : turn) together.push_back(calls[call]);
    perform_together(together, failure);
  }
}

// Communicators to be made one after the other: parts of one, in the order in which its other ranks divide it as well.
// One that is not a part is alone.
using Division = std::vector<const CommunicatorToMake*>;

std::vector<Division> divisions_of(const std::vector<CommunicatorToMake>& communicators) {
  std::vector<Division> divisions;
  for (const CommunicatorToMake& one : communicators) {
    const auto of_the_same = [&](const Division& it) {
      return one.divided != nullptr && it.front()->divided == one.divided;
    };
    const auto found = std::find_if(divisions.begin(), divisions.end(), of_the_same);
    (found != divisions.end() ? *found : divisions.emplace_back()).push_back(&one);
  }
  return divisions;
}

// Goes on where one fails, since other ranks do so as well.
Answer make_in_order(const Division& division) {
  FirstFailure failure;
  for (const CommunicatorToMake* const one : division) {
    failure.keep(attempt(one->function, [&] { *one->where = one->make(); }));
  }
  return failure.get();
}

void make_all(const std::vector<CommunicatorToMake>& communicators, FirstFailure& failure) {
  const std::vector<Division> divisions = divisions_of(communicators);
  std::vector<Job> jobs;
  for (const Division& division : divisions) {
    jobs.push_back({[&division] { return make_in_order(division); },
                    [&division] {
                      if (division.front()->divided == nullptr) return;  // the bootstrap's time ends the others' waits
                      abort(division.front()->divided, "a group could not start a thread for this rank");
                    }});
  }
  run_together(jobs, failure);
}

// The calls of a group on one communicator.
struct Share {
  plaitComm_t comm;
  std::vector<const CollectiveCall*> calls;
  std::optional<Exchange> exchange;
};

// By communicator, in the order of their first calls.
std::vector<Share> by_communicator(const std::vector<CollectiveCall>& calls, const std::vector<MessageCall>& messages) {
  std::vector<Share> shares;
  const auto share_of = [&](plaitComm_t comm) -> Share& {
    const auto found = std::find_if(shares.begin(), shares.end(), [&](const Share& it) { return it.comm == comm; });
    if (found != shares.end()) return *found;
    return shares.emplace_back(Share{comm, {}, {}});
  };
  for (const CollectiveCall& call : calls) share_of(call.comm).calls.push_back(&call);
  for (const MessageCall& call : messages) {
    Share& share = share_of(call.comm);
    if (share.exchange) {
      share.exchange->add(call);
    } else {
      share.exchange.emplace(call);
    }
  }
  return shares;
}

Answer perform_share(const Share& share, FirstFailure& failure) {
  Answer answer;
  for (const CollectiveCall* call : share.calls) {
    if (answer.result == plaitSuccess) answer = perform_in_group(*call, failure);
  }
  if (answer.result == plaitSuccess && share.exchange) answer = perform_in_group(*share.exchange, failure);
  return answer;
}

// Checks that need all messages of the group. Nothing has happened yet.
Answer check(const Share& share) {
  if (!share.exchange) return {};
  return attempt(share.exchange->function,
                 [&] { check_messages(share.exchange->messages, share.comm->rank, share.comm->size); });
}

void perform_all(const std::vector<CollectiveCall>& calls, const std::vector<Share>& shares, FirstFailure& failure) {
  std::vector<const CollectiveCall*> on_devices;
  for (const CollectiveCall& call : calls) {
    if (call.comm->device != PLAIT_DEVICE_HOST) on_devices.push_back(&call);
  }
  perform_in_turns(on_devices, failure);
  std::vector<const Exchange*> exchanges;
  std::vector<Job> jobs;
  for (const Share& share : shares) {
    if (share.comm->device != PLAIT_DEVICE_HOST) {
      if (share.exchange) exchanges.push_back(&*share.exchange);
    } else {
      jobs.push_back({[&share, &failure] { return perform_share(share, failure); },
                      [&share] { abort(share.comm, "a group could not start a thread for this rank"); }});
    }
  }
  perform_in_turns(exchanges, failure);
  run_together(jobs, failure);
}

}  // namespace

void CallGroup::keep_failure(plaitResult_t result) noexcept {
  if (depth_ == 0 || notes_->failure.result != plaitSuccess) return;
  notes_->failure.result = result;
  try {
    notes_->failure.text = last_error();
  } catch (...) {
    // No memory for the words; the result is what counts.
  }
}

CallGroup& CallGroup::of_this_thread() {
  static_assert(std::is_trivially_destructible_v<CallGroup>);
  static constinit thread_local CallGroup group;
  return group;
}

void CallGroup::start() {
  if (depth_ == 0) notes_ = new Notes;
  ++depth_;
}

void CallGroup::end() {
  if (depth_ == 0) refuse(plaitInvalidUsage, "there is no plaitGroupStart on this thread that it could end");
  if (--depth_ > 0) return;
  const std::unique_ptr<const Notes> notes(std::exchange(notes_, nullptr));
  const std::vector<Share> shares = by_communicator(notes->calls, notes->messages);
  FirstFailure failure;
  failure.keep(notes->failure);
  for (const Share& share : shares) failure.keep(check(share));
  if (failure.get().result == plaitSuccess) make_all(notes->communicators, failure);
  if (failure.get().result == plaitSuccess) perform_all(notes->calls, shares, failure);
  if (failure.get().result != plaitSuccess) throw Refusal(failure.get().result, failure.get().text);
}

void CallGroup::issue(const CollectiveCall& call) {
  if (depth_ == 0) {
    perform(call);
  } else {
    if (call.stream == PLAIT_BLOCKING) {
      refuse(plaitInvalidUsage,
             "stream is PLAIT_BLOCKING, and calls of a group are made together, at its end: give "
             "them streams, or make blocking calls outside of groups, on a thread for each rank");
    }
    usable_member_of(call.comm);  // refused now, not when other ranks already wait
    notes_->calls.push_back(call);
  }
}

void CallGroup::issue(const MessageCall& call) {
  if (depth_ == 0) {
    perform(Exchange(call));
  } else {
    usable_member_of(call.comm);
    notes_->messages.push_back(call);
  }
}

void CallGroup::make(CommunicatorToMake communicator) {
  if (depth_ == 0) {
    *communicator.where = communicator.make();
  } else {
    notes_->communicators.push_back(std::move(communicator));
  }
}

}  // namespace plait::c

extern "C" plaitResult_t plaitGroupStart(void) {
  return plait::c::at_edge("plaitGroupStart", [] { plait::c::CallGroup::of_this_thread().start(); });
}

extern "C" plaitResult_t plaitGroupEnd(void) {
  return plait::c::at_edge("plaitGroupEnd", [] { plait::c::CallGroup::of_this_thread().end(); });
}
