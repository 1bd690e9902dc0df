// What UCX is told where TCP is all that there is between hosts. Its own values are for networks that fetch data from
// the memory of a peer.
#pragma once

#include <string>
#include <vector>

namespace plait {

struct UcxSetting {
  const char* name;  // without UCX_, and without TCP_
  const char* value;
  bool is_of_tcp = true;
};

struct UcxVersion {
  unsigned major = 0, minor = 0;
};

// The name by which UCX takes a setting from a program. By a name that it does not know, it takes it as well, but only
// to warn of it later.
std::string name_for_program(const UcxSetting& setting, const UcxVersion& version);

// The settings of UCX to make, besides those that the environment makes. `devices` is the folder in which the kernel
// lists RDMA devices; where it has any, there are none to make.
std::vector<UcxSetting> settings_for_tcp(const std::string& devices = "/sys/class/infiniband");

// Those that a rank may make for itself, wherever it is. TCP then connects without waiting: a rank that waits for a
// host that is gone, for a minute or two, would hear of no time-out and no failure of others.
std::vector<UcxSetting> settings_of_rank();

// To be compared with those of other ranks. A sender cuts by its own settings what a receiver has memory for by its
// own, so ranks make all the same settings, or none.
std::string to_text(const std::vector<UcxSetting>& settings);

}  // namespace plait
