"""`plait paper awan` and `plait paper temucin`: their plans and numbers, by the simulator and by closed form."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import plait
import pytest
from plait import _core, papers, plans, simulator, topology
from plait.papers import awan_schemes, plan_writer, temucin_plans, temucin_schemes
from plait.papers.plan_writer import PlanWriter, at

MIB = 1 << 20


@pytest.fixture(scope="module")
def awan():
    pytest.importorskip("matplotlib")
    from plait.papers import awan

    return awan


@pytest.fixture(scope="module")
def temucin():
    pytest.importorskip("matplotlib")
    from plait.papers import temucin

    return temucin


def carried(run: simulator.Simulation) -> dict[str, float]:
    """Bytes by direction of a link."""
    return {str(link["name"]): link["bytes"] for link in run.links}


# ---- Closed forms ----


def test_broadcast_forms_are_sums_of_their_steps():
    chance = random.Random(7)
    for _ in range(50):
        ranks, radix, parts = chance.randint(2, 70), chance.randint(2, 8), chance.randint(1, 30)
        size, start, speed = chance.uniform(1, 1e8), chance.uniform(1e-7, 1e-5), chance.uniform(1e9, 1e11)
        levels, reached = 0, 1
        while reached < ranks:
            levels, reached = levels + 1, reached * radix
        tree = sum(start + size / speed for _ in range(levels * (radix - 1)))
        assert _core.awan_tree(size, ranks, radix, start, speed) == pytest.approx(tree)
        ring = math.ceil(math.log2(ranks)) * start + size / speed * (ranks - 1) / ranks
        ring += sum(start + size / ranks / speed for _ in range(ranks - 1))
        assert _core.awan_scatter_ring(size, ranks, start, speed) == pytest.approx(ring)
        doubling = sum(2 * start for _ in range(math.ceil(math.log2(ranks)))) + 2 * size / speed * (ranks - 1) / ranks
        assert _core.awan_scatter_doubling(size, ranks, start, speed) == pytest.approx(doubling)
        ends = [0.0] * ranks  # of each rank's newest part
        for _part in range(parts):
            arrived = 0.0
            for rank in range(1, ranks):
                arrived = max(arrived, ends[rank]) + start + size / parts / speed
                ends[rank] = arrived
        assert _core.awan_chain(size, ranks, parts, start, speed) == pytest.approx(ends[-1])


def test_best_share_is_the_least_of_all_shares():
    chance = random.Random(11)
    for _ in range(50):
        size, parts = chance.uniform(1e3, 1e9), chance.randint(1, 8)
        paths = (*(chance.uniform(1e-7, 1e-4), chance.uniform(1e9, 1e11)), *(1e-6, chance.uniform(1e9, 1e11)))
        best = _core.temucin_best_share(size, *paths, parts)
        least = _core.temucin_two_paths(size, best, *paths, parts)
        for share in (0, 1, *(chance.random() for _ in range(20))):
            direct = paths[0] + (1 - share) * size / paths[1] if share < 1 else 0
            host = paths[2] + share * size * (parts + 1) / parts / paths[3] if share > 0 else 0
            assert _core.temucin_two_paths(size, share, *paths, parts) == pytest.approx(max(direct, host))
            assert least <= max(direct, host) * (1 + 1e-9)


# ---- Plans by hand ----


def test_a_plan_by_hand_takes_what_the_same_plan_of_an_algorithm_does():
    machine = topology.machine("kesch", 2)
    node_of = [rank // 16 for rank in range(32)]
    made = plans.make("broadcast", "binomial", 32, node_of=node_of)
    by_hand = simulator.simulate_plan(machine, plans.from_json(made.to_json()), MIB)
    named = simulator.simulate(machine, "broadcast", MIB, made.algorithm)
    assert by_hand.seconds == named.seconds
    assert carried(by_hand) == carried(named)
    assert by_hand.reason == "the plan was given"


def test_a_plan_for_other_nodes_and_an_unknown_profile_are_refused():
    plan = plans.make("broadcast", "binomial", 32)
    with pytest.raises(plait.InvalidArgument, match=r"plan binomial.*nodes \(node_of\) are not those of kesch"):
        simulator.simulate_plan(topology.machine("kesch", 2), plan, MIB)
    pair = temucin_plans.transfer(4, 2)
    with pytest.raises(plait.InvalidArgument, match=r"no profile fast; `plait\.models\.profile_names"):
        simulator.simulate_plan(topology.machine("mist"), pair, MIB, profile="fast")
    # Two GPUs that NVLink joins have another profile, unless one is named.
    assert simulator.simulate_plan(topology.machine("mist"), pair, MIB).profile != "default"
    assert simulator.simulate_plan(topology.machine("mist"), pair, MIB, profile="default").profile == "default"


def test_a_writer_s_plan_without_an_order_is_refused():
    def pair(in_order: bool) -> plans.Plan:
        writer = PlanWriter("pair", "broadcast", 1, (0, 0), "staged")
        root, other = writer.queue(0), writer.queue(1)
        slot = writer.slots(1, "scratch", 1)
        writer.reduce(root, [at(0, "output"), at(1, "scratch", slot)], [at(0, "input")], 0, 1)
        if in_order:
            writer.then(root, other)
        writer.reduce(other, [at(1, "output")], [at(1, "scratch", slot)], 0, 1)
        return writer.plan()

    assert pair(True).ranks == 2
    with pytest.raises(plait.InvalidPlan):
        pair(False)


@pytest.mark.parametrize("gpus", [2, 8, 16, 48, 80])
def test_staged_broadcast_sends_the_message_once_to_each_node(gpus):
    parts = 3
    plan = awan_schemes.staged(gpus, parts)
    run = simulator.simulate_plan(awan_schemes.machine(gpus), plan, 3 * MIB, profile="default")
    assert plan.collective == "broadcast" and run.seconds >= run.bound_seconds
    sent = {name: size for name, size in carried(run).items() if name.startswith("netswitch")}
    assert sent == {f"netswitch0 -> n{node}.nic0": 3 * MIB for node in range(1, -(-gpus // 16))}
    by_root = carried(run).get("n0.nic0 -> netswitch0", 0)
    assert by_root == 3 * MIB * len(sent).bit_length()  # a binomial tree of nodes
    first = "n0." if gpus > 16 else ""
    assert carried(run)[f"{first}gpu0 -> {first}pcieswitch0"] == 3 * MIB  # down once
    assert carried(run)[f"{first}pcieswitch0 -> {first}gpu1"] == 3 * MIB


@pytest.mark.parametrize("name", ["mist", "cedar"])
@pytest.mark.parametrize(("host", "parts", "messages"), [(0, 1, 1), (3, 4, 1), (8, 8, 1), (5, 2, 8)])
def test_two_paths_carry_their_shares(name, host, parts, messages):
    machine, size = topology.machine(name), 64 * MIB
    run = simulator.simulate_plan(machine, temucin_plans.transfer(host, parts, messages), size, profile="default")
    shares = {"gpu0 -> gpu1": 16 - host, "gpu0 -> cpu0": host, "cpu0 -> gpu1": host}
    for link, share in shares.items():
        assert carried(run).get(link, 0) == pytest.approx(size * share / 16)
    assert run.seconds >= run.bound_seconds
    if messages == 1:  # the closed form of two paths, but for signals
        direct, by_host = (
            temucin_schemes.stated_gbps(name, kinds) * 0.8e9 for kinds in (("gpu", "gpu"), ("gpu", "cpu"))
        )
        form = _core.temucin_two_paths(size, host / 16, 1.3e-6, direct, 1.3e-6, by_host, parts)
        assert run.seconds == pytest.approx(form, rel=0.03)


@pytest.mark.parametrize("host", [0, 1, 3])
def test_three_stages_over_two_paths_move_what_they_should(host):
    machine, size = topology.machine("mist"), 64 * MIB
    run = simulator.simulate_plan(machine, temucin_plans.three_stage(host, 4), size, profile="default")
    links = carried(run)
    share = size * host / 8
    assert links["cpu0 -> cpu1"] == links["cpu1 -> cpu0"] == pytest.approx(size)  # what leaders exchange
    assert links["gpu1 -> gpu0"] == links["gpu2 -> gpu3"] == pytest.approx(size - share)
    assert links.get("gpu1 -> cpu0", 0) == links.get("cpu1 -> gpu3", 0) == pytest.approx(share)
    assert run.seconds >= run.bound_seconds


# ---- What the pages say ----


def rows_of(values):
    for it, place in values:
        cells = (it.name, place, f"{it.paper:.3g}", f"{it.ours:.3g}", f"{100 * (it.ours / it.paper - 1):+.1f}%")
        yield "".join(
            f"<td>{cell}</td>" if i != 1 else f'<td class="words">{cell}</td>' for i, cell in enumerate(cells)
        )


@pytest.mark.parametrize("name", ["awan", "temucin"])
def test_every_value_has_its_place_and_its_error(name, awan, temucin):
    text = papers.make(name).to_html()
    values = [*awan.nccl_values(), *awan.opt_values()]
    if name == "temucin":
        values = [row for machine in temucin.MACHINES for row in temucin.path_values(machine)]
        values += [*temucin.speedup_values("mist", "mist_64m", 64 * MIB), *temucin.nodes_values()]
        values += temucin.speedup_values("cedar", "cedar_64m", 64 * MIB)
    assert len(values) > 10
    for row in rows_of(values):
        assert row.replace("'", "&#x27;") in text
    text_of_data = json.dumps(papers.data(f"{name}.json"))
    assert all(json.dumps(place) in text_of_data for _, place in values)


def test_chains_lose_short_and_win_long_broadcasts(awan):
    for gpus in (8, 16):
        assert awan.gains((awan.NCCL, awan.MV2), gpus, [4])[0] > 2
        assert awan.gains((awan.MV2, awan.NCCL), gpus, [128 * MIB])[0] > 1
        assert 1 << 16 < awan.crossover(gpus) <= 2 * MIB
    for gpus in (16, 64):
        assert min(awan.gains((awan.MV2, awan.OPT), gpus, awan.SIZES)) == 1  # AWA-23
    # Over hundreds of GPUs leaders beat all that has no levels.
    others = [it for it in awan.SCHEMES if it is not awan.HIERARCHY and awan.exists(it, 256)]
    assert all(awan.seconds(awan.HIERARCHY, 256, 128 * MIB) < awan.seconds(it, 256, 128 * MIB) for it in others)


def test_leaders_of_many_gpus_scatter_and_gather_along_a_ring(awan):
    """As the page says of 1,024 GPUs."""
    seconds = {plan: awan_schemes._seconds(plan, 1024, 128 * MIB) for plan in awan.HIERARCHY.plans}
    assert "all: scatter_ring" in min(seconds, key=seconds.__getitem__)


def faster_on_kesch(awan, schemes, others, gpus):
    """Sizes for which the first are faster than the others, by seconds alone."""

    def least(names, size):
        return min(awan.seconds(it, gpus, size) for it in names if awan.exists(it, gpus))

    return [size for size in awan.SIZES if least(schemes, size) < least(others, size)]


@pytest.mark.parametrize("gpus", [8, 16])
def test_a_chain_wins_at_every_size_from_its_crossover_on(awan, gpus):
    wins = faster_on_kesch(awan, awan.NCCL, awan.MV2, gpus)
    at = awan.SIZES.index(awan.crossover(gpus))
    assert set(awan.SIZES[at:]) <= set(wins) and awan.SIZES[at - 1] not in wins
    text = " ".join(part for part in awan._claims_section().parts if isinstance(part, str))
    assert f"{gpus} GPUs: {awan.size_text(awan.SIZES[at])}" in text


def test_a_chain_that_loses_again_crosses_later(awan, monkeypatch):
    """A win that is followed by a loss is no crossover."""
    lost = 4 * MIB
    monkeypatch.setattr(awan, "best", lambda schemes, gpus, size: 1 + (size == lost) * (schemes is awan.NCCL))
    assert awan.crossover(16) == 0  # draws are no wins
    monkeypatch.setattr(awan, "best", lambda schemes, gpus, size: 1 + (size == lost) if schemes is awan.NCCL else 1.5)
    assert awan.crossover(16) == awan.SIZES[awan.SIZES.index(lost) + 1]


def test_what_the_page_of_awan_says_of_the_hierarchy_is_so(awan):
    """It is slower for short messages; only what may choose MPI's schemes, too, never is."""
    alone = {size: awan.seconds(awan.HIERARCHY, 64, size) for size in awan.SIZES}
    mpi = {size: min(awan.seconds(it, 64, size) for it in awan.MV2) for size in awan.SIZES}
    ratios = [alone[size] / mpi[size] for size in awan.SIZES]
    assert max(ratios) == ratios[0] > 1
    summary = awan.page().summary
    assert f"takes up to {ratios[0]:.1f} times as long" in summary
    assert f"at most {100 * (1 / min(ratios) - 1):.0f}% faster" in summary
    assert "nowhere slower by construction" in summary
    for gpus in (16, 64):
        sizes = awan.gaining_sizes(gpus)
        first, last = awan.SIZES.index(sizes[0]), awan.SIZES.index(sizes[-1])
        assert list(awan.SIZES[first : last + 1]) == sizes  # the page gives the ends of one range


