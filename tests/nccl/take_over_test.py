#!/usr/bin/env python3
"""The drop-in takes calls over: who performs what, on all ranks of a job (see job.py).

take_over_test.py DROP_IN BY_NAME NCCL PLAIT CUDA RANK_PROGRAM
"""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from job import (
    BFLOAT16,
    BY_NAME,
    CAPTURED,
    CUDA,
    DROP_IN,
    FLOAT32,
    INT8,
    MAX,
    NCCL,
    PLAIT,
    REDUCE,
    REMOTE_ERROR,
    SUCCESS,
    SUM,
    TIMEOUT,
    Step,
    check_forwarded,
    check_taken,
    ended,
    read,
    run,
    run_by_ctypes,
    start,
    table,
)
from runner import run_tests


def test_take_over() -> None:
    done = run("init 1", REDUCE, "destroy", NCCL_DEBUG="INFO")
    for number, rank in enumerate(done):
        init, reduce, destroy = rank.steps
        assert init.nccl[-1] == "ncclCommInitRank" and init.result == SUCCESS
        assert init.plait == [f"init({number},2,3,604800)"], init
        assert reduce == Step(SUCCESS, [], [f"all_reduce({number},1024,7,0)"]), reduce
        assert destroy == Step(SUCCESS, ["ncclCommDestroy"], [f"destroy({number})"]), destroy
        said = [line for line in rank.said.splitlines() if line.startswith("plait: ")]
        assert len(said) == 2, said
        assert DROP_IN in said[0] and NCCL in said[0] and "PLAIT_NCCL_TAKE=all" in said[0]
        assert f"Plait ({PLAIT}) takes over all collectives and messages, but not in graphs" in said[1]


def test_every_collective() -> None:
    calls = {
        f"all_reduce 5 {INT8} {MAX}": "all_reduce({0},5,0,2)",
        "all_gather 6": "all_gather({0},6,7)",
        f"reduce_scatter 7 {BFLOAT16} 4": "reduce_scatter({0},7,9,4)",
        f"broadcast 8 {FLOAT32} 1": "broadcast({0},8,7,1)",
        f"bcast 9 {FLOAT32} 1": "broadcast({0},9,7,1)",
        f"reduce 10 {FLOAT32} 3 1": "reduce({0},10,7,3,1)",
        "all_to_all 11": "all_to_all({0},11,7)",
        f"gather 12 {FLOAT32} 1": "gather({0},12,7,1)",
        f"scatter 13 {FLOAT32} 1": "scatter({0},13,7,1)",
        f"send 14 {FLOAT32} 1": "send({0},14,7,1)",
        f"recv 15 {FLOAT32} 0": "receive({0},15,7,0)",
        "send 0 7 1": "send({0},0,7,1)",
    }
    for number, rank in enumerate(run("init 1", *calls)):
        assert [step.plait for step in rank.steps[1:]] == [[call.format(number)] for call in calls.values()], rank
        assert not any(step.nccl for step in rank.steps[1:]), rank


def test_calls_that_nccl_performs() -> None:
    """None of them is an error of the drop-in: NCCL judges."""
    calls = {
        f"all_reduce 4 99 {SUM}": "ncclAllReduce",
        f"all_reduce 4 {FLOAT32} 77": "ncclAllReduce",
        f"all_reduce 4 {FLOAT32} -1": "ncclAllReduce",
        f"all_reduce 0 {FLOAT32} {SUM}": "ncclAllReduce",
        f"all_reduce 0x7fffffffffffffff {FLOAT32} {SUM}": "ncclAllReduce",
        f"all_reduce 4 {FLOAT32} {SUM} {CAPTURED}": "ncclAllReduce",
        f"broadcast 4 {FLOAT32} 2": "ncclBroadcast",
        f"reduce 4 {FLOAT32} 0 -1": "ncclReduce",
        f"send 4 {FLOAT32} 2": "ncclSend",
        f"recv 4 {FLOAT32} -1": "ncclRecv",
    }
    for rank in run("init 1", *calls):
        assert [step.nccl for step in rank.steps[1:]] == [[call] for call in calls.values()], rank
        assert not any(step.plait for step in rank.steps[1:]), rank
    for setting in ("all", "wins"):
        done = run("init 1", "bcast 4 7 0", PLAIT_NCCL_TAKE=setting, CUDA_STAND_IN="unset")
        check_forwarded(done)
        for rank in done:  # NCCL calls itself by the name that the drop-in has
            assert rank.steps[1].nccl == ["ncclBcast", "ncclBroadcast"], rank


