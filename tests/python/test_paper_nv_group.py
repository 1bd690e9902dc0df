"""`plait paper nv-group`: its numbers, from the simulator, and what it says of runs that have no plan."""

from __future__ import annotations

import pytest
from plait import papers, simulator, topology

pytest.importorskip("matplotlib")
from plait.papers import nv_group, nv_group_ctas, nv_group_schemes, nv_group_training

LARGE = 128 << 20


@pytest.fixture(scope="module")
def text():
    return papers.make("nv-group").to_html()


def test_a_ring_leaves_four_links_idle_and_groups_none():
    """NVG-05, counted by hand: gpu0-gpu2, gpu3-gpu5 and a CPU's link to the middle GPU of each socket."""
    idle = [link for link in nv_group.all_links() if link not in nv_group.links("ring")]
    assert idle == ["cpu0-gpu1", "cpu1-gpu4", "gpu0-gpu2", "gpu3-gpu5"]
    group = nv_group.links(nv_group.NV_GROUP.plans(LARGE)[0])
    for end in ("cpu", "gpu"):
        busier = [group[link][0] for link in nv_group.all_links() if link.count("gpu") == (1 if end == "cpu" else 2)]
        assert len(busier) == 6 and max(busier) == pytest.approx(min(busier), rel=0.05)  # NVG-03


def test_three_gpus_reach_what_the_paper_reports():
    for value in nv_group.kernel_values():
        assert value.error == pytest.approx(0, abs=0.1), value


def test_times_are_the_simulator_s():
    machine = topology.machine("summit", 4)
    exact = {
        plan: simulator.simulate(machine, "all_reduce", 1 << 18, plan).seconds for plan in ("ring", "rabenseifner")
    }
    assert nv_group_schemes.took(nv_group_schemes.NCCL_RING, 24, 1 << 18).seconds == exact["ring"]
    # Five halvings, each with a launch of 2 us, of which the plan has one (D-NVG-05).
    halving = nv_group_schemes.took(nv_group_schemes.MV2, 24, 1 << 18).seconds
    assert halving == pytest.approx(exact["rabenseifner"] + 4 * 2e-6)
    # NCCL takes the faster of two; Open MPI decides by size.
    assert nv_group_schemes.took(nv_group_schemes.NCCL, 24, 1 << 18).seconds < exact["ring"]
    assert nv_group_schemes.OPEN_MPI.plans(9_999) == ("recursive_doubling",)
    assert nv_group_schemes.OPEN_MPI.plans(10_000) == ("ring",)


@pytest.mark.parametrize("plan", ["ring", "nvgroup_ring(zero_copy)", "hierarchical(node: ring, all: ring)"])
def test_short_messages_of_rings_grow_in_a_line(plan, monkeypatch):
    simulated = nv_group_schemes._plan_took(plan, 384, 1024)
    assert not simulated.continued
    monkeypatch.setattr(nv_group_schemes, "_last_simulated", lambda plan, size: 96)
    continued = nv_group_schemes._plan_took(plan, 384, 1024)
    assert continued.continued and continued.seconds == pytest.approx(simulated.seconds, rel=0.02)


def test_runs_without_a_plan_are_rows(text):
    """NVG-77."""
    rows = nv_group.failures()
    assert [row[:2] for row in rows] == [["NCCL, all rings", "24 to 1,536"], ["Blink", "24 to 1,536"]]
    for row in rows:
        assert "at most 16 ranks" in row[2] and row[2] in text
    assert text.count("<td>X</td>") == 10


def test_every_value_stands_beside_the_paper_s_with_its_error(text):
    values = [*nv_group.link_values(), *nv_group.kernel_values(), *nv_group.dgx2_values(), *nv_group.large_values()]
    assert len(values) == 11
    for it in values:
        cells = (it.name, f"{it.paper:.3g}", f"{it.ours:.3g}", f"{100 * (it.ours / it.paper - 1):+.1f}%")
        row = "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
        assert row.replace("'", "&#x27;") in text
    for it in nv_group_training.throughputs():
        assert f"<td>{it.paper:,.0f}</td><td>{it.ours:,.0f}</td><td>{100 * it.error:+.1f}%</td>" in text


