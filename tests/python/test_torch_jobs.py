"""How jobs of several ranks are judged (tests/gpu/torch_jobs.py): needs neither PyTorch nor a GPU."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "gpu"))
import torch_jobs

KILLED = 1
SECONDS = 60.0

# What PyTorch's watchdog says on its way out.
TRACE = "print('Exception raised from checkTimeout; did not end: frame #0', file=sys.stderr, flush=True);"


def run(tmp_path: Path, first: str, *, grace: float = SECONDS) -> list[torch_jobs.Ended]:
    """Rank 0 does as `first` says, and rank KILLED dies."""
    code = (
        f"import os, signal, sys, time; rank = int(sys.argv[1])\nif rank == 0: {first}\nelse: os.kill(os.getpid(), 9)"
    )
    return torch_jobs.run([sys.executable, "-c", code], 2, tmp_path, {}, seconds=SECONDS, grace=grace)


def test_a_rank_that_ends_with_a_trace_has_ended(tmp_path):
    ended = run(tmp_path, TRACE + "os.abort()")
    assert [it.status for it in ended] == [-signal.SIGABRT, -signal.SIGKILL]
    assert torch_jobs.deaths(ended, KILLED, SECONDS) == []
    assert "the last of the others ended" in torch_jobs.last_end(ended, KILLED)


def test_a_rank_that_goes_on_has_not_ended_whatever_it_says(tmp_path):
    ended = run(tmp_path, TRACE + "time.sleep(1000)", grace=0.5)
    (wrong,) = torch_jobs.deaths(ended, KILLED, SECONDS)
    assert wrong.startswith("rank 0 ran until it was killed after") and "1 threads S (sleeping)" in wrong, wrong
    assert torch_jobs.last_end(ended, KILLED) == "1 of 1 others had not ended when the time was over"


def test_a_rank_that_ends_well_did_not_notice(tmp_path):
    (wrong,) = torch_jobs.deaths(run(tmp_path, "pass"), KILLED, SECONDS)
    assert wrong.startswith("rank 0 ended with 0 after"), wrong


def test_a_rank_that_ends_too_late():
    ended = [torch_jobs.Ended(1, 70.5, "late"), torch_jobs.Ended(-signal.SIGKILL, 10.0, "")]
    assert torch_jobs.deaths(ended, KILLED, SECONDS) == ["rank 0 ended with 1 after 70.5 s: late"]
    assert torch_jobs.last_end(ended, KILLED) == "the last of the others ended 60.5 s later"


def test_a_rank_that_was_not_killed():
    ended = [torch_jobs.Ended(1, 3.0, ""), torch_jobs.Ended(1, 2.0, "an error")]
    assert torch_jobs.deaths(ended, KILLED, SECONDS) == ["rank 1 ended with 1 after 2.0 s: an error"]
