// Times one call: correctness before time, peers in turn within one run, the slowest rank's time.
#pragma once

#include <memory>
#include <vector>

#include "bench/peer_library.hpp"

namespace plait {

struct MeasureOptions {
  int iterations = 0;  // of one timed loop; 0: as many as fill about loop_seconds, at least 20
  int warmup = 5;
  int cycles = 1;  // timed loops of each peer, in turn: A B A B …
  bool in_place = false;
  bool check = true;
  bool multiplied = false;  // of a sum: every rank's input is multiplied by its exact_scalar() before
  double loop_seconds = 0.02;
};

struct Measurement {
  std::vector<double> seconds;  // of one operation, one figure a cycle: the mean of the loop on the slowest rank
  long wrong = -1;              // wrong elements over all ranks; -1: not checked
  int iterations = 0;
  double host_seconds = -1;  // to enqueue one call, the median on the slowest rank; -1: not measured
};

// Collective over the ranks of `communicator`; every rank gets the same figures. One entry a peer; a peer
// that does not serve the call gets no seconds.
std::vector<Measurement> measure(Communicator& communicator, const std::vector<PeerLibrary*>& peers, const Call& call,
                                 const MeasureOptions& options);

// The same for messages of `count` elements from every rank to the next one; the times are those of one message. In
// place, what is received overwrites what is sent, and is not checked, as in nccl-tests.
std::vector<Measurement> measure_ring_shift(Communicator& communicator, const std::vector<PeerLibrary*>& peers,
                                            DataType type, size_t count, const ShiftPattern& pattern,
                                            const MeasureOptions& options);

// Makes times of windows those of a message.
void divide_by_window(std::vector<Measurement>& measured, int window);

// Bytes a second that this machine copies while `communicator`'s ranks all copy at once, each between two buffers of
// its own of `bytes` bytes: the yardstick for large messages. The mean over ranks.
double measure_copy_bandwidth(Communicator& communicator, size_t bytes);

}  // namespace plait
