"""The backend of torch.distributed, where PyTorch is installed: pip install torch."""

from __future__ import annotations

import functools
import importlib.util
import json
import re
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch_forks
from ranks import environment, why_no_network

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="PyTorch is not installed")

FOLDER = Path(__file__).parent
SCENARIOS = {
    path.stem: re.findall(r"^@scenario\ndef (\w+)", path.read_text(), re.MULTILINE)
    for path in sorted(FOLDER.glob("torch_*.py"))
}
# On GPUs, messages have no tags, and errors come from other calls. Host memory in their place has callers wait.
HOST_ALONE = {"tags_in_another_order", "message_for_another_tensor", "mismatched_shapes", "asynchronous"}
HOST_ALONE |= {"messages_of_one_size_and_type", "large_message_for_another_tensor", "all_to_all_of_other_sizes"}
HOST_ALONE |= {"all_to_all_of_other_types", "call_after_one_that_was_refused", "messages_of_a_group_that_has_ended"}
HOST_ALONE |= {"messages_from_any_rank", "wait_that_nobody_needs_has_no_timeout", "any_rank_but_those_that_left"}
HOST_ALONE |= {"receives_from_any_rank_have_a_timeout_each", "options_with_a_timeout", "tensors_of_dropped_works"}
HOST_ALONE |= {"sharded_tensors", "messages_to_itself_with_tags"}
HOST_ALONE |= {"all_to_all_single_where_some_ranks_give_sizes"}
CASES = [("plait", name) for file, names in SCENARIOS.items() for name in names if file != "torch_streams"]
CASES += [("plait_on_streams", name) for names in SCENARIOS.values() for name in names if name not in HOST_ALONE]
RANKS = 3
SECONDS = 240  # after which a program hangs


@pytest.fixture(scope="module")
def forks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    with torch_forks.Forks(environment(OMP_NUM_THREADS="1"), folder) as forks:
        yield forks


@pytest.fixture(scope="module")
def start(forks) -> Callable[..., torch_forks.Program]:
    """Begins a program that uses torch and plait.torch: start(file, argument, ..., NAME=value)."""

    def start(*arguments: object, **changes: str) -> torch_forks.Program:
        return forks.begin(list(map(str, arguments)), environment(OMP_NUM_THREADS="1", **changes))

    return start


def ends(programs: list[torch_forks.Program]) -> list[str]:
    """What the programs print until they end, all of them in time."""
    printed = ["it hangs"] * len(programs)
    try:
        for number, program in enumerate(programs):
            printed[number] = program.communicate(timeout=SECONDS)[0]
    except subprocess.TimeoutExpired:
        pass
    finally:
        for program in programs:
            program.kill()
    return printed


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory, start) -> Callable[[str], list[dict[str, str]]]:
    """How every scenario of a backend ended, by rank. All run in the same processes: importing torch takes long."""

    @functools.cache
    def of(backend: str) -> list[dict[str, str]]:
        folder, names = tmp_path_factory.mktemp("torch"), [name for of, name in CASES if of == backend]
        printed = ends([start(FOLDER / "torch_rank.py", rank, RANKS, folder, backend, *names) for rank in range(RANKS)])
        ended = [dict(map(json.loads, Path(folder, f"rank{rank}").read_text().splitlines())) for rank in range(RANKS)]
        unfinished = [dict.fromkeys(names, f"did not end: {words[-3000:]}") for words in printed]
        return [others | known for others, known in zip(unfinished, ended, strict=True)]

    return of


@pytest.mark.parametrize(("backend", "name"), CASES)
def test_scenario(outcomes, backend, name):
    bad = [f"rank {rank}: {ended[name]}" for rank, ended in enumerate(outcomes(backend)) if ended[name] != "passed"]
    assert not bad, "\n".join(bad)


START = """
import os, signal, sys, time
from datetime import timedelta
from pathlib import Path
import plait, plait.torch, torch
import torch.distributed as dist

def meet(seconds=30, name="store"):
    rank, size, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    dist.init_process_group(
        "plait", store=dist.FileStore(f"{folder}/{name}", size), rank=rank, world_size=size,
        timeout=timedelta(seconds=seconds))
    return rank

def failure(call):
    try:
        call()
    except plait.Error as error:
        print(type(error).__name__, error, flush=True)
    else:
        print("no failure", flush=True)

def stay():  # until another rank lets this one go
    while not Path(sys.argv[3], "done").exists():
        time.sleep(0.01)

def let_go():
    Path(sys.argv[3], "done").touch()

def outlive_torchrun():
    # When one rank is killed, torchrun at once asks the others to end: they say first what they saw.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
"""


@pytest.fixture
def start_ranks(start, tmp_path) -> Callable[..., list[torch_forks.Program]]:
    """Begins ranks that run START and the code: all of `size`, or those of `ranks`."""

    def start_ranks(code: str, size: int = 2, ranks: list[int] | None = None) -> list[torch_forks.Program]:
        program = tmp_path / "program.py"
        program.write_text(START + code)
        return [start(program, rank, size, tmp_path) for rank in (range(size) if ranks is None else ranks)]

    return start_ranks


