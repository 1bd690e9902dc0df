// Ranks of the stand-in for NCCL meet by files.
#include "nccl/stand_in_ranks.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "nccl/stand_in.hpp"
// After the types.
#include "api/nccl/abi.h"

struct ncclComm {
  std::string name;
  int rank, ranks;
  int children = 0;
};

namespace {

int depth = 0;  // of groups; tests make communicators on one thread
std::vector<std::function<void()>> at_end;
int operations = ncclNumOps;

bool is(const char* function, const char* name) { return std::strcmp(function, name) == 0; }

std::string room() {
  const char* folder = std::getenv("STAND_IN_ROOM");
  return folder != nullptr ? folder : "";
}

// Returns what all ranks have said, once they have, or ends the process after a while.
std::vector<std::string> meet(const std::string& name, const std::vector<int>& ranks, int rank,
                              const std::string& word) {
  const auto file = [&](int of) { return room() + '/' + name + '.' + std::to_string(of); };
  const std::string mine = file(rank);
  std::ofstream(mine + "~") << word << " .";
  std::rename((mine + "~").c_str(), mine.c_str());
  std::vector<std::string> words;
  for (const int of : ranks) {
    for (int tries = 0; ::access(file(of).c_str(), R_OK) != 0; ++tries) {
      if (tries > 60000) std::_Exit(70);
      ::usleep(1000);
    }
    std::ifstream in(file(of));
    words.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return words;
}

std::vector<int> first_ranks(int ranks) {
  std::vector<int> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(rank);
  return all;
}

void make(ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank) {
  if (room().empty()) return;
  std::string name(id.internal, ::strnlen(id.internal, 8));
  const auto finish = [=] {
    meet(name, first_ranks(ranks), rank, "");
    *comm = new ncclComm{name, rank, ranks};
  };
  if (depth > 0) {
    at_end.push_back(finish);
  } else {
    finish();
  }
}

}  // namespace

void answer(const char*, ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank) { make(comm, ranks, id, rank); }
void answer(const char*, ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank, ncclConfig_t*) {
  make(comm, ranks, id, rank);
}
void answer(const char*, ncclComm_t* comm, int ranks, int rank, int, ncclUniqueId* id, ncclConfig_t*) {
  if (!room().empty()) make(comm, ranks, *id, rank);
}

void answer(const char*, ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t*) {
  if (room().empty()) return;
  const std::string name = comm->name + "s" + std::to_string(comm->children++);
  const std::string mine = std::to_string(color) + ' ' + std::to_string(key);
  const auto words = meet(name, first_ranks(comm->ranks), comm->rank, mine);
  std::vector<std::pair<int, int>> members;  // key, rank
  for (int rank = 0; rank < comm->ranks; ++rank) {
    int its_color = 0, its_key = 0;
    std::sscanf(words[static_cast<size_t>(rank)].c_str(), "%d %d", &its_color, &its_key);
    if (its_color == color) members.emplace_back(its_key, rank);
  }
  std::sort(members.begin(), members.end());
  const auto at = std::find(members.begin(), members.end(), std::pair(key, comm->rank));
  *made = color < 0 ? nullptr
                    : new ncclComm{name + "c" + std::to_string(color), static_cast<int>(at - members.begin()),
                                   static_cast<int>(members.size())};
}

void answer(const char*, ncclComm_t comm, int* excluded, int excluded_count, ncclComm_t* made, ncclConfig_t*, int) {
  if (room().empty()) return;
  std::vector<int> left;
  for (const int rank : first_ranks(comm->ranks)) {
    if (std::find(excluded, excluded + excluded_count, rank) == excluded + excluded_count) left.push_back(rank);
  }
  const std::string name = comm->name + "k" + std::to_string(comm->children++);
  meet(name, left, comm->rank, "");
  const auto at = std::find(left.begin(), left.end(), comm->rank);
  *made = new ncclComm{name, static_cast<int>(at - left.begin()), static_cast<int>(left.size())};
}

void answer(const char* function, ncclComm_t comm, int* number) {
  if (room().empty()) return;
  if (is(function, "ncclCommCount")) *number = comm->ranks;
  if (is(function, "ncclCommUserRank")) *number = comm->rank;
}

void answer(const char*, ncclComm_t, ncclResult_t* error) {
  if (!room().empty()) *error = ncclSuccess;
}

void answer(const char*, ncclRedOp_t* op, void*, ncclDataType_t, ncclScalarResidence_t, ncclComm_t) {
  if (!room().empty()) *op = static_cast<ncclRedOp_t>(++operations);
}

// NCCL's own ncclBcast calls ncclBroadcast by its name.
void answer(const char* function, void* data, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
            cudaStream_t stream) {
  if (!room().empty() && is(function, "ncclBcast")) ncclBroadcast(data, data, count, type, root, comm, stream);
}

// Nor need functions that the drop-in does not look into go to the internals of NCCL.
void answer(const char* function, const void* input, void* output, size_t count, ncclDataType_t type, ncclRedOp_t op,
            ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t*) {
  if (room().empty() || !is(function, "ncclAllReduceConfig")) return;
  ncclAllReduce(input, output, count, type, op, comm, stream);
}

void answer(const char* function) {
  if (is(function, "ncclGroupStart")) ++depth;
  if (!is(function, "ncclGroupEnd") || --depth > 0) return;
  for (const auto& finish : at_end) finish();
  at_end.clear();
}

void answer(const char* function, ncclSimInfo_t*) {
  if (is(function, "ncclGroupSimulateEnd")) --depth;
}
