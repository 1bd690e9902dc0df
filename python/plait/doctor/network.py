"""Networks: interfaces, which of them Plait would take between hosts, and RDMA adapters."""

from __future__ import annotations

from collections.abc import Iterator

from .. import _core
from .finding import Finding
from .system import System

_NET = "sys/class/net"
_RDMA = "sys/class/infiniband"
_PREFERRED = ("ib", "^ib,docker,virbr,lo", "docker,virbr", "lo")  # as src/runtime/interfaces.cpp


def takes(words: str, interface: str) -> bool:
    """Whether a list in the syntax of NCCL_SOCKET_IFNAME takes an interface."""
    excludes, words = words.startswith("^"), words.removeprefix("^")
    exactly, words = words.startswith("="), words.removeprefix("=")
    names = filter(None, words.split(","))
    return excludes != any(interface == name if exactly else interface.startswith(name) for name in names)


def check(system: System) -> Iterator[Finding]:
    up = _up(system)
    if not system.names(_NET):
        yield Finding.note("networks are not checked: there is no interface in /sys/class/net")
    else:
        yield from _interface(system, up)
    adapters = system.names(_RDMA)
    if not adapters:
        yield Finding.ok("there are no RDMA adapters")
    for adapter in adapters:
        yield from _adapter(system, adapter)


def of_nccl(system: System, name: str, words: str, says: str, undo: str) -> Finding | None:
    """What is wrong with a list of interfaces or adapters for NCCL; None where it fits one, or nobody knows."""
    up, adapters = _up(system), system.names(_RDMA)
    if name == "NCCL_SOCKET_IFNAME" and up and not any(takes(words, each) for each in up):
        cause = f"NCCL finds no interface, and cannot make a communicator; up are {', '.join(up)}"
        return Finding.problem(f"{says} fits no interface{_guess(words, up)}", cause, undo)
    hosts = ",".join(word.partition(":")[0] for word in words.split(","))  # without their ports
    if name == "NCCL_IB_HCA" and adapters and not any(takes(hosts, each) for each in adapters):
        cause = f"NCCL then uses none, and goes by sockets; there are {', '.join(adapters)}"
        return Finding.warning(f"{says} fits no RDMA adapter{_guess(hosts, adapters)}", cause, undo)
    return None


def _guess(words: str, names: list[str]) -> str:
    """The end of a sentence, with the name that is nearest to the first one of a list; or nothing."""
    return _core.did_you_mean(words.lstrip("^=").partition(",")[0], names)


def _up(system: System) -> list[str]:
    """Interfaces that are up."""
    return [name for name in system.names(_NET) if _is_up(system, name)]


def _is_up(system: System, name: str) -> bool:
    try:
        return bool(int(system.read(f"{_NET}/{name}/flags") or "0", 16) & 1)
    except ValueError:
        return False


def _interface(system: System, up: list[str]) -> Iterator[Finding]:
    wanted = system.variables.get("PLAIT_SOCKET_IFNAME")
    for words in [wanted] if wanted else _PREFERRED:
        taken = [name for name in up if takes(words, name)]
        if taken:
            says = f"between hosts Plait would take {taken[0]}, if it has an address; up are {', '.join(up)}"
            if taken[0].startswith(("lo", "docker", "virbr")):
                yield Finding.note(says, "other hosts do not reach that one", "PLAIT_SOCKET_IFNAME names another")
            else:
                yield Finding.ok(says)
            return
    if wanted:
        cause = f"up are {', '.join(up) or 'none'}"
        says = f"PLAIT_SOCKET_IFNAME={wanted} fits no interface{_guess(wanted, up)}"
        yield Finding.problem(says, cause, "unset PLAIT_SOCKET_IFNAME").about("PLAIT_SOCKET_IFNAME")
    else:
        yield Finding.note("no network interface is up", "ranks on this host do not need one")


def _adapter(system: System, adapter: str) -> Iterator[Finding]:
    for port in system.names(f"{_RDMA}/{adapter}/ports"):
        folder = f"{_RDMA}/{adapter}/ports/{port}"
        state, rate = system.read(f"{folder}/state") or "unknown", system.read(f"{folder}/rate") or "unknown rate"
        says = f"RDMA adapter {adapter}, port {port}: {state.partition(':')[2].strip() or state}, {rate}"
        if "ACTIVE" in state:
            yield Finding.ok(says)
        else:
            yield Finding.note(says, "the port carries nothing", "ibstat; look at its cable and its subnet manager")
    if not system.path("dev/infiniband").is_dir():
        cause = "this process cannot use the adapter"
        yield Finding.warning(f"{adapter} is not in /dev/infiniband", cause, "docker run --device /dev/infiniband")
