#!/usr/bin/env python3
"""Writes python/plait/doctor/nccl_variables.txt: the names of NCCL's variables, as its libraries have them.

    tools/nccl_variable_names.py LIBRARY... >python/plait/doctor/nccl_variables.txt

LIBRARY is a libnccl.so.2, such as those of the wheels nvidia-nccl-cu13, one of each version. A library has the name of
each variable that it reads as a text, and texts of other things that are written alike: names of constants, which
NOT_READ tells. From 2.27.7 to 2.30.7 what is left are the names in NCCL_PARAM, DEFINE_NCCL_PARAM and ncclGetEnv in the
sources of the same tag, and no others; later sources were not seen.
"""

from __future__ import annotations

import ctypes
import re
import sys
from pathlib import Path

NAME = re.compile(rb"NCCL_[A-Z0-9_]+(?=\0)")
NOT_READ = re.compile(
    r"NCCL_("
    r"ALL|ALLOC|ALLOC_HOST|BOOTSTRAP|CALL|CFT|COLL|DESTROY|ENV|GRAPH|INIT|NVLS|P2P|PROFILE|PROXY|RAS|REG|SHM|TUNING"
    r"|\w+_INITIALIZER|SOCKET_MAGIC|USE_CMAKE|SIGNAL|SIGNAL_NONE|LOG_\w+|CRYPT_\w+|ENCRYPTION_MODE_\w+|DEV_WORK_\w+"
    r"|CFT_(?!ENABLE)\w+|GIN_(CONNECTION|TYPE)_\w+|GIN_\w+_(TAG|MAX_SIZE|CONTEXT_VERSION)|GIN_MAX_TYPES|PAT_NDIMS"
    r"|IB_(SL|TC)_DEFAULT|IB_MAX_DEVS_PER_NIC|IB_MLX_VENDOR_ID|IB_RAIL_POLICY_\w+|IB_RECV_WR_ID_DUMMY"
    r"|IB_RESILIENCY_PORT_RECOVERY_ACK_MSG_ID|IPC_(COLLECTIVE|SENDRECV)|NET_DEVICE_\w+|NET_MERGE_POLICY_\w+"
    r"|NUM_RMA_INT_CTX_DEFAULT|PARAM_(FLAG|TYPE)_\w+|PROFILER_THREAD_\w+|SYMK_\w+_ARCH_\w+"
    r")"
)
HEADER = """\
# The variables that NCCL {first} to {last} read. Written by tools/nccl_variable_names.py, from libnccl.so.2 of the
# wheels nvidia-nccl-cu13 {versions}.
# Behind a name: the first of these versions that has it, where it is not {first}, and the last, where it is not {last}.
"""


def version_of(library: str) -> tuple[int, int, int]:
    number = ctypes.c_int()
    if ctypes.CDLL(library).ncclGetVersion(ctypes.byref(number)) != 0:
        raise SystemExit(f"{library} does not say its version")
    return number.value // 10000, number.value // 100 % 100, number.value % 100


def names_in(library: str) -> set[str]:
    found = {name.decode() for name in NAME.findall(Path(library).read_bytes())}
    return {name for name in found if not NOT_READ.fullmatch(name)}


def text(names: dict[tuple[int, int, int], set[str]]) -> str:
    """`names`: those of each version."""
    versions = sorted(names)
    short = {version: f"{version[0]}.{version[1]}" for version in versions}
    first, last = short[versions[0]], short[versions[-1]]
    full = ", ".join(".".join(map(str, version)) for version in versions)
    lines = HEADER.format(first=first, last=last, versions=full)
    for name in sorted(set.union(*names.values())):
        those = [short[version] for version in versions if name in names[version]]
        since = f" from {those[0]}" if those[0] != first else ""
        until = f" to {those[-1]}" if those[-1] != last else ""
        lines += f"{name}{since}{until}\n"
    return lines


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    sys.stdout.write(text({version_of(path): names_in(path) for path in sys.argv[1:]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
