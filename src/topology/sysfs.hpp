// Reads CPU sockets and the PCI bus from Linux.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace plait {

struct SysfsSocket {
  std::string model;   // "AMD EPYC 7742 64-Core Processor"
  std::string vendor;  // "AuthenticAMD"
  int cores = 0;
  double memory_gb = 0;
  double memory_gbps = 0;  // the lesser of reading and writing, 10^9 bytes/s; 0 if Linux does not say
};

struct SysfsPciLink {
  double gigatransfers = 0;  // the highest that a port can do; 0 if unknown
  int lanes = 0;
};

struct SysfsPci {
  std::vector<std::string> bridges;  // bus ids from the root port down, without the device itself
  std::vector<SysfsPciLink> ports;   // of each bridge, and last of the device
  int socket = -1;                   // -1 if unknown
};

struct SysfsNic {
  std::string name;  // "mlx5_0"
  std::string bus_id;
  double port_gbps = 0;  // of the active ports
};

class Sysfs {
 public:
  // `root` is "/sys" or a copy of it, `cpuinfo` "/proc/cpuinfo". Whatever is missing is left out.
  Sysfs(std::string root, std::string cpuinfo);

  // CPUs that share a package or a NUMA node are one socket. So neither virtual machines with a package for each core
  // nor several NUMA nodes in a package multiply sockets. There is at least one socket.
  const std::vector<SysfsSocket>& sockets() const { return sockets_; }
  // Finds everything between a device and its CPU. Returns false if the bus does not show it.
  bool find_pci(const std::string& bus_id, SysfsPci& pci) const;
  // Devices of class infiniband, by bus id.
  std::vector<SysfsNic> nics() const;

 private:
  void read_sockets();
  std::string root_;
  std::string cpuinfo_;
  std::vector<SysfsSocket> sockets_;
  std::map<int, int> socket_of_numa_;
};

}  // namespace plait
