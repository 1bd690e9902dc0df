"""`plait tune` on host ranks: what it writes, keeps and refuses, and that communicators run it."""

import json
import signal
import subprocess
from pathlib import Path

import pytest
from plait import _core
from plait.tuning import tables
from plait.tuning.candidates import Candidate
from ranks import TIMEOUT, cli, command, environment

QUICK = ("-n", 2, "--repeats", 2, "--loop-ms", 1)


def tune(*arguments, **environment):
    return cli("tune", *arguments, **environment)


def profile_of(file: Path) -> dict:
    text = file.read_text(encoding="utf-8")
    _core.parse_profile(text, str(file))
    return json.loads(text)


def test_it_measures_writes_and_goes_on(tmp_path):
    file = tmp_path / "mine.json"
    first = tune("all_reduce", *QUICK, "-b", 64, "-e", "1K", "-o", file)
    assert first.returncode == 0, first.stderr
    assert f"PLAIT_PROFILE={file}" in first.stdout
    assert [line.split(":")[0] for line in first.stderr.splitlines()] == [
        "all_reduce 64 B", "all_reduce 256 B", "all_reduce 1 KiB"
    ]  # fmt: skip
    made = profile_of(file)
    (table,) = made["tuned"]
    assert (table["collective"], table["ranks"], table["place"]["machine"]) == ("all_reduce", 2, "live")
    assert [row["bytes"] for row in table["rows"]] == [64, 256, 1024]
    assert table["source"]["command"].startswith("plait tune all_reduce -n 2")
    for row in table["rows"]:
        assert len(row["us_of"]) > 5 and not row["wrong"]
        assert row["before"] in row["us_of"] and row["choose"] in row["us_of"]

    refused = tune("all_reduce", *QUICK, "-o", file)
    assert refused.returncode == 2 and "--merge adds to it" in refused.stderr

    more = ("all_reduce", "barrier", *QUICK, "-b", 64, "-e", "4K", "-o", file, "--merge", "--json")
    merged = tune(*more)
    assert merged.returncode == 0, merged.stderr
    assert [line.split(":")[0] for line in merged.stderr.splitlines()] == ["all_reduce 4 KiB", "barrier"]
    assert [it["collective"] for it in json.loads(merged.stdout)["collectives"]] == ["all_reduce", "barrier"]
    both = {it["collective"]: it for it in profile_of(file)["tuned"]}
    assert both["all_reduce"]["rows"][:3] == table["rows"] and len(both["all_reduce"]["rows"]) == 4
    assert [row["bytes"] for row in both["barrier"]["rows"]] == [0]

    again = tune(*more)
    assert again.returncode == 0 and again.stderr.count("all sizes are in") == 2


def test_an_interruption_loses_nothing(tmp_path):
    file = tmp_path / "mine.json"
    arguments = ("all_reduce", *QUICK, "-b", 64, "-e", "1G", "-f", 2, "-o", file)
    with subprocess.Popen(command("tune", *arguments), env=environment(), stderr=subprocess.PIPE, text=True) as job:
        while not (line := job.stderr.readline()).startswith("all_reduce 128 B"):
            assert line, "it ended by itself"
        job.send_signal(signal.SIGINT)
        words = job.stderr.read()
        assert job.wait(TIMEOUT) != 0
    assert "--merge goes on from there" in words
    rows = profile_of(file)["tuned"][0]["rows"]
    assert [row["bytes"] for row in rows][:2] == [64, 128]
    assert list(tmp_path.iterdir()) == [file]


def test_blocks_of_ranks_are_sizes_of_the_message(tmp_path):
    file = tmp_path / "mine.json"
    made = tune("all_gather", "all_to_all", *QUICK, "-b", 16, "-e", 256, "-o", file)
    assert made.returncode == 0, made.stderr
    sizes = {it["collective"]: [row["bytes"] for row in it["rows"]] for it in profile_of(file)["tuned"]}
    assert sizes == {"all_gather": [64, 256], "all_to_all": [64, 256]}  # blocks of less than 16 bytes are left out


