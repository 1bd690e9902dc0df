"""Libraries: which one each symbol of NCCL binds to in a program started from here, and what Plait opens itself."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from .asked import LIB, NCCL, ask_drop_in, wheel_libraries
from .finding import Finding
from .probing import probe
from .system import System

_DROP_IN = ("libplait_nccl.so", "plait_nccl/libnccl.so")
_NOTHING_BEHIND = "the drop-in passes calls on to it, and its functions fail without it"
_INSTALL = "install NCCL, or name it in PLAIT_NCCL_LIBRARY"
_OLDEST = [2, 27]  # NCCL, as far as the drop-in tells versions apart

# What PyTorch's process group is linked with. Programs of other kinds call these, too.
SYMBOLS = """
    ncclAllGather ncclAllReduce ncclAlltoAll ncclBcast ncclBroadcast ncclCommAbort ncclCommCount ncclCommDeregister
    ncclCommDestroy ncclCommFinalize ncclCommGetAsyncError ncclCommInitAll ncclCommInitRank ncclCommInitRankConfig
    ncclCommInitRankScalable ncclCommRegister ncclCommShrink ncclCommSplit ncclCommUserRank ncclCommWindowDeregister
    ncclCommWindowRegister ncclDevCommCreate ncclDevCommDestroy ncclGetErrorString ncclGetLastError ncclGetUniqueId
    ncclGetVersion ncclGroupEnd ncclGroupSimulateEnd ncclGroupStart ncclMemAlloc ncclMemFree ncclRecv
    ncclRedOpCreatePreMulSum ncclRedOpDestroy ncclReduce ncclReduceScatter ncclSend
""".split()  # noqa: SIM905


def check(system: System) -> Iterator[Finding]:
    yield from _nccl(system)
    yield from _own(system)
    yield from _preloaded(system)
    yield _other(system, "CUDA driver", "libcuda.so.1", "cuDriverGetVersion", _cuda_version)
    ucx = system.variables.get("PLAIT_UCX_LIBRARY")
    yield _other(system, "UCX", ucx or "libucp.so.0", "", str).about("PLAIT_UCX_LIBRARY" if ucx else "")


def _nccl(system: System) -> Iterator[Finding]:
    candidates = _nccl_candidates(system)
    found = {name: _open_nccl(system, name) for name in candidates}
    good = {name: answer for name, answer in found.items() if not answer["error"]}
    if not good:
        named = system.variables.get("PLAIT_NCCL_LIBRARY")  # the check of variables tells of that one
        reasons = "; ".join(answer["error"] for name, answer in found.items() if name != named or len(found) == 1)
        if _is_preloaded(system):
            yield Finding.problem(f"there is no NCCL: {reasons}", _NOTHING_BEHIND, _INSTALL)
        else:
            yield Finding.note(f"there is no NCCL: {reasons}", "only the drop-in needs it", _INSTALL)
        return
    since = ask_drop_in(system)[0].get("functions", {})
    for name, answer in good.items():
        if name != system.variables.get("PLAIT_NCCL_LIBRARY") or answer["version"]:  # else the drop-in says what it is
            yield from _bindings(name, answer, since)
    versions = {name: answer["version"] for name, answer in good.items()}
    if len(set(versions.values())) > 1:
        says = "several NCCL: " + ", ".join(f"{name} is {_nccl_version(number)}" for name, number in versions.items())
        cause = "a program gets that which is loaded first; ranks with different ones fail or hang at init"
        yield Finding.warning(says, cause, "PLAIT_NCCL_LIBRARY=PATH names one for Plait; uninstall the others")


def _open_nccl(system: System, name: str) -> dict[str, Any]:
    """What a program that opens `name` gets. Programs with a wheel's NCCL, as PyTorch, have that behind the drop-in."""
    answer = probe(system, name, "ncclGetVersion", SYMBOLS)
    wheels = wheel_libraries("nvidia.nccl", NCCL)
    has_nothing_behind = not answer["error"] and not answer["version"]
    if wheels and has_nothing_behind and not system.variables.get("PLAIT_NCCL_LIBRARY"):
        return probe(system, name, "ncclGetVersion", SYMBOLS, PLAIT_NCCL_LIBRARY=wheels[0])
    return answer


