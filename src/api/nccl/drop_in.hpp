// The drop-in of this process: the real NCCL behind it, Plait beside it, and what it may take over. Made at the first
// call of NCCL, and never destroyed: programs make calls until they end.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/nccl/nccl_variables.hpp"
#include "api/nccl/notices.hpp"
#include "api/nccl/plait_library.hpp"
#include "api/nccl/real_library.hpp"
#include "api/nccl/take_setting.hpp"
#include "api/nccl/wins.hpp"
#include "base/settings.hpp"

namespace plait::nccl {

class DropIn {
 public:
  static DropIn& of_this_process();

  const RealLibrary& real() const { return real_; }
  const Notices& notices() const { return notices_; }
  const TakeSetting& setting() const { return setting_; }
  const NcclVariables& nccl() const { return nccl_; }
  std::string variable(std::string_view name) const;  // of Plait; "" where it is not set
  const std::string& own_path() const { return own_path_; }

  // The same at every call; the first opens or reads them.
  const PlaitLibrary& plait();
  const std::vector<WinsTable>& tables();
  // What cannot be used of PLAIT_NCCL_TAKE and of the table of wins, once that is read.
  const std::vector<std::string>& flaws() const { return flaws_; }

  // How long ranks that are here wait for each other while a communicator is made.
  double vote_seconds() const;

 private:
  explicit DropIn(const Environment& environment);
  void introduce() const;
  void say_variables() const;
  void read_setting();
  std::vector<WinsTable> read_tables();
  void complain(const std::string& flaw);

  Environment environment_;
  std::string own_path_;
  Settings settings_;
  RealLibrary real_;
  NcclVariables nccl_;
  Notices notices_;
  TakeSetting setting_{TakeMode::kNone};
  std::vector<std::string> flaws_;
  std::once_flag opens_, reads_;
  std::unique_ptr<PlaitLibrary> plait_;
  std::vector<WinsTable> tables_;
};

}  // namespace plait::nccl