def test_a_killed_rank_is_named(start_ranks):
    code = """
rank = meet()
if rank == 0:
    dist.recv(torch.zeros(1), 1)
    failure(lambda: dist.all_reduce(torch.ones(3)))
    failure(lambda: dist.recv(torch.zeros(1), 1))
    failure(dist.barrier)
else:
    dist.send(torch.zeros(1), 0)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    collective, message, later = ends(start_ranks(code))[0].splitlines()
    assert re.match(r"PeerFailed .*rank 1 .*(died|ended)", collective), collective
    assert message == later == collective


DEATHS = {
    "between messages": ("dist.recv(one, 1)", "dist.send(one, 0)", "dist.recv(one, 1)"),
    "between messages, then a send": ("dist.recv(one, 1)", "dist.send(one, 0)", "dist.send(torch.ones(10_000_000), 1)"),
    "before the first": ("dist.barrier()", "dist.barrier()", "dist.recv(one, 1)"),
    "before the first, which is sent": ("dist.barrier()", "dist.barrier()", "dist.send(one, 1)"),
    "before the first from any rank": ("dist.barrier()", "dist.barrier()", "dist.recv(one)"),
    "in the midst of one": ("dist.recv(one, 1)", "dist.send(one, 0); dist.isend(large, 0)", "dist.recv(large, 1)"),
    "where another rank stays": ("dist.barrier()", "dist.barrier()", "plait.torch.monitored_barrier()"),
    "before a group": ("dist.barrier()", "dist.barrier()", "dist.new_group(backend='plait')"),
}


@pytest.mark.parametrize("death", DEATHS)
def test_a_rank_that_dies_is_named_at_once(start_ranks, death):
    """By its number in the group, to all that wait for it."""
    before, last, then = DEATHS[death]
    code = f"""
rank, one = meet({2 * SECONDS}), torch.zeros(1)
large = torch.zeros(30_000_000) if "large" in {last!r} and rank < 2 else one
if rank == 0:
    {before}
    failure(lambda: {then})
elif rank == 1:
    {last}
    os.kill(os.getpid(), signal.SIGKILL)
else:
    if "barrier" in {last!r}:
        dist.barrier()
    failure(lambda: dist.new_group(backend="plait") if "group" in {then!r} else dist.barrier())
"""
    for told in ends(start_ranks(code, size=3))[::2]:
        assert re.match(r"PeerFailed .*rank 1 \(process \d+\) has died", told), told
        assert not re.search(r"rank [02] \(process", told), told


def test_a_dead_rank_of_a_sub_group_has_its_number_there(start_ranks):
    code = f"""
rank = meet({2 * SECONDS})
group = dist.new_group([1, 2], backend="plait")
dist.barrier()
if rank == 2:
    os.kill(os.getpid(), signal.SIGKILL)
if rank == 1:
    failure(lambda: dist.send(torch.ones(1), 2, group=group))
    failure(lambda: dist.all_reduce(torch.ones(1), group=group))
failure(dist.barrier)
"""
    of_job, (message, collective, last), _ = (printed.splitlines() for printed in ends(start_ranks(code, size=3)))
    for told in (message, collective):
        assert re.match(r"PeerFailed .*rank 1 \(process \d+\) has died", told), told
        assert told.endswith("its ranks, from 0, are the ranks 1, 2 of the job)"), told
    for told in (*of_job, last):
        assert re.match(r"PeerFailed rank 2 \(process \d+\) has died", told), told


@pytest.mark.parametrize("before", ["pass", "dist.send(torch.zeros(1), 0)"])
def test_an_error_that_ends_a_rank_reaches_the_others(start_ranks, before):
    code = f"""
rank = meet({2 * SECONDS})
if rank == 0:
    if {before!r} != "pass":
        dist.recv(torch.zeros(1), 1)
    failure(lambda: dist.recv(torch.zeros(1), 1))
if rank == 1:
    {before}
    raise ValueError("this data cannot be read")
failure(lambda: dist.all_reduce(torch.ones(3)))
"""
    ended = ends(start_ranks(code, size=3))
    assert [len(printed.splitlines()) for printed in ended[::2]] == [2, 1], ended
    for told in (ended[0] + ended[2]).splitlines():
        assert told.startswith("PeerFailed") and "rank 1: ValueError: this data cannot be read" in told, told


def test_a_rank_that_never_comes_is_named(start_ranks):
    alone = ends(start_ranks("failure(lambda: meet(1, 'a'))", ranks=[0]))[0]
    assert "Timeout" in alone and "rank 1 of 2 did not arrive within 1 s" in alone, alone
    alone = ends(start_ranks("failure(lambda: meet(1, 'b'))", ranks=[1]))[0]
    assert "Timeout rank 0 of the process group did not come within 1 s" in alone, alone


def test_calls_without_a_peer_end(start_ranks):
    code = """
rank = meet(1)
if rank == 0:
    failure(lambda: dist.send(torch.ones(3), 1))  # nobody receives
    work = dist.irecv(torch.ones(3), 1)
    dist.destroy_process_group()
    failure(work.wait)
    failure(lambda: dist.distributed_c10d._world)  # the program goes on
    let_go()
