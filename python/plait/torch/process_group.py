"""The process group that torch.distributed calls: c10d's collectives and messages, by a communicator of Plait.

Methods have c10d's names and arguments, which are lists of tensors although each call has one.
"""

from __future__ import annotations

import atexit
import os
import sys
import warnings
import weakref
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from .. import _core
from ..errors import Error, InvalidArgument, PeerFailed, Timeout
from . import calls
from .checks import Checks
from .compiling import not_compiled
from .failures import Failures
from .gpus import Gpus
from .group_watch import GroupFailure, GroupWatch
from .messages import Messages
from .operations import function_of_bits, is_of_bits, name_of, operation_of
from .rendezvous import await_all, meet, set_key
from .settings import settings_with
from .short_forms import long_form
from .sparse import all_reduce_sum, check_sum, is_sparse
from .tensors import HOST, check_alike, check_tensor, distinct, lies_as_is, place_of
from .work import CallQueue, DroppedWorks, Work, WorkOfMany, await_callbacks

Tensors = Sequence[torch.Tensor]

_SECONDS_AT_EXIT = 5.0
_NO_TIME = timedelta()
_groups: weakref.WeakSet = weakref.WeakSet()  # that were not destroyed yet


@not_compiled
class ProcessGroup(dist.ProcessGroup):
    """Ranks that torch.distributed calls by. Made by init_process_group("plait") and new_group().

    Tensors in host memory and on GPUs have a communicator each. That of GPUs is made by the first call that has such
    tensors. Calls of one kind are performed in the order in which they were made; messages go beside them. Errors are
    Plait's (plait.Mismatch, plait.PeerFailed, plait.Timeout), are raised by wait() and later calls, and end the group
    on all ranks.
    """

    def __init__(
        self,
        store: dist.Store,
        rank: int,
        size: int,
        timeout: timedelta,
        *,
        name: str = "",
        global_ranks: Sequence[int] = (),
        settings: _core.Settings | None = None,
    ) -> None:
        super().__init__(rank, size)
        self._store = store
        self._rank, self._size = rank, size
        self._name, self._description = name, ""
        self._global_ranks = list(global_ranks) or list(range(size))
        self._failures = Failures(name, global_ranks)
        self._check = Checks(rank, size)
        self._settings = settings_with(settings, timeout)
        self._timeout = timedelta(seconds=self._settings.timeout_seconds)
        try:
            self._communicator, token = meet(store, rank, size, self._settings, self._check_alive)
        except GroupFailure as failure:
            raise failure.reason from None
        except Error as error:
            raise self._death() or self._failures.explain(error) from None
        self._core = self._communicator._core
        self._queue = CallQueue(f"plait-{name}")
        self._dropped = DroppedWorks()
        self._own_store = dist.PrefixStore(f"plait/{token}/", store)  # no other group's keys
        self._watch = GroupWatch(self._core, self._failures)
        self._messages = Messages(self._own_store, rank, size, self._settings, self._watch)
        self._gpus = self._make_gpus()
        self._barriers = 0
        self._calls = 0
        self._coalesced: list[Work] | None = None
        self._is_left = False
        _groups.add(self)

    def _check_alive(self) -> None:
        death = self._death()
        if death is not None:
            raise GroupFailure(death)

    def _death(self) -> Error | None:
        """That of a rank of this group, as far as older ones know."""
        for group in list(_groups):
            for number, rank in enumerate(group._global_ranks):
                death = group._watch.death_of(number) if rank in self._global_ranks else None
                if death is not None:
                    words = f"process group {self._name} cannot be made: {death}"
                    return group._failures.explain(type(death)(words))
        return None

    def _make_gpus(self) -> Gpus:
        return Gpus(self._own_store, self._rank, self._size, self._settings, self._watch, self._failures.note)

    # --- What c10d asks of a group ---

    def getBackendName(self) -> str:  # as C++ calls it; name() and the like of Python come here, too
        return "plait"

    def getGroupName(self) -> str:
        return self._name

    def setGroupName(self, name: str) -> None:
        self._name = name

    def getGroupDesc(self) -> str:
        return self._description

    def setGroupDesc(self, description: str) -> None:
        self._description = description

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu"), torch.device("cuda")]

    @property
    def options(self) -> _core.Settings:
        """The settings of the communicator, as given by pg_options= and the environment."""
        return self._settings

    def get_group_store(self) -> dist.Store:
        return self._store

    def _get_backend(self, device: torch.device) -> ProcessGroup:
        if torch.device(device).type not in ("cpu", "cuda"):
            raise RuntimeError(
                f"the backend 'plait' has no calls for tensors on {device}; its tensors are in host memory or on GPUs "
                f"of CUDA"
            )
        return self

    # What a Backend says of itself.
    supports_splitting = supports_coalescing = True
    supports_shrinking = supports_time_estimate = False

    def supports_tensor_alloc(self, device: torch.device) -> bool:
        """Whether the group has memory to give out, as fully_shard asks; there is no need to, since it takes any."""
        return False

    def eager_connect_single_device(self, device: torch.device) -> None:
        """Makes the communicator of that GPU at once. init_process_group(device_id=...) asks for it."""
        self.bound_device_id = torch.device(device)
        self._gpus.calls_on(self.bound_device_id.index, "init_process_group")

    def perform_nocolor_split(self, device: torch.device) -> None:
        """Does nothing: a new group of other ranks needs nothing from this rank."""

    def split_group(
        self,
        ranks: Sequence[int],
        timeout: timedelta | None = None,
        opts: _core.Settings | None = None,
        group_name: str | None = None,
        group_desc: str | None = None,
        device_types: Sequence[torch.device] | None = None,
    ) -> ProcessGroup | None:
        """A group of some ranks of this one; None for the others. torch.distributed.split_group() calls it.

        `device_types` makes no difference: every group has calls for both kinds of memory.
        """
        if self._rank not in ranks:
            return None
        group = ProcessGroup(
            dist.PrefixStore(f"split/{group_name}/", self._own_store),
            list(ranks).index(self._rank),
            len(ranks),
            timeout or self._timeout,
            name=group_name or "",
            global_ranks=[self._global_ranks[rank] for rank in ranks],
            settings=self._settings if opts is None else opts,
        )
        group.setGroupDesc(group_desc or "undefined")
        return group

    def _set_default_timeout(self, timeout: timedelta) -> None:
        warnings.warn(
            f"a process group of the backend 'plait' keeps the time-out of {self._settings.timeout_seconds:g} s with "
            f"which it was made; pass timeout= there",
            stacklevel=2,
        )

    set_timeout = _set_default_timeout

    def _set_sequence_number_for_group(self) -> None:
        pass

    def _get_sequence_number_for_group(self) -> int:
        return self._calls

    def _start_coalescing(self, device: torch.device) -> None:
        self._coalesced = []

    def _end_coalescing(self, device: torch.device) -> c10d.Work:
        works, self._coalesced = self._coalesced or [], None
        return WorkOfMany(works)

    # --- Collectives ---

    def allreduce(self, tensors: Tensors, opts: Any = None, *more: Any, **named: Any) -> c10d.Work:
        if type(opts) is not c10d.AllreduceOptions or named:
            return self._by_long_form("allreduce", (tensors, opts, *more), named)
        return self._reduce_all("all_reduce", tensors, opts)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> c10d.Work:
        return self._reduce_all("all_reduce_coalesced", tensors, opts or c10d.AllreduceCoalescedOptions())

    def _reduce_all(self, what: str, tensors: Tensors, opts: Any) -> c10d.Work:
        if len(tensors) == 1:
            tensor = tensors[0]
            work = self._as_it_lies("all_reduce", tensors, tensor, tensor, name_of(opts.reduceOp), opts)
            if work is not None:
                return work
        if is_sparse(tensors):
            return self._reduce_all_sparse(what, tensors, opts)
        reductions: list[Callable[[Any], None]] = []
        for tensor in distinct(tensors):
            check_tensor(tensor, what, writes=True)
            reductions.append(self._reduction(what, tensor, opts))

        def perform(core: Any) -> None:
            for reduction in reductions:
                reduction(core)

        return self._submit(what, tensors, perform, opts, computes=is_of_bits(opts.reduceOp))

    def _reduction(self, what: str, tensor: torch.Tensor, opts: Any) -> Callable[[Any], None]:
        """What combines one tensor with those of the other ranks."""
        combine = function_of_bits(opts.reduceOp, tensor.dtype, what)
        if combine is not None:
            return lambda core: calls.all_reduce_bits(core, tensor, combine)
        operation = operation_of(opts.reduceOp, tensor.dtype, what)
        return lambda core: calls.all_reduce(core, tensor, operation)

    def _reduce_all_sparse(self, what: str, tensors: Tensors, opts: Any) -> c10d.Work:
        check_sum(opts.reduceOp, what)

        def perform(core: Any) -> None:
            for tensor in distinct(tensors):
                all_reduce_sum(core, tensor)

        return self._submit(f"{what} of sparse tensors", tensors, perform, opts)

    def reduce(self, tensors: Tensors, opts: Any = None, *more: Any, **named: Any) -> c10d.Work:
        if type(opts) is not c10d.ReduceOptions or named:
            return self._by_long_form("reduce", (tensors, opts, *more), named)
        tensor = self._check.one(tensors, "reduce")
        check_tensor(tensor, "reduce", writes=True)
        root = self._check.root(opts, "reduce")
        combine = function_of_bits(opts.reduceOp, tensor.dtype, "reduce")
        if combine is not None:
            perform = lambda core: calls.reduce_bits(core, tensor, combine, root)  # noqa: E731
            return self._submit("reduce", tensors, perform, opts, computes=True)
        operation = operation_of(opts.reduceOp, tensor.dtype, "reduce")
        return self._submit("reduce", tensors, lambda core: calls.reduce(core, tensor, operation, root), opts)

    def broadcast(self, tensors: Tensors, opts: Any = None, *more: Any, **named: Any) -> c10d.Work:
        if type(opts) is not c10d.BroadcastOptions or named:
            return self._by_long_form("broadcast", (tensors, opts, *more), named)
        root = self._check.root(opts, "broadcast")
        if len(tensors) == 1:
            work = self._as_it_lies("broadcast", tensors, tensors[0], tensors[0], "sum", opts, root)
            if work is not None:
                return work
        for tensor in tensors:
            check_tensor(tensor, "broadcast", writes=True)

        def perform(core: Any) -> None:
            for tensor in tensors:
                calls.broadcast(core, tensor, root)

        return self._submit("broadcast", tensors, perform, opts)

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None, **named: Any) -> c10d.Work:
        if type(opts) is not c10d.AllgatherOptions or named:
            return self._by_long_form("allgather", (outputs, inputs, opts), named)
        tensor, parts = self._check.one(inputs, "all_gather"), self._check.one(outputs, "all_gather")
        self._check.parts("all_gather", parts, tensor, writes=True)
        return self._submit(
            "all_gather", parts, lambda core: calls.all_gather(core, parts, tensor), opts, [tensor, *parts]
        )

    def allgather_coalesced(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> c10d.Work:
        """`outputs[r][i]` gets the i-th tensor of rank r."""
        what = "all_gather_coalesced"
        per_input = [list(parts) for parts in zip(*outputs, strict=True)]
        if len(per_input) != len(inputs):
            raise InvalidArgument(f"{what}: {len(inputs)} tensors, and lists of {len(per_input)} for their results")
        for parts, tensor in zip(per_input, inputs, strict=True):
            self._check.parts(what, parts, tensor, writes=True)

        def perform(core: Any) -> None:
            for parts, tensor in zip(per_input, inputs, strict=True):
                calls.all_gather(core, parts, tensor)

        filled = [part for parts in outputs for part in parts]
        return self._submit(what, filled, perform, opts, [*inputs, *filled])

    def _allgather_base(self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None) -> c10d.Work:
        return self._gather_all("all_gather_into_tensor", [output], [tensor], opts)

    def allgather_into_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> c10d.Work:
        return self._gather_all("all_gather_into_tensor_coalesced", outputs, inputs, opts)

    def _gather_all(self, what: str, outputs: Tensors, inputs: Tensors, opts: Any) -> c10d.Work:
        if len(outputs) == len(inputs) == 1:
            work = self._as_it_lies("all_gather", outputs, inputs[0], outputs[0], "sum", opts)
            if work is not None:
                return work
        for output, tensor in zip(outputs, inputs, strict=True):
            self._check.whole(what, output, tensor, whole=output, part=tensor)

        def perform(core: Any) -> None:
            for output, tensor in zip(outputs, inputs, strict=True):
                calls.all_gather_into(core, output, tensor)

        return self._submit(what, outputs, perform, opts, [*outputs, *inputs])

    def reduce_scatter(
        self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None, *more: Any, **named: Any
    ) -> c10d.Work:
        if type(opts) is not c10d.ReduceScatterOptions or named:
            return self._by_long_form("reduce_scatter", (outputs, inputs, opts, *more), named)
        output, parts = self._check.one(outputs, "reduce_scatter"), self._check.one(inputs, "reduce_scatter")
        self._check.parts("reduce_scatter", parts, output, writes=False)
        tensors = [output, *parts]
        combine = function_of_bits(opts.reduceOp, output.dtype, "reduce_scatter")
        if combine is not None:
            perform = lambda core: calls.reduce_scatter_bits(core, output, parts, combine)  # noqa: E731
            return self._submit("reduce_scatter", outputs, perform, opts, tensors, computes=True)
        operation = operation_of(opts.reduceOp, output.dtype, "reduce_scatter")
        perform = lambda core: calls.reduce_scatter(core, output, parts, operation)  # noqa: E731
        return self._submit("reduce_scatter", outputs, perform, opts, tensors)

    def _reduce_scatter_base(self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None) -> c10d.Work:
        return self._reduce_scatter_all("reduce_scatter_tensor", [output], [tensor], opts)

    def reduce_scatter_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> c10d.Work:
        return self._reduce_scatter_all("reduce_scatter_tensor_coalesced", outputs, inputs, opts)

    def _reduce_scatter_all(self, what: str, outputs: Tensors, inputs: Tensors, opts: Any) -> c10d.Work:
        opts = opts or dist.ReduceScatterOptions()
        if len(outputs) == len(inputs) == 1:
            work = self._as_it_lies("reduce_scatter", outputs, inputs[0], outputs[0], name_of(opts.reduceOp), opts)
            if work is not None:
                return work
        reductions: list[Callable[[Any], None]] = []
        for output, tensor in zip(outputs, inputs, strict=True):
            self._check.whole(what, output, tensor, whole=tensor, part=output)
            reductions.append(self._scattered_reduction(what, output, tensor, opts))

        def perform(core: Any) -> None:
            for reduction in reductions:
                reduction(core)

        return self._submit(what, outputs, perform, opts, [*outputs, *inputs], computes=is_of_bits(opts.reduceOp))

    def _scattered_reduction(
        self, what: str, output: torch.Tensor, tensor: torch.Tensor, opts: Any
    ) -> Callable[[Any], None]:
        """What gives this rank its part of one tensor, combined with those of the other ranks."""
        combine = function_of_bits(opts.reduceOp, output.dtype, what)
        if combine is not None:
            return lambda core: calls.reduce_scatter_bits_from(core, output, tensor, combine)
        operation = operation_of(opts.reduceOp, output.dtype, what)
        return lambda core: calls.reduce_scatter_from(core, output, tensor, operation)

    def gather(
        self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None, *more: Any, **named: Any
    ) -> c10d.Work:
        if type(opts) is not c10d.GatherOptions or named:
            return self._by_long_form("gather", (outputs, inputs, opts, *more), named)
        tensor, root = self._check.one(inputs, "gather"), self._check.root(opts, "gather")
        parts = self._check.parts_of_root("gather", outputs, tensor, root, writes=True)
        perform = lambda core: calls.gather(core, parts, tensor, root)  # noqa: E731
        return self._submit("gather", parts, perform, opts, [tensor, *parts])

    def scatter(
        self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None, *more: Any, **named: Any
    ) -> c10d.Work:
        if type(opts) is not c10d.ScatterOptions or named:
            return self._by_long_form("scatter", (outputs, inputs, opts, *more), named)
        output, root = self._check.one(outputs, "scatter"), self._check.root(opts, "scatter")
        parts = self._check.parts_of_root("scatter", inputs, output, root, writes=False)
        perform = lambda core: calls.scatter(core, output, parts, root)  # noqa: E731
        return self._submit("scatter", outputs, perform, opts, [output, *parts])

    def alltoall_base(
        self,
        output: torch.Tensor,
        tensor: torch.Tensor,
        output_splits: Sequence[int],
        input_splits: Sequence[int],
        opts: Any = None,
        **named: Any,
    ) -> c10d.Work:
        if type(opts) is not c10d.AllToAllOptions or named:
            return self._by_long_form("alltoall_base", (output, tensor, output_splits, input_splits, opts), named)
        what = "all_to_all_single"
        check_tensor(output, what, writes=True)
        check_tensor(tensor, what)
        check_alike(output, [tensor], what)
        if not output_splits and not input_splits:
            if output.numel() != tensor.numel() or tensor.numel() % self._size:
                raise InvalidArgument(
                    f"{what}: an input of {tensor.numel()} elements and an output of {output.numel()}; without sizes "
                    f"of parts they must be equal, and {self._size} ranks must divide them"
                )
            perform = lambda core: calls.all_to_all_single(core, output, tensor)  # noqa: E731
        else:
            output_rows = self._check.rows(what, "output", output, output_splits)
            input_rows = self._check.rows(what, "input", tensor, input_splits)
            perform = lambda core: calls.all_to_all_by_splits(core, output, tensor, output_rows, input_rows)  # noqa: E731
        return self._submit(what, [output], perform, opts, [output, tensor])

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None, **named: Any) -> c10d.Work:
        if type(opts) is not c10d.AllToAllOptions or named:
            return self._by_long_form("alltoall", (outputs, inputs, opts), named)
        for name, tensors in (("output", outputs), ("input", inputs)):
            if len(tensors) != self._size:
                raise InvalidArgument(f"all_to_all: {len(tensors)} {name} tensors, but {self._size} ranks")
            for tensor in tensors:
                check_tensor(tensor, "all_to_all", writes=name == "output")
            check_alike(inputs[0], tensors, "all_to_all")
        perform = lambda core: calls.all_to_all(core, outputs, inputs)  # noqa: E731
        return self._submit("all_to_all", outputs, perform, opts, [*outputs, *inputs])

    def barrier(self, opts: Any = None, **named: Any) -> c10d.Work:
        """Done when all ranks have called it, and this one's GPUs are done with earlier collectives of the group."""
        if type(opts) is not c10d.BarrierOptions or named:
            return self._by_long_form("barrier", (opts,), named)
        return self._submit("barrier", [], self._barrier, opts)

    def _barrier(self, core: _core.Communicator) -> None:
        self._gpus.finish()
        core.barrier()

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = True) -> None:
        """A barrier that names the ranks that did not come; plait.torch.monitored_barrier() calls it.

        `wait_all_ranks` makes no difference: all of them are named.
        """
        seconds = self._settings.timeout_seconds if timeout is None else timeout.total_seconds()
        name = f"barrier/{self._barriers}"
        keys = [f"{name}/{rank}" for rank in range(self._size)]
        try:
            set_key(self._own_store, keys[self._rank], "")
            missing = await_all(self._own_store, keys, seconds, self._watch.check_there)
        except GroupFailure as failure:
            raise self._watch.explain(failure.reason) from None
        except PeerFailed as error:  # the store is gone
            raise self._watch.explain(self._watch.death() or error) from None
        if missing:
            raise self._failures.explain(
                Timeout(
                    f"monitored_barrier: rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing))} of {self._size} "
                    f"did not come within {seconds:g} s"
                )
            )
        if self._barriers > 0:  # all have left that one
            self._own_store.delete_key(f"barrier/{self._barriers - 1}/{self._rank}")
        self._barriers += 1

    def gather_single(self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None) -> c10d.Work:
        """gather() into one tensor of the root, which has the tensors one after the other."""
        opts = opts or dist.GatherOptions()
        root = self._check.root(opts, "gather_single")
        if self._rank == root:
            self._check.whole("gather_single", output, tensor, whole=output, part=tensor)
        else:
            check_tensor(tensor, "gather_single")
        perform = lambda core: calls.gather_into(core, output, tensor, root)  # noqa: E731
        tensors = [tensor, output] if self._rank == root else [tensor]
        return self._submit("gather_single", [output], perform, opts, tensors)

    # PyTorch has these names for some of them from 2.14 on.
    all_gather_single, reduce_scatter_single, all_to_all_single = _allgather_base, _reduce_scatter_base, alltoall_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
    gather_into_tensor = gather_single
    start_coalescing, end_coalescing = _start_coalescing, _end_coalescing

    # --- Messages ---

    def send(self, tensors: Tensors, peer: int, tag: int = 0) -> c10d.Work:
        tensor = self._check.one(tensors, "send")
        check_tensor(tensor, "send")
        peer = self._check.peer(peer, "send")
        if tensor.is_cuda:
            return self._counted(self._gpus.messages.send(tensor, peer))
        return self._counted(self._messages.send(tensor, peer, tag))

    def recv(self, tensors: Tensors, peer: int, tag: int = 0) -> c10d.Work:
        tensor = self._check.one(tensors, "recv")
        check_tensor(tensor, "recv", writes=True)
        peer = self._check.peer(peer, "recv")
        if tensor.is_cuda:
            return self._counted(self._gpus.messages.receive(tensor, peer))
        return self._counted(self._messages.receive(tensor, peer, tag))

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> c10d.Work:
        tensor = self._check.one(tensors, "recv")
        check_tensor(tensor, "recv", writes=True)
        if self._size == 1:
            raise InvalidArgument("recv: there is no other rank in the group that could send")
        if tensor.is_cuda:
            raise InvalidArgument("recv: a tensor on a GPU is received from a rank that is named; pass src=")
        return self._counted(self._messages.receive_any(tensor, tag))

    # --- The end ---

    def shutdown(self) -> None:
        """Leaves, when all calls that were made are done. Part of destroy_process_group().

        Raises what has gone wrong on a GPU and was raised by no call yet.
        """
        if not self._is_left:
            unseen = self._leave(self._settings.timeout_seconds, f"rank {self._rank} destroyed the process group")
            if unseen is not None:
                raise unseen

    def abort(self) -> None:
        """Ends the calls of all ranks, those under way and later ones, with PeerFailed."""
        reason = f"rank {self._rank} aborted the process group"
        self._abort_collectives(reason)
        self._messages.close(reason, 0)
        self._gpus.messages.close(reason, 0)

    def _abort_collectives(self, reason: str) -> None:
        self._communicator.abort(reason)
        self._gpus.abort(reason)

    def _expire(self, error: Timeout) -> Error:
        """Ends the collectives of all ranks by the time-out of one call. Gives its error, which is told with that."""
        explained = self._failures.note(error)
        self._abort_collectives(str(error))
        return explained

    def _end_at_exit(self, words: str, is_failure: bool) -> None:
        reason = f"rank {self._rank}: {words}"
        if is_failure:
            self._failures.keep(Error(reason))
            self._abort_collectives(reason)
        unseen = self._leave(_SECONDS_AT_EXIT, reason)
        if unseen is not None:
            warnings.warn(f"process group 'plait': {unseen}", stacklevel=2)

    def _leave(self, seconds: float, reason: str) -> Error | None:
        """Gives a failure of a GPU that no call has raised."""
        self._is_left = True
        _groups.discard(self)
        if not self._queue.close(seconds):
            self._failures.keep(Error(reason))
            self._communicator.abort(reason)
            self._queue.close(_SECONDS_AT_EXIT)
        self._messages.close(reason, _SECONDS_AT_EXIT)
        was_known = self._failures.first is not None
        self._failures.keep(self._gpus.close(reason, seconds, _SECONDS_AT_EXIT))
        unseen = None if was_known else self._failures.first
        self._dropped.close()
        try:
            self._communicator.close()
        except Error as error:
            if self._failures.first is None:
                warnings.warn(f"process group 'plait': {self._failures.explain(error)}", stacklevel=3)
        return unseen

    # --- What the methods above have in common ---

    def _by_long_form(self, name: str, arguments: Sequence[Any], named: dict[str, Any]) -> c10d.Work:
        """The same call with the arguments that torch.distributed gives."""
        return getattr(self, name)(*long_form(name, arguments, named))

    def _limit_of(self, opts: Any) -> timedelta | None:
        """The time-out of the call itself, where it has one that is shorter than the group's."""
        timeout = _NO_TIME if opts is None else opts.timeout
        return timeout if _NO_TIME < timeout < self._timeout else None

    def _limited(self, work: c10d.Work, limit: timedelta | None) -> c10d.Work:
        """The call with a time-out of its own, which counts where it is waited for."""
        if limit is not None:
            work.limit, work.expire = limit, self._expire
        return work

    def _submit(
        self,
        what: str,
        result: Tensors,
        function: Callable[[Any], None],
        opts: Any,
        tensors: Tensors | None = None,
        computes: bool = False,
    ) -> c10d.Work:
        """Has function(communicator) performed.

        `tensors`: all that it reads and writes; without, those of `result`. `computes`: whether torch has a part in it,
        which has to be on the stream of its calls.
        """
        tensors = result if tensors is None else tensors
        gpu = place_of(tensors, what) if tensors else HOST
        is_awaited = opts is not None and not opts.asyncOp
        limit = self._limit_of(opts)
        if gpu != HOST:
            work = self._enqueue(gpu, what, result, function, tensors, is_awaited, computes)
            return self._counted(self._limited(work, limit))
        is_awaited = is_awaited and limit is None  # who waits in the call itself does not see the time pass
        dropped = None if is_awaited else self._dropped
        work = Work(f"{what}, call {self._calls} of the process group", result, dropped)
        core, failures = self._core, self._failures

        def perform() -> None:
            try:
                function(core)
            except Error as error:
                raise failures.note(error) from None

        self._queue.add(perform, work, is_awaited=is_awaited)
        return self._counted(self._limited(work, limit))

    def _enqueue(
        self,
        gpu: int,
        what: str,
        result: Tensors,
        function: Callable[[Any], None],
        tensors: Tensors,
        is_awaited: bool,
        computes: bool,
    ) -> c10d.Work:
        if self._failures.first is not None:
            raise self._failures.first
        on_gpu = self._gpus.calls_on(gpu, what)
        if is_awaited:
            return on_gpu.perform_now(what, self._calls, result, function)
        copies = computes or len(tensors) > 2 or not all(map(lies_as_is, tensors))  # lists may have to be joined
        return on_gpu.perform_aside(what, self._calls, result, function, tensors, copies=copies)

    def _as_it_lies(
        self,
        collective: str,
        result: Tensors,
        given: torch.Tensor,
        out: torch.Tensor,
        operation: str | None,
        opts: Any,
        root: int = 0,
    ) -> c10d.Work | None:
        """The usual call, sooner: tensors of a GPU that has a communicator, as they lie. None where it is another."""
        on_gpu = self._gpus.calls.get(given.get_device())
        if on_gpu is None or operation is None or self._failures.first is not None:
            return None
        run = on_gpu.run_aside if opts is None or opts.asyncOp else on_gpu.run_now
        work = run(collective, self._calls, result, given, out, operation, root)
        return None if work is None else self._counted(self._limited(work, self._limit_of(opts)))

    def _counted(self, work: c10d.Work) -> c10d.Work:
        self._calls += 1
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work


# A forked child has no rank of its own, and must not end those of its parent.
os.register_at_fork(after_in_child=_groups.clear)


@atexit.register
def _leave_all() -> None:
    """A program may end without destroy_process_group(): then the other ranks hear why."""
    error = getattr(sys, "last_value", None)
    words = "its program ended" if error is None else f"{type(error).__name__}: {error}"
    for group in list(_groups):
        group._end_at_exit(words, is_failure=error is not None)
    await_callbacks(_SECONDS_AT_EXIT)