def test_one_gpu_is_the_paper_s_and_training_scales_no_worse_than_measured():
    assert nv_group_training.of_one("dgx2") == pytest.approx(385.9, abs=0.1)
    assert nv_group_training.of_one("summit") == pytest.approx(404.3, abs=0.1)
    for it in [*nv_group_training.throughputs(), *nv_group_training.speedups()[:3]]:
        assert 0 < it.error < 0.2, it
    late = nv_group_training.step("summit", "group", 192, overlap=False)
    assert len(late.messages) == 1 and late.messages[0].bytes == 4 * 25_557_032
    assert late.seconds > nv_group_training.step("summit", "group", 192).seconds


def test_what_is_ahead_of_groups_on_a_node_and_why(text):
    """Who is ahead follows from the table; all send as much over the X-bus, and groups let it wait."""
    seconds = {it: nv_group_schemes.took(it, 6, LARGE).seconds for it in nv_group_schemes.SCHEMES}
    ours = seconds[nv_group.NV_GROUP]
    faster = [it for it in nv_group_schemes.SCHEMES if seconds[it] < ours]
    assert faster and nv_group.ahead(6) == faster
    machine = topology.machine("summit")
    shares = {}
    for it in (nv_group.NV_GROUP, *faster):
        runs = [simulator.simulate(machine, "all_reduce", LARGE, plan) for plan in it.plans(LARGE)]
        run = min(runs, key=lambda run: run.seconds)
        bus = [link for link in run.links if {"cpu0", "cpu1"} == set(link["name"].split(" -> "))]
        assert [link["bytes"] for link in bus] == [LARGE, LARGE]
        shares[it] = max(link["busy_seconds"] for link in bus) / run.seconds
        busy, rate = f"{100 * shares[it]:.0f}%", f"{LARGE / run.seconds / 1e9:.1f}"
        if it is nv_group.NV_GROUP:
            assert f"ahead of NV-Group&#x27;s {rate}." in text and f"it is busy {busy} of the time" in text
            # Two halves over the bus, and thirds of a half over NVLink before, between and after.
            nvlink = next(link["gbps"] for link in run.links if link["name"] == "gpu0 -> gpu1")
            waits = 3 * LARGE / 2 / 3 / (nvlink * 1e9)
            assert run.seconds == pytest.approx(LARGE / (bus[0]["gbps"] * 1e9) + waits, rel=0.01)
        else:
            assert f"{it.name} ({rate} GB/s)" in text and f"{busy} with {it.name}" in text
    assert min(shares, key=shares.get) is nv_group.NV_GROUP
    cut = simulator.simulate(machine, "all_reduce", LARGE, "nvgroup_ring(zero_copy, parts=16)")
    assert ours > cut.seconds and f"gets {LARGE / cut.seconds / 1e9:.1f} GB/s" in text


@pytest.mark.parametrize("plan", sorted(set(nv_group_training.PLANS["dgx2"].values())))
def test_a_dgx_2_has_the_default_costs_that_the_page_names(text, plan):
    assert "costs of the profile default" in text
    run = nv_group_training.all_reduce("dgx2", plan, LARGE)
    assert run.profile == "default" and run.causes["launch"] == pytest.approx(2e-6)
    assert nv_group.kernel("dgx2", plan, LARGE) == run.seconds


def test_figures(text):
    for figure in ("8", "9", "10", "11a", "11b", "12", "13", "15"):
        assert f'id="figure-{figure}-' in text


def test_few_ctas_of_many_threads_fill_the_links():
    """Little's law: half of the CTAs get half, and four times the threads as much from a quarter (NVG-51, NVG-52)."""
    bound = nv_group_ctas.throughput(10**6, 1024, 59.0)
    assert bound == 59.0
    assert nv_group_ctas.throughput(4, 256, bound) == pytest.approx(nv_group_ctas.throughput(1, 1024, bound))
    assert nv_group_ctas.throughput(2, 256, bound) == pytest.approx(2 * nv_group_ctas.throughput(1, 256, bound))
    # Three GPUs, each with 1,024 words of 16 bytes under way.
    one = nv_group_ctas.throughput(1, 1024, bound)
    assert one * 1e9 * nv_group_ctas.load_seconds() == pytest.approx(3 * 1024 * 16)
    few = nv_group_ctas.fewest(1024, bound)
    assert nv_group_ctas.fewest(256, bound) == 4 * few
    assert few <= nv_group.PAPER["kernel_peak"]["ctas"]  # with as many the paper reached its peak
