#include "runtime/host/message_train.hpp"

#include <algorithm>

#include "runtime/waiting.hpp"

namespace plait {

MessageTrain::MessageTrain(OtherNodes& others, int to, int from, uint64_t tag, size_t bytes)
    : others_(others), bytes_(bytes / kMessages), sent_(bytes_), received_(bytes_ * kMessages) {
  begun_ = seconds_now();
  for (size_t i = 0; i < kMessages; ++i) {
    others_.receive(from, tag, received_.data() + i * bytes_, bytes_, receives_[i]);
  }
  for (NetRequest& it : sends_) others_.send(to, tag, sent_.data(), bytes_, it);
}

bool MessageTrain::advance() {
  const size_t before = arrived_;
  while (arrived_ < kMessages && receives_[arrived_].state == NetRequest::State::kDone) ++arrived_;
  if (arrived_ == before) return false;
  last_arrival_ = seconds_now();
  if (before == 0) first_arrival_ = last_arrival_;
  return true;
}

bool MessageTrain::is_over() const {
  return arrived_ == kMessages && std::ranges::none_of(sends_, [](const NetRequest& it) { return it.is_pending(); });
}

MessageTrain::~MessageTrain() {
  if (is_over()) return;
  others_.cut();
  for (NetRequest& it : receives_) others_.cancel(it);
  for (NetRequest& it : sends_) others_.cancel(it);
}

// The first message is not between two arrivals.
TrainTime MessageTrain::time() const {
  constexpr double kAllOfRest = kMessages / (kMessages - 1.0);
  return {last_arrival_ - begun_, kAllOfRest * (last_arrival_ - first_arrival_)};
}

}  // namespace plait
