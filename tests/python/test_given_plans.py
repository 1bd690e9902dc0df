"""Plans of a caller's own: Communicator.run()."""

from __future__ import annotations

import json
import pathlib
import re

import numpy as np
import plait
import pytest
from plait import plans, topology
from ranks import in_threads, launch, settings

COLLECTIVES = (
    "all_reduce",
    "reduce",
    "broadcast",
    "reduce_scatter",
    "all_gather",
    "gather",
    "scatter",
    "all_to_all",
    "barrier",
)

# Two ranks swap their inputs through each other's scratch, and both add rank 0's first. No algorithm makes it.
SWAP = """
{"plait_plan": 2, "algorithm": "swap by hand", "collective": "all_reduce", "access": "staged", "root": 0, "blocks": 1,
 "chunks_per_block": 1, "in_place": true, "node_of": [0, 0], "ranks": [
  {"scratch_slots": 1, "host_slots": 0, "signals": 1, "messages": 0, "queues": [
    {"engine": "cpu", "operations": [
      {"op": "reduce", "to": ["r1.scratch[0]"], "from": ["r0.input"], "chunk": 0},
      {"op": "signal", "number": 0, "rank": 1, "queue": 0},
      {"op": "wait", "number": 0, "rank": 1, "queue": 0},
      {"op": "reduce", "to": ["r0.output"], "from": ["r0.input", "r0.scratch[0]"], "chunk": 0}]}]},
  {"scratch_slots": 1, "host_slots": 0, "signals": 1, "messages": 0, "queues": [
    {"engine": "cpu", "operations": [
      {"op": "reduce", "to": ["r0.scratch[0]"], "from": ["r1.input"], "chunk": 0},
      {"op": "signal", "number": 0, "rank": 0, "queue": 0},
      {"op": "wait", "number": 0, "rank": 0, "queue": 0},
      {"op": "reduce", "to": ["r1.output"], "from": ["r1.scratch[0]", "r1.input"], "chunk": 0}]}]}]}
"""


def changed(text: str, change) -> str:
    fields = json.loads(text)
    change(fields)
    return json.dumps(fields)


def without_the_wait(fields) -> None:
    operations = fields["ranks"][1]["queues"][0]["operations"]
    operations[2], operations[3] = operations[3], operations[2]


def method_of(comm: plait.Communicator, collective: str, root: int, array, **options):
    """What the method of that name gives."""
    if collective == "barrier":
        return comm.barrier()
    if collective in ("reduce", "broadcast", "gather", "scatter"):
        options["root"] = root
    return getattr(comm, collective)(array, **options)


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_gives_what_the_collective_gives(collective):
    plan = plans.make(
        collective, "flat", 3, root=2 if collective in ("reduce", "broadcast", "gather", "scatter") else 0
    )

    def both(comm):
        array = None if collective == "barrier" else np.arange(12.0).reshape(6, 2) + 100 * comm.rank
        return comm.run(plan, array), method_of(comm, collective, plan.root, array)

    for by_plan, by_choice in in_threads(3, both):
        assert (by_plan is None) == (by_choice is None)
        np.testing.assert_array_equal(by_plan, by_choice)


def test_takes_a_plan_its_json_and_a_file(tmp_path):
    (tmp_path / "swap.json").write_text(SWAP)

    def run(comm):
        mine = np.full(5, comm.rank + 1.0)
        for plan in (plans.from_json(SWAP), SWAP, tmp_path / "swap.json", str(tmp_path / "swap.json")):
            yield from comm.run(plan, mine)

    assert in_threads(2, lambda comm: list(run(comm))) == [[3.0] * 20] * 2
    assert plans.load(tmp_path / "swap.json") == plans.from_json(SWAP)


def test_in_place_and_out_of_place():
    plan = plans.from_json(SWAP)

    def run(comm):
        mine = np.arange(4, dtype=np.int64) + comm.rank
        other = np.empty_like(mine)
        assert comm.run(plan, mine, "max", out=other) is other
        assert comm.run(plan, mine, out=mine) is mine
        assert comm.run(plan, mine[::2], "min", out=mine[1::2]) is not None  # copies of what has gaps
        return other.tolist(), mine.tolist()

    assert in_threads(2, run) == [([1, 2, 3, 4], [1, 1, 5, 5])] * 2