def test_nccl_that_calls_itself() -> None:
    """NCCL's functions may call each other by the names that the drop-in has; such calls stay NCCL's."""
    done = run("init 1", f"all_reduce_config 4 {FLOAT32} {SUM}", REDUCE)
    for rank in done:
        assert rank.steps[1] == Step(SUCCESS, ["ncclAllReduceConfig", "ncclAllReduce"], []), rank
    check_taken(done, step=2)


def test_graphs() -> None:
    call = f"all_reduce 4 {FLOAT32} {SUM} {CAPTURED}"
    check_taken(run("init 1", call, PLAIT_NCCL_TAKE="all,graphs"))
    check_forwarded(run("init 1", call, PLAIT_NCCL_TAKE="all"))
    check_taken(run("init 1", f"all_reduce 4 {FLOAT32} {SUM} 1", PLAIT_NCCL_TAKE="all"))


def test_setting() -> None:
    done = run("init 1", REDUCE, PLAIT_NCCL_TAKE="none", NCCL_DEBUG="INFO")
    check_forwarded(done, "it takes over none (PLAIT_NCCL_TAKE=none)")
    check_forwarded(run("init 1", REDUCE, PLAIT_NCCL_TAKE="unset", NCCL_DEBUG="INFO"), "no wins were measured")
    check_forwarded(run("init 1", REDUCE, PLAIT_NCCL_TAKE="all,graph"), "expected none, wins or all")


def test_wins() -> None:
    with tempfile.TemporaryDirectory() as folder:
        wins = {"PLAIT_NCCL_WINS": table(folder), "PLAIT_NCCL_TAKE": "wins", "NCCL_DEBUG": "INFO"}
        calls = {
            f"all_reduce 15 {FLOAT32} {SUM}": False,
            f"all_reduce 16 {FLOAT32} {SUM}": True,
            f"all_reduce 1024 {FLOAT32} {SUM}": True,
            f"all_reduce 1025 {FLOAT32} {SUM}": False,
            f"all_reduce 1024 {FLOAT32} {MAX}": False,
            f"all_reduce 1024 {BFLOAT16} {SUM}": False,
            f"all_reduce 1024 {FLOAT32} {SUM} {CAPTURED}": False,
            f"all_gather 16 {INT8}": True,
            f"all_gather 17 {INT8}": False,  # blocks that are not aligned
            f"broadcast 16 {FLOAT32} 0": False,
            f"send 16 {FLOAT32} 1": False,
        }
        for rank in run("init 1", *calls, **wins):
            assert [bool(step.plait) for step in rank.steps[1:]] == list(calls.values()), rank
            assert [bool(step.nccl) for step in rank.steps[1:]] == [not taken for taken in calls.values()], rank
            assert "takes over all_reduce, all_gather, at the sizes at which it won on test-2" in rank.said
        captured = [f"all_reduce {count} {FLOAT32} {SUM} {CAPTURED}" for count in (32, 64, 2048, 2049)]
        for rank in run("init 1", *captured, **wins | {"PLAIT_NCCL_TAKE": "wins,graphs"}):
            assert [bool(step.plait) for step in rank.steps[1:]] == [False, True, True, False], rank
        call = f"all_reduce 1024 {FLOAT32} {SUM}"
        for changes, why in (
            ({"CUDA_STAND_IN_GPU": "Another GPU"}, "no wins were measured on 2 x Another GPU"),
            ({"CUDA_STAND_IN_MULTICAST": "1"}, "measured without NVLS"),
            ({"PLAIT_NCCL_WINS": "/nowhere"}, "/nowhere cannot be read"),
            ({"PLAIT_NCCL_WINS": table(folder, "ranks", ranks=3)}, "no wins were measured on 2 x Test GPU"),
            ({"PLAIT_NCCL_WINS": table(folder, "format", format="plait-nccl-wins 2")}, 'expected "plait-nccl-wins 1"'),
            ({"PLAIT_NCCL_WINS": table(folder, "graphs", wins=[])}, "in graphs alone"),
        ):
            check_forwarded(run("init 1", call, **wins | changes), why)
        check_taken(run("init 1", call, **wins, CUDA_STAND_IN_MULTICAST="1", NCCL_NVLS_ENABLE="0"))
        check_taken(
            run(
                "init 1",
                call,
                CUDA_STAND_IN_MULTICAST="1",
                **wins | {"PLAIT_NCCL_WINS": table(folder, "nvls", nvls=True)},
            )
        )
        other = {1: {"PLAIT_NCCL_WINS": table(folder, "other", nvls=True)}}
        check_forwarded(run("init 1", call, each=other, **wins), "ranks 0 and 1 have different tables of wins")


