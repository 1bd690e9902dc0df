"""Process groups of ranks whose launcher gives torch.distributed no store: they meet as in plait.init()."""

from __future__ import annotations

import importlib.util
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch_forks
from host_namespaces import joined_hosts, start_ranks
from ranks import TIMEOUT, cli, command, environment, why_no_network
from test_run import mpirun

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="PyTorch is not installed")

hosts = pytest.fixture(scope="module")(lambda: (yield from joined_hosts(2)))

BEGIN = """
import os, socket, sys, time
from datetime import timedelta
from pathlib import Path
import plait, plait.torch, torch
import torch.distributed as dist

def says(*words):
    "One write a line: launchers mix those of several ranks."
    os.write(1, (" ".join(map(str, words)) + chr(10)).encode())

def failure(**arguments):
    try:
        dist.init_process_group(**arguments)
    except Exception as error:
        says(type(error).__name__, error)
    else:
        says("no failure")

def listens():
    "The addresses at which this process listens, as the kernel writes them."
    files = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    mine = {os.readlink(file) for file in files if os.path.lexists(file)}
    rows = [row.split() for name in ("tcp", "tcp6") for row in Path("/proc/net", name).read_text().splitlines()[1:]]
    return [row[1].partition(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in mine]
"""

# Twice, as programs may, and with another backend: it is the store that Plait brings.
SUMS = """
for backend in ("plait", "gloo", "plait"):
    dist.init_process_group(backend, timeout=timedelta(seconds=50))
    rank, size = dist.get_rank(), dist.get_world_size()
    dist.all_reduce(total := torch.tensor([rank + 1.0]))
    assert total.item() == size * (size + 1) / 2
    pair = dist.new_group([0, size - 1], backend="plait")
    if rank in (0, size - 1):
        dist.all_reduce(total := torch.tensor([1.0]), group=pair)
        assert total.item() == min(size, 2)
    dist.destroy_process_group()
says(rank, "of", size, "right")
"""


@pytest.fixture(scope="module")
def forks(tmp_path_factory):
    with torch_forks.Forks(environment(OMP_NUM_THREADS="1"), tmp_path_factory.mktemp("programs")) as forks:
        yield forks


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], Path]:
    def program(code: str) -> Path:
        file = tmp_path / "program.py"
        file.write_text(BEGIN + code)
        return file

    return program


@pytest.fixture
def ranks(forks, program) -> Callable[..., list[str]]:
    """What each rank printed: those of `size` that are named, with what `plait run` would say to them, and more."""

    def ranks(code: str, size: int = 2, present: list[int] | None = None, **more: str) -> list[str]:
        file, job = str(program(code)), f"test {code}"
        begun = []
        for rank in range(size) if present is None else present:
            said = {"PLAIT_RANK": str(rank), "PLAIT_WORLD_SIZE": str(size), "PLAIT_LOCAL_RANK": str(rank)}
            begun.append(forks.begin([file], environment(OMP_NUM_THREADS="1", PLAIT_JOB=job, **said, **more)))
        try:
            return [it.communicate(TIMEOUT)[0] for it in begun]
        finally:
            for it in begun:
                it.kill()

    return ranks


def right(size: int) -> list[str]:
    return [f"{rank} of {size} right" for rank in range(size)]


def test_plait_run(program):
    code = "assert os.environ['LOCAL_RANK'] == os.environ['PLAIT_RANK'] and os.environ['LOCAL_WORLD_SIZE'] == '2'"
    done = cli("run", "-n", 2, "--", sys.executable, program(f"{code}\n{SUMS}"))
    assert (sorted(done.stdout.splitlines()), done.returncode) == (right(2), 0), done.stderr


def test_plait_run_on_several_hosts(program, tmp_path):
    if why_no_network():
        pytest.skip(why_no_network())
    shell = tmp_path / "rsh"
    shell.write_text('#!/bin/sh\nexec env -i HOME="$HOME" PATH="$PATH" sh -c "$2"\n')
    shell.chmod(0o755)
    options = ["--hosts", "here,there", "-n", 2, "--rsh", shell]
    done = cli("run", *options, "--", sys.executable, program(SUMS), PLAIT_MASTER_ADDR="127.0.0.1")
    assert (sorted(done.stdout.splitlines()), done.returncode) == (right(2), 0), done.stderr


def test_hosts_that_a_cable_joins(hosts, program):
    code = """
dist.init_process_group("plait", timeout=timedelta(seconds=50))
rank = dist.get_rank()
dist.all_reduce(total := torch.tensor([rank + 1.0]))
assert total.item() == 3
found = torch.zeros(1)
works = [dist.isend(total + rank, 1 - rank), dist.irecv(found, 1 - rank)]
for work in works:
    work.wait()
assert found.item() == 4 - rank
group = dist.new_group([1, 0], backend="plait")
dist.all_reduce(total, group=group)
assert total.item() == 6
dist.barrier()
says(rank, "of 2 right")
"""
    begun = start_ranks(hosts, 1, [sys.executable, str(program(code))], PLAIT_JOB="51c0a2")
    ended = [rank.communicate(timeout=TIMEOUT) for rank in begun]
    assert [said.splitlines() for said, _ in ended] == [[line] for line in right(2)], ended


