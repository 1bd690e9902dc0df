"""Starts the ranks of a job on this host and looks after them until the last has ended.

Ranks and whatever they start are one process group. Its leader is a guard: a process that does nothing but wait for
the launcher to end, in any way, and then kills the group. The kernel does the same for the ranks themselves
(PR_SET_PDEATHSIG), should somebody kill the guard too. What has left the group comes to the launcher when its parent
ends, and is ended last (orphans.py).
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import select
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from .. import _core
from ..errors import Error
from .orphans import Orphans
from .screen import complain, output_errors

EXIT_TIMEOUT = 124
EXIT_CANNOT_START = 127

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_PR_SET_PDEATHSIG = 1
_SECONDS_TO_DIE = 5.0  # between SIGTERM and SIGKILL, at most
_SECONDS_TO_DRAIN = 1.0  # for output that a process outside the group still holds back
_SECONDS_BETWEEN_LOOKS = 0.1  # while nobody takes the output
_LONGEST_LINE = 1 << 16
_NAMED = 8  # of those that are ended, at most
_FILES_BESIDE = 8  # the launcher's own, and those that are open only while a rank is started
_HINTS = {
    errno.EMFILE: "; raise the limit of open files (ulimit -n)",
    errno.EAGAIN: "; raise the limit of processes (ulimit -u), or start fewer ranks",
    errno.ENOMEM: "; free some memory, or start fewer ranks",
}


def _hint_for(program: str, error: OSError) -> str:
    """What to do about a program that cannot be started."""
    if program.endswith(".py") and os.path.isfile(program):
        return f"; write `python {program}`"
    return _HINTS.get(error.errno, "")


class Process(NamedTuple):
    """What a job starts: a rank, or what starts the ranks of another host."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    stdin: int | None  # as for Popen
    label: bytes = b""  # of each line of its output