def test_shipped_tables() -> None:
    """For each machine the drop-in has one, and takes over what it says."""
    for gpu, ranks, taken in (
        ("NVIDIA H100 80GB HBM3", 2, f"all_reduce {1 << 20} {FLOAT32} {SUM}"),
        ("NVIDIA H200", 2, f"all_reduce 1 {FLOAT32} {SUM}"),
        ("NVIDIA H200", 4, f"all_reduce 1 {FLOAT32} {SUM}"),
    ):
        variables = {"PLAIT_NCCL_TAKE": "unset", "CUDA_STAND_IN_GPU": gpu}
        done = run("init 1", taken, f"all_reduce 1 {INT8} 1", ranks=ranks, **variables)
        check_taken(done)
        check_forwarded(done, step=2)


def test_votes_that_fail() -> None:
    """Whatever is amiss on one rank, all ranks have NCCL perform every call."""
    for changes, why in (
        ({"PLAIT_NCCL_TAKE": "none"}, "not all of its ranks are on this host"),
        ({"PLAIT_HOST_ID": "another"}, "not all of its ranks are on this host"),
        ({"LD_PRELOAD": ""}, "not all of its ranks are on this host"),
        ({"PLAIT_NCCL_TAKE": "all,graphs"}, "PLAIT_NCCL_TAKE differs: all on rank 0, all,graphs on rank 1"),
        ({"PLAIT_LIBRARY": "/nowhere/libplait.so"}, "rank 1: there is no libplait.so (/nowhere/libplait.so"),
        ({"PLAIT_LIBRARY": CUDA}, "it is not Plait"),
        ({"STAND_IN_PLAIT_VERSION": "105"}, "Plait's version differs"),
        ({"STAND_IN_PLAIT_VERSION": "900"}, "is version 0.9 of Plait"),
        ({"STAND_IN_PLAIT_NO_INIT": "1"}, "rank 1: the stand-in of Plait fails"),
        ({"CUDA_STAND_IN": "unset"}, "rank 1: no CUDA device is current"),
        ({"CUDA_STAND_IN_GPU": "Another GPU"}, "the GPU differs"),
        ({"NCCL_ALGO": "Ring"}, "rank 1: NCCL_ALGO is set"),
        ({"NCCL_P2P_DISABLE": "1"}, "rank 1: NCCL_P2P_DISABLE is set"),
        ({"NCCL_HOSTID": "another"}, "not all of its ranks are on this host"),
    ):
        done = run("init 1", REDUCE, "destroy", ranks=3, each={1: changes}, NCCL_DEBUG="INFO")
        taken = [step.plait for rank in done for step in rank.steps[1:]]
        assert not any(taken), (changes, taken)
        assert all(rank.rc == 0 and "ncclAllReduce" in rank.steps[1].nccl for rank in done), (changes, done)
        others = [rank.said for number, rank in enumerate(done) if number != 1]
        assert all(why in said for said in others), (changes, why, done)
        made = [call for rank in done for call in rank.steps[0].plait if call.startswith("init(") and ",3," in call]
        aborted = [call for rank in done for call in rank.steps[0].plait if call.startswith("abort")]
        assert len(made) == len(aborted), done
        if "not all" not in why and not made:  # the id that rank 0 gave is used up
            assert done[0].steps[0].plait == ["init(0,1,-1,0)", "destroy(0)"], done[0]
    check_taken(run("init 1", REDUCE, NCCL_P2P_DISABLE="0"))