def test_two_paths_gain_what_their_links_allow(temucin):
    # TEM-28, TEM-56: at most 150/75 and 66/50.
    for name, bound in (("mist", 2.0), ("cedar", 1.32)):
        assert 1 < temucin.gain(name, 1) < temucin.gain(name, temucin.WINDOW) <= bound
        assert temucin.gain(name, 1) == pytest.approx(
            papers.data("temucin.json")[f"put_{name}_ratio"]["value"], rel=0.1
        )
    assert temucin.best_share("mist", 1 << 40, 1 << 20) == pytest.approx(0.5, abs=1e-3)
    assert temucin.best_share("cedar", 1 << 40, 1 << 20) == pytest.approx(16 / 66, abs=1e-3)


def test_the_design_of_each_machine_is_the_faster_one(temucin):
    size = 64 * MIB
    for name, own, other in (
        ("mist", temucin.HIERARCHICAL, temucin.FLAT),
        ("cedar", temucin.FLAT, temucin.HIERARCHICAL),
    ):
        assert temucin.seconds(name, own, size) < temucin.seconds(name, temucin.NCCL, size)
        assert temucin.seconds(name, own, size) < temucin.seconds(name, other, size)
    staged = {
        name: temucin.seconds(name, temucin.STAGED, size) / temucin.seconds(name, own, size)
        for name, own in temucin.OWN.items()
    }
    assert staged["cedar"] > staged["mist"] > 10  # TEM-35
    # Down and up at 60 GB/s, and 5 x 48 MiB by a core of 10 GB/s.
    assert temucin.seconds("mist", temucin.STAGED, size) == pytest.approx(2 * size / 60e9 + 5 * 48 * MIB / 10e9)


