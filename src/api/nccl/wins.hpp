// Tables of the calls that Plait has been measured to perform faster than NCCL: profiles/nccl/*.json, which are part of
// the drop-in, or the file that PLAIT_NCCL_WINS names. `benchmarks/nccl_wins.py` and `plait tune --nccl` write them.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/nccl/nccl_call.hpp"
#include "api/nccl/nvls.hpp"
#include "base/sha256.hpp"

namespace plait::nccl {

// Wins of several types that have all else in common.
struct WinRow {
  CallKind kind;
  bool is_captured;
  int op;  // ncclNumOps stands for pre-multiplied sums; 0 where nothing is reduced
  size_t from, to;
  std::vector<int> types;
};
const char* name_of_operation(int op);  // "sum"; "mulsum" for pre-multiplied sums

// The wins of one machine: so many GPUs of one name.
class WinsTable {
 public:
  // Reads the text of a table. Throws kInvalidInput, with the file and line.
  static WinsTable parse(std::string_view text, const std::string& file);
  // The one of `tables` for such a communicator; null where there is none.
  static const WinsTable* choose(const std::vector<WinsTable>& tables, const std::string& gpu, int ranks);

  const std::string& name() const { return name_; }
  const Sha256Digest& digest() const { return digest_; }
  // NCCL was measured with NVLS. Without, the table says nothing about a machine on which NCCL uses NVLS.
  bool has_nvls() const { return has_nvls_; }

  // The same without calls for which NCCL may use NVLS. Its digest is another one.
  WinsTable without_nvls(NvlsUse use) const;
  // Why a call is missing that was measured; null where it was not left out.
  const char* why_left_out(CallKind kind, ncclDataType_t type, ncclRedOp_t op) const;
  bool leaves_out() const { return left_out_ != NvlsUse::kNoCall; }

  // Whether Plait wins a call of `bytes` (the count that it names, in bytes). `op` counts only where it reduces;
  // ncclNumOps stands for pre-multiplied sums.
  bool has(CallKind kind, ncclDataType_t type, ncclRedOp_t op, size_t bytes, bool is_captured) const;
  // "all_reduce, broadcast", of calls that are captured, or of those that are not.
  std::string collectives(bool is_captured) const;
  // By collective; captured ones of each last.
  std::vector<WinRow> rows() const;

 private:
  struct Win {
    size_t from, to;
    int op;
    bool is_captured;
  };
  std::vector<Win>& wins_of(CallKind kind, int type) {
    return wins_[static_cast<size_t>(kind)][static_cast<size_t>(type)];
  }
  void add_rows(CallKind kind, bool is_captured, std::vector<WinRow>& rows) const;
  bool is_left_out(CallKind kind, int type, int op) const {
    return may_use_nvls(left_out_, kind, static_cast<ncclDataType_t>(type), static_cast<ncclRedOp_t>(op));
  }

  std::string name_;
  std::string gpu_;
  int ranks_ = 0;
  bool has_nvls_ = false;
  NvlsUse left_out_ = NvlsUse::kNoCall;
  Sha256Digest digest_{};
  std::array<std::array<std::vector<Win>, ncclNumTypes>, kCollectiveKinds> wins_;
};

}  // namespace plait::nccl

namespace plait::internal {

// The tables that are part of the drop-in.
struct NcclWinsText {
  const char* name;
  const char* text;
};
std::span<const NcclWinsText> nccl_wins_texts();

}  // namespace plait::internal