class Job:
    """`size` times `command` with the variables of a launcher. run() may be called once, from the main thread.

    This host stands in for `nodes` of them, with equally many ranks as far as that goes, the first ones on the first.
    """

    _started = "ranks"
    _files_each = 2  # output and errors

    def __init__(
        self,
        command: Sequence[str],
        size: int,
        *,
        nodes: int = 1,
        environment: Mapping[str, str] | None = None,
        timeout: float | None = None,
        grace: float = 10.0,
        tag: bool = False,
    ) -> None:
        _check_open_files(size, self._started, self._files_each)
        self._command = list(command)
        self._names: list[str] = []
        self._size = size
        self._nodes = nodes
        self._environment = without_launchers(os.environ if environment is None else environment)
        self._timeout = timeout
        self._grace = grace
        self._tag = tag
        self._orphans = Orphans()
        self._guard = _Guard()
        self._ranks: list[subprocess.Popen[bytes]] = []
        self._ended: set[int] = set()
        self._status = 0
        self._stop = _Stop(min(grace, _SECONDS_TO_DIE))
        self._selector = selectors.DefaultSelector()
        self._signals: _Signals | None = None
        self._last_words: float | None = None  # when to give up writing what ranks wrote

    def run(self) -> int:
        """Starts the ranks, waits for all of them, and returns the job's exit status."""
        self._signals = signals = _Signals(self._selector)
        try:
            if self._start():
                if self._timeout is not None:
                    self._stop.after(self._timeout, f"the job ran for more than {self._timeout:g} s", EXIT_TIMEOUT)
                self._look_after(signals)
            self._end_all()
            self._drain()
        finally:
            self._end_all()
            self._orphans.restore()
            signals.restore()
            self._selector.close()
        return self._status or self._stop.status

    def _processes(self) -> Iterator[Process]:
        job = new_job()
        for rank in range(self._size):
            # A group in the background must not read from the terminal.
            stdin = None if rank == 0 and not os.isatty(0) else subprocess.DEVNULL
            node = {"PLAIT_HOST_ID": f"node{rank * self._nodes // self._size}"} if self._nodes > 1 else {}
            yield self._rank(rank, self._size, rank, {"PLAIT_JOB": job} | node, stdin)

    def _rank(self, rank: int, size: int, local: int, more: Mapping[str, str], stdin: int | None) -> Process:
        variables = {"PLAIT_RANK": str(rank), "PLAIT_WORLD_SIZE": str(size), "PLAIT_LOCAL_RANK": str(local), **more}
        # Programs written for torchrun choose their GPU by these. RANK and WORLD_SIZE stay away: with a MASTER_ADDR and
        # a MASTER_PORT that are left over, torch.distributed would take the store of another job.
        variables |= {"LOCAL_RANK": str(local), "LOCAL_WORLD_SIZE": str(self._size)}
        label = b"[%d] " % rank if self._tag else b""
        return Process(f"rank {rank}", self._command, self._environment | variables, stdin, label)

    def _start(self) -> bool:
        prepare = _preparation(self._guard.group)
        for it in self._processes():
            try:
                process = subprocess.Popen(
                    it.command,
                    env=it.environment,
                    stdin=it.stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    preexec_fn=prepare,
                )
            except OSError as error:
                hint = _hint_for(it.command[0], error)
                complain(f"error: cannot start '{it.command[0]}': {error.strerror}{hint}")
                self._status = EXIT_CANNOT_START
                return False
            self._ranks.append(process)
            self._names.append(it.name)
            for pipe, target in ((process.stdout, 1), (process.stderr, 2)):
                os.set_blocking(pipe.fileno(), False)
                lines = _Lines(pipe.fileno(), target, it.label, self._may_write)
                self._selector.register(pipe, selectors.EVENT_READ, lines)
        return True

    def _look_after(self, signals: _Signals) -> None:
        while True:
            # Before every wait, since their signal may have come at any time.
            self._reap()
            if len(self._ended) == self._size:
                return
            self._give_up_on_stopped()
            self._stop_if_due()
            for key, _ in self._selector.select(self._stop.seconds_left()):
                if key.data is signals:
                    self._pass_on_signals()
                else:
                    self._pump(key)

    def _pass_on_signals(self) -> None:
        self._orphans.reap({self._guard.group, *(rank.pid for rank in self._ranks if rank.returncode is None)})
        for number in self._signals.take():
            self._pass_on(number)

    def _pass_on(self, number: int) -> None:
        self._stop.after(self._grace, f"ranks did not end on {signal.Signals(number).name}")
        self._stop.expected = True
        self._send(number)

    def _stop_if_due(self) -> None:
        number = self._stop.due(self._left_text)
        if number is not None:
            self._send(number)
            self._send(signal.SIGCONT)  # what is stopped hears nothing else
        # Once the ranks were ended, a reader has a last while for what they wrote, and no more.
        ended = self._stop.expected and all(rank.poll() is not None for rank in self._ranks)
        if (number == signal.SIGKILL or ended) and self._last_words is None:
            self._last_words = time.monotonic() + _SECONDS_TO_DRAIN

    def _may_write(self, target: int) -> bool:
        """Waits until `target` takes more, and does what signals and time demand meanwhile. False: the time is over."""
        while not select.select([], [target], [], _SECONDS_BETWEEN_LOOKS)[1]:
            self._pass_on_signals()
            self._stop_if_due()
            if self._last_words is not None and time.monotonic() >= self._last_words:
                return False
        return True

    def _reap(self) -> None:
        ended = [rank for rank in range(self._size) if rank not in self._ended and self._ranks[rank].poll() is not None]
        self._ended.update(ended)
        failed = [rank for rank in ended if self._ranks[rank].returncode != 0]
        if not failed or self._status != 0:
            return
        # Several may have ended since the last look. One that a signal ended came first: the others may have noticed.
        first = min(failed, key=lambda rank: self._ranks[rank].returncode > 0)
        code = self._ranks[first].returncode
        self._status = self._stop.status or (code if code > 0 else 128 - code)
        if self._stop.expected:
            return
        how = f"ended with status {code}" if code > 0 else f"was ended by {_signal_name(-code)}"
        others = self._size - len(self._ended)
        wait = f"; the others have {self._grace:g} s to end" if others else ""
        complain(f"{self._names[first]} (process {self._ranks[first].pid}) {how}{self._hint(first, code)}{wait}")
        self._stop.after(self._grace, "ranks did not end after one failed")

    def _hint(self, number: int, code: int) -> str:
        """What to do about the process of that number, which ended so; begins with the sign before it."""
        return ""

    def _give_up_on_stopped(self) -> None:
        """Ends the job if a rank has failed and a signal has stopped all others: those never end by themselves."""
        if self._status == 0 or self._stop.expected:
            return
        left = [rank for rank in range(self._size) if rank not in self._ended]
        if all(_is_stopped(self._ranks[rank].pid) for rank in left):
            self._stop.after(0, "the ranks that are left are stopped")

    def _left_text(self) -> str:
        """rank 1, rank 3; a few of many."""
        names = [name for number, name in enumerate(self._names) if number not in self._ended]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return ", ".join(names[:_NAMED]) + more or "them"

    def _send(self, number: int) -> None:
        """To the group, and to ranks that have left it."""
        # Who is stopped hears SIGTERM only when it goes on.
        for each in (number, signal.SIGCONT) if number == signal.SIGTERM else (number,):
            with suppress(ProcessLookupError):
                os.killpg(self._guard.group, each)
            for rank in self._ranks:
                if rank.poll() is None and os.getpgid(rank.pid) != self._guard.group:
                    rank.send_signal(each)

    def _end_all(self) -> None:
        """May be repeated."""
        if self._guard.reaped:
            return
        self._send(signal.SIGKILL)
        self._guard.reap()
        for rank in self._ranks:
            rank.wait()
        self._orphans.end(min(self._grace, _SECONDS_TO_DIE), self._signals.wait)

    def _pump(self, key: selectors.SelectorKey) -> None:
        if not key.data.pump():
            self._selector.unregister(key.fileobj)
            key.fileobj.close()

    def _drain(self) -> None:
        """Passes on what ranks wrote before they ended. Gives up after a while: a stray process may keep pipes open."""
        end = time.monotonic() + _SECONDS_TO_DRAIN
        # Where somebody reads, however slowly, nothing is lost; a job that was ended does not wait for readers.
        if self._stop.status or self._stop.expected:
            self._last_words = min(end, self._last_words or end)
        pipes = {pipe for rank in self._ranks for pipe in (rank.stdout, rank.stderr)}
        while (left := end - time.monotonic()) > 0 and any(not pipe.closed for pipe in pipes):
            for key, _ in self._selector.select(left):
                if key.fileobj in pipes:
                    self._pump(key)
        for key in self._selector.get_map().values():
            if key.fileobj in pipes:
                key.data.flush()


