"""`plait run --hosts`: one job on several hosts. Most tests have a remote shell that stays on this host."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from host_namespaces import joined_hosts
from plait.cli.host_list import Host, hosts_of, meeting_place
from plait.cli.usage import UsageError
from ranks import TIMEOUT, cli, command, environment
from test_run import SLEEPERS, alive, pids_in, wait_until

hosts = pytest.fixture(scope="module")(lambda: (yield from joined_hosts(2)))


@pytest.fixture
def shell(tmp_path: Path) -> str:
    """A remote shell for any host but `gone`: as by ssh, a shell takes one line, with few variables."""
    file = tmp_path / "rsh"
    file.write_text('#!/bin/sh\n[ "$1" != gone ] || exit 255\nexec env -i HOME="$HOME" PATH="$PATH" sh -c "$2"\n')
    file.chmod(0o755)
    return str(file)


def run_on(shell: str, names: str, script: str, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", textwrap.dedent(script)]
    here = {"PLAIT_MASTER_ADDR": "127.0.0.1"} | variables
    return cli("run", "--hosts", names, "--rsh", shell, *options, "--", *program, **here)


def test_lists_of_hosts():
    assert hosts_of("a,b", 5) == [Host("a", 0, 2), Host("b", 2, 3)]
    assert hosts_of("me@a:1, [fe80::1]:4", None) == [Host("me@a", 0, 1), Host("fe80::1", 1, 4)]
    assert hosts_of("me@[fe80::1]:4", None) == [Host("me@fe80::1", 0, 4)]
    assert hosts_of("a:2,b:2", 4)[1].first == 2
    assert hosts_of("me@a:1", None)[0].address == "a"


@pytest.mark.parametrize(
    ("text", "ranks", "message"),
    [
        ("a,,b", 2, "write names with commas between"),
        ("a:x", None, "write names with commas between"),
        ("a,a", 2, "a twice"),
        ("a:2,b", None, "for each host how many ranks"),
        ("a:0,b:1", None, "for each host how many ranks"),
        ("a:2,b:2", 3, "has 4 ranks, but -n is 3"),
        ("a,b", None, "write -n 2"),
        ("a,b", 1, "need 2 ranks or more"),
        ("-oProxyCommand=x", 1, "write names with commas between"),
    ],
)
def test_lists_that_are_none(text, ranks, message):
    with pytest.raises(UsageError, match=message):
        hosts_of(text, ranks)


def test_where_ranks_meet():
    assert meeting_place(hosts_of("me@node0,node1", 2)) == "node0"
    assert meeting_place(hosts_of("localhost,127.0.0.1", 2)) == "localhost"
    assert meeting_place(hosts_of("localhost,node1", 2)) == os.uname().nodename


def test_one_job_on_all_hosts(shell):
    script = """
        import os, numpy, plait
        comm = plait.init()
        total = comm.all_reduce(numpy.full(1000, comm.rank + 1.0))
        assert os.environ["LOCAL_RANK"] == os.environ["PLAIT_LOCAL_RANK"]
        print(comm.rank, comm.size, os.environ["LOCAL_RANK"], os.environ["LOCAL_WORLD_SIZE"], total[-1],
              *map(os.environ.get, ("NCCL_DEBUG", "MINE", "OTHER", "SECRET_OF_SHELL")))
        """
    given = {"NCCL_DEBUG": "WARN", "MINE": "1", "SECRET_OF_SHELL": "no"}
    done = run_on(shell, "here:2,there:1", script, "-x", "MINE", "-x", "OTHER=a b", **given)
    assert done.returncode == 0, done.stderr
    ranks = ((0, 0, 2), (1, 1, 2), (2, 0, 1))
    wanted = [f"{rank} 3 {local} {of_host} 6.0 WARN 1 a b None" for rank, local, of_host in ranks]
    assert sorted(done.stdout.splitlines()) == wanted


def test_this_host_needs_no_shell():
    done = run_on(
        "/nonexistent", "localhost,127.0.0.1", "import os; print(os.environ['PLAIT_RANK'])", "-n", "4", "--tag"
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[{rank}] {rank}" for rank in range(4)]


def test_the_secret_stands_in_no_list_of_processes(shell):
    script = """
        import os, pathlib
        secret = os.environ["PLAIT_JOB"].encode()
        assert len(secret) >= 32
        for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                assert secret not in file.read_bytes(), file
            except (FileNotFoundError, ProcessLookupError):
                pass
        """
    done = run_on(shell, "here:1,there:1", script)
    assert done.returncode == 0, done.stderr


def test_a_failure_ends_all_hosts(shell):
    script = """
        import os, sys, time
        if os.environ["PLAIT_RANK"] == "2":
            sys.exit(3)
        time.sleep(300)
        """
    done = run_on(shell, "here:2,there:1", script, "--grace", "0.5")
    assert done.returncode == 3, done.stderr
    assert "rank 2 (process" in done.stderr and "host there (process" in done.stderr


def test_a_host_that_no_shell_reaches(shell):
    done = run_on(shell, "here,gone", "import time; time.sleep(300)", "-n", "2", "--grace", "0.5")
    assert done.returncode == 255
    assert "host gone (process" in done.stderr and f"try `{shell} gone true`" in done.stderr


def test_the_remote_shell_is_blamed_for_other_hosts_only(shell):
    done = run_on(shell, "localhost:1", "import sys; sys.exit(255)")
    assert done.returncode == 255
    assert "host localhost (process" in done.stderr and shell not in done.stderr


def test_a_place_to_meet_may_be_passed_on(shell):
    done = run_on(shell, "here:1", "import os; print(os.environ['PLAIT_MASTER_ADDR'])", "-x", "PLAIT_MASTER_ADDR=there")
    assert done.stdout == "there\n", done.stderr


def test_stopped_ranks_of_a_host_are_named_by_their_numbers(shell):
    script = """
        import os, signal, sys, time
        if os.environ["PLAIT_RANK"] == "1":
            time.sleep(0.5)
            sys.exit(4)
        os.kill(os.getpid(), signal.SIGSTOP)
        """
    done = run_on(shell, "here:1,there:3", script)
    assert done.returncode == 4, done.stderr
    assert "the ranks that are left are stopped; ending rank 2, rank 3 with" in done.stderr


def test_a_folder_that_is_missing_there(tmp_path):
    order = {"host": "there", "folder": str(tmp_path / "lost")}
    done = subprocess.run(
        [sys.executable, "-m", "plait.cli.host_part"],
        input=json.dumps(order) + "\n",
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 127
    assert f"host there: folder {tmp_path / 'lost'}: No such file or directory; start where" in done.stderr


def start_sleepers(folder: Path, shell: str, *options: str) -> subprocess.Popen[str]:
    folder.mkdir()
    hosts = ("--hosts", "here:1,there:1", "--rsh", shell)
    arguments = command("run", *hosts, *options, "--", *SLEEPERS, folder)
    return subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, env=environment())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_come_to_all_hosts(shell, tmp_path, number):
    job = start_sleepers(tmp_path / "ids", shell)
    pids = pids_in(tmp_path / "ids", 4)
    job.send_signal(number)
    assert job.wait(TIMEOUT) == 128 + number, job.stderr.read()
    wait_until(lambda: not any(map(alive, pids)), "ranks were left")


def test_timeout_on_hosts(shell, tmp_path):
    job = start_sleepers(tmp_path / "ids", shell, "--timeout", "3")
    assert job.wait(TIMEOUT) == 124, job.stderr.read()
    pids = [int(file.read_text() or 0) for file in (tmp_path / "ids").iterdir()]  # none if the machine is that busy
    wait_until(lambda: not any(map(alive, pids)), "ranks were left")


def test_nothing_survives_a_killed_launcher_of_hosts(shell, tmp_path):
    job = start_sleepers(tmp_path / "ids", shell)
    pids = pids_in(tmp_path / "ids", 4)
    job.kill()
    job.wait(TIMEOUT)
    wait_until(lambda: not any(map(alive, pids)), "ranks were left")


def test_nobody_waits_for_a_shell_that_does_not_listen(tmp_path):
    """The order is longer than a pipe holds, and the shell never reads it."""
    listening = tmp_path / "rsh"
    listening.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/ids/$1\nexec sleep 300\n")
    listening.chmod(0o755)
    (tmp_path / "ids").mkdir()
    arguments = command("run", "--hosts", "a:1,b:1", "--rsh", str(listening), "--grace", "0.1", "--", "true")
    long = {f"PLAIT_LONG_{i}": "x" * 100_000 for i in range(3)}
    job = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, env=environment(**long))
    pids = pids_in(tmp_path / "ids", 2)
    job.send_signal(signal.SIGINT)
    _, errors = job.communicate(timeout=TIMEOUT)
    assert job.returncode == 137 and "host a, host b: no answer" in errors, errors
    assert not any(map(alive, pids))


def test_signals_are_heard_where_nobody_reads(shell, tmp_path):
    """The ranks' output stands still; their last words and their status do not."""
    script = f"""
        import os, pathlib, signal, threading
        def end(*_):
            pathlib.Path("{tmp_path}/heard").write_text("yes")
            os._exit(7)
        signal.signal(signal.SIGINT, end)
        os.set_blocking(1, False)
        full = 0
        while full < 20:
            try:
                os.write(1, b"line\\n" * 800)
                full = 0
            except BlockingIOError:
                full += 1
                threading.Event().wait(0.05)
        pathlib.Path("{tmp_path}/full").write_text("yes")
        while True:
            signal.pause()
        """
    program = [sys.executable, "-c", textwrap.dedent(script)]
    arguments = command("run", "--hosts", "here:1", "--rsh", shell, "--", *program)
    job = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    wait_until((tmp_path / "full").exists, "the output never stood still")
    job.send_signal(signal.SIGINT)
    wait_until((tmp_path / "heard").exists, "no signal came to the rank")
    assert job.wait(TIMEOUT) == 7
    job.communicate()


