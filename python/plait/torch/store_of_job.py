"""The store of a job whose launcher gives torch.distributed none: under `plait run`, mpirun and srun.

torch.distributed takes its store from MASTER_ADDR and MASTER_PORT, where whoever started the ranks set these, RANK and
WORLD_SIZE. Where one is missing, ranks meet as in plait.init(), and rank 0 tells the others where its store listens. So
nobody has to find a free port before rank 0 has it, and variables that are left over count for nothing.
"""

from __future__ import annotations

import itertools
import os
import socket
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import torch.distributed as dist

from .. import _core
from ..communicator import Communicator, init
from ..errors import Error, InvalidInput
from .settings import settings_with

SCHEME = "plait"
_LOOPBACK = "127.0.0.1"
_PORT = struct.Struct("<H")
# Communicators of a job are numbered, from 0 for programs of their own: these are far from them.
_numbers = itertools.count(1 << 32)

Place = tuple[dist.Store, int, int]  # with rank and number of ranks, as torch.distributed wants it
Handler = Callable[..., Iterator[Place]]


def register() -> None:
    """Has torch.distributed find stores here: for `plait://`, and where `env://`, its default, would find none."""
    dist.register_rendezvous_handler(SCHEME, rendezvous)
    # There is no function to replace one that is registered.
    handlers = getattr(sys.modules["torch.distributed.rendezvous"], "_rendezvous_handlers", {})
    if "env" in handlers:
        handlers["env"] = _unless_complete(handlers["env"])


def _unless_complete(by_variables: Handler) -> Handler:
    """`env://` as it was where PyTorch finds its variables, or where no launcher that Plait knows says the same."""

    def meet(url: str, timeout: timedelta = dist.default_pg_timeout, **more: Any) -> Iterator[Place]:
        given = _given(url)
        launched = None if _is_complete(given) else _core.launch_environment()
        if launched is None or not _says_the_same(given, launched):
            return by_variables(url, timeout=timeout, **more)
        return rendezvous(url, timeout=timeout, **more)

    return meet


def _given(url: str) -> dict[str, str]:
    """The rank and the size that the program itself says: init_process_group(rank=, world_size=)."""
    return {name: values[-1] for name, values in parse_qs(urlsplit(url).query).items()}


def _is_complete(given: Mapping[str, str]) -> bool:
    """Whether PyTorch finds what it wants in the environment."""
    wanted = {"MASTER_ADDR", "MASTER_PORT", *({"RANK", "WORLD_SIZE"} - {name.upper() for name in given})}
    return all(os.environ.get(name) for name in wanted)


def _says_the_same(given: Mapping[str, str], launched: _core.LaunchEnvironment) -> bool:
    found = {"rank": launched.rank, "world_size": launched.size}
    return all(given.get(name, str(value)) == str(value) for name, value in found.items())


def rendezvous(url: str, timeout: timedelta = dist.default_pg_timeout, **_: Any) -> Iterator[Place]:
    """Gives the store, the rank and the number of ranks once, as torch.distributed asks its handlers to.

    Raises InvalidInput where no launcher started this process, Timeout where ranks do not come within `timeout`.
    """
    launched = _core.launch_environment()
    if launched is None:
        raise InvalidInput(
            f"{SCHEME}://: no launcher that Plait knows started this process; write "
            f"`plait run -n 2 -- python program.py`"
        )
    if not _says_the_same(_given(url), launched):
        raise InvalidInput(
            f"{SCHEME}://: {launched.launcher} says that this process is rank {launched.rank} of {launched.size}; "
            f"leave out rank= and world_size="
        )
    with init(settings_with(None, timeout), sequence=next(_numbers)) as communicator:
        store = _store(communicator, launched.master, timeout)
        communicator.barrier()  # tells of ranks that died, for which PyTorch would wait
    yield store, launched.rank, launched.size
    raise Error(f"{SCHEME}://: ranks meet once; the store cannot be made again")


def _store(communicator: Communicator, master: str, timeout: timedelta) -> dist.Store:
    """`master`: the host of rank 0; empty where all ranks are on one, and nobody else needs to reach the store."""
    listener = None
    port = bytearray(_PORT.size)
    if communicator.rank == 0:
        listener = _listen_everywhere() if master else _listen(_LOOPBACK, socket.AF_INET)
        _PORT.pack_into(port, 0, listener.getsockname()[1])
    communicator.broadcast(port, 0, out=port)
    return dist.TCPStore(
        _LOOPBACK if communicator.rank == 0 or not master else master,
        _PORT.unpack(port)[0],
        communicator.size,
        is_master=communicator.rank == 0,
        timeout=timeout,
        wait_for_workers=False,
        master_listen_fd=None if listener is None else listener.detach(),
    )


def _listen_everywhere() -> socket.socket:
    """At all addresses of this host, as rank 0 does for Plait itself."""
    try:
        return _listen("::", socket.AF_INET6)
    except OSError:  # no IPv6 here
        return _listen("0.0.0.0", socket.AF_INET)


def _listen(address: str, family: socket.AddressFamily) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((address, 0))
        listener.listen(socket.SOMAXCONN)
    except OSError:
        listener.close()
        raise
    return listener
