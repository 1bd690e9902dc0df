"""Communicators: ranks that perform collectives together and send each other messages."""

from __future__ import annotations

import os

from . import _core, plans, streams
from ._core import Settings, UniqueId
from .errors import Error, InvalidArgument

TYPE_CHECKING = False  # importing typing takes longer than all of Plait
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Any

    from ._core import Topology

    Op = str | _core.PremulSum


class Communicator:
    """One rank's end of a communicator over ranks of one host or several.

    All ranks make the same collective calls in the same order; each rank from one thread at a time. Messages (send,
    recv, exchange) concern only the ranks that they name. Calls return when this rank's part is done and its result is
    there. Results are equal bit for bit on all ranks and from run to run.

    Arrays are whatever lies in host memory: numpy arrays, tensors that give DLPack (torch), and what has the buffer
    protocol (array.array, bytearray, memoryview). `out=None` gives a new array: a torch tensor where a torch tensor was
    given, else a numpy array. `out=array` works in place. `dtype="bfloat16"` reads uint16 memory as that type, say;
    bytes can be read as any.

    On GPUs (`plait.init(device="cuda")`), arrays are those of torch, JAX, CuPy and numba on the rank's GPU. Calls go on
    `stream`: a stream of one of these packages, or a cudaStream_t as a number. Without one they go on the current
    stream of the array's package, and return before they are done, as its own calls do; for JAX and numba, which have
    none, they return when they are done. Nothing is copied there: arrays have no gaps. CUDA graphs capture calls.
    With `stream=plait.BLOCKING`, on all ranks, a collective waits for the current stream of the array's package, and
    returns when the result is there; short ones take less time so, since they need no launch.

    Elements may lie in any order and with gaps. all_reduce, reduce and broadcast take an array without gaps as it lies,
    in Fortran's order or with channels last, say. The order is a part of the call, so ranks with another one get
    Mismatch. All others take elements in C's order. What lies otherwise is copied, before or after the call.

    Types: int8 to int64, uint8 to uint64, float16, float32, float64, bfloat16, float8_e4m3fn, float8_e5m2, bool,
    complex64, complex128. Objects, texts, times and records are refused whatever `dtype` is.
    Operations (`op`): "sum", "prod" (or "product"), "max", "min", "avg" (or "average", "mean"), and
    plait.premul_sum(factor), the sum of each rank's array times a factor of that rank. 16- and 8-bit floats add up in
    float32 and are rounded once. Integers wrap. Their "avg" is the sum, wrapped where it does not fit the type, divided
    by the number of ranks and truncated toward zero: that of -3 and 0 is -1. For bool, "sum" and "max" are or, "prod"
    and "min" are and. Complex numbers have "sum", "avg" and premul_sum.

    Raises InvalidArgument before anything happened. Mismatch, PeerFailed and Timeout end the communicator on all ranks:
    each rank gets the error, and every later call raises it again.

    A communicator is a context manager that closes itself. An error that leaves its block aborts it before, so that no
    other rank waits for this one. The others get PeerFailed with the words of the error. sys.exit() without a failure
    and the end of a generator are no errors. Whatever ended the block goes on as it was.
    """

    def __init__(
        self, id: UniqueId, rank: int, size: int, settings: Settings | None = None, *, device: Any = None
    ) -> None:
        """Joins `size` ranks as `rank`; returns when all are there. `settings` and `device` are as for init().

        `id` is the same on all ranks; rank 0 must be in the process that made it. Raises Timeout naming the ranks that
        did not come, Mismatch for two ranks of one number or different sizes.
        """
        self._take(_core.Communicator.create(id, rank, size, _given(settings), _number_of(device)))

    @classmethod
    def _of(cls, core: _core.Communicator) -> Communicator:
        self = cls.__new__(cls)
        self._take(core)
        return self

    def _take(self, core: _core.Communicator) -> None:
        self._core = core
        self._device = None if core.device < 0 else core.device

    @property
    def rank(self) -> int:
        """This rank's number, from 0."""
        return self._core.rank

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return self._core.size

    @property
    def device(self) -> int | None:
        """The GPU whose memory calls take, by CUDA's number; None where they take host memory."""
        return self._device

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._core.closed

    def all_reduce(self, array: Any, op: Op = "sum", *, out: Any = None, dtype: Any = None, stream: Any = None) -> Any:
        """Combines the arrays of all ranks, element by element; every rank gets the result.

        Shapes: array (…), out (…). Gives `out`.
        """
        return self._run("all_reduce", array, out, dtype, op, 0, stream)

    def reduce(
        self, array: Any, op: Op = "sum", *, root: int = 0, out: Any = None, dtype: Any = None, stream: Any = None
    ) -> Any:
        """As all_reduce, but only rank `root` gets the result; the others get None, and their `out` is not looked at.

        Shapes: array (…), out (…).
        """
        return self._run("reduce", array, out, dtype, op, root, stream)

    def broadcast(self, array: Any, root: int = 0, *, out: Any = None, dtype: Any = None, stream: Any = None) -> Any:
        """Gives every rank the array of rank `root`. On other ranks `array` only tells the shape and the type.

        Shapes: array (…), out (…). Gives `out`. In place (`out=array`) is the usual way.
        """
        return self._run("broadcast", array, out, dtype, "sum", root, stream)

    def reduce_scatter(
        self, array: Any, op: Op = "sum", *, out: Any = None, dtype: Any = None, stream: Any = None
    ) -> Any:
        """Combines the arrays of all ranks; rank r gets the r-th part of the result along the first axis.

        Shapes: array (size * n, …), out (n, …). Gives `out`. In place: `out` is the r-th part of `array`.
        """
        return self._run("reduce_scatter", array, out, dtype, op, 0, stream)

    def all_gather(self, array: Any, *, out: Any = None, dtype: Any = None, stream: Any = None) -> Any:
        """Gives every rank the arrays of all ranks, one after the other along the first axis.

        Shapes: array (n, …), out (size * n, …) or (size, n, …); a new one is the former. Gives `out`. In place: `array`
        is the r-th part of `out`.
        """
        return self._run("all_gather", array, out, dtype, "sum", 0, stream)

    def gather(self, array: Any, root: int = 0, *, out: Any = None, dtype: Any = None, stream: Any = None) -> Any:
        """As all_gather, but only rank `root` gets the arrays; the others get None, and their `out` is not looked at.

        Shapes: array (n, …), out (size * n, …) or (size, n, …); a new one is the former. In place: the root's `array`
        is the root-th part of its `out`.
        """
        return self._run("gather", array, out, dtype, "sum", root, stream)

    def scatter(
        self, array: Any = None, root: int = 0, *, out: Any = None, dtype: Any = None, stream: Any = None
    ) -> Any:
        """Rank r gets the r-th part along the first axis of the array of rank `root`.

        Shapes: array (size * n, …) or (size, n, …), out (n, …). Gives `out`. In place: the root's `out` is the root-th
        part of its `array`.

        On other ranks than the root, `out` says what comes, and `array` is not looked at: `scatter(out=part)`, as with
        mpi4py's Scatter and torch.distributed.scatter. Without `out`, `array` tells the shape and the type, as for
        broadcast: `part = scatter(array)` on all ranks. That is shorter, but needs memory for the whole on every rank.
        """
        return self._run("scatter", array, out, dtype, "sum", root, stream)

    def all_to_all(self, array: Any, *, out: Any = None, dtype: Any = None, stream: Any = None) -> Any:
        """Rank r gets the r-th part along the first axis of the arrays of all ranks, one after the other.

        Shapes: array (size * n, …), out the same. Gives `out`. In place: `out=array`.
        """
        return self._run("all_to_all", array, out, dtype, "sum", 0, stream)

    def all_gather_v(
        self,
        array: Any,
        counts: Any,
        *,
        displacements: Any = None,
        out: Any = None,
        dtype: Any = None,
        stream: Any = None,
    ) -> Any:
        """As all_gather, but rank r gives `counts[r]` rows, along the first axis. All ranks give the same counts.

        Shapes: array (counts[r], …), out (n, …) with n the sum of the counts. `displacements[r]` is the row of `out` at
        which the rows of rank r begin; rows of `out` that belong to no rank stay as they are. Gives `out`. In place:
        `array` is where it belongs in `out`.

        This and the other methods that end in _v need at least one axis. Counts may be 0. Rows of one rank never
        overlap those of another in an output. Raises Mismatch, on all ranks, where ranks count differently.
        """
        return self._by_counts("all_gather", array, out, dtype, receives=(counts, displacements), stream=stream)

    def reduce_scatter_v(
        self,
        array: Any,
        counts: Any,
        op: Op = "sum",
        *,
        displacements: Any = None,
        out: Any = None,
        dtype: Any = None,
        stream: Any = None,
    ) -> Any:
        """As reduce_scatter, but rank r gets `counts[r]` rows of the result. All ranks give the same counts.

        Shapes: array (n, …) with n the sum of the counts, out (counts[r], …). `displacements[r]` is the row of `array`
        at which those for rank r begin. Gives `out`. In place: `out` is where its rows are in `array`.
        """
        return self._by_counts("reduce_scatter", array, out, dtype, op=op, sends=(counts, displacements), stream=stream)

    def gather_v(
        self,
        array: Any,
        counts: Any = None,
        root: int = 0,
        *,
        displacements: Any = None,
        out: Any = None,
        dtype: Any = None,
        stream: Any = None,
    ) -> Any:
        """As all_gather_v, but only rank `root` gets the arrays; the others get None.

        Shapes: array (n, …) with any n, which is `counts[r]` of the root. `counts`, `displacements` and `out` of other
        ranks are not looked at.
        """
        return self._by_counts("gather", array, out, dtype, root=root, receives=(counts, displacements), stream=stream)

    def scatter_v(
        self,
        array: Any = None,
        counts: Any = None,
        root: int = 0,
        *,
        displacements: Any = None,
        out: Any = None,
        dtype: Any = None,
        stream: Any = None,
    ) -> Any:
        """Rank r gets `counts[r]` rows of the array of rank `root`, along the first axis.

        Shapes: array (n, …) with n the sum of the counts, out (counts[r], …). `displacements[r]` is the row of `array`
        at which those for rank r begin. Gives `out`, which all ranks but the root must give: its rows say how many
        come. `array`, `counts` and `displacements` of other ranks than the root are not looked at.
        """
        return self._by_counts("scatter", array, out, dtype, root=root, sends=(counts, displacements), stream=stream)

    def all_to_all_v(
        self,
        array: Any,
        send_counts: Any,
        receive_counts: Any,
        *,
        send_displacements: Any = None,
        receive_displacements: Any = None,
        out: Any = None,
        dtype: Any = None,
        stream: Any = None,
    ) -> Any:
        """Gives `send_counts[r]` rows to each rank r, and gets `receive_counts[r]` rows from it.

        Shapes: array (n, …) with n the sum of the send counts, out (m, …) with m that of the receive counts. Blocks
        follow each other in the order of ranks, or begin at the rows that `send_displacements` and
        `receive_displacements` name. No rank knows the counts of others: what rank a sends to rank b is what b expects
        of a, or all ranks get Mismatch, which names both. Gives `out`. In place: `out=array` with equal counts and
        displacements; the array is copied first.
        """
        sends, receives = (send_counts, send_displacements), (receive_counts, receive_displacements)
        return self._by_counts("all_to_all", array, out, dtype, sends=sends, receives=receives, stream=stream)

    def _by_counts(
        self,
        collective: str,
        array: Any,
        out: Any,
        dtype: Any,
        *,
        op: Op | None = None,
        root: int = 0,
        sends: tuple[Any, Any] = (None, None),
        receives: tuple[Any, Any] = (None, None),
        stream: Any = None,
    ) -> Any:
        if self._device is None:
            _refuse_stream(stream)
            return self._core.run_by_counts(collective, array, out, dtype, op, root, *sends, *receives)
        from . import by_messages

        _refuse_blocking(stream)
        if dtype is not None:
            raise InvalidArgument(
                "dtype: not with counts on GPUs; pass an array of that type, such as tensor.view(dtype)"
            )
        call = by_messages.Call(collective, op or "sum", root, sends, receives)
        if stream is None:
            return by_messages.run(self, call, array, out, None)
        given = array if array is not None else out
        return streams.call_on(
            streams.handle_of(stream), given, lambda handle: by_messages.run(self, call, array, out, handle)
        )

    def _run(self, collective: str, array: Any, out: Any, dtype: Any, op: Op, root: int, stream: Any) -> Any:
        if self._device is None and (stream is None or streams.is_blocking(stream)):
            return self._core.run(collective, array, out, dtype, op, root)
        if stream is None:  # the same as below, sooner
            if out is array and dtype is None and self._core.run_on_tensors(collective, array, out, op, root):
                return out
            current = _core.torch_stream(array) if out is None or type(out) is type(array) else None
            if current is not None:
                return self._core.run(collective, array, out, dtype, op, root, current)

        def call(handle: int) -> Any:
            return self._core.run(collective, array, out, dtype, op, root, handle)

        return self._enqueue(call, (array, out), stream, allocates=out is None)

    def _enqueue(
        self, call: Callable[[int], Any], arrays: Sequence[Any], stream: Any, *, allocates: bool = False
    ) -> Any:
        """Makes a call on a stream; without one, on that of the arrays' package, or waits for the call.

        `allocates`: the call makes a new array, of the package of the first.
        """
        if self._device is None:
            _refuse_stream(stream)
            return call(0)
        given = [array for array in arrays if array is not None]
        for array in given:
            streams.make_ready(array)
        if streams.is_blocking(stream):
            for array in {streams.package_of(array): array for array in given}.values():  # one of each package
                streams.synchronize(array)
            return call(stream)
        if stream is not None:
            handle = streams.handle_of(stream)
            return streams.call_on(handle, arrays[0], call) if allocates else call(handle)
        current = streams.current(given[0]) if given else None
        result = call(streams.PER_THREAD if current is None else current)
        if current is None:
            self._core.finish()
        return result

    def run(
        self,
        plan: _core.Plan | str | os.PathLike[str],
        array: Any = None,
        op: Op | None = None,
        *,
        out: Any = None,
        dtype: Any = None,
        stream: Any = None,
    ) -> Any:
        """Runs a plan of your own: its collective, with the plan in place of the one that Plait would choose.

        `plan` is a plait.Plan, the path of a file that holds one as JSON, or the JSON itself. Whoever makes many calls
        loads it once (plait.plans.load). Arrays, shapes and what is given back are those of the method of that name; a
        root is the plan's, and "sum" is the operation of those that reduce. A barrier has no array.

        Raises InvalidInput and InvalidPlan where the plan cannot be read or is wrong, InvalidArgument where it is for
        another number of ranks or never in place, and Mismatch, on all ranks, where they run different plans.
        """
        given = _plan(plan)
        return self._enqueue(
            lambda handle: self._core.run_plan(given, array, out, dtype, op, handle),
            (array, out),
            stream,
            allocates=out is None,
        )

    def send(self, array: Any, peer: int, *, dtype: Any = None, stream: Any = None) -> None:
        """Sends the array to rank `peer`, which must recv() as many bytes; returns when the array may change.

        Messages from one rank to another arrive in the order in which they were sent. Only small ones are sure not to
        wait for their receiver: where two ranks send to each other, use exchange().
        """
        self._exchange([(peer, array)], [], dtype, stream)

    def recv(self, array: Any, peer: int, *, dtype: Any = None, stream: Any = None) -> Any:
        """Fills the array with what rank `peer` sends, and gives the array.

        `array` may also be a shape, an int or a tuple of ints: `recv(100, 1, dtype="float32")` gives a new numpy array.
        Raises Mismatch, on both ranks, where the other sends another number of bytes.
        """
        if isinstance(array, (int, tuple)):
            if dtype is None:
                raise InvalidArgument("recv: a shape needs a dtype, as in recv((2, 3), peer, dtype='float32')")
            from .arrays import new_array

            dtype = _core.element_type_name(dtype)
            try:
                array = new_array(array, dtype)
            except (TypeError, ValueError) as error:
                raise InvalidArgument(f"recv: {array!r} is no shape: {error}") from None
        self._exchange([], [(peer, array)], dtype, stream)
        return array

    def exchange(
        self,
        *,
        sends: Mapping[int, Any] | None = None,
        receives: Mapping[int, Any] | None = None,
        dtype: Any = None,
        stream: Any = None,
    ) -> None:
        """Sends and receives together; returns when all of it is done. None of the messages waits for another.

        Both map a rank to the array for it, or from it, or to a list of arrays, sent or received in their order. With
        this rank itself, as many are received as are sent: `exchange(sends={right: a}, receives={left: b})` is a shift
        along a ring of any size.
        """
        self._exchange(_ends(sends, "sends"), _ends(receives, "receives"), dtype, stream)

    def _exchange(self, sends: list[tuple[int, Any]], receives: list[tuple[int, Any]], dtype: Any, stream: Any) -> None:
        if self._device is not None:
            _refuse_blocking(stream)
        arrays = [array for _, array in (*sends, *receives)]
        self._enqueue(lambda handle: self._core.exchange(sends, receives, dtype, handle), arrays, stream)

    def barrier(self) -> None:
        """Returns when every rank has called it."""
        self._core.barrier()

    def split(self, color: int | None, key: int = 0, *, settings: Settings | None = None) -> Communicator | None:
        """Divides the ranks: those of one `color` get a new communicator, in the order of their `key`.

        Among equal keys they keep their order. Gives None where `color` is None or negative: this rank will be in no
        new communicator. All ranks make the call. The new communicator has the settings of this one unless it is given
        others; both are independent of each other, and each is closed for itself.

        Raises InvalidArgument on all ranks where the arguments of one cannot be used. This communicator goes on then.
        """
        part = self._core.split(color, key, settings)
        return None if part is None else Communicator._of(part)

    @property
    def topology(self) -> Topology:
        """The machine that plans are chosen for, as all ranks agreed on it, or the one that PLAIT_TOPOLOGY names."""
        return self._core.topology

    @property
    def groups(self) -> list[list[int]]:
        """Lists of ranks that NVLink joins to each other, lowest first; the ranks of each node where none has a GPU."""
        return self._core.groups

    def plan_for(
        self, collective: str, count: int, *, dtype: Any = "float32", op: str = "sum", root: int = 0
    ) -> _core.Plan:
        """The verified plan that a call of `collective` runs, with this `dtype`, `op` and `root`.

        `count` is in elements: of the whole array for all_reduce, reduce and broadcast; of what one rank gives for
        all_gather and gather, or gets for reduce_scatter and scatter; of what one rank gives one rank for all_to_all;
        of all blocks together for all_gather_v and the like.
        On two GPUs the last part of a longer message may go by another plan; `plait plan` says so. Raises
        InvalidArgument.
        """
        return self._core.plan_for(_core.Call(collective, count, dtype, op, root))

    def reason_for(self, collective: str, count: int, *, dtype: Any = "float32", op: str = "sum", root: int = 0) -> str:
        """Why plan_for() gives that plan, in a sentence.

        The arguments `collective`, `count`, `dtype`, `op` and `root` are those of plan_for().
        """
        return self._core.reason_for(_core.Call(collective, count, dtype, op, root))

    def abort(self, reason: str) -> None:
        """Ends the calls of all ranks, those under way and later ones, with PeerFailed. From any thread.

        The others see `reason` in their error.
        """
        self._core.abort(reason)

    def close(self) -> None:
        """Leaves: ranks that still call get PeerFailed. May be repeated.

        Raises Mismatch where ranks have made different calls in which none waited for another, such as a broadcast in
        which each rank is the root, or where one has left after more or fewer calls than this one. For ranks that have
        not come to this one's last calls it waits a second at most. It is closed also then.
        """
        self._core.close()

    def __enter__(self) -> Communicator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The other ranks may be waiting for this one in a call that it will never make.
        if kind is not None and not _is_orderly(error):
            self.abort(_words(kind, error))
        try:
            self.close()
        except Error:  # such as a call of another thread, which abort() is about to end
            if kind is None:
                raise

    def __repr__(self) -> str:
        if self.closed:
            return "<plait.Communicator, closed>"
        return f"<plait.Communicator, rank {self.rank} of {self.size}>"