else:
    stay()
"""
    first, second, _ = ends(start_ranks(code))[0].splitlines()
    assert first.startswith("Timeout messages from rank 0 to rank 1: rank 1 made no call"), first
    assert "in these words" not in first, first
    assert second.startswith(("PeerFailed", "Error", "Timeout")), second


def test_a_message_that_nobody_sends_is_told_with_the_ranks_of_the_group(start_ranks):
    code = """
rank = meet(1)
if rank == 0:
    failure(lambda: dist.recv(torch.ones(3), 1))
    let_go()
else:
    stay()
"""
    told = ends(start_ranks(code))[0]
    assert told.startswith("Timeout messages from rank 1 to rank 0: rank 1 made no call"), told
    assert "in these words" not in told, told


def test_sizes_that_do_not_add_up_are_told(start_ranks):
    code = """
meet()
failure(lambda: dist.all_to_all_single(torch.empty(3), torch.empty(4), [1, 2], [2, 1]))
"""
    for told in ends(start_ranks(code)):
        assert "all_to_all_single: the sizes of the parts of the input are [2, 1];" in told, told
        assert "together they must be its 4 rows" in told, told


def test_a_program_may_end_without_waiting(start_ranks):
    code = """
rank = meet()
works = [dist.all_reduce(torch.ones(1000), async_op=True) for _ in range(50)]
if rank == 0:
    sent = dist.isend(torch.ones(10), 1)
future = works[-1].get_future().then(lambda future: future.value()[0] + 1)
print("the end")
"""
    ranks = start_ranks(code)
    assert ends(ranks) == ["the end\n"] * 2
    assert [rank.returncode for rank in ranks] == [0, 0]


@pytest.fixture
def torchrun(start, tmp_path) -> Callable[..., str]:
    """Runs START and the code under torchrun, whose ranks import torch themselves; gives what all printed."""

    def torchrun(code: str, *options: str, is_failure: bool = False) -> str:
        program = tmp_path / "program.py"
        program.write_text(START + code)
        run = start("-m", "torch.distributed.run", "--nproc-per-node", 2, *options, program, tmp_path)
        printed = ends([run])[0]
        assert (run.returncode != 0) == is_failure, printed
        return printed

    return torchrun


def test_torchrun(torchrun):
    code = """
for again in range(2):
    dist.init_process_group("plait")
    tensor = torch.full((2, 2), dist.get_rank() + 1.0)
    dist.all_reduce(tensor)
    assert tensor.eq(3).all() and dist.get_backend() == "plait"
    mesh = dist.device_mesh.init_device_mesh("cpu", (1, 2), mesh_dim_names=("a", "b"))
    dist.all_reduce(tensor, group=mesh.get_group("b"))
    assert tensor.eq(6).all()
    dist.destroy_process_group()
print("ready", flush=True)
"""
    printed = torchrun(code)
    assert printed.count("ready") == 2 and "warn" not in printed.lower().replace("userwarning", ""), printed


def test_ranks_over_nodes(torchrun):
    if why_no_network():
        pytest.skip(why_no_network())
    code = """
outlive_torchrun()
os.environ["PLAIT_HOST_ID"] = f"host{os.environ['RANK']}"
dist.init_process_group("plait")
rank = dist.get_rank()
dist.all_reduce(tensor := torch.full((1000,), rank + 1.0))
assert tensor.eq(3).all()
found = torch.zeros(1000)
works = [dist.isend(tensor + rank, 1 - rank), dist.irecv(found, 1 - rank)]
for work in works:
    work.wait()
assert found.eq(4 - rank).all()
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
failure(dist.barrier)
"""
    printed = torchrun(code, is_failure=True)
    assert re.search(r"PeerFailed .*rank 1 ", printed), printed


def test_spawn(start_ranks):
    code = """
def work(rank, port):
    store = dist.TCPStore("127.0.0.1", int(port), 2, is_master=rank == 0)
    for again in range(3):  # with the same store
        dist.init_process_group("plait", store=store, rank=rank, world_size=2)
        dist.all_reduce(tensor := torch.ones(1))
        assert tensor.item() == 2
        dist.destroy_process_group()
    print("ready", flush=True)

if __name__ == "__main__":
    torch.multiprocessing.spawn(work, (sys.argv[1],), nprocs=2)
"""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert ends(start_ranks(code, ranks=[port]))[0].count("ready") == 2


def test_torchrun_restarts_after_a_rank_was_killed(torchrun):
    code = """
outlive_torchrun()
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
dist.init_process_group("plait")
dist.barrier()
if attempt == "0" and dist.get_rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
if attempt == "0":
    failure(dist.barrier)
    sys.exit(1)
dist.all_reduce(tensor := torch.ones(1))
print(f"attempt {attempt}: {tensor.item()}", flush=True)
dist.destroy_process_group()
"""
    printed = torchrun(code, "--max-restarts", "1")
    assert re.search(r"PeerFailed .*rank 1 ", printed), printed
    assert printed.count("attempt 1: 2.0") == 2, printed
