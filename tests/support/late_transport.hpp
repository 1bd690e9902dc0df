// A network inside of a process for ranks that are threads. It is as late as a network may be: a send reads its memory
// only when its receiver takes the message, and is over only then. GPU memory has far addresses (far_memory.hpp).
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/net/transport.hpp"
#include "support/far_memory.hpp"
#include "support/seed.hpp"

namespace plait::test {

class LateNetwork {
 public:
  explicit LateNetwork(int ranks, uint64_t seed) : random_(seed), ends_(static_cast<size_t>(ranks)) {}

  std::unique_ptr<Transport> end(int rank) { return std::make_unique<End>(*this, rank); }

 private:
  struct Sent {
    int from = 0;
    uint64_t tag = 0;
    const void* data = nullptr;
    size_t bytes = 0;
    NetRequest* request = nullptr;
  };
  struct Awaited {
    uint64_t tag = 0;
    void* data = nullptr;
    size_t bytes = 0;
    NetRequest* request = nullptr;
  };
  struct Mailbox {
    std::list<Sent> arriving;
    std::list<Awaited> awaited;
    std::deque<NetRequest*> over;  // its sends that others have taken
    std::vector<bool> reaches;     // ranks
    bool is_gone = false;
  };

  class End final : public Transport {
   public:
    End(LateNetwork& network, int rank) : network_(network), rank_(rank), address_(std::to_string(rank)) {
      own().reaches.resize(network.ends_.size(), false);
    }
    ~End() override { disconnect(); }

    std::string name() const override { return "a late network"; }
    const std::string& address() const override { return address_; }
    void connect(int rank, const std::string& address) override { own().reaches[std::stoul(address)] = rank >= 0; }
    bool is_connected(int rank) const override { return own().reaches[rank]; }

    void send(int rank, uint64_t tag, const void* data, size_t bytes, NetRequest& request, SendEnds,
              NetMemory memory) override {
      if (bytes > 0 && is_far(data) != (memory == NetMemory::kGpu)) std::abort();
      const std::lock_guard lock(network_.mutex_);
      request.state = NetRequest::State::kPending;
      network_.ends_[rank].arriving.push_back({rank_, tag, from_far(data), bytes, &request});
    }
    void receive(uint64_t tag, void* data, size_t bytes, NetRequest& request, NetMemory memory) override {
      if (bytes > 0 && is_far(data) != (memory == NetMemory::kGpu)) std::abort();
      const std::lock_guard lock(network_.mutex_);
      request.state = NetRequest::State::kPending;
      own().awaited.push_back({tag, from_far(data), bytes, &request});
    }
    void cancel(NetRequest& request) override {
      const std::lock_guard lock(network_.mutex_);
      std::erase_if(own().awaited, [&](const Awaited& it) { return it.request == &request; });
      if (request.is_pending()) request.state = NetRequest::State::kCancelled;
    }

    bool progress() override {
      const std::lock_guard lock(network_.mutex_);
      for (NetRequest* request : std::exchange(own().over, {})) request->state = NetRequest::State::kDone;
      if (one_in(network_.random_, 2)) return false;
      for (auto awaited = own().awaited.begin(); awaited != own().awaited.end(); ++awaited) {
        if (take(*awaited)) {
          own().awaited.erase(awaited);
          return true;
        }
      }
      return false;
    }
    int event() const override { return -1; }
    bool arm() override { return false; }
    void sleep(long) override { std::this_thread::yield(); }
    bool flush() override { return true; }
    const std::string& loss(int rank) const override {
      static const std::string none, gone = "it is gone";
      const std::lock_guard lock(network_.mutex_);
      return own().reaches[rank] && network_.ends_[rank].is_gone ? gone : none;
    }
    void disconnect() override {
      const std::lock_guard lock(network_.mutex_);
      own().is_gone = true;
      for (Mailbox& other : network_.ends_) {
        std::erase_if(other.arriving, [&](const Sent& it) {
          if (it.from == rank_) it.request->state = NetRequest::State::kLost;
          return it.from == rank_;
        });
      }
    }

   private:
    Mailbox& own() const { return network_.ends_[rank_]; }

    bool take(const Awaited& awaited) {
      auto& arriving = own().arriving;
      const auto sent = std::ranges::find(arriving, awaited.tag, &Sent::tag);
      if (sent == arriving.end()) return false;
      // Empty messages may have no memory.
      if (const size_t bytes = std::min(awaited.bytes, sent->bytes); bytes > 0) {
        std::memcpy(awaited.data, sent->data, bytes);
      }
      awaited.request->bytes = sent->bytes;
      awaited.request->state = sent->bytes > awaited.bytes ? NetRequest::State::kTruncated : NetRequest::State::kDone;
      network_.ends_[sent->from].over.push_back(sent->request);
      arriving.erase(sent);
      return true;
    }

    LateNetwork& network_;
    const int rank_;
    const std::string address_;
  };

  std::mutex mutex_;
  Random random_;
  std::vector<Mailbox> ends_;
};

}  // namespace plait::test
