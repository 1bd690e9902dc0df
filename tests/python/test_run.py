"""`plait run`: what ranks get, what comes back, and that nothing is left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from plait import _core
from plait.cli import main, orphans
from ranks import TIMEOUT, cli, command, environment, launch


def alive(pid: int) -> bool:
    """Whether a process is there and not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition, what: str) -> None:
    end = time.monotonic() + TIMEOUT / 2
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def pids_in(folder: Path, count: int) -> list[int]:
    """The process ids that `count` processes wrote to files of their own."""

    def read() -> list[int]:
        return [int(file.read_text()) for file in folder.iterdir() if file.read_text().endswith("\n")]

    wait_until(lambda: len(read()) == count, "ranks did not start")
    return read()


# Each rank, and a child of each, says its process id in a file and then sleeps.
SLEEPERS = [
    "sh",
    "-c",
    'sh -c "echo \\$\\$ > $0/child$PLAIT_RANK; exec sleep 300" & echo $$ > $0/rank$PLAIT_RANK; wait',
]


def start_sleepers(folder: Path, *options: str) -> subprocess.Popen[str]:
    folder.mkdir(exist_ok=True)
    arguments = command("run", "-n", 2, *options, "--", *SLEEPERS, folder)
    return subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, env=environment())


def test_environment_of_ranks():
    script = """
        import os
        print(*(os.environ["PLAIT_" + name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "JOB")))
        """
    result = launch(3, script)
    assert result.returncode == 0, result.stderr
    rows = sorted(line.split() for line in result.stdout.splitlines())
    assert [row[:3] for row in rows] == [[str(rank), "3", str(rank)] for rank in range(3)]
    jobs = {row[3] for row in rows}
    assert len(jobs) == 1 and len(jobs.pop()) >= 16


def test_output_is_passed_on_in_whole_lines():
    script = """
        import os, sys
        for i in range(200):
            for part in ("line ", str(i), "\\n"):
                sys.stdout.write(part)
                sys.stdout.flush()
        print("to stderr", file=sys.stderr)
        sys.stdout.write("no end")
        """
    result = launch(2, script)
    assert sorted(set(result.stdout.splitlines())) == sorted([*(f"line {i}" for i in range(200)), "no end"])
    assert len(result.stdout.splitlines()) == 402
    assert result.stderr.splitlines() == ["to stderr"] * 2


def test_tag():
    result = cli("run", "-n", 2, "--tag", "--", "sh", "-c", "echo one; echo two")
    assert sorted(result.stdout.splitlines()) == ["[0] one", "[0] two", "[1] one", "[1] two"]


def test_command_without_dashes_and_with_options_of_its_own():
    result = cli("run", "-n", 1, "echo", "-n", "--tag", "x")
    assert result.stdout == "--tag x\n"


def test_standard_input_goes_to_rank_0():
    result = cli("run", "-n", 2, "--tag", "--", "cat", input="hello\n")
    assert result.stdout == "[0] hello\n"


def test_status_of_the_first_rank_that_fails():
    result = cli("run", "-n", 3, "--", "sh", "-c", "[ $PLAIT_RANK = 1 ] && exit 7; sleep 1; exit 9")
    assert result.returncode == 7
    assert result.stderr.count("plait: ") == 1
    assert "rank 1" in result.stderr and "ended with status 7; the others have 10 s to end" in result.stderr


def test_killed_rank():
    result = cli("run", "-n", 2, "--grace", "0.2", "--", "sh", "-c", "[ $PLAIT_RANK = 1 ] && kill -KILL $$; sleep 300")
    assert result.returncode == 128 + signal.SIGKILL
    assert "was ended by SIGKILL" in result.stderr
    assert "ranks did not end after one failed; ending rank 0 with SIGTERM" in result.stderr


def test_rank_that_ignores_sigterm():
    script = """
        import os, signal, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.environ["PLAIT_RANK"] == "0":
            sys.exit(3)
        time.sleep(300)
        """
    result = launch(2, script, "--grace", "0.2")
    assert result.returncode == 3


