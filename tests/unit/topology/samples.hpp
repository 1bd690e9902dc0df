// Machines in the forms that people have, written for the tests to match what NCCL and nvidia-smi print.
#pragma once

namespace plait::samples {

// Two GPUs and two NICs behind one PCIe switch of one CPU, and four NVSwitch chips that the host shows.
inline constexpr const char* kXmlSwitched = R"(<?xml version="1.0"?>
<!-- dumped by a test -->
<system version="1">
  <cpu host_hash="0x1a2b" numaid="0" affinity="ffffffff" arch="x86_64" vendor="GenuineIntel" familyid="6">
    <pci busid="0000:16:00.0" class="0x060400" vendor="0x1000" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:18:00.0" class="0x030200" vendor="0x10de" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="0000:07:00.0" count="5" tclass="0x068000"/>
          <nvlink target="0000:06:00.0" count="5" tclass="0x068000"/>
          <nvlink target="0000:05:00.0" count="4" tclass="0x068000"/>
          <nvlink target="0000:08:00.0" count="4" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:2A:00.0" class="0x030200" vendor="0x10de" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="90" rank="1" gdr="1">
          <nvlink target="0000:07:00.0" count="5" tclass="0x068000"/>
          <nvlink target="0000:06:00.0" count="5" tclass="0x068000"/>
          <nvlink target="0000:05:00.0" count="4" tclass="0x068000"/>
          <nvlink target="0000:08:00.0" count="4" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:19:00.0" class="0x020700" vendor="0x15b3" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" speed="400000" port="1" latency="0.000000" guid="0xa8" maxconn="131072" gdr="1"/>
        </nic>
      </pci>
    </pci>
    <pci busid="0000:3b:00.0" class="0x020000" vendor="0x15b3" device="0x1017" link_speed="8 GT/s" link_width="8">
      <nic>
        <net name="mlx5_1" dev="1" speed="100000" port="1" guid="0xa9" maxconn="131072" gdr="0"/>
        <net name="mlx5_2" dev="2" speed="100000" port="2" guid="0xa9" maxconn="131072" gdr="0"/>
      </nic>
    </pci>
    <nic>
      <net name="eth0" dev="3" speed="10000" port="0" latency="0" guid="0x0" maxconn="65536" gdr="0"/>
    </nic>
  </cpu>
  <cpu host_hash="0x1a2b" numaid="1" affinity="ffff,00000000" arch="x86_64" vendor="GenuineIntel" familyid="6">
    <nic>
      <net name="eth0" dev="3" speed="10000" port="0" latency="0" guid="0x0" maxconn="65536" gdr="0"/>
    </nic>
    <invented newer="true"><thing/></invented>
  </cpu>
</system>
)";

// Four GPUs of a POWER machine, two per socket, joined to each other and to the CPU by three lanes each.
inline constexpr const char* kXmlPower = R"(<system version="1">
  <cpu numaid="8" affinity="00000000,ffffffff" arch="ppc64">
    <pci busid="0035:03:00.0" class="0x030200" link_speed="8 GT/s" link_width="2">
      <gpu dev="2" sm="70" rank="2" gdr="0">
        <nvlink target="0035:04:00.0" count="3" tclass="0x030200"/>
        <nvlink target="0007:00:00.0" count="2" tclass="0x068001"/>
        <nvlink target="0007:00:00.1" count="1" tclass="0x068001"/>
      </gpu>
    </pci>
    <pci busid="0035:04:00.0" class="0x030200" link_speed="8 GT/s" link_width="2">
      <gpu dev="3" sm="70" rank="3" gdr="0">
        <nvlink target="0035:03:00.0" count="3" tclass="0x030200"/>
        <nvlink target="0007:00:00.2" count="3" tclass="0x068001"/>
      </gpu>
    </pci>
  </cpu>
  <cpu numaid="0" affinity="ffffffff,00000000" arch="ppc64">
    <pci busid="0004:04:00.0" class="0x030200" link_speed="8 GT/s" link_width="2">
      <gpu dev="0" sm="70" rank="0" gdr="0">
        <nvlink target="0004:05:00.0" count="3" tclass="0x030200"/>
        <nvlink target="0006:00:00.0" count="3" tclass="0x068001"/>
      </gpu>
    </pci>
    <pci busid="0004:05:00.0" class="0x030200" link_speed="8 GT/s" link_width="2">
      <gpu dev="1" sm="70" rank="1" gdr="0">
        <nvlink target="0004:04:00.0" count="3" tclass="0x030200"/>
        <nvlink target="0006:00:00.1" count="3" tclass="0x068001"/>
      </gpu>
    </pci>
  </cpu>
</system>
)";

