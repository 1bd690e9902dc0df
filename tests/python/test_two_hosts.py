"""Ranks on two hosts that a cable joins: two network namespaces and a pair of virtual Ethernet interfaces."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from ranks import TIMEOUT, environment, why_no_network

RANKS_OF_HOST = {0: 0, 1: 0, 2: 1, 3: 1}
ADDRESSES = ("10.77.5.1", "10.77.5.2")
ADDRESSES_IPV6 = ("fd77:5::1", "fd77:5::2")
JOB = {"PLAIT_JOB": "4f1d0c7a52e9", "PLAIT_MASTER_ADDR": ADDRESSES[0]}

SUMS = """
    import numpy as np
    import plait

    with plait.init() as c:
        for count in (1, 1000, 300_001):
            assert (c.all_reduce(np.full(count, c.rank)) == sum(range(c.size))).all()
        assert (c.all_gather(np.array([c.rank])) == np.arange(c.size)).all()
    print("right")
    """

CALLS_FOR_EVER = """
    import numpy as np
    import plait

    c = plait.init()
    c.all_reduce(np.ones(1000))
    print("begun", flush=True)
    try:
        while True:
            c.all_reduce(np.ones(1000))
    except plait.Error as error:
        print(type(error).__name__, error)
    """


ONE_CALL_WHEN_TOLD = """
    import signal
    import numpy as np
    import plait

    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    c = plait.init()
    print("begun", flush=True)
    signal.sigwait({signal.SIGUSR1})
    try:
        c.all_reduce(np.ones(1000))
    except plait.Error as error:
        print(type(error).__name__, error)
    """


def ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True, timeout=TIMEOUT).stdout


class TwoHosts:
    """Namespaces whose interfaces are called cable0 and cable1."""

    def __init__(self) -> None:
        self.names = [f"plait-test-{os.getpid()}-{host}" for host in (0, 1)]

    def make(self) -> None:
        for name in self.names:
            ip("netns", "add", name)
        ip("link", "add", "cable0", "netns", self.names[0], "type", "veth", "peer", "cable1", "netns", self.names[1])
        for host, name in enumerate(self.names):
            ip("-n", name, "addr", "add", f"{ADDRESSES[host]}/24", "dev", f"cable{host}")
            ip("-n", name, "addr", "add", f"{ADDRESSES_IPV6[host]}/64", "dev", f"cable{host}", "nodad")
            for interface in ("lo", f"cable{host}"):
                ip("-n", name, "link", "set", interface, "up")
        # The kernel takes its time, and UCX takes no interface that is not running.
        end = time.monotonic() + TIMEOUT
        for host, name in enumerate(self.names):
            while "state UP" not in ip("-n", name, "link", "show", f"cable{host}"):
                assert time.monotonic() < end, f"cable{host} does not come up"
                time.sleep(0.01)

    def remove(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False, timeout=TIMEOUT)

    def pull_the_cable(self) -> None:
        ip("-n", self.names[1], "link", "set", "cable1", "down")

    def know_neighbours(self) -> None:
        """From now on the first host sends to the second one whether that answers or not."""
        link = ip("-n", self.names[1], "-o", "link", "show", "cable1")
        ether = link.split("link/ether ")[1].split()[0]
        ip("-n", self.names[0], "neigh", "replace", ADDRESSES[1], "lladdr", ether, "dev", "cable0", "nud", "permanent")

    def start(
        self, host: int, script: str, *arguments: str, as_user: int = 0, **variables: str
    ) -> subprocess.Popen[str]:
        """A Python script on a host. UCX shall not find out that its memory is that of the other one."""
        user = ["setpriv", "--reuid", str(as_user)] if as_user else []
        program = [*user, sys.executable, "-c", textwrap.dedent(script), *arguments]
        command = ["ip", "netns", "exec", self.names[host], *program]
        return subprocess.Popen(
            command,
            env=environment(**{"UCX_TLS": "tcp,self", "PLAIT_BOOTSTRAP_TIMEOUT_SEC": "20"} | variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture(scope="module")
def namespaces() -> Iterator[None]:
    hosts = TwoHosts()
    try:
        hosts.make()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no network namespaces here, for which root and iproute2 are needed: {error}")
    finally:
        hosts.remove()
    if why_no_network():
        pytest.skip(why_no_network())
    yield


@pytest.fixture
def hosts(namespaces: None) -> Iterator[TwoHosts]:
    made = TwoHosts()
    made.make()
    yield made
    made.remove()


def by_plait(rank: int) -> dict[str, str]:
    return JOB | {"PLAIT_RANK": str(rank), "PLAIT_WORLD_SIZE": "4", "PLAIT_LOCAL_RANK": str(rank % 2)}


def by_torchrun(rank: int) -> dict[str, str]:
    said = {"RANK": str(rank), "WORLD_SIZE": "4", "LOCAL_RANK": str(rank % 2), "LOCAL_WORLD_SIZE": "2"}
    return said | {"PLAIT_JOB": JOB["PLAIT_JOB"], "MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": "29500"}


def by_mpirun(rank: int) -> dict[str, str]:
    said = {"RANK": str(rank), "SIZE": "4", "LOCAL_RANK": str(rank % 2), "LOCAL_SIZE": "2"}
    return JOB | {f"OMPI_COMM_WORLD_{name}": value for name, value in said.items()}


def by_srun(rank: int) -> dict[str, str]:
    said = {"PROCID": str(rank), "STEP_NUM_TASKS": "4", "LOCALID": str(rank % 2), "STEP_NUM_NODES": "2"}
    return JOB | {f"SLURM_{name}": value for name, value in said.items()} | {"SLURM_STEP_ID": "0"}


def start_all(hosts: TwoHosts, script: str, said=by_plait, **variables: str) -> list[subprocess.Popen[str]]:
    return [hosts.start(host, script, **said(rank), **variables) for rank, host in RANKS_OF_HOST.items()]


def outputs(ranks: list[subprocess.Popen[str]]) -> list[str]:
    """What they printed, once they have all ended well."""
    texts = [rank.communicate(timeout=TIMEOUT) for rank in ranks]
    assert [(rank.returncode, error) for rank, (_, error) in zip(ranks, texts, strict=True)] == [(0, "")] * len(ranks)
    return [output.strip() for output, _ in texts]


def variables_without(name: str, said: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in said.items() if key != name}


def library_of_the_wheel() -> str:
    """UCX's library as pip brings it, which has another version than the system's."""
    wheel = importlib.util.find_spec("libucx")
    if wheel is None:
        pytest.skip("there is no libucx-cu13 here")
    return str(Path(wheel.origin).parent / "lib" / "libucp.so.0")


@pytest.mark.parametrize("newer", [0, 1])
def test_hosts_may_have_different_versions_of_ucx(hosts, newer):
    library = library_of_the_wheel()
    ranks = [
        hosts.start(
            host, SUMS, **by_plait(rank), UCX_TLS="all", PLAIT_UCX_LIBRARY=library if host == newer else "libucp.so.0"
        )
        for rank, host in RANKS_OF_HOST.items()
    ]
    texts = [rank.communicate(timeout=TIMEOUT) for rank in ranks]
    assert [output.strip() for output, _ in texts] == ["right"] * 4, texts
    versions = set(re.findall(r"UCX (\d+\.\d+)", texts[0][1]))
    if len(versions) < 2:
        pytest.skip("the system's UCX is of the same version")
    assert "PLAIT_UCX_LIBRARY names one of the same version" in texts[0][1]
    assert [error for _, error in texts[1:]] == [""] * 3


@pytest.mark.parametrize("said", [by_plait, by_torchrun, by_mpirun, by_srun])
def test_ranks_meet_by_what_launchers_say(hosts, said):
    assert outputs(start_all(hosts, SUMS, said)) == ["right"] * 4


def test_ranks_meet_by_ipv6(hosts):
    assert outputs(start_all(hosts, SUMS, lambda rank: by_plait(rank) | {"PLAIT_MASTER_ADDR": ADDRESSES_IPV6[0]}))


def test_ranks_meet_at_a_port_that_is_given(hosts):
    ranks = start_all(hosts, CALLS_FOR_EVER, PLAIT_MASTER_PORT="4321")
    assert [rank.stdout.readline() for rank in ranks] == ["begun\n"] * 4
    sockets = subprocess.run(
        ["ip", "netns", "exec", hosts.names[1], "cat", "/proc/net/tcp"], capture_output=True, text=True, check=True
    )
    assert f":{4321:04X} " in sockets.stdout
    ranks[0].kill()
    for rank in ranks:
        rank.communicate(timeout=TIMEOUT)


def test_a_port_that_is_taken_is_named(hosts):
    taken = """
        import signal
        import socket

        with socket.create_server(("0.0.0.0", 4321)):
            print("taken", flush=True)
            signal.pause()
        """
    holder = hosts.start(0, taken)
    assert holder.stdout.readline() == "taken\n"
    rank = hosts.start(0, SUMS, **by_plait(0), PLAIT_MASTER_PORT="4321")
    _, error = rank.communicate(timeout=TIMEOUT)
    holder.kill()
    holder.communicate(timeout=TIMEOUT)
    assert rank.returncode == 1
    assert "port 4321 of this host is in use; set PLAIT_MASTER_PORT" in error


@pytest.mark.parametrize(
    ("how", "said"), [("", {"PLAIT_SOCKET_IFNAME": "cable"}), ("for_hosts=True", {})], ids=["by_name", "by_itself"]
)
def test_ranks_meet_by_an_id(hosts, how, said):
    script = f"""
        import sys
        import numpy as np
        import plait

        if len(sys.argv) == 1:
            id = plait.create_unique_id({how})
            print(id, flush=True)
        else:
            id = plait.UniqueId.parse(sys.argv[1])
        with plait.Communicator(id, len(sys.argv) - 1, 2) as c:
            assert (c.all_reduce(np.ones(1000)) == 2).all()
        print("right")
        """
    first = hosts.start(0, script, **said)
    second = hosts.start(1, script, first.stdout.readline().strip())
    assert outputs([first, second]) == ["right"] * 2


def test_a_part_may_be_on_both_hosts(hosts):
    script = """
        import numpy as np
        import plait

        with plait.init() as c:
            for color in (c.rank % 2, c.rank // 2):
                with c.split(color) as part:
                    assert (part.all_reduce(np.ones(100)) == 2).all()
        print("right")
        """
    assert outputs(start_all(hosts, script)) == ["right"] * 4


def test_a_part_meets_where_its_host_met_the_others(hosts):
    script = """
        import numpy as np
        import plait

        with plait.init() as c, c.split(c.rank % 2) as part:
            assert (part.all_reduce(np.ones(100)) == 2).all()
        print("right")
        """
    for name in hosts.names:  # both have it, as bridges of containers are, and its name sounds fast
        ip("-n", name, "link", "add", "ib0", "type", "bridge")
        ip("-n", name, "addr", "add", "192.168.77.1/24", "dev", "ib0")
        ip("-n", name, "link", "set", "ib0", "up")
    assert outputs(start_all(hosts, script, UCX_NET_DEVICES="cable0,cable1")) == ["right"] * 4


def test_a_user_may_have_another_number_on_each_host(hosts):
    # Some kernels let only root filter packets, and a warning says so.
    said = [by_plait(rank) | {"PLAIT_GUARD_PORTS": "0"} for rank in RANKS_OF_HOST]
    ranks = [hosts.start(host, SUMS, as_user=host, **said[rank]) for rank, host in RANKS_OF_HOST.items()]
    assert outputs(ranks) == ["right"] * 4


def test_a_job_without_a_secret_is_refused(hosts):
    rank = hosts.start(1, SUMS, **variables_without("PLAIT_JOB", by_torchrun(3)))
    _, error = rank.communicate(timeout=TIMEOUT)
    assert rank.returncode == 1
    assert "LOCAL_WORLD_SIZE is 2 but WORLD_SIZE is 4" in error
    assert "PLAIT_JOB" in error


def test_a_host_that_nobody_reaches_is_named(hosts):
    rank = hosts.start(1, SUMS, **by_plait(2) | {"PLAIT_MASTER_ADDR": "10.99.0.1"})
    _, error = rank.communicate(timeout=TIMEOUT)
    assert rank.returncode == 1
    assert "no way leads from here to rank 0 at 10.99.0.1 port " in error
    assert "PLAIT_MASTER_ADDR" in error


def test_a_killed_rank_is_named_on_both_hosts(hosts):
    ranks = start_all(hosts, CALLS_FOR_EVER)
    assert [rank.stdout.readline() for rank in ranks] == ["begun\n"] * 4
    ranks[3].kill()
    ranks[3].communicate(timeout=TIMEOUT)
    for text in outputs(ranks[:3]):
        assert text.startswith("PeerFailed rank 3 (process ")
        assert "has died" in text


def test_a_pulled_cable_ends_the_ranks_of_both_hosts(hosts):
    ranks = start_all(hosts, CALLS_FOR_EVER, PLAIT_TIMEOUT_SEC="3")
    assert [rank.stdout.readline() for rank in ranks] == ["begun\n"] * 4
    hosts.pull_the_cable()
    for text, there in zip(outputs(ranks), [(2, 3), (2, 3), (0, 1), (0, 1)], strict=True):
        assert text.startswith("Timeout rank ")
        assert all(f"rank {rank} (process " in text for rank in there)


# Nobody says that the first host's packets are lost, so TCP tries to connect for minutes.
@pytest.mark.parametrize("guards", ["0", "1"])
def test_a_cable_that_is_pulled_before_the_first_call_ends_the_ranks_of_both_hosts(hosts, guards):
    ranks = start_all(hosts, ONE_CALL_WHEN_TOLD, PLAIT_TIMEOUT_SEC="3", PLAIT_GUARD_PORTS=guards)
    assert [rank.stdout.readline() for rank in ranks] == ["begun\n"] * 4
    hosts.know_neighbours()
    hosts.pull_the_cable()
    for rank in ranks:
        rank.send_signal(signal.SIGUSR1)
    for text, there in zip(outputs(ranks), [(2, 3), (2, 3), (0, 1), (0, 1)], strict=True):
        error = text.splitlines()[-1]  # UCX tells its errors, too
        assert error.startswith(("Timeout ", "PeerFailed ")), text
        assert any(f"rank {rank} (process " in error for rank in there), text