def test_nobody_waits_for_a_stopped_rank():
    """Longer than this test may take, where one has failed."""
    script = "[ $PLAIT_RANK = 1 ] && kill -STOP $$; [ $PLAIT_RANK = 2 ] && sleep 0.5; exit 3"
    result = cli("run", "-n", 3, "--grace", 10 * TIMEOUT, "--", "sh", "-c", script)
    assert result.returncode == 3
    assert result.stderr.count("the others have") == 1
    assert "the ranks that are left are stopped; ending rank 1 with SIGTERM" in result.stderr


def test_a_stopped_rank_hears_sigterm():
    script = "trap 'echo heard; exit 0' TERM; kill -STOP $$; sleep 300"
    result = cli("run", "-n", 1, "--timeout", "0.5", "--grace", TIMEOUT, "--", "sh", "-c", script)
    assert result.returncode == 124
    assert result.stdout == "heard\n"


def test_timeout():
    result = cli("run", "-n", 2, "--timeout", "0.3", "--", "sleep", "300")
    assert result.returncode == 124
    assert "ran for more than 0.3 s" in result.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_are_passed_on(tmp_path, number):
    job = start_sleepers(tmp_path / "pids")
    pids = pids_in(tmp_path / "pids", 4)
    job.send_signal(number)
    assert job.wait(TIMEOUT) == 128 + number
    assert not any(map(alive, pids))
    assert job.stderr.read() == ""


def test_blocked_signals_are_heard(tmp_path):
    """The end of a rank is SIGCHLD and no more, where a daemon keeps the rank's output."""
    script = "setsid sleep 300 & exit 3"
    block = {signal.SIGCHLD, signal.SIGTERM}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, block)
    try:
        result = cli("run", "-n", 1, "--", "sh", "-c", script)
        assert result.returncode == 3
        job = start_sleepers(tmp_path / "job")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    pids_in(tmp_path / "job", 4)
    job.terminate()
    assert job.wait(TIMEOUT) == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGHUP])
def test_what_was_ignored_stays_ignored(tmp_path, number):
    handler = signal.signal(number, signal.SIG_IGN)  # as shells do for jobs in the background
    try:
        job = start_sleepers(tmp_path / "job")
    finally:
        signal.signal(number, handler)
    pids = pids_in(tmp_path / "job", 4)
    job.send_signal(number)
    time.sleep(0.3)
    assert job.poll() is None and all(map(alive, pids))
    job.terminate()
    assert job.wait(TIMEOUT) == 128 + signal.SIGTERM


def test_nothing_survives_a_killed_launcher(tmp_path):
    job = start_sleepers(tmp_path / "pids")
    pids = pids_in(tmp_path / "pids", 4)
    assert all(map(alive, pids))
    job.kill()
    assert job.wait(TIMEOUT) == -signal.SIGKILL
    wait_until(lambda: not any(map(alive, pids)), "ranks survived their launcher")


def test_nothing_survives_a_killed_launcher_and_guard(tmp_path):
    job = start_sleepers(tmp_path / "pids")
    ranks = [pid for pid in pids_in(tmp_path / "pids", 4) if parent(pid) == job.pid]
    guard = os.getpgid(ranks[0])
    assert parent(guard) == job.pid and len(ranks) == 2
    os.kill(guard, signal.SIGSTOP)
    job.kill()
    job.wait(TIMEOUT)
    wait_until(lambda: not any(map(alive, ranks)), "ranks survived their launcher")
    os.kill(guard, signal.SIGCONT)
    wait_until(lambda: not alive(guard), "the guard survived")


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_nothing_survives_a_finished_job(tmp_path):
    result = cli("run", "-n", 2, "--", "sh", "-c", "sleep 300 > /dev/null 2>&1 & echo $!")
    assert result.returncode == 0
    assert not any(alive(int(pid)) for pid in result.stdout.split())


@pytest.mark.parametrize("handler", ["signal.SIG_DFL", "signal.SIG_IGN"])
def test_daemons_do_not_survive_a_finished_job(handler):
    script = f"""
        import os, signal
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                signal.signal(signal.SIGTERM, {handler})
                os.write(writer, b"%d" % os.getpid())
                os.execve("/bin/sleep", ["sleep", "300"], {{}})
            os._exit(0)
        os.wait()
        print(int(os.read(reader, 20)))
        """
    result = launch(2, script, "--grace", "0.3")
    assert result.returncode == 0, result.stderr
    pids = [int(pid) for pid in result.stdout.split()]
    assert len(pids) == 2 and not any(map(alive, pids))


