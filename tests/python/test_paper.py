"""`plait paper`: pages of the papers' analyses."""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from plait import models, papers, topology
from plait.cli import main
from plait.papers.comparison import Compared, geometric_mean_of_errors, kendall_tau

ROOT = Path(__file__).resolve().parents[2]
# Every second one, by name, of Table II.
HELD_OUT = {(2,) * 7, (4, 2, 2, 2, 2, 2), (4, 4, 4, 2), (4, 8, 2, 2), (8, 16), (8, 4, 4)}


@pytest.fixture(scope="module")
def page_of():
    pytest.importorskip("matplotlib")
    pages = {}

    def get(name):
        if name not in pages:
            pages[name] = papers.make(name)
        return pages[name]

    return get


class _Check(HTMLParser):
    """Collects what a page would fetch, and whether its tags fit."""

    def __init__(self):
        super().__init__()
        self.outside, self.open, self.text = [], [], []

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "path", "use", "circle", "rect", "br"):
            self.open.append(tag)
        for name, value in attributes:
            if name in ("src", "href") and not (value or "").startswith("#"):
                self.outside.append(value)

    def handle_endtag(self, tag):
        if tag in ("path", "use", "circle", "rect"):
            return
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.parametrize("name", list(papers.PAPERS))
def test_page_needs_nothing_besides_itself(page_of, name):
    text = page_of(name).to_html()
    check = _Check()
    check.feed(text)
    assert check.outside == [] and check.open == []
    assert not re.search(r"https?:|<script|@import|url\((?!#)", text)
    assert "color-scheme: light dark" in text
    assert len(re.findall(r"\.\s|\.$", page_of(name).summary)) == 3  # sentences
    names = re.findall(r'\bid="([^"]+)"', text)
    assert len(names) == len(set(names))
    for used in re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', text):
        assert "".join(used) in names


def test_page_has_every_value_of_table_2_with_its_error(page_of):
    text = page_of("ueno").to_html()
    rows = papers.data("ueno.json")["table_2"]["rows"]
    model = models.Hierarchies(
        topology.machine("abci").replicate(32),
        128,
        models.parse_profile((ROOT / "examples/profiles/abci_2019.json").read_text()),
    )
    for row in rows:
        layers = model.layers(row["factors"], 128 << 20)
        for dimension, (paper, layer) in enumerate(zip(row["mbps"], layers, strict=False), start=1):
            ours = 2 * layer["bytes"] * (layer["ranks"] - 1) / layer["ranks"] / layer["seconds"] / 1e6
            fit = "held out" if tuple(row["factors"]) in HELD_OUT else "fitted"
            cells = [dimension, f"{paper:.0f}", f"{ours:.0f}", f"{100 * (ours / paper - 1):+.1f}%"]
            rest = "".join(f"<td>{cell}</td>" for cell in cells)
            assert f'<tr><td>{row["name"]}</td><td class="words">{fit}</td>{rest}</tr>' in text


def test_the_costs_of_abci_are_what_the_named_command_makes(page_of, tmp_path, monkeypatch):
    """The page says how its profile was made, and which hierarchies that has not seen."""
    pytest.importorskip("scipy")
    from plait.papers import ueno, ueno_costs

    assert ueno_costs.held_out() == HELD_OUT
    stored = json.loads(papers.data_text(ueno_costs.PROFILE))
    monkeypatch.chdir(ROOT)
    words = ueno_costs.command().split()
    assert words[0] == "plait" and main([*words[1:], "-o", str(tmp_path / "made.json")]) == 0
    made = json.loads((tmp_path / "made.json").read_text())
    assert made["source"] == stored["source"] and made["name"] == stored["name"]
    flat = [_numbers(it["costs"]["rings"]) for it in (made, stored)]
    assert flat[0] == pytest.approx(flat[1], rel=0.02)  # other versions of scipy may stop elsewhere
    assert made["costs"] == stored["costs"] | {"rings": made["costs"]["rings"]}
    unseen = ueno.dimensions("held out")
    assert len(unseen) == 21 and geometric_mean_of_errors(unseen) < 0.1


def _numbers(rings):
    return {f"{kind}.{name}": it for kind, of in rings.items() if kind != "parts" for name, it in of.items()}


