"""Table 1 of `plait paper nv-group` (NVG-09): what is measured, and that differences from the paper are explained."""

from __future__ import annotations

import pytest
from plait import simulator, topology
from plait.papers import nv_group_table1 as table1


def by_reference(reference):
    row = next(row for row in table1.ROWS if row.reference == reference)
    return table1.measure(row.node, row.nodes)


def test_every_row_of_the_paper_is_there():
    assert [row.reference for row in table1.ROWS] == list(table1.PAPER["rows"])


@pytest.mark.parametrize("row", table1.ROWS, ids=lambda row: row.reference)
def test_what_differs_is_explained_and_nothing_else(row):
    measured, paper = table1.measure(row.node, row.nodes), table1.PAPER["rows"][row.reference]
    differing = {which for which in table1.PROPERTIES if measured.holds(which) != (which in paper)}
    assert set(row.differs) == differing


def test_nv_group_has_all_six():
    """NVG-19."""
    assert all(by_reference("this").holds(which) for which in table1.PROPERTIES)


def test_a_ring_counted_by_hand():
    """Two GPUs of a socket are neighbours, twice, and the ends of a socket reach the other one by their CPUs."""
    ring = by_reference("2")
    assert ring.contention == 0 and ring.most_flows == 1
    # On two nodes two pairs of ranks are joined by the network, each with a chunk in each of 2 (12 - 1) steps.
    assert ring.messages == 2 * 2 * 11 and ring.from_gpu == 1
    assert ring.cpu_links == 4  # of G1 and G3 in each socket
    # One direction of two of the three links of a socket: 4 of 12 directions carry the same.
    assert ring.unbalance == pytest.approx(3)


def test_loads_are_those_of_the_simulator():
    run = simulator.simulate(topology.machine("summit"), "all_reduce", table1.BYTES, "ring")
    carried = sum(float(str(it["bytes"])) for it in run.links if it["kind"] == "nvlink")
    assert (
        sum(table1._loads(run).get(link, 0) for kind in ("cpu", "gpu") for link in table1._node_links(kind)) == carried
    )


def test_shared_links_of_trees_are_busy():
    """What the page says of Blink's contention."""
    run = simulator.simulate(topology.machine("summit", table1.NODES), "all_reduce", table1.BYTES, "spanning_trees")
    assert run.bound_seconds > 0.85 * run.seconds


def test_a_plan_that_copies_fuses_nothing():
    """Terms that a rank copied to its own memory first are not loaded from a peer."""
    own = {"self": 0, "op": "reduce", "from": ["r0.input", "r0.scratch[0]"], "to": ["r0.output"]}
    host = {"self": 0, "op": "reduce", "from": ["r0.input", "r1.host[0]"], "to": ["r0.output"]}
    peer = {"self": 0, "op": "reduce", "from": ["r0.input", "r1.scratch[0]"], "to": ["r0.output"]}
    copy = {"self": 0, "op": "reduce", "from": ["r1.scratch[0]"], "to": ["r0.output"]}
    assert table1._fused([own, host, copy]) == 0
    assert table1._fused([own, peer, copy]) == 0.5