def test_multiplied_sums_and_other_types():
    plan = plans.from_json(SWAP)

    def run(comm):
        halves = np.full(3, 0x3F80, np.uint16)  # 1 in bfloat16
        return (
            comm.run(plan, np.ones(2), plait.premul_sum(comm.rank + 2.0)).tolist(),
            comm.run(plan, halves, dtype="bfloat16").tolist(),
            comm.run(plan, np.array([comm.rank == 0, False])).tolist(),
        )

    assert in_threads(2, run) == [([5.0, 5.0], [0x4000] * 3, [True, False])] * 2


def test_a_plan_that_is_never_in_place():
    plan = plans.from_json(changed(SWAP, lambda fields: fields.update(in_place=False)))
    assert not plan.in_place and plans.from_json(SWAP).in_place

    def run(comm):
        mine = np.ones(3)
        with pytest.raises(plait.InvalidArgument, match="plan swap by hand is never in place; give another output"):
            comm.run(plan, mine, out=mine)
        return comm.run(plan, mine)[0]

    assert in_threads(2, run) == [2, 2]


def test_a_wrong_dependency_is_refused():
    """And the communicator goes on."""

    def run(comm):
        with pytest.raises(
            plait.InvalidPlan, match=r"rank 1, queue 0 \(cpu\), operation 2 .* reads chunk 0 .* heard of"
        ):
            comm.run(changed(SWAP, without_the_wait), np.ones(3))
        return comm.run(SWAP, np.ones(3))[0]

    assert in_threads(2, run) == [2, 2]


def test_ranks_with_different_plans():
    renamed = plans.from_json(SWAP.replace("swap by hand", "swap by foot"))
    plan = plans.from_json(SWAP)

    def run(comm):
        with pytest.raises(plait.Mismatch) as caught:
            comm.run(renamed if comm.rank == 1 else plan, np.ones(8))
        comm.abort("all is said")
        return str(caught.value)

    for text in in_threads(2, run):
        assert "call 1 differs between ranks" in text
        assert f"rank 0 called all_reduce of 8 float64 (sum), by plan {plan.fingerprint}" in text
        assert f"rank 1 called all_reduce of 8 float64 (sum), by plan {renamed.fingerprint}" in text
    assert plan.fingerprint != renamed.fingerprint and len(plan.fingerprint) == 16


def test_a_plan_and_a_choice_are_different_calls():
    def run(comm):
        with pytest.raises(plait.Mismatch, match="by plan"):
            comm.run(SWAP, np.ones(8)) if comm.rank == 1 else comm.all_reduce(np.ones(8))
        comm.abort("all is said")

    in_threads(2, run)


@pytest.mark.parametrize(
    ("plan", "arguments", "message"),
    [
        (plans.make("all_reduce", "ring", 3), [np.ones(3)], "plan ring is for 3 ranks, and this communicator has 2"),
        (
            plans.make("all_gather", "flat", 2, access="zero_copy"),
            [np.ones(3)],
            "has access zero_copy: .* as only GPUs do",
        ),
        (plans.make("broadcast", "flat", 2), [np.ones(3), "sum"], "op: broadcast has none; leave it out"),
        (plans.make("barrier", "flat", 2), [np.ones(3)], "a barrier has no array"),
        (plans.make("all_reduce", "ring", 2), [], "array: all_reduce needs one on every rank"),
        (plans.make("reduce_scatter", "ring", 2), [np.ones(3)], "needs a first axis that 2 divides"),
        (plans.make("all_reduce", "ring", 2), [np.ones(3), "xor"], "op 'xor' is none of"),
        (7, [np.ones(3)], "plan: a int is none; pass a plait.Plan, the path of a file, or JSON"),
    ],
    ids=lambda value: value.collective if isinstance(value, plait.Plan) else "",
)
def test_what_cannot_be_run(plan, arguments, message):
    def run(comm):
        with pytest.raises(plait.InvalidArgument, match=message):
            comm.run(plan, *arguments)
        return comm.run(SWAP, np.ones(3))[0]

    assert in_threads(2, run) == [2, 2]