// Two AMD GPUs with one link between them and one out of the job, and two NICs that are also used as one.
inline constexpr const char* kXmlXgmi = R"(<system version="2">
  <cpu numaid="0" affinity="ffffffff" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="144">
    <pci busid="0000:05:00.0" class="0x120000" vendor="0x1002" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="94" gcn="gfx942" arch="38911" rank="4" gdr="1">
        <xgmi target="0000:15:00.0" count="1" tclass="0x120000"/>
        <xgmi target="0000:25:00.0" count="1" tclass="0x120000"/>
      </gpu>
    </pci>
    <pci busid="0000:15:00.0" class="0x120000" vendor="0x1002" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="94" gcn="gfx942" arch="38911" rank="2" gdr="1">
        <xgmi target="0000:05:00.0" count="1" tclass="0x120000"/>
      </gpu>
    </pci>
    <pci busid="0000:06:00.0" class="0x020000" vendor="0x14e4" link_speed="32.0 GT/s PCIe" link_width="16">
      <nic>
        <net name="bnxt_re0" speed="400000"/>
      </nic>
    </pci>
    <pci busid="0000:07:00.0" class="0x020000" vendor="0x14e4" link_speed="32.0 GT/s PCIe" link_width="16">
      <nic>
        <net name="bnxt_re1" speed="400000000"/>
      </nic>
    </pci>
    <nic>
      <net name="bnxt_re0+bnxt_re1" speed="800000"/>
    </nic>
  </cpu>
</system>
)";

// An older text: NICs under their own names, tabs, CPU affinities only. It shows the NVLinks of the first half of a
// DGX-1 with V100.
inline constexpr const char* kMatrixOld =
    "\tGPU0\tGPU1\tGPU2\tGPU3\tmlx5_0\tmlx5_1\tCPU Affinity\n"
    "GPU0\t X \tNV1\tNV1\tNV2\tPIX\tPHB\t0-19,40-59\n"
    "GPU1\tNV1\t X \tNV2\tNV1\tPIX\tPHB\t0-19,40-59\n"
    "GPU2\tNV1\tNV2\t X \tNV2\tPHB\tPIX\t0-19,40-59\n"
    "GPU3\tNV2\tNV1\tNV2\t X \tPHB\tPIX\t0-19,40-59\n"
    "mlx5_0\tPIX\tPIX\tPHB\tPHB\t X \tPHB\n"
    "mlx5_1\tPHB\tPHB\tPIX\tPIX\tPHB\t X \n"
    "\n"
    "Legend:\n"
    "\n"
    "  X   = Self\n"
    "  PIX  = Connection traversing a single PCIe switch\n"
    "  NV#  = Connection traversing a bonded set of # NVLinks\n";

// A newer text: underlined header, NUMA columns, and numbered NICs with a legend. It shows four GPUs on an NVSwitch,
// and two sockets.
inline constexpr const char* kMatrixNew =
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\r\n"
    "GPU0\t X \tNV18\tNV18\tNV18\tPIX\tSYS\t0-47,96-143\t0\t\tN/A\r\n"
    "GPU1\tNV18\t X \tNV18\tNV18\tNODE\tSYS\t0-47,96-143\t0\t\tN/A\r\n"
    "GPU2\tNV18\tNV18\t X \tNV18\tSYS\tPXB\t48-95,144-191\t1\t\tN/A\r\n"
    "GPU3\tNV18\tNV18\tNV18\t X \tSYS\tPIX\t48-95,144-191\t1\t\tN/A\r\n"
    "NIC0\tPIX\tNODE\tSYS\tSYS\t X \tSYS\t\t\t\t\r\n"
    "NIC1\tSYS\tSYS\tPXB\tPIX\tSYS\t X \t\t\t\t\r\n"
    "\r\n"
    "Legend:\r\n"
    "\r\n"
    "  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes\r\n"
    "\r\n"
    "NIC Legend:\r\n"
    "\r\n"
    "  NIC0: mlx5_0\r\n"
    "  NIC1: mlx5_bond_1\r\n";

inline constexpr const char* kMachine = R"({
  "format": "plait-machine 1",
  "name": "toy",
  "source": "a test",
  "devices": [
    {"kind": "cpu", "names": ["cpu0", "cpu1"], "model": "some CPU", "cores": 8, "memory_gb": 64.5},
    {"kind": "gpu", "names": ["gpu0", "gpu1", "gpu2"], "bus_ids": ["0000:01:00.0", "0000:02:00.0", "0000:03:00.0"]},
    {"kind": "pcieswitch", "names": ["pcieswitch0"]},
    {"kind": "nic", "names": ["nic0"], "port_gbps": 12.5, "source": "measured"}
  ],
  "links": [
    {"kind": "nvlink", "width": 2, "gbps": 50, "pairs": [["gpu0", "gpu1"]], "source": "paper"},
    {"kind": "pcie", "gbps": 16, "pairs": [["pcieswitch0", "gpu0"], ["pcieswitch0", "gpu1"], ["cpu1", "gpu2"]]},
    {"kind": "pcie", "width": 16, "gbps": 16, "pairs": [["cpu0", "pcieswitch0"], ["cpu0", "nic0"]]},
    {"kind": "socket", "gbps": 38.4, "pairs": [["cpu0", "cpu1"]]}
  ],
  "network": {"rack_nodes": 4, "bisection": 0.5, "source": "assumed"}
}
)";

}  // namespace plait::samples
