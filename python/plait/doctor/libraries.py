"""Libraries: which one each symbol of NCCL binds to in a program started from here, and what Plait opens itself."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .finding import Finding
from .system import System

_NCCL = "libnccl.so.2"
_DROP_IN = ("libplait_nccl.so", "plait_nccl/libnccl.so")
_NOTHING_BEHIND = "the drop-in passes calls on to it, and its functions fail without it"
_INSTALL = "install NCCL, or name it in PLAIT_NCCL_LIBRARY"
_LIB = Path(__file__).parents[1] / "lib"

# Those that PyTorch's process group and nccl-tests call most; a version of NCCL may lack the later ones.
_SYMBOLS = """
    ncclGetVersion ncclGetUniqueId ncclGetErrorString ncclGetLastError ncclCommInitRank ncclCommInitRankConfig
    ncclCommInitAll ncclCommSplit ncclCommFinalize ncclCommDestroy ncclCommAbort ncclCommGetAsyncError
    ncclCommCount ncclCommCuDevice ncclCommUserRank ncclCommRegister ncclCommDeregister ncclMemAlloc ncclMemFree
    ncclRedOpCreatePreMulSum ncclRedOpDestroy ncclAllReduce ncclAllGather ncclReduceScatter ncclReduce
    ncclBroadcast ncclBcast ncclSend ncclRecv ncclGroupStart ncclGroupEnd ncclCommInitRankScalable
    ncclCommShrink ncclCommWindowRegister ncclCommWindowDeregister ncclAlltoAll ncclGather ncclScatter
""".split()  # noqa: SIM905


def check(system: System) -> Iterator[Finding]:
    yield from _nccl(system)
    yield from _own(system)
    yield _other(system, "CUDA driver", "libcuda.so.1", "cuDriverGetVersion", _cuda_version)
    yield _other(system, "UCX", system.variables.get("PLAIT_UCX_LIBRARY") or "libucp.so.0", "", str)


def _nccl(system: System) -> Iterator[Finding]:
    candidates = _nccl_candidates(system)
    found = {name: _probe(system, name, "ncclGetVersion", _SYMBOLS) for name in candidates}
    good = {name: answer for name, answer in found.items() if not answer["error"]}
    if not good:
        reasons = "; ".join(answer["error"] for answer in found.values())
        if _is_preloaded(system):
            yield Finding.problem(f"there is no NCCL: {reasons}", _NOTHING_BEHIND, _INSTALL)
        else:
            yield Finding.note(f"there is no NCCL: {reasons}", "only the drop-in needs it", _INSTALL)
        return
    versions = {}
    for name, answer in good.items():
        counts = Counter(place for place in answer["places"].values() if place)
        for place, count in counts.items():
            is_ours = place.endswith(_DROP_IN[0]) or _DROP_IN[1] in place
            of = "Plait's drop-in" if is_ours else "NCCL"
            words = f"{count} of {len(_SYMBOLS)} symbols of NCCL bind to {place} ({of})"
            if is_ours and not answer["version"]:
                yield Finding.problem(f"{words}, with no NCCL behind it", _NOTHING_BEHIND, _INSTALL)
                continue
            yield Finding.ok(f"{words}, found as {name}, version {_nccl_version(answer['version'])}")
        versions[name] = answer["version"]
    if len(set(versions.values())) > 1:
        says = "several NCCL: " + ", ".join(f"{name} is {_nccl_version(number)}" for name, number in versions.items())
        cause = "a program gets that which is loaded first; ranks with different ones fail or hang at init"
        yield Finding.warning(says, cause, "PLAIT_NCCL_LIBRARY=PATH names one for Plait; uninstall the others")


def _nccl_candidates(system: System) -> list[str]:
    """Lists NCCL libraries: the one that PLAIT_NCCL_LIBRARY names, the one the loader finds, and the wheel's."""
    named = system.variables.get("PLAIT_NCCL_LIBRARY")
    return list(dict.fromkeys(filter(None, [named, _NCCL, *wheel_libraries("nvidia.nccl", _NCCL)])))


def wheel_libraries(package: str, file: str) -> list[str]:
    """Paths of a library that a wheel brought."""
    try:
        found = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        return []
    folders = found.submodule_search_locations or [] if found else []
    return [str(path) for folder in folders if (path := Path(folder, "lib", file)).exists()]


def _own(system: System) -> Iterator[Finding]:
    for name in ("libplait.so", "libplait_nccl.so"):
        path = _LIB / name
        if not path.exists():
            yield Finding.warning(
                f"{name} is not at {path}", "C programs or the drop-in need it", "make, or install plait again"
            )
            continue
        answer = _probe(system, str(path), "", ())
        if answer["error"]:
            cause = f"it cannot be opened: {answer['error']}"
            yield Finding.problem(f"{name} is at {path}", cause, "build it on this system, or install plait again")
        else:
            yield Finding.ok(f"{name} is at {path}")
    preloaded = system.variables.get("LD_PRELOAD", "")
    if _is_preloaded(system):
        yield Finding.ok(f"the drop-in is preloaded here: LD_PRELOAD={preloaded}")
    else:
        yield Finding.ok("the drop-in is not preloaded here; `plait run --nccl -- PROGRAM` does it")


def _is_preloaded(system: System) -> bool:
    return any(name in system.variables.get("LD_PRELOAD", "") for name in _DROP_IN)


def _other(system: System, what: str, library: str, version: str, words: Any) -> Finding:
    answer = _probe(system, library, version, (version,) if version else ("ucp_get_version_string",))
    if answer["error"]:
        return Finding.note(f"no {what}: {answer['error']}")
    place = next(filter(None, answer["places"].values()), library)
    return Finding.ok(f"{what} is at {place}" + (f", version {words(answer['version'])}" if version else ""))


def _probe(system: System, library: str, version: str, symbols: Any) -> dict[str, Any]:
    answer = system.ask(sys.executable, str(Path(__file__).with_name("probe.py")), library, version, *symbols)
    if answer.error:
        return {"error": f"{library}: {answer.error}"}
    try:
        return json.loads(answer.output)
    except ValueError:
        return {"error": f"{library}: nothing was found out"}


def _nccl_version(number: int) -> str:
    """22703 is 2.27.3."""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}" if number else "unknown"


def _cuda_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