def test_daemons_with_children_do_not_survive_a_timeout(tmp_path):
    daemon = 'setsid sh -c \'sleep 300 & echo $! > "$0/$PLAIT_RANK"; wait\' "$0" > /dev/null 2>&1'
    result = cli("run", "-n", 2, "--timeout", "1", "--", "sh", "-c", f"{daemon} & sleep 300", tmp_path)
    assert result.returncode == 124
    assert not any(map(alive, pids_in(tmp_path, 2)))


def test_children_that_come_with_the_end_of_their_parent_are_seen(monkeypatch):
    ended, child = subprocess.Popen("true"), subprocess.Popen(["sleep", "300"])
    wait_until(lambda: not alive(ended.pid), "the parent has ended")
    seen = iter([set(), {ended.pid}, {child.pid}])
    monkeypatch.setattr(orphans, "_children", lambda: next(seen))
    found = orphans.Orphans()
    try:
        assert found.reap(frozenset()) == {child.pid}
    finally:
        found.restore()
        child.kill()
        child.wait()


def test_daemons_that_end_are_not_left_as_zombies():
    job = subprocess.Popen(
        command("run", "-n", 1, "--", "sh", "-c", "(setsid true &); exec sleep 300"), env=environment()
    )
    children = Path(f"/proc/{job.pid}/task/{job.pid}/children")
    try:
        wait_until(lambda: len(children.read_text().split()) >= 2, "the rank did not start")
        wait_until(lambda: len(children.read_text().split()) == 2, "there is a zombie")  # the guard and the rank
        time.sleep(0.5)
        assert len(children.read_text().split()) == 2
    finally:
        job.terminate()
        job.wait(TIMEOUT)


def test_children_from_before_are_let_be():
    job = "exec " + " ".join(command("run", "-n", 1, "--", "true"))
    shell = ["sh", "-c", f"sleep 300 > /dev/null 2>&1 & echo $!; {job}"]
    result = subprocess.run(shell, capture_output=True, text=True, timeout=TIMEOUT, env=environment(), check=True)
    assert alive(int(result.stdout))
    os.kill(int(result.stdout), signal.SIGKILL)


def test_closed_output_ends_the_job(tmp_path):
    arguments = command("run", "-n", 2, "--", "sh", "-c", "while :; do echo y; done")
    job = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    assert job.stdout.readline() == "y\n"
    job.stdout.close()
    assert job.wait(TIMEOUT) == 141
    assert job.stderr.read() == ""


def test_what_cannot_be_started():
    result = cli("run", "-n", 2, "--", "./no-such-program")
    assert result.returncode == 127
    assert result.stderr == "plait: error: cannot start './no-such-program': No such file or directory\n"


def test_a_script_without_its_interpreter_is_told_to_name_it(tmp_path):
    program = tmp_path / "train.py"
    program.touch()
    result = cli("run", "-n", 2, "--", program)
    assert result.returncode == 127
    assert result.stderr == f"plait: error: cannot start '{program}': Permission denied; write `python {program}`\n"


def test_ranks_may_be_counted_as_for_mpirun():
    assert cli("run", "-np", 2, "--", sys.executable, "-c", "print(1)").stdout == "1\n1\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "what to run is missing"),
        (["-n", "0", "--", "true"], "'0' is not a whole number from 1"),
        (["-n", "x", "--", "true"], "'x' is not a whole number from 1"),
        (["-n", "2"], "what to run is missing"),
        (["-n", "2", "--"], "what to run is missing"),
        (["-n", "2", "--timeout", "never", "true"], "'never' is no time in seconds"),
    ],
)
def test_usage(arguments, message, capsys):
    try:
        status = main(["run", *arguments])
    except SystemExit as exit:
        status = exit.code
    assert status == 2
    errors = capsys.readouterr().err
    assert "plait: error: " in errors and message in errors


def test_launchers_nest():
    inner = f"{sys.executable} -m plait run -n 2 -- sh -c 'echo $PLAIT_RANK of $PLAIT_WORLD_SIZE'"
    result = cli("run", "-n", 1, "--", "sh", "-c", inner)
    assert sorted(result.stdout.splitlines()) == ["0 of 2", "1 of 2"]


