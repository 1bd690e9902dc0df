"""What `plait tune` decides of times, by a measurer whose machine is known; and what its profiles hold."""

import json
import math
import random

import pytest
from plait import _core
from plait.errors import InvalidInput
from plait.tuning import spread, tables
from plait.tuning.candidates import BEFORE, Candidate, Loops, Row, Sample
from plait.tuning.ranges import rules_of
from plait.tuning.search import Effort, find_best

PLACE = {"machine": "live", "device": "a CPU", "devices": 1, "cores": 2, "nodes": 1}
SOURCE = {"machine": "m", "date": "d", "command": "c", "commit": "abc"}
SIZES = [4**power for power in range(3, 14)]
NAMES = ["ring", "flat(load)", "flat(store)", "one_shot(load)", "bruck", "rabenseifner", "recursive_doubling"]


class KnownMachine:
    """Times are start + bytes / rate of the algorithm, as slow as the machine is in each repeat."""

    def __init__(self, costs: dict[str, tuple[float, float]], chosen: str, noise: float = 0.0, seed: int = 0) -> None:
        self.costs = costs
        self.candidates = [Candidate(name) for name in costs]
        self.asked: list[tuple[Candidate, Loops]] = []
        self._chosen = chosen
        self._noise = noise
        self._random = random.Random(seed)
        self.wrong: set[str] = set()

    def before(self, size: int) -> Candidate:
        return Candidate(self._chosen)

    def is_before(self, candidate: Candidate, size: int) -> bool:
        return candidate.algorithm == self._chosen

    def neighbours(self, candidate: Candidate) -> list[Candidate]:
        return []

    def seconds(self, name: str, size: int) -> float:
        start, rate = self.costs[name]
        return start + size / rate

    def measure(self, candidates, size: int, loops: Loops) -> list[Sample]:
        self.asked += [(candidate, loops) for candidate in candidates]
        names = [self._chosen if it == BEFORE else it.algorithm for it in candidates]
        times: list[list[float]] = [[] for _ in names]
        for _ in range(loops.repeats):
            busy = 1 + self._random.random() * 5  # what the machine does besides
            for name, each in zip(names, times, strict=True):
                hiccup = 1 + self._noise * abs(self._random.gauss(0, 1))
                each.append(self.seconds(name, size) * busy * hiccup)
        return [Sample(tuple(each), int(name in self.wrong)) for name, each in zip(names, times, strict=True)]


def random_machine(seed: int, noise: float = 0.0) -> KnownMachine:
    source = random.Random(seed)
    costs = {name: (10 ** source.uniform(-6, -4.5), 10 ** source.uniform(8, 10)) for name in NAMES}
    return KnownMachine(costs, source.choice(NAMES), noise, seed)


def row_at(size: int, machine: KnownMachine) -> Row:
    return find_best(machine, size, Effort())


@pytest.mark.parametrize("seed", range(40))
def test_the_fastest_is_found_however_busy_the_machine_is(seed: int) -> None:
    machine = random_machine(seed)
    for size in SIZES:
        row = row_at(size, machine)
        times = {name: machine.seconds(name, size) for name in NAMES}
        chosen = times[row.before.algorithm]
        least = min(times.values())
        if chosen > least * spread.LEAST_GAIN * 1.001:
            assert row.is_gain and times[row.best.algorithm] == least
            assert math.isclose(row.gain, chosen / least)
        elif chosen < least * spread.LEAST_GAIN * 0.999:
            assert not row.is_gain and row.best == row.before


@pytest.mark.parametrize("seed", range(20))
def test_noise_alone_replaces_nothing(seed: int) -> None:
    """Fourteen candidates of equal speed, timed with 30% of noise: one of them is always the fastest by luck."""
    costs = {f"chain(parts={parts})": (1e-5, 1e9) for parts in range(2, 16)}
    machine = KnownMachine(costs, "chain(parts=2)", noise=0.3, seed=seed)
    gains = [row_at(size, machine).is_gain for size in SIZES]
    assert sum(gains) <= 1


