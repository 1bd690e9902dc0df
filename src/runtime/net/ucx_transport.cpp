// Messages by UCX. A worker of its own for each end keeps communicators apart.
#include "base/error.hpp"
#include "runtime/net/open_transport.hpp"

#if PLAIT_HAVE_UCX
#include <poll.h>
#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <utility>

#include "base/deadline.hpp"
#include "runtime/net/tcp_settings.hpp"
#include "runtime/net/ucx_library.hpp"
#include "runtime/net/ucx_transports.hpp"

namespace plait {
namespace {

constexpr uint64_t kWholeTag = ~uint64_t{0};
// How long the end of a connection may take.
constexpr double kGoodbyeSeconds = 2;
// A rank that has not come to its receives keeps messages of at most so many bytes of another rank, or one message.
constexpr size_t kMostUnconfirmedBytes = size_t{4} << 20;
// What UCX keeps with each message that nobody has taken yet, at least.
constexpr size_t kBytesBesideMessage = 256;
constexpr const char* kWhatChoosesNetworks = "; UCX_NET_DEVICES and UCX_TLS say which networks it may use";

// Unless it is told, UCX asks CUDA about each buffer, where there is one.
constexpr ucs_memory_type_t type_of(NetMemory memory) {
  return memory == NetMemory::kGpu ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST;
}

class UcxTransport final : public Transport {
 public:
  UcxTransport(const std::vector<std::string>& libraries, const std::vector<UcxSetting>& settings, bool for_gpus);
  ~UcxTransport() override;

  std::string name() const override { return ucx_.name(); }
  const std::string& address() const override { return address_; }
  void connect(int rank, const std::string& address) override;
  bool is_connected(int rank) const override { return peers_.contains(rank); }
  bool reaches_gpus() const override { return reaches_gpus_; }
  void send(int rank, uint64_t tag, const void* data, size_t bytes, NetRequest& request, SendEnds ends,
            NetMemory memory) override;
  void receive(uint64_t tag, void* data, size_t bytes, NetRequest& request, NetMemory memory) override;
  void cancel(NetRequest& request) override;
  bool progress() override { return ucx_.worker_progress(worker_) != 0; }
  int event() const override { return event_; }
  bool arm() override { return ucx_.worker_arm(worker_) == UCS_OK; }
  void sleep(long nanoseconds) override;
  bool flush() override;
  const std::string& loss(int rank) const override;
  void disconnect() override;

 private:
  struct Peer {
    UcxTransport* transport = nullptr;
    ucp_ep_h endpoint = nullptr;
    NetRequest flushing;
    bool is_asked = false;         // by `flushing`
    size_t unconfirmed_bytes = 0;  // sent since it was last known to have taken all
    std::string loss;
  };

  void start(const std::vector<UcxSetting>& settings, bool for_gpus);
  bool takes_gpu_memory() const;
  void modify(ucp_config_t* config, const char* name, const std::string& value) const;
  void read_address();
  bool is_flushed(Peer& peer);
  void answer_flushes();
  void discard_messages();
  static void on_flush_asked(void* handle, ucs_status_t status, const ucp_tag_recv_info_t* info, void* transport);
  Peer& peer(int rank) { return peers_.at(rank); }
  void await(ucs_status_ptr_t handle);
  bool is_over(ucs_status_ptr_t handle) const;
  void started(ucs_status_ptr_t handle, NetRequest& request) const;
  static NetRequest::State state_for(ucs_status_t status);
  static void on_sent(void* handle, ucs_status_t status, void* request);
  static void on_received(void* handle, ucs_status_t status, const ucp_tag_recv_info_t* info, void* request);
  static void on_loss(void* peer, ucp_ep_h endpoint, ucs_status_t status);

