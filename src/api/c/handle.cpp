#include "api/c/handle.hpp"

#include <algorithm>

#include "topology/readers.hpp"

namespace {

// All handles ever made, linked by `older`: nothing is looked up here. It tells tools that look for lost memory that
// the handles are kept on purpose.
std::atomic<plaitComm_t> newest_handle{nullptr};

}  // namespace

plaitComm::plaitComm(plait::Communicator communicator)
    : rank(communicator.rank()),
      size(communicator.size()),
      device(communicator.device() == plait::kNoDevice ? PLAIT_DEVICE_HOST : communicator.device()),
      identity(communicator.identity()),
      member(std::make_shared<plait::c::Member>(std::move(communicator))) {}

plaitComm_t plaitComm::make(plait::Communicator communicator) {
  auto* handle = new plaitComm(std::move(communicator));
  handle->older = newest_handle.load();
  while (!newest_handle.compare_exchange_weak(handle->older, handle)) {
  }
  return handle;
}

namespace plait::c {

plaitComm_t check_handle(plaitComm_t comm, const char* argument) {
  require(comm, argument);
  const uint64_t magic = comm->magic.load();
  if (magic == plaitComm::kLive) return comm;
  if (magic == plaitComm::kEnded) {
    refuse(plaitInvalidArgument, argument, " is the handle of a communicator that was destroyed or aborted");
  }
  refuse(plaitInvalidArgument, argument, " is not a handle that Plait made");
}

std::shared_ptr<Member> member_of(plaitComm_t comm) {
  check_handle(comm);
  const std::lock_guard lock(comm->mutex);
  return comm->member;
}

std::shared_ptr<Member> take_member(plaitComm_t comm, bool ends_handle) {
  check_handle(comm);
  const std::lock_guard lock(comm->mutex);
  check_handle(comm);  // another thread may have ended it meanwhile
  if (ends_handle) {
    comm->magic.store(plaitComm::kEnded);
    comm->operations.clear();
    comm->machine = {};
  } else if (comm->member) {
    comm->failure = comm->member->communicator.async_error();
    comm->machine.ask(comm->member->communicator);
  }
  return std::move(comm->member);
}

std::shared_ptr<Member> usable_member_of(plaitComm_t comm) {
  auto member = member_of(comm);
  if (member) return member;
  check_handle(comm);  // says so where it was aborted meanwhile
  refuse(plaitInvalidUsage, "comm was finalized: it can only be asked and destroyed");
}

void MachineTexts::ask(const Communicator& communicator) {
  if (!topology.empty()) return;
  std::vector<std::vector<int>> groups = communicator.groups();
  for (std::vector<int>& ranks : groups) std::sort(ranks.begin(), ranks.end());
  std::sort(groups.begin(), groups.end());
  group.resize(static_cast<size_t>(communicator.size()));
  for (size_t number = 0; number < groups.size(); ++number) {
    for (const int rank : groups[number]) group[static_cast<size_t>(rank)] = static_cast<int>(number);
  }
  topology = to_json(communicator.topology());
}

const MachineTexts& machine_of(plaitComm_t comm) {
  check_handle(comm);
  const std::lock_guard lock(comm->mutex);
  check_handle(comm);  // another thread may have ended it meanwhile
  if (comm->member) comm->machine.ask(comm->member->communicator);
  return comm->machine;
}

std::optional<Answer> failure_of(plaitComm_t comm) {
  std::optional<Error> failure;
  if (const auto member = member_of(comm)) {
    failure = member->communicator.async_error();
  } else {
    const std::lock_guard lock(comm->mutex);
    failure = comm->failure;
  }
  if (!failure) return std::nullopt;
  // As calls return it: the system that a communicator with a GPU deals with is CUDA.
  const bool is_cuda = comm->device != PLAIT_DEVICE_HOST && failure->code() == ErrorCode::kSystem;
  return Answer{is_cuda ? plaitUnhandledCudaError : result_of(failure->code()), failure->what()};
}

Use::Use(plaitComm_t comm) : member_(usable_member_of(comm)) {
  if (member_->busy.exchange(true, std::memory_order_acquire)) {
    refuse(plaitInvalidUsage,
           "another thread is in a call of this communicator; a communicator is used by one thread at "
           "a time");
  }
}

Use::~Use() { member_->busy.store(false, std::memory_order_release); }

}  // namespace plait::c
