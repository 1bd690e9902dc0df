"""`plait paper temucin`, figures 9 to 12, and predictions that were stored before they were compared."""

from __future__ import annotations

import math
import random
import re

import pytest
from plait import papers, simulator, training
from plait.papers import predictions, temucin_applications, temucin_schemes, temucin_training
from plait.papers.comparison import Compared

MIB = 1 << 20
PAPER = papers.data("temucin.json")


@pytest.fixture(scope="module")
def temucin():
    pytest.importorskip("matplotlib")
    return papers.make("temucin")


def test_predictions_name_their_commit_and_cover_what_is_compared():
    for name in ("temucin", "ueno"):
        stored = predictions.stored(name)
        assert re.fullmatch(r"[0-9a-f]{40}", stored.commit) and re.fullmatch(r"\d{4}-\d\d-\d\d", stored.date)
        assert all(value >= 0 and math.isfinite(value) for value in stored.rows.values())
    assert set(predictions.stored("temucin").rows) == set(temucin_training.rows())


def test_changes_since_are_found():
    before = predictions.stored("ueno").rows
    name = random.Random(1).choice(sorted(before))
    assert predictions.changed("ueno", before) == []
    assert predictions.changed("ueno", before | {name: 1.01 * before[name]}) == [name]
    assert predictions.changed("ueno", {row: value for row, value in before.items() if row != name}) == [name]


def test_predictions_of_more_gpus_than_were_fitted_are_today_s():
    ueno = pytest.importorskip("plait.papers.ueno")
    assert predictions.changed("ueno", ueno.rows()) == []


@pytest.mark.parametrize("machine", ["mist", "cedar"])
def test_gains_are_those_of_a_step_with_each_all_reduce(machine):
    """By hand: without overlap a step is compute, a look, and one buffer that is packed, reduced and unpacked."""
    for network in temucin_training.ON[machine]:
        of = training.network(network)
        rate, _ = training.samples_per_second(of, "V100")
        size = 4 * of.parameters
        for peer, scheme in temucin_training.PEERS[machine].items():
            seconds = []
            for it in (temucin_training.OWN[machine], scheme):
                found = temucin_training.step(machine, network, it, overlap=False)
                assert [message.bytes for message in found.messages] == [size]
                ready = found.compute.forward_seconds + found.compute.backward_seconds
                look = math.ceil(ready / 5e-3) * 5e-3 - ready
                low, high = (1 << (size.bit_length() - 1 + up) for up in (0, 1))
                of_low, of_high = (temucin_schemes.seconds(machine, it, at) for at in (low, high))
                reduced = of_low + (of_high - of_low) * (size - low) / (high - low)
                seconds.append(32 / rate + look + 2 * 2 * size / 600e9 + reduced)
                assert found.seconds == pytest.approx(seconds[-1])
            gain = temucin_training.gain(machine, network, peer)
            assert gain.after == pytest.approx(seconds[1] / seconds[0])
            assert gain.overlapped <= gain.after + 1e-3 and gain.slower <= gain.faster + 1e-3


def test_messages_of_a_step_hold_all_gradients():
    for machine, networks in temucin_training.ON.items():
        for network in networks:
            sizes = temucin_training.message_sizes(machine, network)
            assert sum(sizes) == 4 * training.network(network).parameters
            assert sizes[0] <= temucin_training.THRESHOLD
    largest = {it: temucin_training.message_sizes("mist", it)[0] for it in temucin_training.IMAGES}
    assert max(largest, key=largest.get) == "vgg16"  # TEM-43


def test_every_value_of_figure_9_is_on_the_page_with_its_errors(temucin):
    text = temucin.to_html()
    rows = temucin_applications.figure_9()
    assert len(rows) == sum(len(row["over"]) for row in PAPER["training"]["rows"]) == 31
    stored = predictions.stored("temucin").rows
    for row in rows:
        cells = f"<td>{row.name.split(', ', 1)[1]}</td><td>{row.paper:.2f}</td>"
        if row.over == "hpcx":
            assert row.overlapped is None and f"{cells}<td>-</td>" in text
            continue
        peer = "staged" if row.over in ("spectrum", "open_mpi_ucx", "mvapich2") else row.over
        name = f"{row.machine} {row.network} {peer}"
        assert (row.overlapped, row.after) == (stored[f"{name}, overlapped"], stored[f"{name}, after"])
        for ours in (row.overlapped, row.after):
            cells += f"<td>{ours:.2f}</td><td>{100 * (ours / row.paper - 1):+.1f}%</td>"
        assert cells in text
    assert predictions.stored("temucin").commit[:7] in text
    names = [plot.name for plot in temucin.plots()]
    assert {"figure-9-mist", "figure-9-cedar", "figure-10", "figure-11", "figure-12"} <= set(names)


