// Arrays in, messages out.
#include "bindings/messages.hpp"

#include <list>
#include <vector>

#include "bindings/array_view.hpp"

namespace plait::python {
namespace {

// The ends of messages, and the arrays that they are in, for as long as it lives.
class Ends {
 public:
  void add(PeerMessage::Kind kind, nb::sequence pairs, nb::handle dtype) {
    const bool receives = kind == PeerMessage::Kind::kReceive;
    for (const nb::handle pair : pairs) {
      const ArrayView& view = views_.emplace_back(pair[1], dtype, receives ? "receive" : "send");
      int peer = 0;
      if (!nb::try_cast<int>(pair[0], peer)) {
        fail(ErrorCode::kInvalidArgument, "the peer of a message is a rank, a whole number from 0; ",
             text_of(nb::repr(pair[0])), " is none");
      }
      if (receives && view.read_only()) {
        fail(ErrorCode::kInvalidArgument, "receive: the array for what comes from rank ", peer, " is read-only");
      }
      messages_.push_back({kind, peer, view.type().type, view.elements() * view.type().parts(), view.data()});
    }
  }
  const std::vector<PeerMessage>& messages() const { return messages_; }

 private:
  std::list<ArrayView> views_;  // which cannot move
  std::vector<PeerMessage> messages_;
};

}  // namespace

void exchange_arrays(CommunicatorHandle& handle, nb::sequence sends, nb::sequence receives, nb::handle dtype) {
  Ends ends;
  ends.add(PeerMessage::Kind::kSend, sends, dtype);
  ends.add(PeerMessage::Kind::kReceive, receives, dtype);
  handle.use([&](Communicator& communicator) { communicator.exchange(ends.messages()); });
}

}  // namespace plait::python