def tuned_by_hand(ranks: int, place: dict, choose: str) -> dict:
    (communicator,) = _core.Communicator.in_process(1, _core.Settings())
    profile = json.loads(_core.profile_that_fits(communicator.topology, ranks)[1])
    return tables.with_table(profile, tables.only("all_reduce", ranks, place, Candidate(choose), 1 << 30))


@pytest.mark.parametrize(
    ("change", "is_chosen"), [({}, True), ({"cores": 1000}, False), ({"device": "another CPU"}, False)]
)
def test_communicators_run_what_is_in_the_rows_of_their_machine(tmp_path, change, is_chosen):
    (alone,) = _core.Communicator.in_process(1, _core.Settings())
    place = alone.tuned_place | change
    file = tmp_path / "mine.json"
    file.write_text(tables.layout(tuned_by_hand(2, place, "ring(parts=2)")), encoding="utf-8")
    for ranks in (2, 3):
        call = _core.Call("all_reduce", 1000)
        for communicator in _core.Communicator.in_process(ranks, _core.Settings(profile=str(file))):
            is_ring = communicator.plan_for(call).algorithm == "ring(parts=2)"
            assert is_ring == (is_chosen and ranks == 2)
            assert communicator.reason_for(call).startswith("measured: being measured") == is_ring


def test_candidates_are_those_of_the_tuner():
    communicator = _core.Communicator.in_process(2, _core.Settings())[0]
    found = communicator.candidates("broadcast", root=1)
    assert {protocol for _, protocol in found} == {"Simple"}
    assert {"one_shot(load)", "binomial(load)"} <= {algorithm for algorithm, _ in found}
    assert len(found) == len(set(found))


def test_neighbours_differ_by_a_step():
    communicator = _core.Communicator.in_process(2, _core.Settings(topology="mist"))[0]
    beside = communicator.neighbours("broadcast", "multi_path(direct: 70, host: 30, parts=4)")
    assert "multi_path(direct: 2, host: 3, parts=4)" in beside  # twice the share
    assert "multi_path(direct: 13, host: 7, parts=4)" in beside  # a twentieth more
    assert {f"multi_path(direct: 70, host: 30, parts={parts})" for parts in (2, 8)} <= set(beside)
    assert communicator.neighbours("all_reduce", "ring") == ["ring(parts=2)"]
    assert communicator.neighbours("broadcast", "flat(load, zero_copy, engine=sm)") == []


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        (["all_reduce"], {}, "how many ranks"),
        (["-n", 1], {}, "nothing to choose"),
        (["-n", 2, "-b", "1M", "-e", "1K"], {}, "-b 1048576"),
        (["-n", 2, "-f", 1], {}, "-f 1"),
        (["-n", 2], {"PLAIT_ALGORITHM": "all_reduce:ring"}, "PLAIT_ALGORITHM is set"),
        (["-n", 2], {"PLAIT_TOPOLOGY": "summit"}, "PLAIT_TOPOLOGY is set"),
        (["-n", 2], {"PLAIT_RANK": "0", "PLAIT_WORLD_SIZE": "2", "PLAIT_JOB": "j"}, "starts its ranks itself"),
        (["-n", 2, "-o", "no/such/folder/mine.json"], {}, "no/such/folder"),
        (["no_such_collective", "-n", 2], {}, "no_such_collective"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_measured(tmp_path, arguments, environment, words):
    done = tune(*arguments, *([] if "-o" in arguments else ["-o", tmp_path / "mine.json"]), **environment)
    assert done.returncode == 2 and words in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_another_profile_is_the_start(tmp_path):
    base, file = tmp_path / "base.json", tmp_path / "mine.json"
    made = json.loads(_core.profile_that_fits(_core.live_topology(), 2)[1])
    made["algorithms"] = [{"collectives": ["all_reduce"], "choose": "ring(parts=2)", "reason": "for this test"}]
    base.write_text(json.dumps(made), encoding="utf-8")
    done = tune("all_reduce", *QUICK, "-b", 64, "-e", 64, "--profile", base, "-o", file, "--name", "named")
    assert done.returncode == 0, done.stderr
    profile = profile_of(file)
    assert profile["name"] == "named" and profile["algorithms"] == made["algorithms"]
    assert [row["before"] for row in profile["tuned"][0]["rows"]] == ["ring(parts=2)"]