  const UcxLibrary ucx_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_ = -1;  // the worker's
  bool reaches_gpus_ = false;
  std::string address_;
  std::map<int, Peer> peers_;
  const std::string no_loss_;
  std::vector<Peer*> unflushed_;          // sent to since the last flush
  ucs_status_ptr_t answering_ = nullptr;  // a receive that waits for the next flush of others
};

UcxTransport::UcxTransport(const std::vector<std::string>& libraries, const std::vector<UcxSetting>& settings,
                           bool for_gpus)
    : ucx_(libraries) {
  try {
    start(settings, for_gpus);
  } catch (...) {
    if (worker_ != nullptr) ucx_.worker_destroy(worker_);
    if (context_ != nullptr) ucx_.cleanup(context_);
    throw;
  }
}

void UcxTransport::start(const std::vector<UcxSetting>& settings, bool for_gpus) {
  ucp_config_t* config = nullptr;
  ucx_.check(ucx_.config_read(nullptr, nullptr, &config), "reading UCX's settings");
  const char* const chosen = std::getenv("UCX_TLS");
  if (!for_gpus) modify(config, "TLS", host_transports(chosen == nullptr ? "all" : chosen));
  modify(config, "WARN_INVALID_CONFIG", "n");  // of a UCX that knows no CUDA
  for (const UcxSetting& it : settings) {
    ucx_.config_modify(config, name_for_program(it, ucx_.version()).c_str(), it.value);  // a UCX without it goes on
  }
  ucp_params_t params = {};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  // By its symbol: the inline ucp_init() would ask for the version of the headers, which may be newer.
  const ucs_status_t status = ucx_.init_version(1, 11, &params, config, &context_);
  ucx_.config_release(config);
  ucx_.check(status, "starting the network", kWhatChoosesNetworks);
  reaches_gpus_ = for_gpus && takes_gpu_memory();
  ucp_worker_params_t worker = {};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucx_.check(ucx_.worker_create(context_, &worker, &worker_), "opening the network");
  ucx_.check(ucx_.worker_get_efd(worker_, &event_), "asking the network for its events");
  read_address();
  answer_flushes();
}

// UCX has tried the transports that move GPU memory when it started: without a driver, or where UCX_TLS leaves them
// out, there are none.
bool UcxTransport::takes_gpu_memory() const {
  ucp_context_attr_t attributes = {};
  attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  if (UCS_STATUS_IS_ERR(ucx_.context_query(context_, &attributes))) return false;
  return (attributes.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
}

void UcxTransport::modify(ucp_config_t* config, const char* name, const std::string& value) const {
  if (ucx_.config_modify(config, name, value.c_str()) == UCS_OK) return;
  ucx_.config_release(config);
  fail(ErrorCode::kInternal, ucx_.name(), " does not take '", value, "' as its UCX_", name);
}

void UcxTransport::read_address() {
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  ucx_.check(ucx_.worker_get_address(worker_, &address, &bytes), "asking for this rank's address");
  address_.assign(reinterpret_cast<const char*>(address), bytes);
  ucx_.worker_release_address(worker_, address);
}

UcxTransport::~UcxTransport() {
  disconnect();
  if (const ucs_status_ptr_t handle = std::exchange(answering_, nullptr)) {
    ucx_.request_cancel(worker_, handle);
    await(handle);
  }
  discard_messages();
  ucx_.worker_destroy(worker_);
  ucx_.cleanup(context_);
}

void UcxTransport::connect(int rank, const std::string& address) {
  Peer& peer = peers_[rank];
  peer.transport = this;
  ucp_ep_params_t params = {};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {on_loss, &peer};
  const ucs_status_t status = ucx_.ep_create(worker_, &params, &peer.endpoint);
  if (!UCS_STATUS_IS_ERR(status)) return;
  peer.endpoint = nullptr;
  peer.loss = join(ucx_.name(), " says ", ucx_.status_string(status), kWhatChoosesNetworks);
}

void UcxTransport::send(int rank, uint64_t tag, const void* data, size_t bytes, NetRequest& request, SendEnds ends,
                        NetMemory memory) {
  Peer& to = peer(rank);
  if (!to.loss.empty()) {
    request.state = NetRequest::State::kLost;
    return;
  }
  ucp_request_param_t params = {};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  params.cb.send = on_sent;
  params.user_data = &request;
  params.memory_type = type_of(memory);
  request.state = NetRequest::State::kPending;
  request.owner = this;
  if (std::ranges::find(unflushed_, &to) == unflushed_.end()) unflushed_.push_back(&to);
  const bool is_hint = (tag & kHintBit) != 0;  // may stay there
  if (!is_hint) to.unconfirmed_bytes += bytes + kBytesBesideMessage;
  const bool confirms = ends == SendEnds::kTaken || (!is_hint && to.unconfirmed_bytes > kMostUnconfirmedBytes);
  if (confirms) to.unconfirmed_bytes = 0;
  const auto start = confirms ? ucx_.tag_send_sync_nbx : ucx_.tag_send_nbx;
  started(start(to.endpoint, data, bytes, tag, &params), request);
}

void UcxTransport::receive(uint64_t tag, void* data, size_t bytes, NetRequest& request, NetMemory memory) {
  ucp_request_param_t params = {};
  // The function is always called, perhaps before this returns. A receive that is over at once without it would not
  // tell how long its message was (seen with UCX 1.13).
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE |
                        UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  params.cb.recv = on_received;
  params.user_data = &request;
  params.memory_type = type_of(memory);
  request.state = NetRequest::State::kPending;
  request.owner = this;
  started(ucx_.tag_recv_nbx(worker_, data, bytes, tag, kWholeTag, &params), request);
}

// A request that is over at once has no handle, and calls no function unless it has to.
void UcxTransport::started(ucs_status_ptr_t handle, NetRequest& request) const {
  if (!request.is_pending()) return;
  if (UCS_PTR_IS_PTR(handle)) {
    request.handle = handle;
    return;
  }
  request.handle = nullptr;
  request.state = state_for(UCS_PTR_STATUS(handle));
}

NetRequest::State UcxTransport::state_for(ucs_status_t status) {
  switch (status) {
    case UCS_OK:
      return NetRequest::State::kDone;
    case UCS_ERR_CANCELED:
      return NetRequest::State::kCancelled;
    case UCS_ERR_MESSAGE_TRUNCATED:
      return NetRequest::State::kTruncated;
    default:
      return NetRequest::State::kLost;
  }
}

void UcxTransport::on_sent(void* handle, ucs_status_t status, void* data) {
  NetRequest& request = *static_cast<NetRequest*>(data);
  request.state = state_for(status);
  request.handle = nullptr;
  static_cast<UcxTransport*>(request.owner)->ucx_.request_free(handle);
}

void UcxTransport::on_received(void* handle, ucs_status_t status, const ucp_tag_recv_info_t* info, void* data) {
  if (status == UCS_OK) static_cast<NetRequest*>(data)->bytes = info->length;
  on_sent(handle, status, data);
}

// The endpoint is closed later: UCX forbids that from here.
void UcxTransport::on_loss(void* data, ucp_ep_h, ucs_status_t status) {
  Peer& peer = *static_cast<Peer*>(data);
  peer.loss = peer.transport->ucx_.status_string(status);
}

// A receive that has found its message ends with that message, or when its sender is cut off.
void UcxTransport::cancel(NetRequest& request) {
  if (!request.is_pending()) return;
  ucx_.request_cancel(worker_, request.handle);
  const Deadline deadline = Deadline::after(kGoodbyeSeconds);
  while (request.is_pending() && !deadline.passed()) progress();
  if (request.is_pending()) disconnect();
}

void UcxTransport::sleep(long nanoseconds) {
  if (progress() || !arm()) return;
  pollfd event{event_, POLLIN, 0};
  const timespec most{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
  ::ppoll(&event, 1, &most, nullptr);
}

bool UcxTransport::flush() {
  std::erase_if(unflushed_, [&](Peer* peer) { return is_flushed(*peer); });
  return unflushed_.empty();
}

// UCX's own flush ends when messages have left for the kernel, which may lose them when the connection is cut then. A
// synchronous send ends when its receiver has it, and so what came before it.
bool UcxTransport::is_flushed(Peer& peer) {
  if (!peer.loss.empty()) return true;
  if (!std::exchange(peer.is_asked, true)) {
    ucp_request_param_t params = {};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    params.cb.send = on_sent;
    params.user_data = &peer.flushing;
    peer.flushing.state = NetRequest::State::kPending;
    peer.flushing.owner = this;
    started(ucx_.tag_send_sync_nbx(peer.endpoint, nullptr, 0, kOwnTag, &params), peer.flushing);
  }
  peer.is_asked = peer.flushing.is_pending();
  return !peer.is_asked;
}

// UCX answers a question once a receive takes it.
void UcxTransport::answer_flushes() {
  ucp_request_param_t params = {};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  params.cb.recv = on_flush_asked;
  params.user_data = this;
  do answering_ = ucx_.tag_recv_nbx(worker_, nullptr, 0, kOwnTag, kWholeTag, &params);
  while (answering_ == nullptr);  // one that was there already
}

// What came and nobody received: hints, and after a failure messages of calls. UCX warns of each that is there when a
// worker goes, on standard output by default, and would bury what ranks say of the failure.
void UcxTransport::discard_messages() {
  constexpr uint64_t kAnyTag = 0, kNoBits = 0;
  constexpr int kStays = 0;
  const ucp_request_param_t params = {};
  ucp_tag_recv_info_t info = {};
  while (ucx_.tag_probe_nb(worker_, kAnyTag, kNoBits, kStays, &info) != nullptr) {
    const ucs_status_ptr_t handle = ucx_.tag_recv_nbx(worker_, nullptr, 0, kAnyTag, kNoBits, &params);
    if (UCS_PTR_IS_PTR(handle)) ucx_.request_free(handle);  // the rest of it does not come any more
  }
}

void UcxTransport::on_flush_asked(void* handle, ucs_status_t, const ucp_tag_recv_info_t*, void* transport) {
  auto& it = *static_cast<UcxTransport*>(transport);
  if (it.answering_ != handle) return;  // the last one, which this end has cancelled
  it.ucx_.request_free(handle);
  it.answer_flushes();
}

const std::string& UcxTransport::loss(int rank) const {
  const auto found = peers_.find(rank);
  return found == peers_.end() ? no_loss_ : found->second.loss;
}

void UcxTransport::disconnect() {
  std::vector<ucs_status_ptr_t> handles;
  ucp_request_param_t params = {};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = UCP_EP_CLOSE_FLAG_FORCE;
  for (auto& [rank, peer] : peers_) {
    if (peer.endpoint == nullptr) continue;
    handles.push_back(ucx_.ep_close_nbx(std::exchange(peer.endpoint, nullptr), &params));
    if (peer.loss.empty()) peer.loss = "this rank has cut the connection";
  }
  for (const ucs_status_ptr_t handle : handles) await(handle);
  unflushed_.clear();
}

bool UcxTransport::is_over(ucs_status_ptr_t handle) const {
  return ucx_.request_check_status(handle) != UCS_INPROGRESS;
}

void UcxTransport::await(ucs_status_ptr_t handle) {
  if (!UCS_PTR_IS_PTR(handle)) return;
  const Deadline deadline = Deadline::after(kGoodbyeSeconds);
  while (!is_over(handle) && !deadline.passed()) progress();
  ucx_.request_free(handle);
}

}  // namespace

std::unique_ptr<Transport> open_transport(const std::vector<std::string>& libraries,
                                          const std::vector<UcxSetting>& settings, bool for_gpus) {
  return std::make_unique<UcxTransport>(libraries, settings, for_gpus);
}

bool has_transport() { return true; }

}  // namespace plait

#else

namespace plait {

std::unique_ptr<Transport> open_transport(const std::vector<std::string>&, const std::vector<UcxSetting>&, bool) {
  fail(ErrorCode::kResources,
       "this build of Plait has no network: UCX's headers were missing when it was built; "
       "install them (apt-get install libucx-dev, or pip install libucx-cu13) and build it again");
}

bool has_transport() { return false; }

}  // namespace plait
#endif
