"""Ranks on several nodes, of which this host takes the part."""

from __future__ import annotations

import json

import pytest
from ranks import cli, launch, why_no_network

ALL_CALLS = """
    import numpy as np
    import plait

    with plait.init() as c:
        mine = np.arange(c.rank, c.rank + 1000 * c.size, dtype="int64")
        each = [np.arange(r, r + 1000 * c.size, dtype="int64") for r in range(c.size)]
        blocks = [np.split(data, c.size) for data in each]
        assert (c.all_reduce(mine) == sum(each)).all()
        assert (c.reduce_scatter(mine) == sum(each).reshape(c.size, -1)[c.rank]).all()
        assert (c.all_gather(mine).reshape(-1) == np.concatenate(each)).all()
        assert (c.all_to_all(mine).reshape(-1) == np.concatenate([b[c.rank] for b in blocks])).all()
        assert (c.broadcast(mine.copy(), root=3) == each[3]).all()
        c.barrier()
    print("right")
    """


def test_ranks_are_spread_over_nodes():
    result = cli("run", "-n", 5, "--nodes", 2, "--tag", "--", "sh", "-c", "echo $PLAIT_HOST_ID $PLAIT_LOCAL_RANK")
    nodes = dict(line.split("] ") for line in result.stdout.splitlines())
    assert nodes == {"[0": "node0 0", "[1": "node0 1", "[2": "node0 2", "[3": "node1 3", "[4": "node1 4"}


def test_one_node_sets_nothing():
    assert cli("run", "-n", 1, "--", "sh", "-c", "echo ${PLAIT_HOST_ID-unset}").stdout == "unset\n"


def test_more_nodes_than_ranks_are_refused():
    result = cli("run", "-n", 2, "--nodes", 3, "--", "true")
    assert result.returncode == 2
    assert "3 nodes need 3 ranks or more" in result.stderr


def test_calls_over_nodes():
    if why_no_network():
        pytest.skip(why_no_network())
    result = launch(4, ALL_CALLS, "--nodes", "2")
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["right"] * 4


def test_a_described_machine_has_the_nodes_of_the_hosts():
    if why_no_network():
        pytest.skip(why_no_network())
    script = """
        import os, sys
        import plait

        os.environ["PLAIT_TOPOLOGY"] = sys.argv[1]
        try:
            plait.init().close()
            print("made")
        except plait.InvalidArgument as error:
            print(error)
        """
    said = launch(4, script, "--nodes", 2, arguments=["nvlink-pairs"]).stdout.splitlines()
    assert len(said) == 4
    assert all("PLAIT_TOPOLOGY=nvlink-pairs has the ranks on other nodes than the hosts" in line for line in said), said
    made = launch(8, script, "--nodes", 2, arguments=["nvlink-pairs:nodes=2"])
    assert made.stdout.split() == ["made"] * 8, made.stderr


def test_a_killed_rank_is_named_on_all_nodes():
    if why_no_network():
        pytest.skip(why_no_network())
    script = """
        import os, signal, sys
        import numpy as np
        import plait

        c = plait.init()
        c.all_reduce(np.ones(1000))
        if c.rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            while True:
                c.all_reduce(np.ones(1000))
        except plait.Error as error:
            print(error)
        """
    result = launch(4, script, "--nodes", "2", "--tag")
    lines = {line[:3]: line for line in result.stdout.splitlines()}
    for rank in (0, 1, 3):
        assert "rank 2 (process " in lines[f"[{rank}]"] and "has died" in lines[f"[{rank}]"]


def test_without_ucx_the_ranks_say_how_to_get_it():
    script = "import plait; plait.init(plait.Settings.from_environment(ucx_library='/nowhere/libucp.so.0'))"
    result = launch(2, script, "--nodes", "2")
    assert result.returncode != 0
    assert "on 2 hosts (rank 0 on node0 of " in result.stderr
    assert "install" in result.stderr


def test_a_network_that_ucx_lacks_names_the_variables():
    if why_no_network():
        pytest.skip(why_no_network())
    result = launch(2, "import os, plait; os.environ['UCX_TLS'] = 'nowhere'; plait.init()", "--nodes", "2")
    assert result.returncode != 0
    assert "UCX_NET_DEVICES and UCX_TLS say which networks it may use" in result.stderr


def machine_of_two_nodes(network: bool) -> dict:
    """Two nodes of one socket and two GPUs, with a network between them or without."""
    devices = [{"kind": "netswitch", "names": ["netswitch0"], "node": -1}]
    links = []
    for node in range(2):
        gpus = [f"gpu{2 * node}", f"gpu{2 * node + 1}"]
        devices += [
            {"kind": kind, "names": names, "node": node}
            for kind, names in (("cpu", [f"cpu{node}"]), ("gpu", gpus), ("nic", [f"nic{node}"]))
        ]
        pairs = [[f"cpu{node}", name] for name in [*gpus, f"nic{node}"]]
        links.append({"kind": "pcie", "width": 16, "gbps": 16, "pairs": pairs})
        if network:
            links.append({"kind": "network", "gbps": 12.5, "pairs": [[f"nic{node}", "netswitch0"]]})
    return {"format": "plait-machine 1", "name": "two", "nodes": 2, "devices": devices, "links": links}


def test_nodes_that_nothing_joins_are_named_before_any_call(tmp_path):
    file = tmp_path / "two.json"
    making = "import os, sys, plait; os.environ['PLAIT_TOPOLOGY'] = sys.argv[1]; plait.init().close(); print('made')"
    lost = "no path leads from gpu0 (rank 0, node 0) to gpu{0} (rank {0}, node 1) of two"

    file.write_text(json.dumps(machine_of_two_nodes(network=False)))
    planned, made = cli("plan", "all_reduce", "--machine", file), launch(4, making, arguments=[file])
    assert planned.returncode == 2
    assert lost.format(2) in planned.stderr
    assert "a nic with a link (pcie) to its CPU, and links (network) from both" in planned.stderr
    assert made.stdout == ""
    assert made.stderr.count(lost.format(2)) == 4

    file.write_text(json.dumps(machine_of_two_nodes(network=True)))
    assert cli("plan", "all_reduce", "--machine", file).returncode == 0
    assert launch(4, making, arguments=[file]).stdout.split() == ["made"] * 4