def test_ranks_know_nothing_of_other_launchers():
    others = {
        "OMPI_COMM_WORLD_RANK": "2",
        "OMPI_COMM_WORLD_SIZE": "3",
        "PMIX_RANK": "2",
        "RANK": "1",
        "WORLD_SIZE": "7",
        "LOCAL_RANK": "5",
        "LOCAL_WORLD_SIZE": "6",
    }
    others |= {"SLURM_PROCID": "1", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "MASTER_PORT": "29500"}
    script = """
        import os
        import plait
        from plait import _core
        with plait.init() as communicator:
            print(communicator.rank, communicator.size, sorted({"RANK", "PMIX_RANK", "MASTER_PORT"} & set(os.environ)),
                  os.environ["LOCAL_RANK"], os.environ["LOCAL_WORLD_SIZE"], _core.launch_environment().launcher)
        """
    for ranks in (1, 2):
        program = [sys.executable, "-c", textwrap.dedent(script)]
        result = cli("run", "-n", ranks, "--", *program, **others)
        assert result.returncode == 0, result.stderr
        assert sorted(result.stdout.splitlines()) == [
            f"{rank} {ranks} ['MASTER_PORT'] {rank} {ranks} plait run" for rank in range(ranks)
        ]


def test_no_test_is_a_rank_of_somebodys_job():
    assert _core.launch_environment() is None


def test_nor_under_a_launcher():
    """Whoever runs the tests may be a rank; the fixture of conftest.py hides that from them."""
    said = os.environ | dict.fromkeys(_core.all_launcher_variables(), "1")
    test = f"{__file__}::{test_no_test_is_a_rank_of_somebodys_job.__name__}"
    pytest_command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
    result = subprocess.run(pytest_command, capture_output=True, text=True, env=said, timeout=TIMEOUT)
    assert result.returncode == 0, result.stdout


def test_what_launchers_say_and_contradict():
    """Left over from a cluster's pod, or half of what a launcher should say: never a communicator of one in silence."""
    script = "import plait; c = plait.init(); print(c.rank, c.size)"

    def init(**variables):
        program = [sys.executable, "-c", script]
        return subprocess.run(program, capture_output=True, text=True, env=environment(**variables), timeout=TIMEOUT)

    leftover = {"RANK": "0", "WORLD_SIZE": "1"}
    assert init(**leftover).stdout == "0 1\n"
    for rank in (
        "HOROVOD_RANK",
        "PMIX_RANK",
        "PALS_RANKID",
        "FLUX_TASK_RANK",
        "JSM_NAMESPACE_RANK",
        "MV2_COMM_WORLD_RANK",
    ):
        result = init(**{rank: "0"}, **leftover)
        assert result.returncode != 0 and f"{rank}=0" in result.stderr and "WORLD_SIZE=1" in result.stderr
        result = init(**{rank: "1"})
        assert result.returncode != 0 and rank in result.stderr
    result = init(OMPI_COMM_WORLD_RANK="1", OMPI_COMM_WORLD_SIZE="4", RANK="0", WORLD_SIZE="2")
    assert "OMPI_COMM_WORLD_RANK=1" in result.stderr and "WORLD_SIZE=2" in result.stderr


def mpirun(ranks, *program, **variables):
    """Of whichever MPI is here, also as root and on few cores."""
    allowed = {f"{who}_ALLOW_RUN_AS_ROOT{how}": "1" for who in ("OMPI", "PRTE") for how in ("", "_CONFIRM")}
    version = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=False).stdout
    more = ["--oversubscribe"] if "Open MPI" in version or "OpenRTE" in version else []
    return subprocess.run(
        ["mpirun", *more, "-n", str(ranks), *program],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        env=environment(**allowed, **variables),
        check=False,
    )


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no MPI here")
def test_ranks_of_mpirun_beside_variables_that_are_left_over():
    # One write a line: mpirun mixes those of several ranks.
    script = "import os, plait; c = plait.init(); os.write(1, f'{c.rank} {c.size}\\n'.encode())"
    result = mpirun(4, sys.executable, "-c", script, RANK="0", WORLD_SIZE="1")
    assert sorted(result.stdout.splitlines()) == [f"{rank} 4" for rank in range(4)], result.stderr
    result = mpirun(4, sys.executable, "-c", script, RANK="0", WORLD_SIZE="2")
    assert result.returncode != 0
    assert "env:// that it is rank 0 of 2 (RANK=0, WORLD_SIZE=2)" in result.stderr
    result = mpirun(2, *command("bench", "all_reduce", "-b", 8, "-e", 8), RANK="0", WORLD_SIZE="1")
    assert result.returncode == 0 and result.stdout.count("float") == 1, result.stderr
    result = mpirun(2, *command("bench", "all_reduce", "-b", 8, "-e", 8), RANK="0", WORLD_SIZE="3")
    assert result.returncode != 0 and "(RANK=0, WORLD_SIZE=3)" in result.stderr


