"""What all commands have in common, and `plait settings`."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import termios
from contextlib import suppress
from pathlib import Path

import plait
import pytest
from plait import _core
from plait.cli import main, make_parser, topo
from ranks import TIMEOUT, cli, command, environment

COMMANDS = [
    "topo",
    "plan",
    "search",
    "verify",
    "simulate",
    "calibrate",
    "training",
    "paper",
    "run",
    "bench",
    "tune",
    "info",
    "doctor",
    "settings",
    "completion",
]


def status_of(*arguments) -> int:
    try:
        return main(list(arguments))
    except SystemExit as exit:
        return exit.code


@pytest.mark.parametrize("name", COMMANDS)
def test_help(name, capsys):
    assert status_of(name, "--help") == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: plait {name}")
    assert text.count("exit status: 0") == 1
    assert "--traceback" not in text


def test_help_lists_all_commands(capsys):
    assert status_of() == 0
    text = capsys.readouterr().out
    listed = [line.split()[0] for line in text.splitlines() if line.startswith("    ") and line[4:5].isalpha()]
    assert listed == COMMANDS


def test_the_page_has_every_command_and_every_option_of_bench():
    docs = Path(__file__).resolve().parents[2] / "docs"
    text = (docs / "command_line.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `plait (\w+)` \| ", text, re.MULTILINE) == [*COMMANDS, "run"]  # whose statuses are its own
    parser = make_parser()._subparsers._group_actions[0].choices["bench"]
    short = {flag for action in parser._actions for flag in action.option_strings if re.fullmatch("-[^-h]", flag)}
    text = (docs / "command_line/nccl_tests.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"(?<=[` ])-[a-zA-Z](?=[` ])", text))
    assert short <= documented


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("plait p", "plan paper"),
        ("plait ", " ".join(COMMANDS)),
        ("plait plan --mach", "--machine"),
        ("plait plan --machine dgx1", "dgx1-p100 dgx1-v100"),
        ("plait plan all_reduce --algorithm hierarchical_r", "hierarchical_ring"),
        ("plait plan all_", "all_reduce all_gather all_to_all"),
        ("plait bench --datatype bf", "bfloat16"),
        ("plait bench --rank-", ""),
        ("plait bench all_reduce -d bfl", "bfloat16"),
        ("plait bench all_reduce --rank", "--ranks"),
        ("plait verify pla", ""),
    ],
)
def test_completion_in_bash(line, words):
    script = cli("completion", "bash").stdout
    before = line.split(" ")
    simulation = f"{script}\nCOMP_WORDS=({' '.join(map(shlex.quote, before))}) COMP_CWORD={len(before) - 1}\n_plait\n"
    result = subprocess.run(
        ["bash", "-u", "-c", simulation + 'echo "${COMPREPLY[*]}"'], capture_output=True, text=True, check=True
    )
    assert (result.stdout.strip(), result.stderr) == (words, "")


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_completion_in_zsh(tmp_path):
    script = shlex.join(command("completion", "zsh"))
    (tmp_path / ".zshrc").write_text(
        f"""PS1=; eval "$({script})"; plait() {{ print -r -- "<$*>" }}\n""", encoding="utf-8"
    )
    # A shell that a terminal talks to, since only such a one completes.
    program = r"""
        zmodload zsh/zpty
        zpty shell zsh -o no_global_rcs -i
        zpty -n -w shell $'plait plan --machine dgx1-v\t --expl\t\n'
        zpty -r -m shell answer '*<*>*'
        print -r -- $answer
    """
    result = subprocess.run(
        ["zsh", "-f", "-c", program],
        capture_output=True,
        text=True,
        env=environment(ZDOTDIR=str(tmp_path)),
        timeout=TIMEOUT,
        check=True,
    )
    assert "<plan --machine dgx1-v100 --explain>" in result.stdout


def test_version(capsys):
    for arguments in (["--version"], ["topo", "--version"]):
        assert status_of(*arguments) == 0
        assert capsys.readouterr().out == f"plait {plait.__version__}\n"


def test_unknown_command(capsys):
    assert status_of("topology") == 2
    assert "plait: error: " in capsys.readouterr().err


@pytest.mark.parametrize("name", ["topo", "plan", "bench", "settings"])
def test_unknown_arguments_show_the_usage_of_their_command(name, capsys):
    arguments = [name, "all_reduce"] if name in ("plan", "bench") else [name]
    assert status_of(*arguments, "--what", "ever") == 2
    assert capsys.readouterr().err == (
        f"plait: error: there is no option --what\nplait: `plait {name} --help` says what there is\n"
    )


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ["tpoo"],
            f"command 'tpoo' is none of: {', '.join(COMMANDS)}; did you mean 'topo'?",
        ),
        (
            ["frobnicate"],
            f"command 'frobnicate' is none of: {', '.join(COMMANDS)}",
        ),
        (["--verison"], "there is no option --verison; did you mean '--version'?"),
        (["plan", "--formt", "svg", "all_reduce"], "there is no option --formt; did you mean '--format'?"),
        (["plan", "all_reduce", "--formt=svg"], "there is no option --formt; did you mean '--format'?"),
        (["plan", "--list", "more"], "argument COLLECTIVE: collective 'more' is none of: "),
        (["plan", "all_reduce", "more", "and"], "unrecognized arguments: more and"),
        (["plan", "all_reduce", "-x"], "there is no option -x"),
        (["plan", "all_reduce", "--format", "svgs"], "; did you mean 'svg'?"),
        (["run", "-n", "1", "--grase", "3", "--", "true"], "there is no option --grase; did you mean '--grace'?"),
        (["bench", "alltoal", "-n", "1"], "; did you mean 'all_to_all'?"),
        (["bench", "all_reduce", "-n", "1", "-d", "float33"], "; did you mean 'float32'?"),
        (["bench", "all_reduce", "-n", "1", "-o", "mulsun"], "; did you mean 'mulsum'?"),
        (["bench", "all_reduce", "-n", "1", "--vs", "glooo"], "--vs 'glooo' is none of: mpi, gloo, nccl; did you mean"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_slips_are_guessed_in_one_line_and_a_hint(arguments, error, capsys):
    assert status_of(*arguments) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("plait: error: ") and error in first
    assert ("did you mean" in first) == ("did you mean" in error)
    assert second.startswith("plait: `plait ") and second.endswith(" --help` says what there is")


def test_options_of_the_program_to_run_are_its_own():
    assert cli("run", "-n", 1, "--", "echo", "--formt", "--grace").stdout == "--formt --grace\n"
    assert cli("run", "-n", 1, "echo", "--formt").stdout == "--formt\n"


def test_module_and_its_exit_status():
    result = cli("topo", "--machine", "nowhere")
    assert result.returncode == 2
    assert result.stdout == "" and result.stderr.startswith("plait: error: ") and len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["topo", "--machine", "nowhere"], 2),
        (["topo", "--machine", "./no.json"], 2),
        (["topo", "--machine", "/"], 2),
        (["topo", "--gpus", "x"], 2),
        (["plan", "all_reduce", "--machine", "nowhere"], 2),
        (["plan", "all_reduce", "--machine", "summit", "--algorithm", "rong"], 2),
        (["plan", "all_reduced", "--machine", "summit"], 2),
        (["plan", "broadcast", "--machine", "summit", "--root", "6"], 2),
        (["plan", "all_reduce", "--machine", "summit", "-o", "/no/such/folder/plan"], 2),
        (["plan", "all_reduce", "--machine", "summit", "--format", "text", "-o", "/dev/full"], 1),
        (["verify", "/no/such/plan"], 2),
        (["verify", "/"], 2),
        (["verify", "/dev/null"], 2),
        (["run", "-n", "1", "--", "sh", "-c", "exit 7"], 7),
        (["run", "-n", "1", "--", "/no/such/program"], 127),
        (["run", "-n", "0", "--", "true"], 2),
        (["run", "-n", "1"], 2),
        (["bench", "all_reduce"], 2),
        (["bench", "all_reduce", "-n", "1", "-d", "float33"], 2),
        (["bench", "all_reduce", "-n", "1", "--json", "/no/such/folder/x"], 2),
        (["settings", "more"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_exit_statuses_are_the_same_in_all_commands(arguments, status, capsys):
    assert status_of(*arguments) == status
    words = capsys.readouterr()
    assert status == 7 or "plait: error: " in words.err
    assert words.out == ""


@pytest.mark.parametrize("command", ["settings", "plan all_reduce --machine summit", "bench barrier -n 1"])
def test_a_variable_that_cannot_be_used_is_wrong_usage(command, monkeypatch, capsys):
    monkeypatch.setenv("PLAIT_ALGORITHM" if command.startswith("plan") else "PLAIT_WAIT", "nap")
    assert status_of(*command.split()) == 2


def test_settings_table(capsys, monkeypatch):
    monkeypatch.setenv("PLAIT_TIMEOUT_SEC", "7")
    assert status_of("settings") == 0
    lines = capsys.readouterr().out.splitlines()
    names = [row.name for row in _core.settings_table(plait.Settings())]
    assert [line.split()[0].rstrip("*") for line in lines[::2]] == names
    timeout = next(line for line in lines if line.startswith("PLAIT_TIMEOUT_SEC"))
    assert timeout.split() == ["PLAIT_TIMEOUT_SEC", "*", "7"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["settings"],
        ["plan", "--list"],
        ["plan", "all_reduce", "--machine", "summit", "--algorithm", "ring", "--explain"],
    ],
)
def test_sentences_wrap_at_the_width_of_the_terminal(arguments):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 72, 0, 0))
    process = subprocess.Popen(command(*arguments), stdout=theirs, env=environment(COLUMNS=""))
    os.close(theirs)
    text = b""
    with suppress(OSError):  # EIO, at its end
        while part := os.read(ours, 4096):
            text += part
    assert process.wait(TIMEOUT) == 0
    lines = text.decode().splitlines()
    explained = lines.index("") if "" in lines else len(lines)  # tables after it stay as they are
    assert max(map(len, lines[:explained])) <= 72
    piped = cli(*arguments).stdout
    assert max(map(len, piped.splitlines())) > 72
    assert " ".join("\n".join(lines).split()) == " ".join(piped.split())


def test_settings_json(capsys, monkeypatch):
    monkeypatch.setenv("PLAIT_TIMEOUT_SEC", "7")
    assert status_of("settings", "--json") == 0
    table = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert table["PLAIT_TIMEOUT_SEC"]["value"] == "7" and table["PLAIT_TIMEOUT_SEC"]["default"] == "600"
    assert table["PLAIT_RANK"]["value"] is None
    assert all(row.keys() == {"name", "value", "default", "expected", "meaning"} for row in table.values())


def test_bad_setting_is_an_error_in_words(capsys, monkeypatch):
    monkeypatch.setenv("PLAIT_WAIT", "nap")
    assert status_of("settings") == 2
    assert 'plait: error: environment variable PLAIT_WAIT is "nap"' in capsys.readouterr().err


def test_closed_output_is_quiet():
    process = subprocess.Popen(
        command("plan", "all_reduce", "--machine", "dgx2", "--algorithm", "ring"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    process.stdout.close()
    assert process.wait(TIMEOUT) == 141
    assert process.stderr.read() == b""


PRINTING = [["topo", "--list"], ["topo", "--help"], ["--version"], ["settings"], ["bench", "barrier", "-n", "1"]]
PRINTING += [["plan", "all_reduce", "--machine", "dgx2"], ["run", "-n", "2", "--", "seq", "9999"]]


def in_shell(arguments, redirection: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", f'"$@" {redirection}', "sh", *command(*arguments)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        env=environment(),
        check=False,
    )


@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
@pytest.mark.parametrize(
    ("redirection", "words"),
    [
        ("> /dev/full", "cannot be written: No space left on device"),
        (">&-", "is closed"),
    ],
)
def test_output_that_takes_nothing(arguments, redirection, words):
    result = in_shell(arguments, redirection)
    assert result.returncode == 1
    assert result.stderr.startswith(f"plait: error: standard output {words}") and len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
def test_output_that_nobody_reads(arguments):
    process = subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    process.stdout.close()
    assert (process.wait(TIMEOUT), process.stderr.read()) == (141, b"")


@pytest.mark.parametrize("redirection", ["2> /dev/full", "2>&-"])
def test_errors_that_cannot_be_told(redirection):
    assert in_shell(["topo", "--list"], redirection).returncode == 0
    result = in_shell(["topo", "--machine", "nowhere"], redirection)
    assert (result.returncode, result.stdout) == (2, "")
    result = in_shell(["plan", "all_reduce", "--machine", "dgx2", "--format", "json"], redirection)
    assert result.returncode == 0 and result.stdout.startswith("{")


def test_output_without_all_characters():
    result = cli("topo", "--nodes", "4\xe9", PYTHONIOENCODING="ascii")
    assert result.returncode == 2 and r"'4\xe9' is not a whole number" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["topo", "--machine", "?"],
        ["topo", "--machine", "./?"],
        ["verify", "?"],
        ["plan", "?"],
        ["plan", "all_reduce", "--machine", "dgx2", "--algorithm", "?"],
        ["bench", "all_reduce", "-n", "1", "-d", "?"],
        ["bench", "all_reduce", "-n", "1", "-o", "?"],
        ["run", "-n", "1", "--", "?"],
    ],
    ids=" ".join,
)
def test_arguments_that_are_no_utf_8(arguments):
    result = cli(*(argument.replace("?", "\udcff") for argument in arguments), PYTHONUTF8="1")
    assert result.returncode in (1, 2, 127)
    assert "plait: error: " in result.stderr and r"\xff" in result.stderr and "defect" not in result.stderr


def test_settings_that_are_no_utf_8():
    for name in ("PLAIT_WAIT", "PLAIT_SHM_DIR"):
        result = cli("settings", **{name: "\udcff"})
        assert result.returncode == 2
        assert f'environment variable {name} is "\\xff"' in result.stderr
    result = cli("settings", PLAIT_SHM_DIR="/\udcff")
    assert result.returncode == 0 and r"/\xff" in result.stdout


HUGE = "9" * 30


@pytest.mark.parametrize("number", ["2147483648", HUGE, "9" * 5000])
@pytest.mark.parametrize(
    "arguments",
    [
        ["topo", "--nodes"],
        ["topo", "--gpus"],
        ["plan", "all_reduce", "--pipeline"],
        ["plan", "all_reduce", "--factors"],
        ["plan", "all_reduce", "--ranks"],
        ["plan", "all_reduce", "--root"],
        ["bench", "all_reduce", "-n", "1", "--iters"],
        ["bench", "all_reduce", "-n", "1", "-w"],
        ["bench", "all_reduce", "-n", "1", "--cycles"],
        ["bench", "all_reduce", "-n", "1", "-e"],
        ["run", "-n"],
    ],
    ids=" ".join,
)
def test_huge_numbers(arguments, number, capsys):
    if arguments[-1] == "-e" and number == "2147483648":
        number = HUGE
    assert status_of(*arguments, number) == 2
    words = capsys.readouterr().err
    assert "plait: error: argument " in words and "defect" not in words and len(words) < 1500


def test_huge_plans(capsys):
    assert status_of("plan", "all_reduce", "--machine", "dgx2", "--ranks", "2147483647") == 2
    assert (
        capsys.readouterr().err
        == "plait: error: a plan has at most 16384 ranks, not 2147483647; use fewer nodes, or --ranks N\n"
    )


def test_too_little_memory_is_no_defect(capsys, monkeypatch):
    def exhaust(*_):
        raise MemoryError("std::bad_alloc")

    monkeypatch.setattr(topo.topology, "machine_names", exhaust)
    assert status_of("topo", "--list") == 1
    assert capsys.readouterr().err.startswith("plait: error: not enough memory for what was asked")


def test_interrupt_is_quiet(capsys, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(topo.topology, "machine_names", interrupt)
    assert status_of("topo", "--list") == 130
    assert capsys.readouterr().err == ""


def test_defects_are_reported_without_a_traceback(capsys, monkeypatch):
    def defect(*_):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(topo.topology, "machine_names", defect)
    assert status_of("topo", "--list") == 1
    assert capsys.readouterr().err == (
        "plait: error: a defect of plait (ZeroDivisionError: oh); --traceback shows where\n"
    )
    for arguments in (["--traceback", "topo", "--list"], ["topo", "--list", "--traceback"]):
        with pytest.raises(ZeroDivisionError):
            main(arguments)


ESCAPE = "\x1b[31m"


@pytest.mark.parametrize("name", [f"b{ESCAPE}\x9b.json", f"./{ESCAPE}\r", f"dgx{ESCAPE}"])
@pytest.mark.parametrize(
    "command", ["topo --machine", "plan all_reduce --machine", "verify", "bench all_reduce -n 1 -d"]
)
def test_control_characters_do_not_reach_the_terminal(command, name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"b{ESCAPE}\x9b.json").write_text("{")
    assert status_of(*command.split(), name) in (1, 2)
    words = capsys.readouterr()
    assert words.out == ""
    assert r"\x1b[31m" in words.err and not set("\x1b\x9b\r") & set(words.err)


def test_control_characters_in_wrong_options_and_programs(capsys):
    assert status_of(f"topo{ESCAPE}") == 2
    assert status_of("topo", "--nodes", ESCAPE) == 2
    assert status_of("run", "-n", "1", "--", ESCAPE) == 127
    words = capsys.readouterr().err
    assert words.count(r"\x1b[31m") == 3 and "\x1b" not in words


def test_control_characters_in_files(tmp_path, capsys):
    machine = plait.topology.machine("dgx1-v100").to_json().replace('"dgx1-v100"', r'"a\u001b[31m"')
    plan = plait.plans.for_machine(plait.topology.machine("dgx1-v100"), "all_reduce").plan.to_json()
    plan = plan.replace('"algorithm": "', '"algorithm": "two\\nlines')
    for name, text, *arguments in (("m.json", machine, "topo", "--machine"), ("p.json", plan, "verify")):
        (tmp_path / name).write_text(text)
        assert status_of(*arguments, str(tmp_path / name)) == 2
        words = capsys.readouterr()
        assert "expected a name without control characters" in words.err and "\x1b" not in words.err + words.out
    source = plait.topology.machine("dgx1-v100").to_json().replace('"source": "', r'"source": "\u001b[31m\u009b')
    (tmp_path / f"{ESCAPE}.json").write_text(source)
    assert status_of("topo", "--machine", str(tmp_path / f"{ESCAPE}.json")) == 0
    words = capsys.readouterr().out
    assert r"\x1b[31m\x9b" in words and not set("\x1b\x9b") & set(words)