# Ways that do not say how many ranks a host has: variables as in many a job of srun, and an address in the program.
@pytest.mark.parametrize("are_variables", [True, False])
def test_hosts_of_which_only_the_first_is_told(hosts, program, are_variables):
    code = """
place, rank = (os.environ.pop(name) for name in ("PLAIT_MASTER_ADDR", "PLAIT_RANK"))
del os.environ["PLAIT_WORLD_SIZE"], os.environ["PLAIT_LOCAL_RANK"]
if ARE_VARIABLES:
    os.environ |= {"MASTER_ADDR": place, "MASTER_PORT": "29517", "RANK": rank, "WORLD_SIZE": "2"}
    given = {}
else:
    given = {"init_method": f"tcp://{place}:29518", "rank": int(rank), "world_size": 2}
dist.init_process_group("plait", timeout=timedelta(seconds=50), **given)
dist.all_reduce(total := torch.tensor([dist.get_rank() + 1.0]))
assert total.item() == 3
says(rank, "of 2 right")
"""
    code = code.replace("ARE_VARIABLES", str(are_variables))
    begun = start_ranks(hosts, 1, [sys.executable, str(program(code))])
    ended = [rank.communicate(timeout=TIMEOUT) for rank in begun]
    assert [said.splitlines() for said, _ in ended] == [[line] for line in right(2)], ended


def test_a_launcher_within_a_launcher(program):
    inner = command("run", "-n", 2, "--", sys.executable, program(SUMS))
    done = cli("run", "-n", 1, "--", *inner)
    assert (sorted(done.stdout.splitlines()), done.returncode) == (right(2), 0), done.stderr


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no MPI here")
def test_mpirun(program):
    done = mpirun(2, sys.executable, str(program(SUMS)))
    assert (sorted(done.stdout.splitlines()), done.returncode) == (right(2), 0), done.stderr


def test_nodes_on_one_host(ranks):
    if why_no_network():
        pytest.skip(why_no_network())
    printed = ranks("os.environ['PLAIT_HOST_ID'] = 'node' + os.environ['PLAIT_RANK']\n" + SUMS)
    assert printed == [f"{line}\n" for line in right(2)]


def test_what_another_job_left_over_counts_for_nothing(ranks):
    left_over = {"MASTER_ADDR": "192.0.2.1", "MASTER_PORT": "1", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    left_over |= {"TORCHELASTIC_RUN_ID": "other", "LOCAL_RANK": "7"}
    assert ranks(SUMS, **left_over) == [f"{line}\n" for line in right(2)]


def test_variables_of_the_program_itself_count(ranks):
    """Those of PyTorch, all of them: then the store is where they say."""
    code = """
port = int(os.environ["PORT"])
os.environ |= {"RANK": os.environ["PLAIT_RANK"], "WORLD_SIZE": "2"}
os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
dist.init_process_group("plait")
assert plait.torch.ProcessGroup is type(dist.group.WORLD)
store = dist.TCPStore("127.0.0.1", port, is_master=False)
dist.barrier()
store.set(os.environ["RANK"], "here")
store.wait(["0", "1"])
dist.barrier()
says("right")
"""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert ranks(code, PORT=str(port)) == ["right\n"] * 2


def test_nothing_listens_longer_than_the_group_is_there(ranks):
    code = """
dist.init_process_group("plait")
says(*listens())
dist.barrier()
dist.destroy_process_group()
says("after", *listens())
"""
    assert ranks(code) == ["0100007F\nafter\n", "\nafter\n"]  # 127.0.0.1


def test_a_rank_that_does_not_come_is_named(ranks):
    (said,) = ranks("failure(backend='plait', timeout=timedelta(seconds=1))", present=[0])
    assert said.startswith("Timeout ") and "rank 1 of 2 did not arrive within 1 s" in said, said


def test_a_rank_that_dies_before_it_has_the_store_is_named(ranks):
    code = """
if os.environ["PLAIT_RANK"] == "1":
    dist.TCPStore = lambda *_, **__: os.kill(os.getpid(), 9)
failure(backend="plait", timeout=timedelta(seconds=40))
"""
    said, _ = ranks(code)
    assert said.startswith("PeerFailed ") and "rank 1" in said, said


def test_ranks_that_the_program_says(ranks):
    code = """
rank = int(os.environ["PLAIT_RANK"])
dist.init_process_group("plait", rank=rank, world_size=2)
dist.destroy_process_group()
failure(backend="plait", init_method="plait://", rank=1 - rank, world_size=2)
failure(backend="plait", rank=0, world_size=1)
"""
    for rank, said in enumerate(ranks(code)):
        other, alone = said.splitlines()
        assert other.startswith("InvalidInput plait://") and f"rank {rank} of 2; leave out rank=" in other, other
        assert alone.startswith("ValueError") and "MASTER_ADDR expected" in alone, alone


def test_without_a_launcher(forks, program):
    file = program("failure(backend='plait')\nfailure(backend='plait', init_method='plait://')\n")
    said = forks.begin([str(file)], environment()).communicate(TIMEOUT)[0]
    by_variables, by_plait = said.splitlines()
    assert by_variables.startswith("ValueError") and "RANK expected" in by_variables, said
    assert by_plait.startswith("InvalidInput plait://: no launcher that Plait knows started this process"), said