def test_ends_in_time_also_where_nobody_reads():
    arguments = command("run", "-n", 2, "--timeout", 1, "--grace", 1, "--", "yes")
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.wait(TIMEOUT) == 124  # its output was never read


def test_output_is_whole_for_a_slow_reader():
    arguments = command("run", "-n", 2, "--", "seq", 1, 30000)
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, env=environment()) as process:
        time.sleep(1)
        lines = process.stdout.read().split()
    assert sorted(map(int, lines)) == sorted([*range(1, 30001), *range(1, 30001)])


@pytest.mark.parametrize(("files", "ranks"), [(8, 1), (8, 4), (64, 30), (256, 2**31 - 1)])
def test_too_few_open_files(files, ranks):
    limited = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *command("run", "-n", ranks, "--", "true")]
    result = subprocess.run(limited, capture_output=True, text=True, timeout=TIMEOUT, env=environment(), check=False)
    assert result.returncode == 1
    assert result.stderr.startswith(f"plait: error: cannot start {ranks} ranks: ")
    assert f"this process may have {files}; raise the limit (ulimit -n " in result.stderr


def test_as_many_open_files_as_the_message_says():
    for ranks in (1, 5):
        limited = ["sh", "-c", 'ulimit -n $1; shift; exec "$@"', "sh"]
        run = command("run", "-n", ranks, "--", "echo", "x")
        refused = subprocess.run([*limited, "8", *run], capture_output=True, text=True, env=environment(), check=False)
        needed = refused.stderr.partition("ulimit -n ")[2].partition(")")[0]
        result = subprocess.run(
            [*limited, needed, *run], capture_output=True, text=True, env=environment(), check=False
        )
        assert result.returncode == 0 and result.stdout == "x\n" * ranks, result.stderr


@pytest.mark.parametrize("closed", ["2>&-", "1>&- 2>&-", "0<&- 1>&- 2>&-"])
def test_ranks_with_closed_standard_streams(closed, tmp_path):
    """Lines of the log once went into a socket or the shared memory that had the number of a closed stream."""
    script = """
        import os, sys
        import numpy as np
        import plait
        with plait.init() as communicator:
            for _ in range(50):
                array = np.full(1000, communicator.rank + 1, dtype="int32")
                communicator.all_reduce(array, out=array)
                assert (array == 6).all(), array
            open(os.path.join(sys.argv[1], str(communicator.rank)), "w").close()
        """
    program = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)]
    shell = ["sh", "-c", f'exec {closed}; exec "$@"', "sh"]
    result = cli("run", "-n", 3, "--", *shell, *program, PLAIT_LOG="debug", PLAIT_NO_SUCH_SETTING="1")
    assert result.returncode == 0, result.stderr
    assert sorted(os.listdir(tmp_path)) == ["0", "1", "2"]


def test_a_log_that_nobody_reads_ends_nobody():
    script = """
        import os, signal
        import plait
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        reader, writer = os.pipe()
        os.dup2(writer, 2)
        os.close(reader)
        with plait.init() as communicator:
            communicator.barrier()
        print("well")
        """
    program = [sys.executable, "-c", textwrap.dedent(script)]
    result = cli("run", "-n", 2, "--", *program, PLAIT_LOG="debug", PLAIT_NO_SUCH_SETTING="1")
    assert result.returncode == 0 and result.stdout.split() == ["well"] * 2