def test_table_2_is_met(page_of):
    from plait.papers import ueno

    times = ueno.times_of_128()
    assert len(times) == 10
    assert geometric_mean_of_errors(times) < 0.1
    assert kendall_tau(times) >= 0.8
    paper = {value.name: value.paper for value in times}
    assert paper["128"] / paper["4x8x4"] == pytest.approx(1.39, abs=0.005)  # as the text says (UEN-39)
    assert ueno.ranking(128)[0][0][0] == 4
    # Equations (1) and (2) cross at six nodes, but for latency (UEN-25).
    assert ueno.equation("ueno_flat_ring", 24) > ueno.equation("ueno_two_layers", 24)


def test_the_flat_ring_is_shortest_where_the_page_says_and_for_its_reason(page_of):
    from plait.papers import ueno, ueno_costs

    several = ueno.RANKS[1:]
    seconds = [ueno_costs.hierarchies(ranks).seconds([ranks], ueno.BYTES) for ranks in several]
    least = seconds.index(min(seconds))
    assert seconds[: least + 1] == sorted(seconds[: least + 1], reverse=True)
    assert seconds[least:] == sorted(seconds[least:])
    text = page_of("ueno").to_html()
    assert f"takes least with {several[least]} GPUs, {1e3 * seconds[least]:.3g} ms" in text
    # Steps that are not overlapped make it fall: of messages so long that starts count for nothing.
    long = [ueno_costs.hierarchies(ranks).seconds([ranks], 1e15) for ranks in several]
    for ranks, took in zip(several, long, strict=True):
        share = ueno_costs.flat_ring_share(ranks)
        assert took / long[0] == pytest.approx(share / ueno_costs.flat_ring_share(several[0]), rel=1e-4)
    assert least > 0 and long == sorted(long, reverse=True)
    for ranks in (several[0], several[least]):
        assert f"{ueno_costs.flat_ring_share(ranks):.2f} with {ranks}" in text


def test_table_4_has_the_six_rows_of_an_iteration(page_of):
    from plait.papers import ueno

    table = ueno.table_4()
    rows = {row[0]: [float(cell.rstrip("%")) for cell in row[1:]] for row in table.rows}
    parts = ["forward", "backward", "pack", "all_reduce", "unpack", "update"]
    assert list(rows) == [*parts, "total", "parallel efficiency"]
    for column in range(6):
        total = rows["total"][column]
        assert sum(rows[part][column] for part in parts) == pytest.approx(total, abs=0.31)
        exposed = sum(rows[part][column] for part in ("pack", "all_reduce", "unpack"))
        assert rows["parallel efficiency"][column] == pytest.approx(100 * (total - exposed) / total, abs=0.3)  # UEN-56
    # The best hierarchy beats the flat ring, the more the more GPUs there are.
    gains = [rows["all_reduce"][i] / rows["all_reduce"][i + 1] for i in (0, 2, 4)]
    assert gains == sorted(gains) and gains[0] > 1.2


def test_blink_counts_links(page_of):
    from plait.papers import blink

    text = page_of("blink").to_html()
    for value in [*blink.figure_1(), blink.links_of_six(), *blink.rings_of_some()]:
        assert value.error == pytest.approx(0, abs=1e-3), value
        assert f"<td>{value.name}</td><td>{value.paper:.3g}</td>" in text
    # Whole rings, from the paper's section 2 and from a count by hand.
    assert [blink.whole_rings("dgx1-p100", blink.first(n)) for n in range(3, 9)] == [1, 1, 0, 1, 1, 2]
    assert [blink.whole_rings("dgx1-v100", blink.first(n)) for n in range(4, 9)] == [2, 0, 1, 2, 3]
    for machine in blink.MACHINES:
        assert f"<td>{blink.mean_speedup(machine).ours:.3g}</td>" in text
        assert blink.mean_speedup(machine).ours > 1.3
        assert blink.speedups(machine)[8] == pytest.approx(1, abs=0.1)