def init(settings: Settings | None = None, *, sequence: int = 0, device: Any = None) -> Communicator:
    """The communicator of all ranks that `plait run`, torchrun, mpirun or srun started; of one rank without a launcher.

    `settings`: None for those of the PLAIT_* variables (Settings.from_environment).

    `device`: None or "cpu" for arrays in host memory. "cuda" for those on the GPU of this rank's number on its host,
    from GPU 0 again where there are more ranks than GPUs; "cuda:1" or 1 for those on GPU 1; also a torch.device. All
    ranks have a GPU, or none has.

    A job that makes several communicators this way numbers them: `sequence` is 0, 1, 2, … on every rank. Raises
    InvalidInput where the environment contradicts itself, InvalidArgument where there is no such GPU, Timeout where
    ranks do not come.
    """
    return Communicator._of(_core.Communicator.from_environment(_given(settings), sequence, _number_of(device)))


def in_process(
    size: int, settings: Settings | None = None, *, devices: Sequence[int] | None = None
) -> list[Communicator]:
    """All ranks of a new communicator in this process, one for each of `size` threads. `settings`: as for init().

    With `devices`, rank r works on the memory of GPU devices[r]; a GPU may be there several times. Raises
    InvalidArgument.
    """
    if devices is None:
        return [Communicator._of(core) for core in _core.Communicator.in_process(size, _given(settings))]
    if len(devices) != size:
        raise InvalidArgument(f"devices: there are {len(devices)} for {size} ranks; name one for each")
    numbers = [_number_of(device) for device in devices]
    return [Communicator._of(core) for core in _core.Communicator.in_process_on(numbers, _given(settings))]


