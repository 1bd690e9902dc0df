"""`plait run`: starts ranks on this host, or on several."""

from __future__ import annotations

import argparse
import os
import shlex
from typing import Any

from . import drop_in, screen, usage

# Asks for nothing, for what it starts may not read from the terminal. A host that is gone ends after 45 s.
_SSH = "ssh -o BatchMode=yes -o ConnectTimeout=30 -o ServerAliveInterval=15"

_DESCRIPTION = """\
Starts N times COMMAND, each with PLAIT_RANK, PLAIT_WORLD_SIZE, PLAIT_LOCAL_RANK and PLAIT_JOB in its environment, from
which `plait.init()` makes a communicator. Variables by which another launcher tells a process its rank and their number
(mpirun, srun, RANK and WORLD_SIZE, ...) are taken out: they are not about these ranks. LOCAL_RANK and LOCAL_WORLD_SIZE
are set, too, for programs of PyTorch; `import plait.torch` gives these the rest. Passes on their output line by
line, and the signals that it gets itself.
When a rank fails, the others get a grace time, in which they find out and say what happened, and are then ended.
Where all of them are stopped (SIGSTOP), they get none. Nothing that was started outlives `plait run`: what ranks leave
behind is ended too. Only where SIGKILL ends `plait run` itself, processes that made a session or group of their own may
stay.
With --hosts ranks start on other hosts, too, by ssh, in the same folder and with the Python at the same place. They get
the variables of Plait, NCCL and UCX, and those that -x names. No rank gets the input of `plait run` then.
With --nccl the program's calls of NCCL come to Plait, which passes them on. Without -n `plait run` then becomes
COMMAND, which may be a launcher itself: plait run --nccl -- torchrun --nproc-per-node 2 train.py"""

_EPILOG = """\
exit status: 0 when all ranks ended with 0; else that of the first rank that failed (128 + its number for a signal);
124 after --timeout; 127 when COMMAND cannot be started; with "plait: error: ...", 1 when `plait run` itself fails, and
2 when an argument or a variable cannot be used

examples: plait run -n 4 -- python train.py
          plait run -n 4 --nodes 2 -- python train.py
          plait run -n 8 --hosts node0,node1 -x PATH -- python train.py"""


def add_parser(commands: argparse._SubParsersAction) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "run",
        help="start N ranks of a program, on this host or on several",
        usage="plait run [-n N] [--nodes M | --hosts LIST [--rsh SHELL] [-x NAME]...] [--nccl]\n"
        "                 [--timeout S] [--grace S] [--tag] -- COMMAND...",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument("-n", "-np", "--ranks", type=usage.positive, metavar="N", help="number of ranks")
    parser.add_argument(
        "--nodes",
        type=usage.positive,
        default=1,
        metavar="M",
        help="take this host for M nodes, with the network between them (each rank gets a PLAIT_HOST_ID)",
    )
    parser.add_argument("--hosts", metavar="LIST", help="start them on these hosts: node0,node1, or node0:4,node1:2")
    parser.add_argument(
        "--rsh", metavar="SHELL", help=f"the remote shell; the host and a command follow (default {_SSH})"
    )
    parser.add_argument(
        "-x", action="append", default=[], metavar="NAME", help="pass this variable on to other hosts; or NAME=VALUE"
    )
    parser.add_argument(
        "--nccl", action="store_true", help="have Plait stand in for NCCL, however the program finds NCCL"
    )
    # Its name when there were two forms.
    parser.add_argument("--nccl-by-name", dest="nccl", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--timeout", type=usage.seconds, metavar="S", help="end the job after S seconds")
    parser.add_argument(
        "--grace", type=usage.seconds, default=10.0, metavar="S", help="grace time, in seconds (default 10)"
    )
    parser.add_argument("--tag", action="store_true", help="begin each line of output with the rank: [0] ...")
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="COMMAND", help="the program and its arguments")
    parser.set_defaults(run=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    program = options.program[1:] if options.program[:1] == ["--"] else options.program
    if not program:
        raise usage.UsageError("run: what to run is missing; write `plait run -n 4 -- COMMAND`")
    variables = drop_in.environment(os.environ) if options.nccl else None
    if options.hosts is not None:
        return _run_on_hosts(program, variables, options)
    if options.rsh is not None or options.x:
        raise usage.UsageError("run: --rsh and -x are for other hosts; name these with --hosts")
    if options.ranks is None:
        return _become(program, variables, options)
    if options.nodes > options.ranks:
        raise usage.UsageError(f"run: {options.nodes} nodes need {options.nodes} ranks or more; -n is {options.ranks}")
    from .launcher import Job

    return Job(program, options.ranks, nodes=options.nodes, environment=variables, **_limits(options)).run()


def _limits(options: argparse.Namespace) -> dict[str, Any]:
    return {"timeout": options.timeout, "grace": options.grace, "tag": options.tag}


def _run_on_hosts(program: list[str], variables: dict[str, str] | None, options: argparse.Namespace) -> int:
    from .host_list import hosts_of
    from .hosts_job import HostsJob

    if options.nodes > 1:
        raise usage.UsageError("run: --nodes makes several hosts of this one; leave it out beside --hosts")
    hosts, shell = hosts_of(options.hosts, options.ranks), shlex.split(_SSH if options.rsh is None else options.rsh)
    if not shell:
        raise usage.UsageError("run: --rsh is empty; write a command, such as --rsh 'ssh -p 2222'")
    return HostsJob(program, hosts, shell=shell, environment=variables, export=options.x, **_limits(options)).run()


def _become(program: list[str], variables: dict[str, str] | None, options: argparse.Namespace) -> int:
    """Without -n: the program itself, with all that another launcher said to it."""
    if variables is None:
        raise usage.UsageError("run: -n is missing; write `plait run -n 4 -- COMMAND`")
    if options.timeout is not None or options.tag or options.nodes > 1:
        raise usage.UsageError(
            "run: --nodes, --timeout and --tag are for ranks that `plait run` starts; say how many with -n"
        )
    from .launcher import EXIT_CANNOT_START

    try:
        os.execvpe(program[0], program, variables)
    except OSError as error:
        screen.complain(f"error: cannot start '{program[0]}': {error.strerror}")
        return EXIT_CANNOT_START
