// Sends and receives: their arguments become messages.
#include "api/c/arguments.hpp"
#include "api/c/group.hpp"
#include "api/c/handle.hpp"
#include "api/c/result.hpp"

namespace plait::c {
namespace {

plaitResult_t issue(const char* function, PeerMessage::Kind kind, void* buffer, const char* buffer_name, size_t count,
                    plaitDataType_t datatype, int peer, plaitComm_t comm, plaitStream_t stream) {
  return CallGroup::at_edge(function, [&] {
    check_handle(comm);
    if (peer < 0 || peer >= comm->size) {
      refuse(plaitInvalidArgument, "peer is ", peer, "; expected 0 to ", comm->size - 1);
    }
    check_stream(comm, stream);
    if (count > 0) require(buffer, buffer_name);
    CallGroup::of_this_thread().issue(
        MessageCall{function, comm, {kind, peer, data_type(datatype), count, buffer}, stream});
  });
}

}  // namespace
}  // namespace plait::c

using namespace plait::c;
using Kind = plait::PeerMessage::Kind;

extern "C" plaitResult_t plaitSend(const void* sendbuff, size_t count, plaitDataType_t datatype, int peer,
                                   plaitComm_t comm, plaitStream_t stream) {
  return issue("plaitSend", Kind::kSend, const_cast<void*>(sendbuff), "sendbuff", count, datatype, peer, comm, stream);
}

extern "C" plaitResult_t plaitRecv(void* recvbuff, size_t count, plaitDataType_t datatype, int peer, plaitComm_t comm,
                                   plaitStream_t stream) {
  return issue("plaitRecv", Kind::kReceive, recvbuff, "recvbuff", count, datatype, peer, comm, stream);
}