def test_files_that_hold_no_plan(tmp_path):
    (comm,) = plait.in_process(1)
    (tmp_path / "text").write_text("{}")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(plait.InvalidInput, match=r"text:1: expected a plan"):
        comm.run(tmp_path / "text", np.ones(1))
    with pytest.raises(plait.InvalidInput, match="not a text"):
        comm.run(tmp_path / "bytes", np.ones(1))
    with pytest.raises(FileNotFoundError):
        comm.run(tmp_path / "none", np.ones(1))
    with pytest.raises(plait.InvalidInput, match="plan:1: expected"):
        comm.run("{", np.ones(1))


@pytest.mark.parametrize("collective", ["all_reduce", "scatter", "all_to_all"])
def test_plans_over_several_nodes(collective):
    """Of a described machine, here on one."""
    plan = plans.for_machine(topology.machine("summit", 2), collective).plan
    assert "send " in str(plan) and plan.ranks == 12

    def both(comm):
        array = np.arange(24.0) * (comm.rank + 1)
        return comm.run(plan, array), method_of(comm, collective, 0, array)

    for by_plan, by_choice in in_threads(12, both):
        np.testing.assert_array_equal(by_plan, by_choice)


def test_what_a_communicator_shows_of_its_choice_is_run_again():
    """The plan of a choice, given back: the same bits."""

    def run(comm):
        array = np.linspace(0, 1, 1000, dtype=np.float32) * (comm.rank + 1) / 3
        chosen = comm.plan_for("all_reduce", array.size)
        return comm.run(chosen, array).tobytes() == comm.all_reduce(array).tobytes()

    assert in_threads(3, run) == [True] * 3


def test_thousands_of_plans():
    (comm,) = plait.in_process(1, settings())
    text = plans.make("all_reduce", "flat", 1).to_json()
    name = json.loads(text)["algorithm"]
    for number in range(600):
        plan = plans.from_json(text.replace(f'"{name}"', f'"plan {number}"'))
        assert comm.run(plan, np.array([number]))[0] == number


SCRIPT = """
    import sys, numpy as np, plait
    with plait.init() as comm:
        mine = np.arange(1000) + comm.rank
        for file in sys.argv[1:]:
            if f"of-{1 - comm.rank}" in file:
                continue
            comm.run(file, mine, out=mine)
        print(comm.rank, mine.sum())
"""


def test_processes(tmp_path):
    (tmp_path / "swap.json").write_text(SWAP)
    result = launch(2, SCRIPT, arguments=[tmp_path / "swap.json"] * 3)
    assert result.returncode == 0, result.stderr
    total = 4 * sum(2 * number + 1 for number in range(1000))
    assert sorted(result.stdout.split("\n")) == ["", f"0 {total}", f"1 {total}"]


def test_processes_with_different_plans(tmp_path):
    (tmp_path / "of-0.json").write_text(SWAP)
    (tmp_path / "of-1.json").write_text(plans.make("all_reduce", "ring", 2).to_json())
    result = launch(2, SCRIPT, arguments=sorted(map(str, pathlib.Path(tmp_path).iterdir())))
    assert result.returncode != 0
    for file in ("of-0.json", "of-1.json"):
        assert f"by plan {plans.load(tmp_path / file).fingerprint}" in result.stderr
    assert result.stderr.count("Mismatch") >= 1 and "differs between ranks" in result.stderr


def test_the_plan_of_the_documentation():
    page = pathlib.Path(__file__).parents[2] / "docs" / "algorithms" / "plans.md"
    (text,) = re.findall(r"^```json\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    results = in_threads(2, lambda comm: comm.run(text, np.full(3, comm.rank)).tolist())
    assert results == [[0, 0, 0]] * 2