def test_nothing_survives_where_the_output_is_closed(shell, tmp_path):
    """Not even for a moment: `plait run` waits for hosts to end what ignores SIGTERM, and daemons."""
    (tmp_path / "ids").mkdir()
    daemon = "setsid sleep 300 >&- 2>&- & echo $! > $0/daemon"
    script = f"trap '' TERM; {daemon}; echo $$ > $0/rank; while echo; do sleep 0.1; done"
    arguments = command("run", "--hosts", "here:1", "--rsh", shell, "--", "sh", "-c", script, tmp_path / "ids")
    job = subprocess.Popen(arguments, stdout=subprocess.PIPE, env=environment())
    pids = pids_in(tmp_path / "ids", 2)
    job.stdout.close()
    assert job.wait(TIMEOUT) == 141
    assert not any(map(alive, pids))


def test_too_few_open_files_for_hosts(shell):
    names = ",".join(f"host{i}" for i in range(20))
    run = shlex.join(map(str, command("run", "--hosts", names, "-n", 20, "--rsh", shell, "--", "true")))
    done = subprocess.run(
        ["sh", "-c", f"ulimit -n 64; exec {run}"], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "cannot start 20 remote shells" in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--hosts", "a", "-n", "2", "--nodes", "2"), "leave it out beside --hosts"),
        (("--hosts", "a", "-n", "2", "--rsh", ""), "--rsh is empty"),
        (("--hosts", "a,b"), "write -n 2"),
        (("--hosts", "a:1", "-x", "=1"), "-x has no name"),
        (("--hosts", "a:1", "-x", "PLAIT_NO_SUCH"), "-x PLAIT_NO_SUCH: there is no such variable"),
        (("-n", "2", "-x", "PATH"), "name these with --hosts"),
        (("-n", "2", "--rsh", "ssh"), "name these with --hosts"),
    ],
)
def test_usage_of_hosts(arguments, message):
    done = cli("run", *arguments, "--", "true")
    assert done.returncode == 2 and message in done.stderr


def test_hosts_of_their_own(hosts, tmp_path):
    """Over a network: each host is a namespace, and the remote shell enters it."""
    shell = tmp_path / "rsh"
    cases = "".join(
        f'{hosts.address(host)}) set -- {" ".join(hosts.command(host, ["sh", "-c"])[:4])} sh -c "$2" ;;\n'
        for host in hosts.all()
    )
    shell.write_text(f'#!/bin/sh\ncase "$1" in\n{cases}esac\nexec "$@"\n')
    shell.chmod(0o755)
    script = """
        import numpy, plait
        with plait.init() as comm:
            print(comm.rank, comm.all_reduce(numpy.ones(100_000))[0], len(comm.groups))
        """
    names = ",".join(hosts.address(host) for host in hosts.all())
    program = [sys.executable, "-c", textwrap.dedent(script)]
    done = cli("run", "-n", 4, "--hosts", names, "--rsh", str(shell), "--", *program, UCX_TLS="tcp,self")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"{rank} 4.0 2" for rank in range(4)]