class _Stop:
    """When to end the ranks: SIGTERM at the earliest time that was set, SIGKILL a little later."""

    def __init__(self, seconds_to_die: float) -> None:
        self._seconds_to_die = seconds_to_die
        self.expected = False  # whether nobody wonders any more when ranks end
        self.status = 0  # of the job, where it was ended for a reason that has one
        self._at: float | None = None
        self._reason = ""
        self._status_of_reason = 0
        self._signal = signal.SIGTERM

    def after(self, delay: float, reason: str, status: int = 0) -> None:
        """Not before `delay` seconds from now, unless sooner already."""
        at = time.monotonic() + delay
        if self._at is None or at < self._at:
            self._at, self._reason, self._status_of_reason = at, reason, status

    def seconds_left(self) -> float | None:
        return None if self._at is None else max(0.0, self._at - time.monotonic())

    def due(self, who: Callable[[], str]) -> signal.Signals | None:
        """The signal to send now, if any. `who` names those who get it."""
        if self._at is None or time.monotonic() < self._at:
            return None
        now, self._signal = self._signal, signal.SIGKILL
        self._at = time.monotonic() + self._seconds_to_die
        if now == signal.SIGTERM:
            complain(f"{self._reason}; ending {who()} with SIGTERM, then SIGKILL")
            self.status = self._status_of_reason
            self.expected = True
        return now


class _Guard:
    """Leads the group of the ranks, and kills it when this process is gone."""

    def __init__(self) -> None:
        reader, self._writer = os.pipe()
        self.reaped = False
        self.group = os.fork()
        if self.group == 0:
            try:
                os.close(self._writer)
                self._watch(reader)
            finally:
                os._exit(0)
        os.close(reader)
        with suppress(OSError):  # the guard does so too: whoever comes first
            os.setpgid(self.group, self.group)

    @staticmethod
    def _watch(reader: int) -> None:
        os.setpgid(0, 0)
        for number in _FORWARDED:
            signal.signal(number, signal.SIG_IGN)  # meant for the ranks
        silence = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):  # whoever reads the launcher's output must not wait for the guard
            os.dup2(silence, descriptor)
        os.read(reader, 1)  # nothing is ever written: this ends with the launcher
        os.killpg(0, signal.SIGKILL)

    def reap(self) -> None:
        """After its group was killed, and the guard with it."""
        os.close(self._writer)
        os.waitpid(self.group, 0)
        self.reaped = True


