"""A process group's part on GPUs: a communicator for each, made by the first call that needs it, and messages."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.distributed import Store

from .. import _core
from ..communicator import Communicator
from ..errors import Error
from .device_calls import DeviceCalls, TorchStreams, check_not_capturing
from .device_messages import DeviceMessages
from .group_watch import GroupFailure, GroupWatch
from .rendezvous import meet_on_gpus


class Gpus:
    """One rank's GPUs: as a rule one."""

    def __init__(
        self,
        store: Store,
        rank: int,
        size: int,
        settings: _core.Settings,
        watch: GroupWatch,
        note: Callable[[Error], Error],
        cuda: Any = TorchStreams,
    ) -> None:
        """`note`: says of an error what its ranks are, and keeps it, since it ends the group."""
        self._store, self._rank, self._size, self._settings = store, rank, size, settings
        self._watch, self._note, self._cuda = watch, note, cuda
        self._making = threading.Lock()
        self.calls: dict[int, DeviceCalls] = {}  # by the GPU's number
        self.messages = DeviceMessages(store, rank, settings, watch, cuda)

    def calls_on(self, gpu: int, what: str) -> DeviceCalls:
        """The calls on a GPU. The first time, all ranks of the group meet for them."""
        return self.calls.get(gpu) or self._make(gpu, what)

    def finish(self) -> None:
        """Returns when all GPUs are done with the collectives that were made so far."""
        for calls in list(self.calls.values()):
            calls.finish()

    def abort(self, reason: str) -> None:
        """Ends the collectives of all ranks."""
        for calls in list(self.calls.values()):
            calls.communicator.abort(reason)

    def close(self, reason: str, seconds: float, seconds_for_messages: float) -> Error | None:
        """Leaves when everything is done; what is not after so many seconds ends with `reason`.

        Gives a failure of a message that nobody was told of.
        """
        unseen = self.messages.close(reason, seconds_for_messages)
        for calls in self.calls.values():
            calls.close(reason, seconds)
        return unseen

    def _make(self, gpu: int, what: str) -> DeviceCalls:
        with self._making:
            if gpu not in self.calls:
                check_not_capturing(what, self._cuda)
                try:
                    communicator = self._meet(gpu)
                except GroupFailure as failure:
                    raise self._note(failure.reason) from None
                except Error as error:
                    raise self._note(error) from None
                device = torch.device("cuda", gpu)
                self.calls[gpu] = DeviceCalls(communicator, device, self._note, self._cuda)
            return self.calls[gpu]

    def _meet(self, gpu: int) -> Communicator:
        number = len(self.calls)
        return meet_on_gpus(self._store, self._rank, self._size, self._settings, gpu, number, self._watch.check_all)
