"""How the ranks of a process group meet: by the store that torch.distributed gives to all of them."""

from __future__ import annotations

import ipaddress
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from torch.distributed import HashStore, PrefixStore, Store, TCPStore

from .. import _core
from ..communicator import Communicator
from ..errors import PeerFailed, Timeout

Check = Callable[[], None]

_ID = "plait/id"
_FIRST_PAUSE = 0.0005  # s
_LONGEST_PAUSE = 0.05


def meet(
    store: Store, rank: int, size: int, settings: _core.Settings, check: Check = lambda: None
) -> tuple[Communicator, str]:
    """Makes the communicator of all ranks that share the store; gives also the text of its id.

    Nothing of it stays in the store, so that a group can be made again with the same one. What check() raises ends the
    wait for the other ranks.
    """
    id = _share_id(store, _ID, rank, size, settings, "rank 0 of the process group did not come", check)
    communicator = new_communicator(id, rank, size, settings, check)
    _forget_id(store, _ID, communicator)
    return communicator, str(id)


def meet_on_gpus(
    store: Store, rank: int, size: int, settings: _core.Settings, gpu: int, number: int, check: Check
) -> Communicator:
    """Makes a communicator of the same ranks on GPUs; this rank's is `gpu`.

    `number` tells those of a group apart: 0, 1, 2, … on every rank. `check`: as for meet().
    """
    name = f"gpu/id/{number}"
    try:
        id = _share_id(store, name, rank, size, settings, "rank 0 of the process group made no such call", check)
        communicator = new_communicator(id, rank, size, settings, check, gpu)
    except Timeout as error:
        raise Timeout(
            f"all ranks meet at the first call with a tensor on a GPU: {error}; in a call all ranks pass tensors on "
            f"GPUs, or all in host memory"
        ) from None
    _forget_id(store, name, communicator)
    return communicator


def share_id_of_two(
    store: Store, name: str, end: int, settings: _core.Settings, what: str, check: Check
) -> _core.UniqueId:
    """The id of a communicator of two, when both have called this with the same name.

    `end`: this one's rank there. Raises Timeout with the words `what`, and what check() raises while the other is not
    there.
    """
    check()
    id = new_id(store) if end == 0 else None
    set_key(store, f"{name}/{end}", str(id) if id else "")
    other = f"{name}/{1 - end}"
    await_key(store, other, settings.timeout_seconds, what, check)
    return id or _core.UniqueId.parse(store.get(other).decode())


def new_id(store: Store) -> _core.UniqueId:
    """An id for the ranks that share the store. Those of other hosts can reach it, unless there are none for sure."""
    return _core.create_unique_id(for_hosts=not _all_here(store))


def _all_here(store: Store) -> bool:
    """Whether all ranks are on this host, as far as their launcher, or the place of the store, says."""
    size = os.environ.get("PLAIT_WORLD_SIZE") or os.environ.get("WORLD_SIZE")
    of_this_host = os.environ.get("LOCAL_WORLD_SIZE")
    if os.environ.get("PLAIT_MASTER_ADDR"):
        return False
    if size and of_this_host:
        return of_this_host == size
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    if isinstance(store, HashStore):
        return True
    places = [os.environ.get("MASTER_ADDR"), store.host if isinstance(store, TCPStore) else None]
    return any(places) and all(map(_leads_to_this_host, filter(None, places)))


def _leads_to_this_host(place: str) -> bool:
    if place == "localhost":
        return True
    try:
        return ipaddress.ip_address(place).is_loopback
    except ValueError:  # a name
        return False


def new_communicator(
    id: _core.UniqueId, rank: int, size: int, settings: _core.Settings, check: Check, gpu: int | None = None
) -> Communicator:
    """Makes one. What check() raises ends the wait for the other ranks; it is not called later."""
    checks = [check]

    def check_until_made() -> None:  # which the communicator keeps
        for it in checks:
            it()

    device = -1 if gpu is None else gpu
    core = _core.Communicator.create(id, rank, size, settings, device, check_until_made)
    checks.clear()
    return Communicator._of(core)


def _share_id(
    store: Store, name: str, rank: int, size: int, settings: _core.Settings, what: str, check: Check
) -> _core.UniqueId:
    """The id that rank 0 makes. `what`: the words of the error if it does not come."""
    if rank == 0:
        id = new_id(store)
        if size > 1:
            set_key(store, name, str(id))
        return id
    await_key(store, name, settings.bootstrap_timeout_seconds, what, check)
    return _core.UniqueId.parse(store.get(name).decode())


def _forget_id(store: Store, name: str, communicator: Communicator) -> None:
    """Takes the id out of the store again; returns when it is gone for all ranks."""
    if communicator.rank == 0 and communicator.size > 1:
        store.delete_key(name)
    communicator.barrier()


def await_key(store: Store, key: str, seconds: float, what: str, check: Check) -> None:
    """Returns when the key is in the store. Raises Timeout with the words `what`, and what check() raises meanwhile."""
    end = time.monotonic() + seconds
    pause = _FIRST_PAUSE
    check()  # before a store is asked that may be gone
    while not has_key(store, key):
        check()
        if time.monotonic() > end:
            raise Timeout(f"{what} within {seconds:g} s; see whether its process runs and makes the same calls")
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def await_all(store: Store, keys: Sequence[str], seconds: float, check: Callable[[Sequence[int]], None]) -> list[int]:
    """Returns when all keys are in the store, or after so many seconds; gives the numbers of those that are not.

    What check() raises of these ends the wait.
    """
    end = time.monotonic() + seconds
    pause = _FIRST_PAUSE
    missing = list(range(len(keys)))
    while missing := [number for number in missing if not has_key(store, keys[number])]:
        check(missing)
        if time.monotonic() > end:
            break
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    return missing


def has_key(store: Store, key: str) -> bool:
    """Whether the key is there. Raises PeerFailed where the store itself is gone."""
    return _ask(store.check, [key])


def set_key(store: Store, key: str, value: str) -> None:
    """Puts the key there. Raises PeerFailed where the store itself is gone."""
    _ask(store.set, key, value)


def _ask(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except RuntimeError as error:  # torch.distributed.DistNetworkError, where its process ended
        raise PeerFailed(
            f"the store of the job is gone, perhaps with the process of the job's rank 0: {error}"
        ) from error
