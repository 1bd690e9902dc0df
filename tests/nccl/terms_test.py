#!/usr/bin/env python3
"""What decides about calls, and what is said of it: NCCL's variables, NVLS, and the drop-in's own explanation.

terms_test.py DROP_IN BY_NAME NCCL PLAIT CUDA RANK_PROGRAM
"""

from __future__ import annotations

import os
import pwd
import tempfile
from pathlib import Path

from job import (
    BFLOAT16,
    CAPTURED,
    DROP_IN,
    FLOAT32,
    INT8,
    MAX,
    REDUCE,
    SUM,
    check_forwarded,
    check_taken,
    explain,
    run,
    table,
)
from runner import run_tests


def test_calls_are_shown() -> None:
    """With names, sizes, and who performs them."""
    calls = {
        REDUCE: "all_reduce of 1024 float32 (sum), 4 KiB: by Plait",
        f"all_reduce 4 {FLOAT32} 77": "all_reduce of 4 float32 (operation 77), 16 bytes: by NCCL, since the operation",
        f"all_reduce 4 99 {SUM}": "all_reduce of 4 elements of type 99 (sum): by NCCL, since the type is unknown",
        f"all_reduce 16 {FLOAT32} 1000": "all_reduce of 16 float32 (mulsum), 64 bytes: by Plait",
        f"reduce 1 {BFLOAT16} {MAX} 1": "reduce of 1 bfloat16 (max), root 1, 2 bytes: by Plait",
        "all_gather 3145728": "all_gather of 3145728 float32, 12 MiB a rank: by Plait",
        f"send 4 {INT8} 1": "send of 4 int8 to rank 1, 4 bytes: by Plait",
        f"recv 4 {INT8} 2": "receive of 4 int8 from rank 2, 4 bytes: by NCCL, since there is no such rank",
        f"all_reduce 4 {FLOAT32} {SUM} {CAPTURED}": "(sum), 16 bytes: by NCCL, since its stream is captured",
    }
    for asked in ({"PLAIT_LOG": "debug"}, {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "COLL"}):
        for rank in run("init 1", f"premul {FLOAT32}", *calls, **asked):
            lines = [line for line in rank.said.splitlines() if line.startswith("plait: ") and "float" in line]
            for words in calls.values():
                assert words in rank.said, (words, rank.said)
            shows_init = "takes over all" in rank.said
            assert shows_init == ("PLAIT_LOG" in asked) and lines, rank.said
    for rank in run("init 1", REDUCE, NCCL_DEBUG="INFO"):
        assert "of 1024" not in rank.said and "takes over all" in rank.said, rank.said
    for rank in run("init 1", "start", REDUCE, "end", PLAIT_LOG="debug"):
        assert "4 KiB: by Plait, unless the group has calls for NCCL" in rank.said, rank.said


def test_variables_of_nccl() -> None:
    """From the environment and from files; what leaves calls to NCCL, and is said."""
    for changes, why in (
        ({"NCCL_ALGO": "Ring"}, "NCCL_ALGO is set: Plait does not follow NCCL's algorithms"),
        ({"NCCL_P2P_LEVEL": "0"}, "NCCL_P2P_LEVEL is set: some GPUs shall not reach each other's memory"),
        ({"NCCL_MIN_CTAS": "4"}, "NCCL_MIN_CTAS is set: Plait does not follow numbers of CTAs"),
        ({"NCCL_COMM_ID": "127.0.0.1:5000"}, "NCCL_COMM_ID is set: ids of communicators are then no secret"),
        ({"NCCL_LAUNCH_ORDER_IMPLICIT": "1"}, "NCCL_LAUNCH_ORDER_IMPLICIT is set"),
    ):
        done = run("init 1", REDUCE, NCCL_DEBUG="INFO", **changes)
        check_forwarded(done, f"rank 0: {why}")
        (name, value), *_ = changes.items()
        check_forwarded(done, f"{name}={value} (the environment) leaves all calls to NCCL: ")
    for changes in ({"NCCL_P2P_LEVEL": "SYS"}, {"NCCL_CUMEM_ENABLE": "0", "NCCL_SOCKET_IFNAME": "lo"}):
        done = run("init 1", REDUCE, NCCL_DEBUG="INFO", **changes)
        check_taken(done)
        names = ", ".join(sorted(changes))
        assert all(f"no matter for calls that Plait performs: {names}" in rank.said for rank in done), done
        quiet = run("init 1", REDUCE, NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="^ENV", **changes)
        assert not any("no matter" in rank.said for rank in quiet), quiet
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, ".nccl.conf").write_text("NCCL_DEBUG=INFO\nNCCL_PROTO=LL\n", encoding="utf-8")
        named = Path(folder, "named")
        named.write_text("NCCL_DEBUG=INFO\nNCCL_PROTO=\nNCCL_HOSTID=here\n", encoding="utf-8")
        check_forwarded(run("init 1", REDUCE, HOME=folder), f"NCCL_PROTO is set (in {folder}/.nccl.conf)")
        check_taken(run("init 1", REDUCE, HOME=folder, NCCL_PROTO=""))  # set, and empty
        check_taken(run("init 1", REDUCE, HOME=folder, NCCL_CONF_FILE=str(named)))
        other = {1: {"NCCL_HOSTID": "there"}}
        check_forwarded(
            run("init 1", REDUCE, NCCL_CONF_FILE=str(named), each=other), "not all of its ranks are on this"
        )
        # A table that was measured otherwise holds no more, but for one that the user has made here.
        tuned = {"NCCL_BUFFSIZE": "1048576", "NCCL_DEBUG": "INFO"}
        shipped = {"PLAIT_NCCL_TAKE": "wins", "CUDA_STAND_IN_GPU": "NVIDIA H200"}
        call = f"all_reduce 1 {FLOAT32} {SUM}"
        check_taken(run("init 1", call, **shipped))
        done = run("init 1", call, **shipped, **tuned)
        check_forwarded(done, "NCCL_BUFFSIZE is set: NCCL was measured without it")
        check_forwarded(done, "NCCL_BUFFSIZE=1048576 (the environment) makes the wins that Plait brings void")
        check_taken(run("init 1", REDUCE, PLAIT_NCCL_TAKE="wins", PLAIT_NCCL_WINS=table(folder), **tuned))
        check_taken(run("init 1", call, **tuned))  # all


