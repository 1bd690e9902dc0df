// Writes operations in a few letters, for pictures. "in", "out", "s3" and "h0" are the rank's own input, output,
// scratch and host slots; "r2.s3" is another rank's.
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "plan/plan.hpp"

namespace plait {

inline std::string shorthand(const Place& place, int own_rank) {
  std::string text = place.rank == own_rank ? "" : join("r", place.rank, ".");
  switch (place.buffer) {
    case Buffer::kInput:
      return text + "in";
    case Buffer::kOutput:
      return text + "out";
    case Buffer::kScratch:
      return text + join("s", place.slot);
    case Buffer::kHost:
      return text + join("h", place.slot);
  }
  return text;
}

// Joins the places by `separator`. More than `most` places are only counted.
inline std::string shorthand(const std::vector<Place>& places, int own_rank, const char* separator, size_t most) {
  if (places.size() > most) return join(places.size(), " places");
  std::string text;
  for (const Place& place : places) text += (text.empty() ? "" : separator) + shorthand(place, own_rank);
  return text;
}

// "3" or "0-3"; "-" for none.
inline std::string chunk_text(const Operation& operation) {
  if (operation.chunks == 0) return "-";
  if (operation.chunks == 1) return std::to_string(operation.chunk);
  return join(operation.chunk, "-", operation.chunk + operation.chunks - 1);
}

// Explains the numbers of chunks if they are not obvious: "chunk 4 i + j: from rank i to rank j". Else "".
inline std::string chunk_rule(const Plan& plan) {
  if (plan.collective != Collective::kAllToAll) return "";
  const int each = plan.chunks_per_block;
  const std::string block = join(plan.rank_count(), " i + j");
  return join(each == 1 ? "chunk " + block : join("chunks ", each, " (", block, ") and the ", each - 1, " after it"),
              ": from rank i to rank j");
}

// The movement without the chunk: "in+s1 > r2.s1", "h0 > net r4", "net r0 > h1".
inline std::string movement(const Operation& operation, int rank, size_t most, const char* arrow) {
  const std::string net = join("net r", operation.peer_rank);
  if (operation.chunks == 0) return join(arrow, " ", net);  // or from there
  const bool send = operation.kind == OpKind::kSend, receive = operation.kind == OpKind::kReceive;
  return join(receive ? net : shorthand(operation.sources, rank, "+", most), " ", arrow, " ",
              send ? net : shorthand(operation.destinations, rank, ", ", most));
}

}  // namespace plait