class _Signals:
    """Turns signals of this process into bytes that a selector sees."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._reader, self._writer = os.pipe()
        for descriptor in (self._reader, self._writer):
            os.set_blocking(descriptor, False)
        self._selector = selector
        selector.register(self._reader, selectors.EVENT_READ, self)
        self._old_wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        heard = [number for number in _FORWARDED if not _is_ignored(number)] + [signal.SIGCHLD]
        self._old = {number: signal.signal(number, lambda *_: None) for number in heard}
        # The parent of this process may have blocked these signals.
        self._old_mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, heard)

    def take(self) -> list[int]:
        """The signals to pass on that came since the last call, in order."""
        with suppress(BlockingIOError):
            return [number for number in os.read(self._reader, 4096) if number in _FORWARDED]
        return []

    def wait(self, seconds: float) -> bool:
        """Until any signal comes, `seconds` at most. Whether one to pass on came."""
        select.select([self._reader], [], [], seconds)
        return bool(self.take())

    def restore(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._old_mask)
        for number, handler in self._old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_wakeup)
        self._selector.unregister(self._reader)
        os.close(self._reader)
        os.close(self._writer)


def new_job() -> str:
    """A text that nobody can guess, by which the ranks of a job know each other."""
    return os.urandom(16).hex()


def without_launchers(environment: Mapping[str, str]) -> dict[str, str]:
    """Without the variables of other launchers, which are about this process, not about its ranks."""
    foreign = set(_core.launcher_variables())
    return {name: value for name, value in environment.items() if name not in foreign}


def _is_ignored(number: signal.Signals) -> bool:
    """Whether nohup, or a shell that runs this in the background, had the signal ignored. Ranks shall ignore it too."""
    return number != signal.SIGTERM and signal.getsignal(number) == signal.SIG_IGN


class _Lines:
    """Passes on the output of one rank in whole lines, so that lines of several ranks do not mix."""

    def __init__(self, source: int, target: int, label: bytes, may_write: Callable[[int], bool]) -> None:
        self._source, self._target, self._label = source, target, label
        self._may_write = may_write
        self._rest = b""

    def pump(self) -> bool:
        """Reads what is there; False at the end of the output."""
        try:
            data = os.read(self._source, 1 << 16)
        except BlockingIOError:
            return True
        if not data:
            self.flush()
            return False
        self._rest += data
        # A carriage return ends the lines of progress bars.
        end = max(self._rest.rfind(b"\n"), self._rest.rfind(b"\r")) + 1
        if end == 0 and len(self._rest) >= _LONGEST_LINE:
            end = len(self._rest)
        self._write(self._rest[:end])
        self._rest = self._rest[end:]
        return True

    def flush(self) -> None:
        """The last line, which has no end."""
        if self._rest:
            self._write(self._rest + b"\n")
        self._rest = b""

    def _write(self, text: bytes) -> None:
        if self._label:
            text = b"".join(self._label + line for line in text.splitlines(keepends=True))
        while text and self._may_write(self._target):
            with suppress(BlockingIOError), output_errors("output" if self._target == 1 else "error"):
                # No more than a pipe that takes anything is sure to take at once.
                text = text[os.write(self._target, text[: select.PIPE_BUF]) :]


def _is_stopped(process: int) -> bool:
    """Whether a signal, not a debugger, has stopped the process."""
    try:
        with open(f"/proc/{process}/stat", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


def _check_open_files(size: int, what: str, each: int) -> None:
    """Better now than when half of the ranks have started."""
    with suppress(FileNotFoundError):
        needed = len(os.listdir("/proc/self/fd")) + each * size + _FILES_BESIDE
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if limit != resource.RLIM_INFINITY and needed > limit:
            raise Error(
                f"cannot start {size} {what}: their output takes {each} open files each, {needed} in all, and "
                f"this process may have {limit}; raise the limit (ulimit -n {needed}), or start fewer {what}"
            )


def _preparation(group: int):
    """Returns the function that a rank calls before it becomes the program."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl  # found before the fork
    launcher = os.getpid()

    def prepare() -> None:
        os.setpgid(0, group)
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != launcher:  # it ended before the kernel knew
            os._exit(1)

    return prepare


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # the real-time signals have no names of their own
        return f"signal {number}"