def test_a_favourite_is_kept_where_the_spread_does_not_tell() -> None:
    costs = {"ring": (1e-4, 1e9), "chain": (1e-5, 1e9), "bruck": (1.001e-5, 1e9)}
    machine = KnownMachine(costs, "ring")
    assert find_best(machine, 64, Effort()).best == Candidate("chain")
    assert find_best(machine, 64, Effort(), Candidate("bruck")).best == Candidate("bruck")
    assert find_best(machine, 64, Effort(), Candidate("ring")).best == Candidate("chain")


class MachineOfShares(KnownMachine):
    """A message over two paths is over when the slower one is; candidates know one share alone, of twenty."""

    def __init__(self, best: int, known: int) -> None:
        costs = {share_text(share): (1e-5, 1e9 / (1 + abs(share - best))) for share in range(1, 20)}
        super().__init__(costs | {"chain": (2e-5, 1e7)}, "chain")
        self.candidates = [Candidate("chain"), Candidate(share_text(known))]

    def neighbours(self, candidate: Candidate) -> list[Candidate]:
        if candidate.algorithm == "chain":
            return []
        share = int(candidate.algorithm.split("host: ")[1].rstrip(")"))
        return [Candidate(share_text(it)) for it in (share // 2, 2 * share, share - 1, share + 1) if 1 <= it < 20]


def share_text(share: int) -> str:
    return f"multi_path(direct: {20 - share}, host: {share})"


@pytest.mark.parametrize("best", range(1, 16))
def test_shares_are_found_step_by_step(best: int) -> None:
    """TEM-10."""
    machine = MachineOfShares(best, known=5)
    row = find_best(machine, 1 << 26, Effort())
    assert row.best == Candidate(share_text(best)) and row.is_gain
    assert len(row.us_of) < 16  # not all were measured


def test_wrong_results_are_told_and_not_chosen() -> None:
    machine = KnownMachine({"ring": (1e-4, 1e9), "chain": (1e-5, 1e9), "bruck": (2e-5, 1e9)}, "ring")
    machine.wrong = {"chain"}
    row = find_best(machine, 64, Effort())
    assert row.best == Candidate("bruck") and row.wrong == ("chain",)
    assert all(loops.check for candidate, loops in machine.asked if candidate == Candidate("chain"))


def test_loops_fill_the_time_and_slow_candidates_are_timed_shortly() -> None:
    costs = {"ring": (1e-4, 1e9), "chain": (9e-5, 1e9), "linear": (1e-2, 1e9)}
    machine = KnownMachine(costs, "ring")
    find_best(machine, 64, Effort(repeats=5, loop_seconds=0.1))
    of = {name: [loops for candidate, loops in machine.asked if candidate.algorithm == name] for name in costs}
    assert len(of["linear"]) == 1
    assert {loops.repeats for loops in of["chain"][1:]} == {5}
    assert all(loops.calls * 1.01 >= 0.1 / 6e-4 and loops.calls <= 1001 for loops in of["chain"][1:])


def rows_of(machine: KnownMachine, sizes=SIZES) -> list[Row]:
    return [row_at(size, machine) for size in sizes]


@pytest.mark.parametrize("seed", range(40))
def test_between_sizes_the_rule_is_nearly_as_fast_as_the_best(seed: int) -> None:
    """Against an oracle, the machine itself, at sizes that were not measured."""
    machine = random_machine(seed)
    rules = rules_of(rows_of(machine))
    source = random.Random(seed)
    for _ in range(200):
        size = int(math.exp(source.uniform(math.log(SIZES[0]), math.log(4 * SIZES[-1]))))
        holding = [rule for rule in rules if rule.least <= size <= rule.most]
        assert len(holding) <= 1
        name = holding[0].choose.algorithm if holding else machine.before(size).algorithm
        least = min(machine.seconds(it, size) for it in NAMES)
        assert machine.seconds(name, size) <= least * 1.35


def test_rules_do_not_reach_far_beyond_what_was_measured() -> None:
    machine = KnownMachine({"ring": (1e-4, 1e9), "chain": (1e-5, 1e10)}, "ring")
    (rule,) = rules_of(rows_of(machine, [4096, 16384]))
    assert (rule.least, rule.most) == (1024, 65536)
    (rule,) = rules_of(rows_of(machine, [256, 16384]))
    assert rule.least == 1  # what is shorter takes as long
    assert rule.reason.endswith("times as fast as ring")


def test_barriers_have_a_rule_of_no_bytes() -> None:
    machine = KnownMachine({"ring": (1e-4, 1e9), "chain": (1e-5, 1e10)}, "ring")
    (rule,) = rules_of(rows_of(machine, [0]))
    assert (rule.least, rule.most) == (0, 0)


# --- profiles ---


def profile(**members) -> dict:
    source = {"machine": "m", "date": "d", "command": "c", "commit": "e"}
    costs = {"signal_us": {}}
    return {
        "format": "plait-profile 1", "name": "mine", "source": source, "fits": {"fabric": "any"}, "costs": costs
    } | members  # fmt: skip


def table(ranks: int = 4, collective: str = "all_reduce", sizes=SIZES) -> dict:
    return tables.table_of(collective, ranks, PLACE, SOURCE, rows_of(random_machine(3), sizes))


def test_a_profile_with_a_table_is_read_by_the_tuner() -> None:
    made = tables.with_table(profile(), table())
    assert made["tuned"][0]["rules"]
    text = tables.layout(made)
    assert json.loads(text) == made
    assert _core.parse_profile(text, "mine.json").name == "mine"
    assert all(len(line) <= 130 or '"us_of"' in line or '"reason"' in line for line in text.splitlines())


def test_rows_survive_the_file() -> None:
    made = tables.with_table(profile(), table())
    read = tables.rows_in(json.loads(tables.layout(made)), tables.key_of(made["tuned"][0]), "abc")
    assert [row.to_json() for row in read] == made["tuned"][0]["rows"]
    assert tables.table_of("all_reduce", 4, PLACE, SOURCE, read) == made["tuned"][0]


def test_merging_keeps_other_tables_and_replaces_its_own() -> None:
    first, second, third = table(2), table(4), table(4, "broadcast")
    both = tables.with_table(tables.with_table(profile(tuned=[third]), first), second)
    again = table(2, sizes=SIZES[:2])
    merged = tables.with_table(both, again)
    assert [tables.key_of(it) for it in merged["tuned"]] == [tables.key_of(it) for it in (again, second, third)]
    assert merged["tuned"] == [again, second, third]


def test_rows_of_another_commit_place_or_count_are_not_taken() -> None:
    made = tables.with_table(profile(), table())
    key = tables.key_of(made["tuned"][0])
    assert len(tables.rows_in(made, key, "abc")) == len(SIZES)
    assert tables.rows_in(made, key, "another") == []
    assert tables.rows_in(made, tables.key_of(table(2)), "abc") == []
    elsewhere = tables.table_of("all_reduce", 4, PLACE | {"cores": 8}, SOURCE, [])
    assert tables.rows_in(made, tables.key_of(elsewhere), "abc") == []


def test_what_is_no_table_is_refused() -> None:
    made = tables.with_table(profile(), table())
    del made["tuned"][0]["rows"][0]["us_of"]
    with pytest.raises(InvalidInput, match="not what `plait tune` writes"):
        tables.rows_in(made, tables.key_of(table()), "abc")


def test_a_file_is_whole_whenever_writing_ends(tmp_path, monkeypatch) -> None:
    file = tmp_path / "mine.json"
    tables.write(profile(), str(file))
    before = file.read_text()

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(tables, "layout", fail)
    with pytest.raises(OSError, match="no space"):
        tables.write(profile(name="other"), str(file))
    assert file.read_text() == before and list(tmp_path.iterdir()) == [file]
