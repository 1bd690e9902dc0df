// Arrays in, messages out.
#include "bindings/messages.hpp"

#include <list>
#include <optional>
#include <vector>

#include "bindings/python_text.hpp"
#include "bindings/staged_array.hpp"

namespace plait::python {
namespace {

// One end of a message, and the array that it is in.
class End {
 public:
  End(PeerMessage::Kind kind, nb::handle peer, nb::handle array, nb::handle dtype, int device)
      : view_(array, dtype, kind == PeerMessage::Kind::kReceive ? "receive" : "send", device) {
    if (!nb::try_cast<int>(peer, message_.peer)) {
      fail(ErrorCode::kInvalidArgument, "the peer of a message is a rank, a whole number from 0; ",
           text_of(nb::repr(peer)), " is none");
    }
    message_.kind = kind;
    message_.type = view_.type().type;
    message_.count = view_.elements() * view_.type().parts();
    if (receives()) view_.check_writable();
    if (device != kNoDevice) view_.check_lies_in({});
  }

  // Elements travel in C's order: the other rank's array may lie in any.
  const PeerMessage& begin() {
    staged_.emplace(view_, AxisOrder());
    if (!receives()) staged_->load();
    message_.buffer = staged_->data();
    return message_;
  }
  void finish() {
    if (receives()) staged_->store();
  }

 private:
  bool receives() const { return message_.kind == PeerMessage::Kind::kReceive; }

  ArrayView view_;
  PeerMessage message_;
  std::optional<StagedArray> staged_;
};

using Ends = std::list<End>;  // which cannot move

void add(Ends& ends, PeerMessage::Kind kind, nb::sequence pairs, nb::handle dtype, int device) {
  for (const nb::handle pair : pairs) ends.emplace_back(kind, pair[0], pair[1], dtype, device);
}

// The check is called without the interpreter's lock, and lives no longer than the call of `function`.
WantedCheck wanted_check(nb::handle function) {
  if (function.is_none()) return {};
  return [function] {
    const nb::gil_scoped_acquire acquire;
    return nb::cast<bool>(function());
  };
}

}  // namespace

void exchange_arrays(CommunicatorHandle& handle, nb::sequence sends, nb::sequence receives, nb::handle dtype,
                     uintptr_t stream, nb::handle is_wanted) {
  Ends ends;
  const int device = handle.open()->device();
  add(ends, PeerMessage::Kind::kSend, sends, dtype, device);
  add(ends, PeerMessage::Kind::kReceive, receives, dtype, device);
  const WantedCheck check = wanted_check(is_wanted);
  handle.use([&](Communicator& communicator) {
    std::vector<PeerMessage> messages;
    for (End& end : ends) messages.push_back(end.begin());
    if (device == kNoDevice) {
      communicator.exchange(messages, check);
    } else {
      void* const streams[] = {reinterpret_cast<void*>(stream)};
      communicator.enqueue_p2p(messages, streams);
    }
    for (End& end : ends) end.finish();
  });
}

}  // namespace plait::python