def _refuse_blocking(stream: Any) -> None:
    if streams.is_blocking(stream):
        raise InvalidArgument(
            "stream: messages on GPUs, and calls by counts, which are made of them, take no plait.BLOCKING"
        )


def _refuse_stream(stream: Any) -> None:
    if stream is not None and not streams.is_blocking(stream):
        raise InvalidArgument("stream: a communicator of host memory has none; leave it out")


def _number_of(device: Any) -> int:
    """CUDA's number of a GPU; -1 for host memory."""
    if device is None or device == "cpu":
        return -1
    if isinstance(device, int) and not isinstance(device, bool):
        number: int | None = device
    else:
        kind, colon, text = str(device).partition(":")
        if kind == "cpu" and not colon:
            return -1
        if kind != "cuda" or (colon and not text.isdecimal()):
            raise InvalidArgument(f"device: '{device}' is none; pass 'cuda', 'cuda:0', a number, or 'cpu'")
        number = int(text) if text else None
    gpus = len(_core.look_at_cuda().devices)
    if number is None:
        launched = _core.launch_environment()
        return (launched.local_rank if launched is not None else 0) % gpus
    if not 0 <= number < gpus:
        raise InvalidArgument(f"device: there is no GPU {number}; this process sees {gpus}")
    return number


def _is_orderly(error: BaseException | None) -> bool:
    """Whether a block that ends so has done what it was to do: the other ranks may still be in their last calls."""
    if isinstance(error, SystemExit):
        return error.code is None or error.code == 0
    return isinstance(error, GeneratorExit)