def test_the_plan_of_the_staged_baseline_takes_what_its_closed_form_says_and_some_copies():
    """TEM-12, TEM-35: the form has what CPUs combine and pass on; the plan also what they keep, and its signals."""
    ratios = {}
    for name in ("mist", "cedar"):
        machine = temucin_schemes.machine(name)
        plan = simulator.simulate(machine, "all_reduce", 64 * MIB, "host_staged")
        closed_form = temucin_schemes.staged_seconds(name, 64 * MIB)
        assert closed_form < plan.seconds < 1.5 * closed_form
        flat = simulator.simulate(machine, "all_reduce", 64 * MIB, "flat(store, zero_copy)").seconds
        ratios[name] = plan.seconds / flat
    assert ratios["cedar"] > ratios["mist"] > 5


def test_the_core_s_figure_is_that_of_the_host_profile():
    profiles = Path(__file__).resolve().parents[2] / "profiles"
    host, default = (json.loads((profiles / f"{name}.json").read_text()) for name in ("host", "default"))
    assert host["costs"]["memory_gbps"] * 1e9 == temucin_schemes.CORE_BYTES_PER_SECOND
    assert host["costs"]["memory_gbps"] == default["costs"]["core_gbps"]
    assert plan_writer.at(3, "host", 2) == "r3.host[2]"
