"""How the ranks of a process group meet: by the store that torch.distributed gives to all of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from torch.distributed import Store

from .. import _core
from ..communicator import Communicator
from ..errors import PeerFailed, Timeout

_ID = "plait/id"
_FIRST_PAUSE = 0.0005  # s
_LONGEST_PAUSE = 0.05


def meet(store: Store, rank: int, size: int, settings: _core.Settings) -> tuple[Communicator, str]:
    """Makes the communicator of all ranks that share the store; gives also the text of its id.

    Nothing of it stays in the store, so that a group can be made again with the same one.
    """
    id = _share_id(store, _ID, rank, size, settings, "rank 0 of the process group did not come")
    communicator = Communicator(id, rank, size, settings)
    _forget_id(store, _ID, communicator)
    return communicator, str(id)


def meet_on_gpus(store: Store, rank: int, size: int, settings: _core.Settings, gpu: int, number: int) -> Communicator:
    """Makes a communicator of the same ranks on GPUs; this rank's is `gpu`.

    `number` tells those of a group apart: 0, 1, 2, … on every rank.
    """
    name = f"gpu/id/{number}"
    try:
        id = _share_id(store, name, rank, size, settings, "rank 0 of the process group made no such call")
        communicator = Communicator(id, rank, size, settings, device=gpu)
    except Timeout as error:
        raise Timeout(
            f"all ranks meet at the first call with a tensor on a GPU: {error}; in a call all ranks pass tensors on "
            f"GPUs, or all in host memory"
        ) from None
    _forget_id(store, name, communicator)
    return communicator


def new_id() -> _core.UniqueId:
    """An id that ranks of other hosts can reach, too, where a launcher says that there are any."""
    size = os.environ.get("PLAIT_WORLD_SIZE") or os.environ.get("WORLD_SIZE")
    of_this_host = os.environ.get("LOCAL_WORLD_SIZE", size)
    return _core.create_unique_id(for_hosts=of_this_host != size or bool(os.environ.get("PLAIT_MASTER_ADDR")))


def _share_id(store: Store, name: str, rank: int, size: int, settings: _core.Settings, what: str) -> _core.UniqueId:
    """The id that rank 0 makes. `what`: the words of the error if it does not come."""
    if rank == 0:
        id = new_id()
        if size > 1:
            store.set(name, str(id))
        return id
    await_key(store, name, settings.bootstrap_timeout_seconds, what)
    return _core.UniqueId.parse(store.get(name).decode())


def _forget_id(store: Store, name: str, communicator: Communicator) -> None:
    """Takes the id out of the store again; returns when it is gone for all ranks."""
    if communicator.rank == 0 and communicator.size > 1:
        store.delete_key(name)
    communicator.barrier()


def await_key(store: Store, key: str, seconds: float, what: str, is_over: Callable[[], bool] = lambda: False) -> None:
    """Returns when the key is in the store. Raises Timeout with the words `what`, and PeerFailed if is_over()."""
    end = time.monotonic() + seconds
    pause = _FIRST_PAUSE
    while not has_key(store, key):
        if is_over():
            raise PeerFailed(f"{what} before the process group ended here")
        if time.monotonic() > end:
            raise Timeout(f"{what} within {seconds:g} s; see whether its process runs and makes the same calls")
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def await_all(store: Store, keys: Sequence[str], seconds: float) -> list[int]:
    """Returns when all keys are in the store, or after so many seconds; gives the numbers of those that are not."""
    end = time.monotonic() + seconds
    pause = _FIRST_PAUSE
    missing = list(range(len(keys)))
    while missing := [number for number in missing if not has_key(store, keys[number])]:
        if time.monotonic() > end:
            break
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    return missing


def has_key(store: Store, key: str) -> bool:
    """Whether the key is there. Raises PeerFailed where the store itself is gone."""
    try:
        return store.check([key])
    except RuntimeError as error:  # torch.distributed.DistNetworkError, where its process ended
        raise PeerFailed(
            f"the store of the process group is gone, perhaps with the process of rank 0: {error}"
        ) from error
