// Random rounds of messages between ranks, which all ranks draw alike. Buffers know what they must contain.
#pragma once

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "api/communicator.hpp"
#include "runtime/host/fifo.hpp"
#include "support/forbidden_memory.hpp"
#include "support/outcome.hpp"
#include "support/seed.hpp"

namespace plait::test {

struct Letter {
  int from = 0;
  int to = 0;
  DataType type = DataType::kUint8;
  size_t count = 0;
  uint64_t seed = 0;  // of its content
};

// Byte i of a letter.
inline std::byte letter_byte(const Letter& letter, size_t i) {
  return static_cast<std::byte>((letter.seed + i / 8 * 0x9e3779b97f4a7c15ULL) >> (i % 8 * 8));
}

// The memory of one end, with guards around it that messages must not touch.
class LetterBuffer {
 public:
  LetterBuffer(const Letter& letter, size_t offset, bool fill)
      : letter_(letter), offset_(kGuard + offset), bytes_(letter.count * size_of(letter.type)) {
    memory_.assign(offset_ + bytes_ + kGuard, std::byte{0xa5});
    for (size_t i = 0; fill && i < bytes_; ++i) memory_[offset_ + i] = letter_byte(letter, i);
    forbid_guards();
  }
  void* data() { return bytes_ == 0 ? nullptr : memory_.data() + offset_; }

  // Checks the memory after the exchange, at either end.
  void check() const {
    allow_memory(memory_.data(), memory_.size());
    for (size_t i = 0; i < memory_.size(); ++i) {
      const bool inside = i >= offset_ && i < offset_ + bytes_;
      require(memory_[i] == (inside ? letter_byte(letter_, i - offset_) : std::byte{0xa5}),
              inside ? "byte " : "around the buffer, byte ", i - offset_, " of ", bytes_, " from rank ", letter_.from,
              " to rank ", letter_.to, " is wrong");
    }
    forbid_guards();
  }

 private:
  static constexpr size_t kGuard = 80;

  void forbid_guards() const {
    forbid_memory(memory_.data(), offset_);
    forbid_memory(memory_.data() + offset_ + bytes_, kGuard);
  }

  Letter letter_;
  size_t offset_, bytes_;
  std::vector<std::byte> memory_;
};

// Random sizes, many of them near those where something changes.
inline size_t random_letter_bytes(Random& random, size_t most) {
  const size_t slot = Fifo::data_bytes_for(1);
  const std::array<size_t, 8> edges = {0, 1, 8, Fifo::kFirstLineData, 4096, slot, 2 * slot, kFifoSlots * slot};
  if (one_in(random, 3)) return between(random, 0, 100);
  if (one_in(random, 2)) return std::min(most, any_of(random, edges) + between(random, 0, 2));
  return between(random, 0, most);
}

inline std::vector<Letter> random_letters(Random& random, int ranks, int letters, size_t most_bytes) {
  std::vector<Letter> all;
  for (int i = 0; i < letters; ++i) {
    Letter letter;
    letter.from = static_cast<int>(random() % static_cast<uint64_t>(ranks));
    letter.to = static_cast<int>(random() % static_cast<uint64_t>(ranks));
    letter.type = static_cast<DataType>(random() % kDataTypeCount);
    letter.count = random_letter_bytes(random, most_bytes) / size_of(letter.type);
    letter.seed = random();
    all.push_back(letter);
  }
  return all;
}

// Performs this rank's part of `letters` in one exchange. The order is random, but messages of one kind with one peer
// stay in order.
inline void exchange_letters(Communicator& communicator, const std::vector<Letter>& letters, Random& random) {
  struct End {
    uint64_t order;
    PeerMessage message;
  };
  std::vector<LetterBuffer> buffers;
  std::vector<End> ends;
  const auto ranks = static_cast<size_t>(communicator.size());
  std::vector<uint64_t> last(2 * ranks, 0);
  const auto add = [&](PeerMessage::Kind kind, int peer, const Letter& letter) {
    buffers.emplace_back(letter, random() % 70, kind == PeerMessage::Kind::kSend);
    uint64_t& before = last[static_cast<size_t>(peer) + (kind == PeerMessage::Kind::kSend ? 0 : ranks)];
    before += random() % 1000;
    ends.push_back({before, {kind, peer, letter.type, letter.count, buffers.back().data()}});
  };
  for (const Letter& letter : letters) {
    if (letter.from == communicator.rank()) add(PeerMessage::Kind::kSend, letter.to, letter);
    if (letter.to == communicator.rank()) add(PeerMessage::Kind::kReceive, letter.from, letter);
  }
  std::stable_sort(ends.begin(), ends.end(), [](const End& a, const End& b) { return a.order < b.order; });
  std::vector<PeerMessage> messages;
  for (const End& end : ends) messages.push_back(end.message);
  communicator.exchange(messages);
  for (const LetterBuffer& buffer : buffers) buffer.check();
}

}  // namespace plait::test
