"""What PLAIT_LOG shows: the machine once a communicator, and every call with what runs it."""

from __future__ import annotations

import re
import sys
import textwrap

from ranks import cli

_SCRIPT = """
    import numpy as np, plait
    with plait.init() as communicator:
        array = np.ones(1000, np.float32)
        communicator.all_reduce(array)
        communicator.all_reduce(array, "max", out=array)
        communicator.broadcast(array, root=1, out=array)
        communicator.barrier()
        if communicator.rank == 0:
            communicator.send(array, 1)
        elif communicator.rank == 1:
            communicator.recv(1000, 0, dtype=np.float32)
    """
_HOW = r": \w+(\(.*\))?, \d+ queues?, predicted [0-9.e+]+ [um]?s; \S.*"
_CALLS = (
    r"all_reduce of 1000 float32 \(sum\)" + _HOW,
    r"all_reduce of 1000 float32 \(max\), in place" + _HOW,
    r"broadcast of 1000 float32, root 1(, in place)?" + _HOW,
    "barrier" + _HOW,
)


def _said(level: str, size: int, **settings: str) -> list[str]:
    """Lines of the log, but for those about how ranks met."""
    program = [sys.executable, "-c", textwrap.dedent(_SCRIPT)]
    result = cli("run", "-n", size, "--", *program, PLAIT_LOG=level, **settings)
    assert result.returncode == 0, result.stderr
    return [line for line in result.stderr.splitlines() if ": bootstrap: " not in line]


def test_debug_shows_each_call_with_its_plan():
    lines = _said("debug", 3)
    messages = (["send of 1000 float32 to rank 1"], ["receive of 1000 float32 from rank 0"], [])
    for rank in range(3):
        start = f"plait: [rank {rank}] debug: "
        said = [line.removeprefix(start) for line in lines if line.startswith(start)]
        assert said[4:] == messages[rank]
        for pattern, line in zip(_CALLS, said[:4], strict=True):
            assert re.fullmatch(pattern, line), line
        assert (", in place" in said[2]) == (rank == 1)  # the root alone has an input and an output


def test_info_shows_once_what_was_found():
    (line,) = _said("info", 3)
    assert re.match(
        r"plait: \[rank 0\] info: 3 ranks on \d+ (of \d+ )?CPU sockets?( \(.+\))? of 1 host; chosen for ", line
    )
    (line,) = _said("info", 2, PLAIT_TOPOLOGY="pcie-4")
    assert "2 ranks on 2 of 4 GPUs" in line and "PLAIT_TOPOLOGY=pcie-4 has it be pcie-4 (" in line


def test_otherwise_it_is_silent():
    assert _said("warn", 2) == []