def test_nvls() -> None:
    """Where GPUs have multicast, a table without NVLS counts for calls alone for which NCCL cannot use it."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            {
                "collective": "all_reduce",
                "types": ["float32", "int8"],
                "op": op,
                "captured": False,
                "from": 1,
                "to": 4096,
            }
            for op in ("sum", "max")
        ] + [
            {"collective": name, "captured": False, "from": 1, "to": 4096}
            for name in ("all_gather", "broadcast", "all_to_all")
        ]
        wins = table(folder, wins=rows, ranks=3)
        calls = {
            f"all_reduce 16 {FLOAT32} {SUM}": False,
            f"all_reduce 16 {FLOAT32} {MAX}": True,
            f"all_reduce 16 {INT8} {SUM}": True,
            f"all_gather 16 {INT8}": False,
            f"broadcast 16 {FLOAT32} 0": True,
            f"all_to_all 16 {FLOAT32}": True,
        }
        multicast = {"PLAIT_NCCL_TAKE": "wins", "PLAIT_NCCL_WINS": wins, "CUDA_STAND_IN_MULTICAST": "1"}
        multicast["PLAIT_LOG"] = "debug"
        for version in ("22703", "22809", "23007"):
            for rank in run("init 1", *calls, ranks=3, **multicast, STAND_IN_SAYS=version):
                assert [bool(step.plait) for step in rank.steps[1:]] == list(calls.values()), rank
                assert "calls for which NCCL may use NVLS are left to it, unless NCCL_NVLS_ENABLE=0" in rank.said
                assert "by NCCL, since NCCL may use NVLS for it, and was measured without" in rank.said
        for unread in ("22601", "23201"):  # nobody has read what they do
            done = run("init 1", *calls, ranks=3, **multicast, STAND_IN_SAYS=unread)
            check_forwarded(done, "measured without NVLS, which NCCL may use here, unless NCCL_NVLS_ENABLE=0")
        # Until 2.28.3 two GPUs had no NVLS.
        two = multicast | {"PLAIT_NCCL_WINS": table(folder, "two")}
        check_taken(run("init 1", REDUCE, **two, STAND_IN_SAYS="22803"))
        check_forwarded(run("init 1", REDUCE, **two, STAND_IN_SAYS="22807"))
        check_taken(run("init 1", REDUCE, **two, STAND_IN_SAYS="22807", NCCL_NVLS_ENABLE="0x0"))
        check_forwarded(run("init 1", REDUCE, **two, STAND_IN_SAYS="22807", NCCL_NVLS_ENABLE="1"))
        # Ranks whose GPUs differ in that have different tables.
        one = {1: {"CUDA_STAND_IN_MULTICAST": "0"}}
        done = run("init 1", f"broadcast 16 {FLOAT32} 0", ranks=3, each=one, **multicast, STAND_IN_SAYS="22809")
        check_forwarded(done, "have different tables of wins")


def test_explanations() -> None:
    """What the drop-in says it would do, as `plait doctor` asks it, is what it then does."""
    with tempfile.TemporaryDirectory() as folder:
        wins = {"PLAIT_NCCL_TAKE": "wins", "PLAIT_NCCL_WINS": table(folder)}
        h200 = {"PLAIT_NCCL_TAKE": "unset", "CUDA_STAND_IN_GPU": "NVIDIA H200"}
        for variables in (
            {},
            {"PLAIT_NCCL_TAKE": "all,graphs"},
            wins,
            wins | {"PLAIT_NCCL_TAKE": "wins,graphs"},
            wins | {"CUDA_STAND_IN_MULTICAST": "1"},
            wins | {"CUDA_STAND_IN_MULTICAST": "1", "NCCL_NVLS_ENABLE": "0"},
            wins | {"NCCL_P2P_DISABLE": "0"},
            wins | {"NCCL_P2P_DISABLE": "1"},
            wins | {"CUDA_STAND_IN_GPU": "Another GPU"},
            h200,
            h200 | {"CUDA_STAND_IN_MULTICAST": "1", "STAND_IN_SAYS": "22809"},
            h200 | {"PLAIT_NCCL_TAKE": "wins,graphs"},
            h200 | {"NCCL_MAX_CTAS": "8"},
            {"PLAIT_LIBRARY": "/nowhere/libplait.so"},
        ):
            gpu, multicast = (variables.get(f"CUDA_STAND_IN_{name}") for name in ("GPU", "MULTICAST"))
            said = explain(gpu or "Test GPU", 3, int(multicast or 0), **variables)
            two, three = said["communicators"]
            assert (two["ranks"], three["ranks"]) == (2, 3), said
            for rank in run("init 1", NCCL_DEBUG="INFO", **variables):
                does = (
                    f"takes over {two['takes']}"
                    if "takes" in two
                    else f"takes over nothing: rank 0: {two['objection']}"
                )
                assert does in rank.said.replace("rank 1: ", "rank 0: "), (two, rank.said)
        assert explain("NVIDIA H200", 2, PLAIT_NCCL_TAKE="none")["communicators"][0]["objection"].endswith("=none")
        assert explain("NVIDIA H200", 64)["communicators"][-1]["objection"].startswith("there are 64 ranks")
        said = explain("Test GPU", 2, **wins | {"PLAIT_NCCL_TAKE": "wins,graphs", "NCCL_FOO": "1", "NCCL_ALGO": ""})
        assert said["take"] == "wins,graphs" and said["nccl"]["version"] == 23201 and said["path"] == DROP_IN, said
        assert [row["name"] for row in said["variables"]] == ["NCCL_FOO"] and not said["variables"][0]["is_known"], said
        (two,) = said["communicators"]
        assert [(row["collective"], row["captured"], row["from"], row["to"]) for row in two["wins"]] == [
            ("all_reduce", False, 64, 4096),
            ("all_reduce", False, 64, 4096),
            ("all_reduce", True, 256, 8192),
            ("all_gather", False, 1, 4096),
        ], two
        assert [row.get("operation") for row in two["wins"]] == ["sum", "mulsum", "sum", None], two
        assert said["functions"]["ncclGetVersion"] == [2, 27] and len(said["functions"]) == 97
        assert not said["flaws"], said
        for flaw, words in (
            ({"PLAIT_NCCL_TAKE": "most"}, "expected none, wins or all"),
            (wins | {"PLAIT_NCCL_WINS": "/nowhere"}, "PLAIT_NCCL_WINS names cannot be used: /nowhere cannot be read"),
        ):
            for gpu, ranks in (("Test GPU", 2), ("", 0)):
                (words_of_flaw,) = explain(gpu, ranks, **flaw)["flaws"]
                assert words in words_of_flaw, words_of_flaw
        assert explain("", 0)["plait"]["error"] == ""
        assert "/nowhere/libplait.so" in explain("", 0, PLAIT_LIBRARY="/nowhere/libplait.so")["plait"]["error"]
        for version, home in (("22909", pwd.getpwuid(os.getuid()).pw_dir), ("23003", folder)):
            files = [f"{home}/.nccl.conf", "/etc/nccl.conf"]
            assert explain("", 0, HOME=folder, STAND_IN_SAYS=version)["conf_files"] == files, version
        assert explain("", 0, NCCL_CONF_FILE="/a/file")["conf_files"] == ["/a/file", "/etc/nccl.conf"]
        missing = explain("Test GPU", 2, PLAIT_NCCL_LIBRARY="/nowhere/libnccl.so.2")
        assert "/nowhere/libnccl.so.2" in missing["nccl"]["error"] and missing["nccl"]["version"] == 0, missing


if __name__ == "__main__":
    run_tests(globals())