def test_blink_gains_most_where_the_page_says(page_of):
    from plait.papers import blink

    text = page_of("blink").to_html()
    for machine, called in (("dgx1-p100", "P100"), ("dgx1-v100", "V100")):
        gains = blink.speedups(machine)
        most = max(gains.values())
        (count,) = [count for count, gain in gains.items() if gain == most]
        assert f"On {called} it is largest over {count} GPUs ({most:.2f})" in text
        if blink.whole_rings(machine, blink.first(count)):
            assert f"5 ({gains[5]:.2f})" in text
            assert blink.simulated(machine, blink.first(5), "all_reduce", "rings") is None
            nccl = f"rings(count={2 * blink.whole_rings(machine, blink.first(count))})"
            used = [blink.simulated(machine, blink.first(count), "all_reduce", it) for it in (nccl, "spanning_trees")]
            assert blink.gbps(used[0]) == blink.as_nccl(machine, blink.first(count), "all_reduce")
            rings, trees = (blink.nvlinks(run) for run in used)
            assert rings < trees and f"rings use {rings} NVLinks and trees {trees}" in text
            few = blink.simulated(machine, blink.first(5), "all_reduce", "spanning_trees")
            assert blink.nvlinks(few) == 4 < trees
        else:
            assert count == 5


def test_every_run_of_blink_has_the_default_costs(page_of):
    """Two GPUs of one NVLink fabric would get the costs of another profile."""
    from plait.papers import blink

    for machine in blink.MACHINES:
        for count in blink.GPUS:
            for collective, algorithm in blink.PRIMITIVES.items():
                run = blink.simulated(machine, blink.first(count), collective, algorithm)
                assert run is None or run.profile == "default"
        lane = blink.part(machine, (0, 1)).links
        stated = sum(link.gbps for link in lane if link.kind == "nvlink")
        broadcast = blink.gbps(blink.simulated(machine, (0, 1), "broadcast", "spanning_trees"))
        assert broadcast == pytest.approx(blink.LINK_EFFICIENCY * stated, rel=0.01)


def test_profile_of_the_page_is_the_example():
    example = (ROOT / "examples/profiles/abci_2019.json").read_text()
    assert json.loads(papers.data_text("abci_2019.json")) == json.loads(example)


def test_errors_and_orders():
    values = [Compared("a", 1, 1.1), Compared("b", 2, 2 / 1.1), Compared("c", 3, 3)]
    assert geometric_mean_of_errors(values) == pytest.approx(1.1 ** (2 / 3) - 1)
    assert kendall_tau(values) == 1
    assert kendall_tau([Compared("a", 1, 3), Compared("b", 2, 2), Compared("c", 3, 1)]) == -1
    assert kendall_tau([Compared("a", 1, 2), Compared("b", 2, 1), Compared("c", 3, 3)]) == pytest.approx(1 / 3)


def test_command_writes_page_and_plots(page_of, tmp_path, capsys):
    page_of("ueno")
    file = tmp_path / "page.html"
    assert main(["paper", "ueno", "-o", str(file), "--png", str(tmp_path / "p"), "--svg", str(tmp_path / "s")]) == 0
    assert capsys.readouterr().out == f"wrote {file}\n"
    assert file.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    names = [f"figure-{number}" for number in (3, 4, 6, 8)]  # of the paper
    assert sorted(path.name for path in (tmp_path / "p").iterdir()) == [f"{name}.png" for name in names]
    for name in names:
        assert (tmp_path / "p" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / "s" / f"{name}.svg").read_text().startswith('<svg xmlns="http://www.w3.org/2000/svg"')


def test_command_lists_papers_and_refuses_others(capsys):
    assert main(["paper", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(papers.PAPERS)
    assert main(["paper"]) == 2
    assert "which one? ueno, blink, nv-group, awan, temucin" in capsys.readouterr().err


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch, tmp_path, capsys):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["paper", "ueno", "-o", str(tmp_path / "page.html")]) == 2
    assert "pip install matplotlib" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


def test_ueno_says_when_its_predictions_were_stored(monkeypatch):
    from plait.papers import predictions, ueno

    stored = predictions.stored("ueno")
    assert stored.commit[:7] in ueno.stored_words() and "today's models give the same" in ueno.stored_words()
    name = next(iter(stored.rows))
    monkeypatch.setattr(ueno, "rows", lambda: {**stored.rows, name: 2 * stored.rows[name]})
    assert f"today's models differ in {name}" in ueno.stored_words()