def _words(kind: type[BaseException], error: BaseException | None) -> str:
    try:
        return f"{kind.__name__}: {error}"
    except BaseException as failure:  # __str__ may do anything, and the other ranks wait
        return f"{kind.__name__}, whose text cannot be had ({type(failure).__name__})"


def _ends(arrays: Mapping[int, Any] | None, role: str) -> list[tuple[int, Any]]:
    if arrays is None:
        return []
    if not hasattr(arrays, "items"):
        raise InvalidArgument(f"{role}: a {type(arrays).__name__} maps no ranks to arrays; pass {{rank: array}}")
    each = ((peer, some if isinstance(some, (list, tuple)) else [some]) for peer, some in arrays.items())
    return [(peer, array) for peer, some in each for array in some]


def _plan(plan: _core.Plan | str | os.PathLike[str]) -> _core.Plan:
    if isinstance(plan, _core.Plan):
        return plan
    if isinstance(plan, str) and plan.lstrip().startswith("{"):
        return plans.from_json(plan, "plan")
    if isinstance(plan, (str, os.PathLike)):
        return plans.load(plan)
    raise InvalidArgument(f"plan: a {type(plan).__name__} is none; pass a plait.Plan, the path of a file, or JSON")


def _given(settings: Settings | None) -> Settings:
    if settings is None:
        return Settings.from_environment()
    if not isinstance(settings, Settings):
        raise InvalidArgument(f"settings: a {type(settings).__name__} is none; pass plait.Settings(...), or None")
    return settings