def _bindings(name: str, answer: dict[str, Any], since: dict[str, list[int]]) -> Iterator[Finding]:
    """Which library each symbol binds to in a program that opens `name`, and which have none."""
    places, version = answer["places"], answer["version"]
    libraries = Counter(filter(None, places.values()))
    details = tuple((symbol, places.get(symbol) or "missing") for symbol in SYMBOLS)
    for place, count in libraries.items():
        of = "Plait's drop-in" if _is_ours(place) else "NCCL"
        words = f"{count} of the {len(SYMBOLS)} symbols of NCCL that PyTorch needs bind to {place} ({of})"
        if _is_ours(place) and not version:
            yield Finding.problem(f"{words}, with no NCCL behind it", _NOTHING_BEHIND, _INSTALL)
            continue
        yield Finding.ok(f"{words}, found as {name}, version {_nccl_version(version)}", details)
    if len(libraries) > 1:
        says = f"symbols of NCCL bind to several libraries: {', '.join(libraries)}"
        cause = "a function of one gets what another has made"
        yield Finding.warning(says, cause, "look at LD_PRELOAD and LD_LIBRARY_PATH; plait doctor --verbose has each")
    # The drop-in has every symbol, and passes calls on to a library that may be older.
    missing = [symbol for symbol in SYMBOLS if not places.get(symbol) or _code(since.get(symbol)) > version > 0]
    if missing:
        newest = max(since.get(symbol, [0, 0]) for symbol in missing)
        wanted = f"NCCL {newest[0]}.{newest[1]} or later" if newest[0] else "a newer NCCL"
        says = f"NCCL {_nccl_version(version)} ({name}) lacks {', '.join(missing)}"
        cause = "programs that are linked with one of them do not start; under the drop-in the call fails"
        yield Finding.note(
            says, cause, f"where a program needs them: install {wanted}, or name it in PLAIT_NCCL_LIBRARY"
        )


def _is_ours(place: str) -> bool:
    return place.endswith(_DROP_IN[0]) or _DROP_IN[1] in place


def _code(version: list[int] | None) -> int:
    """2.28 is 22800. What came with 2.27 or before is in every NCCL that the drop-in takes."""
    return 0 if not version or version <= _OLDEST else version[0] * 10000 + version[1] * 100


def _nccl_candidates(system: System) -> list[str]:
    """NCCL libraries: the one that PLAIT_NCCL_LIBRARY names, the one the loader finds, others on its way, a wheel's."""
    named = system.variables.get("PLAIT_NCCL_LIBRARY")
    folders = system.variables.get("LD_LIBRARY_PATH", "").split(":")
    there = [f"{folder}/{NCCL}" for folder in folders if folder and os.path.exists(system.file(f"{folder}/{NCCL}"))]
    # The loader takes the first of these.
    return list(dict.fromkeys(filter(None, [named, NCCL, *there[1:], *wheel_libraries("nvidia.nccl", NCCL)])))


def _own(system: System) -> Iterator[Finding]:
    for name in ("libplait.so", "libplait_nccl.so"):
        path = LIB / name
        if not path.exists():
            yield Finding.warning(
                f"{name} is not at {path}", "C programs or the drop-in need it", "make, or install plait again"
            )
            continue
        answer = probe(system, str(path), "", ())
        if answer["error"]:
            cause = f"it cannot be opened: {answer['error']}"
            yield Finding.problem(f"{name} is at {path}", cause, "build it on this system, or install plait again")
        else:
            yield Finding.ok(f"{name} is at {path}")


def _preloaded(system: System) -> Iterator[Finding]:
    """Whether the drop-in is in LD_PRELOAD, and what there is there that the loader cannot open."""
    preloaded = system.variables.get("LD_PRELOAD", "")
    for name in re.split(r"[ :]+", preloaded.strip(" :")) if preloaded.strip(" :") else ():
        answer = probe(system, name, "", ())
        if answer["error"]:
            cause = f"the loader passes over it in each program that is started: {answer['error']}"
            remedy = "name a library that is there, or unset LD_PRELOAD; `plait run --nccl` sets it for one program"
            yield Finding.problem(f"LD_PRELOAD has {name}, which cannot be opened", cause, remedy).about("LD_PRELOAD")
    if _is_preloaded(system):
        yield Finding.ok(f"the drop-in is preloaded here: LD_PRELOAD={preloaded}").about("LD_PRELOAD")
    else:
        yield Finding.ok("the drop-in is not preloaded here; `plait run --nccl -- PROGRAM` does it")


def _is_preloaded(system: System) -> bool:
    return any(name in system.variables.get("LD_PRELOAD", "") for name in _DROP_IN)


def _other(system: System, what: str, library: str, version: str, words: Any) -> Finding:
    answer = probe(system, library, version, (version,) if version else ("ucp_get_version_string",))
    if answer["error"]:
        return Finding.note(f"no {what}: {answer['error']}")
    place = next(filter(None, answer["places"].values()), library)
    return Finding.ok(f"{what} is at {place}" + (f", version {words(answer['version'])}" if version else ""))


def _nccl_version(number: int) -> str:
    """22703 is 2.27.3."""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}" if number else "unknown"


def _cuda_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