def test_several_hosts_are_seen_at_once() -> None:
    """Ranks of another host never come to the rendezvous, and nobody waits for them."""
    for child, taken in (("split 0 0", False), ("split {node} 0", True)):
        commands = {rank: ["init 1", REDUCE, child.format(node=rank // 2), REDUCE] for rank in range(4)}
        hosts = {rank: {"PLAIT_HOST_ID": f"host{rank // 2}"} for rank in range(4)}
        begin = time.monotonic()
        done = run(ranks=4, own=commands, each=hosts, NCCL_DEBUG="INFO")
        assert time.monotonic() - begin < 20, "ranks waited for each other"  # or for the 30 seconds of a vote
        check_forwarded(done, "not all of its ranks are on this host and may take over")
        (check_taken if taken else check_forwarded)(done, step=3)


def test_hung_ranks() -> None:
    """A rank that hangs or dies before the first vote, or before the second, does not keep the others for long."""
    for variable, aborts in (("CUDA_STAND_IN_HANG", 0), ("STAND_IN_PLAIT_HANG", 1), ("STAND_IN_PLAIT_DIE", 1)):
        for victim in range(3):
            # One that dies is noticed at once, without any limit of time.
            limit = "unset" if variable.endswith("DIE") else "0.3"
            variables = {"PLAIT_BOOTSTRAP_TIMEOUT_SEC": limit, variable: str(victim), "NCCL_DEBUG": "INFO"}
            with tempfile.TemporaryDirectory() as room:
                ranks = [start(rank, ["init 1", REDUCE], 3, room, variables) for rank in range(3)]
                with ended(ranks):
                    for rank in set(range(3)) - {victim}:
                        said, _ = ranks[rank].communicate(timeout=20)
                        steps = read(said)
                        assert steps[1].nccl == ["ncclAllReduce"] and not steps[1].plait, said
                        assert sum(call.startswith("abort") for call in steps[0].plait) == aborts, said
                        assert f"the rank at place {victim}" in said or "the rank at place 0 gives no" in said, said


def test_ranks_of_one_process() -> None:
    """Several communicators in one group, and several devices in one process, go to NCCL."""
    check_forwarded(run("start", "init 1", "init 2", "end", REDUCE), step=4)
    done = run("start", "init 1", "end", REDUCE, "destroy")
    check_forwarded(run("init_threads 1", REDUCE, ranks=1, NCCL_DEBUG="INFO"), "are of one process")
    check_taken(done, step=3)
    assert all(rank.steps[4].plait == [f"destroy({number})"] for number, rank in enumerate(done))


def test_configs() -> None:
    undefined = -(1 << 31)
    check_taken(run(f"init_config 1 {undefined} {undefined}", REDUCE))
    check_taken(run(f"init_config 1 1 {undefined}", REDUCE))
    check_forwarded(run(f"init_config 1 0 {undefined}", REDUCE))  # non-blocking
    check_forwarded(run("init_config 1 1 8", REDUCE))  # no more than 8 CTAs
    one = {1: [f"init_config 1 0 {undefined}", REDUCE]}
    check_forwarded(run(f"init_config 1 1 {undefined}", REDUCE, own=one))
    in_progress = ["nccl_returns 7", "init 1", "nccl_returns 0", REDUCE]
    check_forwarded(run(*in_progress), step=3)
    check_forwarded(run(*in_progress, own={0: ["nccl_returns 0", *in_progress[1:]]}), step=3)
    check_taken(run("init_scalable 1 2", REDUCE))


def test_split_and_shrink() -> None:
    commands = {rank: ["init 1", f"split {rank % 2} {-rank}", REDUCE, "use 0", REDUCE] for rank in range(4)}
    for number, rank in enumerate(run(ranks=4, own=commands)):
        assert rank.steps[2].plait == [f"all_reduce({1 if number < 2 else 0},1024,7,0)"], rank
        assert rank.steps[4].plait == [f"all_reduce({number},1024,7,0)"], rank
    none = {rank: ["init 1", f"split {-1 if rank == 1 else 5} 0"] for rank in range(3)}
    then = {rank: [*commands, *(["use 0"] if rank == 1 else []), REDUCE] for rank, commands in none.items()}
    done = run(ranks=3, own=then)
    assert done[1].steps[3].plait == ["all_reduce(1,1024,7,0)"] and done[1].steps[1].result == SUCCESS, done
    assert done[2].steps[2].plait == ["all_reduce(1,1024,7,0)"], done
    shrink = {rank: ["init 1"] + (["shrink 1 1", REDUCE] if rank != 1 else []) for rank in range(3)}
    done = run(ranks=3, own=shrink)
    for number, rank in ((0, done[0]), (1, done[2])):
        assert rank.steps[1].plait[0] == f"abort({number * 2})", rank
        assert rank.steps[2].plait == [f"all_reduce({number},1024,7,0)"], rank
    in_group = ["init 1", "start", "split 0 0", "end", REDUCE]
    check_forwarded(run(*in_group), step=4)


def test_groups() -> None:
    """A communicator's collectives of one group go one way, in their order; messages are decided on apart."""
    unknown = f"all_reduce 4 {FLOAT32} 77"
    other = {1: ["init 1", "start", REDUCE, "all_gather 6", "end"]}
    done = run("init 1", "start", REDUCE, "all_gather 6", "end", own=other)
    for number, rank in enumerate(done):
        assert [step.plait for step in rank.steps[1:4]] == [[], [], []], rank
        expected = ["start()", f"all_reduce({number},1024,7,0)", f"all_gather({number},6,7)", "end()"]
        assert rank.steps[4] == Step(SUCCESS, ["ncclGroupEnd"], expected), rank
    done = run("init 1", "start", REDUCE, "all_gather 6", unknown, REDUCE, "end", REDUCE)
    for rank in done:
        assert [step.nccl for step in rank.steps[2:7]] == [
            [],
            [],
            ["ncclAllReduce", "ncclAllGather", "ncclAllReduce"],
            ["ncclAllReduce"],
            ["ncclGroupEnd"],
        ], rank
        assert not any(step.plait for step in rank.steps[2:7]), rank
    check_taken(done, step=7)
    done = run("init 1", "start", unknown, f"send 4 {FLOAT32} 1", f"recv 4 {FLOAT32} 1", "end")
    for number, rank in enumerate(done):
        assert rank.steps[2].nccl == ["ncclAllReduce"], rank
        expected = ["start()", f"send({number},4,7,1)", f"receive({number},4,7,1)", "end()"]
        assert rank.steps[5] == Step(SUCCESS, ["ncclGroupEnd"], expected), rank
    for number, rank in enumerate(run("init 1", "start", f"send 4 {FLOAT32} 1", REDUCE, "end")):
        expected = ["start()", f"all_reduce({number},1024,7,0)", f"send({number},4,7,1)", "end()"]
        assert rank.steps[4].plait == expected, rank
    # One alone needs no group of Plait's; nested groups end at the outermost one.
    for number, rank in enumerate(run("init 1", "start", "start", REDUCE, "end", "end")):
        assert not rank.steps[4].plait and rank.steps[5].plait == [f"all_reduce({number},1024,7,0)"], rank
    # NCCL shall see what a simulated group holds, and what a communicator has left when it ends.
    for rank in run("init 1", "start", REDUCE, "simulate", REDUCE):
        assert rank.steps[3].nccl == ["ncclAllReduce", "ncclGroupSimulateEnd"] and not rank.steps[3].plait, rank
        assert rank.steps[4].plait and not rank.steps[4].nccl, rank
    for rank in run("init 1", "start", REDUCE, "destroy", "end"):
        assert rank.steps[3].nccl == ["ncclAllReduce", "ncclCommDestroy"], rank
        assert rank.steps[4] == Step(SUCCESS, ["ncclGroupEnd"], []), rank


def test_two_communicators_in_a_group() -> None:
    """What another communicator has in the group does not matter: other ranks may not have that one."""
    with tempfile.TemporaryDirectory() as folder:
        variables = {"PLAIT_NCCL_TAKE": "wins", "PLAIT_NCCL_WINS": table(folder)}
        grouped = ["start", "use 0", REDUCE, "use 1", f"all_reduce 4 {FLOAT32} {MAX}", "end"]
        alone = ["use 0", REDUCE, "use 1", f"all_reduce 4 {FLOAT32} {MAX}"]
        done = run(own={0: ["init 1", "init 2", *grouped], 1: ["init 1", "init 2", *alone]}, **variables)
        assert [step.plait for step in done[0].steps[-3:]] == [[], [], ["all_reduce(0,1024,7,0)"]], done[0]
        assert done[0].steps[-2].nccl == ["ncclAllReduce"], done[0]
        assert done[1].steps[3].plait == ["all_reduce(1,1024,7,0)"], done[1]
        assert done[1].steps[5].nccl == ["ncclAllReduce"], done[1]


def random_commands(random: Random) -> list[str]:
    """Calls and groups on two communicators, with types, operations and sizes of which some are wins."""
    commands, depth = ["init 1", "init 2", f"premul {FLOAT32}"], 0
    for _ in range(40):
        count = random.choice([0, 1, 16, 17, 64, 1000, 2048, 5000])
        kind = random.choice([FLOAT32] * 6 + [INT8, BFLOAT16, 99])
        op = random.choice([SUM] * 6 + [MAX, 1000, 77])
        stream = random.choice([0, 0, 0, CAPTURED])
        call = random.choice([f"all_reduce {count} {kind} {op} {stream}", f"all_gather {count} {kind} {stream}"])
        commands.append(random.choice([call, call, call, f"use {random.randrange(2)}", "start", "end", "end"]))
        depth += (commands[-1] == "start") - (commands[-1] == "end")
        if depth < 0:
            commands[-1], depth = call, 0
    return [*commands, *["end"] * depth]


def test_random_programs() -> None:
    """All ranks decide alike, whatever they call, and each call is performed once."""
    seed = int(os.environ.get("PLAIT_TEST_SEED") or secrets.randbits(32))
    print(f"PLAIT_TEST_SEED={seed}", flush=True)
    random, performed = Random(seed), Counter()
    with tempfile.TemporaryDirectory() as folder:
        for setting in ("wins", "wins,graphs", "all", "all,graphs") * 2:
            commands = random_commands(random)
            done = run(*commands, PLAIT_NCCL_TAKE=setting, PLAIT_NCCL_WINS=table(folder))
            calls = [command.split()[0] for command in commands if command.startswith("all_")]
            by_nccl = [[call for step in rank.steps for call in step.nccl if "Al" in call] for rank in done]
            by_plait = [
                [call.replace(f"({number},", "(") for step in rank.steps for call in step.plait if "all_" in call]
                for number, rank in enumerate(done)
            ]
            assert by_nccl[0] == by_nccl[1] and by_plait[0] == by_plait[1], (setting, commands, done)
            for kind, name in (("all_reduce", "ncclAllReduce"), ("all_gather", "ncclAllGather")):
                taken = sum(call.startswith(kind) for call in by_plait[0])
                assert calls.count(kind) == taken + by_nccl[0].count(name), (setting, commands, done)
            performed += Counter(nccl=len(by_nccl[0]), plait=len(by_plait[0]))
    assert min(performed.values()) > 10, (seed, performed)


def test_premultiplied_sums() -> None:
    own = f"all_reduce 16 {FLOAT32} 1000"
    calls = ["init 1", f"premul {FLOAT32}", own, f"all_reduce 16 {BFLOAT16} 1000", "drop_op 1000", own]
    for number, rank in enumerate(run(*calls)):
        assert rank.steps[1] == Step(SUCCESS, ["ncclRedOpCreatePreMulSum"], [f"premul({number},7,1)"]), rank
        assert rank.steps[2] == Step(SUCCESS, [], [f"all_reduce({number},16,7,101)"]), rank
        assert rank.steps[3] == Step(SUCCESS, ["ncclAllReduce"], []), rank  # the operation is of another type
        assert rank.steps[4] == Step(SUCCESS, ["ncclRedOpDestroy"], [f"drop_op(101,{number})"]), rank
        assert rank.steps[5] == Step(SUCCESS, ["ncclAllReduce"], []), rank
    refused = ["init 1", "plait_fails 0 4", f"premul {FLOAT32}", "plait_fails 0 0", own]
    check_forwarded(run(*refused), step=4)
    with tempfile.TemporaryDirectory() as folder:
        variables = {"PLAIT_NCCL_TAKE": "wins", "PLAIT_NCCL_WINS": table(folder)}
        check_taken(run("init 1", f"premul {FLOAT32}", own, **variables), step=2)


def test_ends() -> None:
    for end, call in (("finalize", "destroy"), ("abort", "abort"), ("revoke", "abort")):
        for number, rank in enumerate(run("init 1", end, REDUCE, "destroy")):
            nccl = {"finalize": "ncclCommFinalize", "abort": "ncclCommAbort", "revoke": "ncclCommRevoke"}[end]
            assert rank.steps[1] == Step(SUCCESS, [nccl], [f"{call}({number})"]), rank
            assert rank.steps[2] == Step(SUCCESS, ["ncclAllReduce"], []), rank
            assert rank.steps[3] == Step(SUCCESS, ["ncclCommDestroy"], []), rank
    # A handle may come again, and two live ones at once.
    done = run("init 1", "destroy", "init 2", "init 3", REDUCE, "use 1", REDUCE, "destroy", "use 2", REDUCE)
    for step in (4, 6, 9):
        check_taken(done, step=step)
    done = run("init 1", REDUCE, "window", REDUCE, NCCL_DEBUG="INFO")
    check_taken(done)
    check_forwarded(done, "has registered a window", step=3)


def test_errors() -> None:
    done = run("init 1", "plait_fails 6 0", "async_error", "plait_fails 8 6", "async_error", REDUCE, "last_error")
    for rank in done:
        assert rank.steps[2].result == REMOTE_ERROR and rank.steps[4].result == TIMEOUT, rank
        assert rank.steps[5].result == REMOTE_ERROR and not rank.steps[5].nccl, rank
        assert "Plait, in the place of NCCL: the stand-in of Plait fails" in rank.said, rank
    for rank in run("init 1", "plait_fails 0 6", "start", REDUCE, REDUCE, "end", "destroy"):
        assert [step.result for step in rank.steps[2:]] == [SUCCESS, SUCCESS, SUCCESS, REMOTE_ERROR, SUCCESS], rank
        assert rank.steps[5].nccl == ["ncclGroupEnd"], rank


def test_watchdog() -> None:
    for rank in run("init 1", "watched_calls 2000"):
        assert rank.steps[1].result == SUCCESS and len(rank.steps[1].plait) == 2000, rank.said[-500:]


def test_what_is_said() -> None:
    with tempfile.TemporaryDirectory() as folder:
        pattern = f"{folder}/%h.%p%%"
        done = run("init 1", REDUCE, NCCL_DEBUG="INFO", NCCL_DEBUG_FILE=pattern)
        files = sorted(Path(folder).iterdir())
        assert len(files) == 2, files
        for file, rank in zip(files, done, strict=True):
            assert file.name.startswith(socket.gethostname()) and file.name.endswith("%.plait"), file
            lines = file.read_text(encoding="utf-8").splitlines()
            assert len(lines) == 2 and "stands in for NCCL" in lines[0] and "takes over all" in lines[1], lines
            assert "stands in" not in rank.said, rank


def test_by_name() -> None:
    """The form that has NCCL's name does the same."""
    by_name = {"LD_PRELOAD": "unset", "LD_LIBRARY_PATH": str(Path(BY_NAME).parent), "PLAIT_NCCL_LIBRARY": NCCL}
    done = run("init 1", REDUCE, "destroy", NCCL_DEBUG="INFO", **by_name)
    check_taken(done)
    assert all(BY_NAME in rank.said and NCCL in rank.said for rank in done), done


def test_opened_by_ctypes() -> None:
    """As vLLM opens NCCL: collectives and messages are Plait's or NCCL's, and communicators always NCCL's."""
    group = ["ncclGroupStart", "ncclGroupEnd"]
    alone = {
        "all_reduce": ["ncclAllReduce"],
        "reduce": ["ncclReduce"],
        "all_gather": ["ncclAllGather"],
        "reduce_scatter": ["ncclReduceScatter"],
        "broadcast": ["ncclBroadcast"],
        "messages": [group[0], "ncclSend", "ncclRecv", group[1]],
    }
    for take in ("all", "none"):
        for number, rank in enumerate(run_by_ctypes(PLAIT_NCCL_TAKE=take)):
            assert rank.rc == 0 and "version 23201" in rank.said, rank
            lines = [line.split(" |") for line in rank.said.splitlines() if line.count(" |") == 2]
            nccl = {what: called.split() for what, called, _ in lines}
            plait = {what: called.split() for what, _, called in lines}
            assert nccl.pop("destroy") == ["ncclCommDestroy"], rank
            assert plait.pop("destroy") == ([f"destroy({number})"] if take == "all" else []), rank
            if take == "none":
                assert nccl == alone and not any(plait.values()), rank
            else:
                assert nccl == {what: [] for what in alone} | {"messages": group} and all(plait.values()), rank


def test_libplait_is_beside_the_drop_in() -> None:
    """The real one is found, and refuses on all ranks, since there is no CUDA."""
    by_name = {"LD_PRELOAD": "unset", "LD_LIBRARY_PATH": str(Path(BY_NAME).parent), "PLAIT_NCCL_LIBRARY": NCCL}
    for form in ({}, by_name):
        done = run("init 1", REDUCE, NCCL_DEBUG="INFO", PLAIT_LIBRARY="unset", **form)
        check_forwarded(done, "CUDA")
        assert not any("there is no libplait.so" in rank.said for rank in done), done


if __name__ == "__main__":
    run_tests(globals())