def test_what_the_page_says_of_libraries_between_gpus_on_cedar(temucin):
    """By hand: throughputs are 1 over the gains of the design, whose own is 1."""
    text, ours = temucin.to_html(), []
    rows = [row for row in temucin_applications.figure_9() if row.machine == "cedar"]
    for network in ("resnet50", "densenet201"):
        of = [row for row in rows if row.network == network and row.over in ("nccl", "hierarchical")]
        assert len(of) == 2
        rates = [1.0, *(1 / row.paper for row in of)]
        name = temucin_training.CALLED[network]
        assert f"{100 * (max(rates) / min(rates) - 1):.1f}% for {name}" in text
        for value in ("overlapped", "after"):
            rates = [1.0, *(1 / getattr(row, value) for row in of)]
            ours.append(max(rates) / min(rates) - 1)
    assert f"at most {100 * max(ours):.1f}% here" in text
    assert temucin_applications.spread_between_gpus("cedar", "vgg16", "paper") > 0.3


def test_a_peer_with_the_paper_s_ratio_gains_as_its_all_reduce_says():
    """A peer whose all-reduce takes as long as ours gains nothing; twice as long, what is left of a step beside it."""
    for machine in ("mist", "cedar"):
        ratio = PAPER[f"{machine}_64m"]["nccl"]
        step = temucin_training.step(machine, "vgg16", temucin_training.OWN[machine], overlap=False)
        reduced = step.work["all_reduce"]
        expected = (step.seconds + (ratio - 1) * reduced) / step.seconds
        assert temucin_applications.by_figures(machine, "vgg16", "nccl") == pytest.approx(expected)
    assert temucin_applications.by_figures("mist", "vgg16", "hpcx") is None


def test_values_between_both_columns_are_counted():
    row = temucin_applications.figure_9()[0]
    fields = {"machine": "mist", "network": "vgg16", "over": "nccl", "by_figures": None}
    make = type(row)
    assert make(**fields, paper=1.5, overlapped=1.0, after=2.0).explained
    assert make(**fields, paper=2.03, overlapped=1.0, after=2.0).explained  # within 2%
    assert not make(**fields, paper=2.1, overlapped=1.0, after=2.0).explained
    assert not make(**fields, paper=0.9, overlapped=1.0, after=2.0).explained
    assert not make(**fields, paper=1.5, overlapped=None, after=None).explained
    assert temucin_applications.compared([row], "after") == [Compared(row.name, row.paper, row.after)]


def test_cosmoflow_shares_fall_with_the_batch():
    shares = [
        temucin_training.share_in_all_reduce(temucin_training.cosmoflow(batch)[0])
        for batch in temucin_training.COSMOFLOW_BATCHES
    ]
    assert shares == sorted(shares, reverse=True)
    steps = temucin_training.cosmoflow(4)
    every = [it.seconds for it in steps]
    assert temucin_training.spread(steps) == max(every) / min(every) - 1


@pytest.mark.parametrize("pattern", temucin_schemes.PATTERNS)
@pytest.mark.parametrize("name", ["mist", "cedar"])
def test_a_host_path_takes_its_eighths_from_the_link(name, pattern):
    machine = temucin_schemes.machine(name)

    def run(paths):
        return simulator.simulate(machine, "all_reduce", 64 * MIB, pattern.plan.format(paths=paths, parts=2))

    def on_link(of):
        return sum(link["bytes"] for link in of.links if link["name"] in ("gpu0 -> gpu1", "gpu1 -> gpu0"))

    alone = run("")
    for host in (1, 3):
        both = run(f"direct: {8 - host}, host: {host}, ")
        assert on_link(both) == pytest.approx(on_link(alone) * (8 - host) / 8)
        assert both.seconds >= both.bound_seconds
        assert temucin_schemes.pattern_seconds(name, pattern, 64 * MIB, host) <= both.seconds * (1 + 1e-12)
