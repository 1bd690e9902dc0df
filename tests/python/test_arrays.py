"""What counts as an array, what does not, and what the errors say."""

from __future__ import annotations

import array
import ctypes
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import plait
import pytest
from ranks import in_threads


@pytest.fixture
def alone():
    """A communicator of one rank: results are the arrays themselves."""
    with plait.in_process(1)[0] as communicator:
        yield communicator


class DLPackOnly:
    """A tensor that has nothing but DLPack."""

    def __init__(self, values, device=(1, 0), versions=True):
        self.values, self.device, self.versions = values, device, versions

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **arguments):
        if arguments and not self.versions:
            raise TypeError("no such argument")
        return self.values.__dlpack__(**arguments)


@pytest.mark.parametrize(
    "make",
    [
        lambda: array.array("i", [1, 2, 3]),
        lambda: memoryview(array.array("i", [1, 2, 3])),
        lambda: (ctypes.c_int * 3)(1, 2, 3),
        lambda: np.array([1, 2, 3], np.int32),
        lambda: DLPackOnly(np.array([1, 2, 3], np.int32)),
        lambda: DLPackOnly(np.array([1, 2, 3], np.int32), versions=False),
    ],
)
def test_kinds_of_arrays(make):
    def rank(communicator):
        fresh = communicator.all_reduce(make())
        own = make()
        assert communicator.all_reduce(own, out=own) is own
        return fresh, own.values if isinstance(own, DLPackOnly) else own

    for fresh, own in in_threads(2, rank):
        assert isinstance(fresh, np.ndarray) and fresh.dtype == np.int32
        assert list(fresh) == [2, 4, 6]
        assert list(own) == [2, 4, 6]


def test_bytes_are_read_as_any_type():
    def rank(communicator):
        buffer = bytearray(np.array([1.5, 2.5], np.float32).tobytes())
        fresh = communicator.all_reduce(buffer, dtype="float32")
        communicator.all_reduce(buffer, out=buffer, dtype=np.float32)
        return fresh, buffer

    for fresh, buffer in in_threads(2, rank):
        assert fresh.dtype == np.float32 and list(fresh) == [3, 5]
        assert list(np.frombuffer(buffer, np.float32)) == [3, 5]


def test_torch_tensors():
    torch = pytest.importorskip("torch")

    def rank(communicator):
        ones = torch.ones(5, dtype=torch.bfloat16)
        fresh = communicator.all_reduce(ones)
        communicator.all_reduce(ones, out=ones)
        with pytest.raises(plait.InvalidArgument, match="detach"):
            communicator.all_reduce(torch.ones(1, requires_grad=True))
        return fresh, ones

    for fresh, ones in in_threads(2, rank):
        assert fresh.dtype == torch.bfloat16 and fresh.tolist() == [2] * 5
        assert ones.tolist() == [2] * 5


@pytest.mark.parametrize("dtype", ["float32", np.float32, np.dtype("f4"), "float", "f32"])
def test_ways_to_name_a_type(alone, dtype):
    assert alone.all_reduce(bytearray(8), dtype=dtype).dtype == np.float32


def test_new_arrays_do_not_share_memory(alone):
    mine = np.arange(4.0)
    other = alone.all_reduce(mine)
    mine[:] = 0
    assert list(other) == [0, 1, 2, 3]


def in_one_place(count):
    return np.lib.stride_tricks.as_strided(np.zeros(1), (count,), (0,))


BAD = [
    (lambda c: c.all_reduce([1, 2]), "array: a list is no array"),
    (lambda c: c.all_reduce(1.5), "array: a float is no array"),
    (lambda c: c.all_reduce(None), "NoneType is no array"),
    (lambda c: c.all_reduce(np.zeros(16, "u1")[::2], dtype="float32"), "only a row of bytes without gaps can"),
    (lambda c: c.all_reduce(np.zeros((2, 8), "u1"), dtype="float32"), "only a row of bytes without gaps can"),
    (lambda c: c.all_reduce(np.ones(2), out=in_one_place(2)), "out: several elements of the array are in one place"),
    (lambda c: c.scatter(np.ones((1, 2)), out=in_one_place(2)), "out: several elements of the array are in one place"),
    (lambda c: c.scatter(out=in_one_place(2), root=1), "out: several elements of the array are in one place"),
    (lambda c: c.recv(in_one_place(2), 0), "receive: several elements of the array are in one place"),
    (lambda c: c.all_reduce(np.ones(2, ">f4")), "'>f' are not known"),
    (lambda c: c.all_reduce(np.ones(2, "datetime64[s]")), "datetime64.* are not known"),
    (lambda c: c.all_reduce(np.array([None])), "'O' are not known"),
    (lambda c: c.all_reduce(np.ones(2, np.uint16), dtype="float32"), "have 2 bytes and cannot be read as float32"),
    (lambda c: c.all_reduce(bytearray(7), dtype="float32"), "cannot be read as float32"),
    (lambda c: c.all_reduce(np.ones(2), dtype="float33"), "dtype 'float33' is none of: int8"),
    (lambda c: c.all_reduce(np.ones(2), dtype="\udc80"), r"dtype '\\udc80' is none of: int8"),
    (lambda c: c.all_reduce(np.ones(2), "xor"), "op 'xor' is none of: sum, prod, max, min, avg"),
    (lambda c: c.all_reduce(np.ones(2), "logical_or"), "of bool arrays, 'max' is or"),
    (lambda c: c.plan_for("sendrecv", 2), "'sendrecv' is no collective: messages between two ranks have no plan"),
    (lambda c: c.all_reduce(np.ones(2), out=np.ones(3)), r"out: the shape is \(3,\), but all_reduce of \(2,\)"),
    (lambda c: c.all_reduce(np.ones(2), out=np.ones((1, 2))), r"out: the shape is \(1, 2\)"),
    (lambda c: c.all_reduce(np.ones(2), out=np.ones(2, "f4")), "out: its elements are float32, those of array float64"),
    (lambda c: c.all_reduce(np.ones(2), out=bytes(16)), "out: the array is read-only"),
    (lambda c: c.all_reduce(np.ones(2), out=[0, 0]), "out: a list is no array"),
    (lambda c: c.all_reduce(DLPackOnly(np.ones(2), device=(2, 0))), r"memory of a device .* array.cpu\(\)"),
    (lambda c: c.reduce_scatter(np.ones(())), "reduce_scatter over 1 rank needs a first axis"),
    (lambda c: c.scatter(np.ones(())), "scatter over 1 rank needs a first axis"),
    (lambda c: c.all_to_all(np.ones(())), "all_to_all over 1 rank needs a first axis"),
    (lambda c: c.all_to_all(np.ones(2), out=np.ones((1, 2))), r"out: the shape is \(1, 2\), but all_to_all of \(2,\)"),
    (lambda c: c.all_to_all(np.ones(2), out=np.ones(2, "f4")), "out: its elements are float32, those of array float64"),
    (lambda c: c.gather(np.ones(2), out=np.ones(3)), r"out: the shape is \(3,\), but gather of \(2,\) over 1 rank"),
    (lambda c: c.gather(np.ones(2), out=bytes(16)), "out: the array is read-only"),
    (lambda c: c.gather(np.ones(2), 1), "root 1 is not one of the 1 rank"),
    (lambda c: c.scatter(np.ones(2), out=np.ones(3)), r"out: the shape is \(3,\), but scatter of \(2,\) over 1 rank"),
    (lambda c: c.scatter(None), "array: a NoneType is no array"),
    (lambda c: c.scatter(np.ones(2), -1), "root -1 is not one of the 1 rank"),
    (lambda c: c.scatter(np.ones(()), 1), "scatter over 1 rank needs a first axis"),
    (lambda c: c.scatter(out=np.ones(2), root=1), "root 1 is not one of the 1 rank"),
    (lambda c: c.scatter(out=bytes(2), root=1), "out: the array is read-only"),
    (lambda c: c.scatter(out=[0, 0], root=1), "out: a list is no array"),
    (
        lambda c: c.scatter(root=1),
        "out: scatter needs it on every rank but the root, 1: the array for this rank's part",
    ),
    (lambda c: c.broadcast(np.ones(2), 1), "root 1 is not one of the 1 rank"),
    (lambda c: c.reduce(np.ones(2), root=-1), "root -1"),
    (lambda c: c.plan_for("all_reduced", 5), "all_reduced"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_arguments(alone, call, message):
    with pytest.raises(plait.InvalidArgument, match=message) as caught:
        call(alone)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, plait.Error)
    assert caught.value.code == "invalid argument"
    assert alone.all_reduce(np.ones(1))[0] == 1  # nothing broke


class Interface:
    """An array that has nothing but __array_interface__: that of `values`, with changes."""

    def __init__(self, values, **changes):
        self.values = values
        self.__array_interface__ = {**values.__array_interface__, **changes}


def test_array_interface():
    def rank(communicator):
        own = Interface(np.array([1, 2, 3], np.int32), strides=(4,))
        communicator.all_reduce(own, out=own)
        return own.values

    assert [list(values) for values in in_threads(2, rank)] == [[2, 4, 6]] * 2


@pytest.mark.parametrize(("name", "known"), [("bfloat16", True), ("float8_e5m2", False), ("bcomplex16", False)])
def test_types_that_numpy_lacks(alone, name, known):
    array = Interface(np.ones(2, np.int16), typestr="<V2")
    array.dtype = SimpleNamespace(name=name)  # as those of ml_dtypes
    if known:
        assert alone.all_reduce(array, out=array) is array
    else:
        with pytest.raises(plait.InvalidArgument, match=f"'{name}' are not known"):
            alone.all_reduce(array, out=array)


BAD_INTERFACES = [
    ({"data": None}, r"\['data'\] is None and should be a tuple of an address"),
    ({"data": bytearray(8)}, r"\['data'\] is bytearray.* and should be a tuple"),
    ({"data": ("here", False)}, r"\['data'\]\[0\] is 'here' and should be an address"),
    ({"data": (-1, False)}, r"\['data'\]\[0\] is -1 and should be an address"),
    ({"data": (1.0, False)}, r"\['data'\]\[0\] is 1.0 and should be an address"),
    ({"data": (1 << 70, False)}, r"\['data'\]\[0\] is 1180591620717411303424 and should be"),
    ({"data": (1, "no")}, r"\['data'\]\[1\] is 'no' and should be True or False"),
    ({"data": (8,)}, r"\['data'\] should be a tuple"),
    ({"data": (0, False)}, r"\['data'\] has no address"),
    ({"shape": 3}, r"\['shape'\] is 3 and should be a tuple of integers"),
    ({"shape": ("3",)}, r"\['shape'\] is '3' and should be a tuple of integers"),
    ({"shape": (-3,)}, r"\['shape'\] has -3"),
    ({"shape": (1 << 40, 1 << 40)}, r"\['shape'\] is more than any memory"),
    ({"strides": "no"}, r"\['strides'\] is 'no' and should be a tuple of integers"),
    ({"strides": (4, 4)}, "'shape' and 'strides' of different lengths"),
    ({"strides": (1 << 62,), "shape": (4,)}, r"\['strides'\] reach further than any memory"),
    ({"typestr": None}, r"\['typestr'\] is None and should be a text such as '<f4'"),
    ({"typestr": "\udc80"}, r"\['typestr'\] is '\\udc80' and should be"),
    ({"typestr": "float"}, r"\['typestr'\] is 'float' and should be"),
    ({"typestr": "<"}, r"\['typestr'\] is '<' and should be"),
    ({"typestr": "<f99999999999"}, r"\['typestr'\] is .* and should be"),
    ({"typestr": ">f8"}, "'>f8' are not known"),
    ({"typestr": "|V8"}, r"'\|V8' are not known"),
]


@pytest.mark.parametrize(("changes", "message"), BAD_INTERFACES, ids=[repr(changes) for changes, _ in BAD_INTERFACES])
def test_bad_array_interfaces(alone, changes, message):
    with pytest.raises(plait.InvalidArgument, match=message):
        alone.all_reduce(Interface(np.ones(2), **changes))


def test_array_interface_that_is_no_dict(alone):
    array = Interface(np.ones(2))
    array.__array_interface__ = "none"
    with pytest.raises(plait.InvalidArgument, match="array: __array_interface__ is 'none' and should be a dict"):
        alone.all_reduce(array)


@pytest.mark.parametrize("device", [None, (), ("cpu", 0), (1 << 40, 0)])
def test_bad_dlpack_devices(alone, device):
    with pytest.raises(plait.InvalidArgument, match=r"__dlpack_device__\(\) gives .* a tuple of two integers"):
        alone.all_reduce(DLPackOnly(np.ones(2), device=device))


def test_read_only_output(alone):
    frozen = np.ones(2)
    frozen.flags.writeable = False
    assert list(alone.all_reduce(frozen)) == [1, 1]
    with pytest.raises(plait.InvalidArgument, match="read-only"):
        alone.all_reduce(np.ones(2), out=frozen)


@pytest.mark.parametrize("collective", ["reduce_scatter", "scatter", "all_to_all"])
def test_parts_need_a_divisible_axis(collective):
    def rank(communicator):
        with pytest.raises(
            plait.InvalidArgument, match=rf"{collective} over 2 .* 2 divides, but the shape is \(3, 2\)"
        ):
            getattr(communicator, collective)(np.ones((3, 2)))

    in_threads(2, rank)


def test_other_ranks_than_the_root_name_what_they_get(alone):
    def rank(communicator):
        table = np.arange(6, dtype=np.float32).reshape(2, 3)
        if communicator.rank == 0:
            return communicator.scatter(table), communicator.scatter(table, out=bytearray(12), dtype="float32")
        like = communicator.scatter(np.empty((2, 3), np.float32))
        assert like.shape == (1, 3)
        return like, communicator.scatter("not looked at", out=bytearray(12), dtype="float32")

    for number, (part, raw) in enumerate(in_threads(2, rank)):
        assert part.tolist() == [[3 * number, 3 * number + 1, 3 * number + 2]]
        assert np.frombuffer(raw, np.float32).tolist() == part[0].tolist()


def test_parts_of_another_size_are_found_out():
    def rank(communicator):
        with pytest.raises(plait.Mismatch, match=r"scatter of . float64, root 0.*scatter of . float64, root 0"):
            communicator.scatter(np.ones(4) if communicator.rank == 0 else None, out=np.ones(2 + communicator.rank))
            communicator.barrier()  # the root does not wait for those that it gives to
        return True

    assert all(in_threads(2, rank))


def released():
    view = memoryview(bytearray(8))
    view.release()
    return view


class NoBuffer(DLPackOnly):
    """A tensor whose elements the buffer protocol has no letter for, as bfloat16 ones of jax."""

    def __buffer__(self, flags):
        raise BufferError("no letter")


def test_arrays_that_do_not_give_their_buffer(alone):
    with pytest.raises(plait.InvalidArgument, match=r"a memoryview does not give its memory: .* released"):
        alone.all_reduce(released())
    assert list(alone.all_reduce(NoBuffer(np.ones(2)))) == [1, 1]


def test_overlapping_arrays():
    def rank(communicator):
        memory = np.ones(12)
        with pytest.raises(plait.InvalidArgument, match="overlap"):
            communicator.all_reduce(memory[:8], out=memory[4:])
        with pytest.raises(plait.InvalidArgument, match="overlap"):
            communicator.all_to_all(memory[:8], out=memory[4:])

    in_threads(2, rank)


def test_buffers_are_let_go(alone):
    buffer = bytearray(8)
    alone.all_reduce(buffer, out=buffer)
    with pytest.raises(plait.InvalidArgument):
        alone.all_reduce(buffer, dtype="nonsense")
    buffer.extend(b"x")  # fails while somebody holds the buffer
    values = np.ones(3)
    before = sys.getrefcount(values)
    for _ in range(10):
        alone.all_reduce(DLPackOnly(values))
    assert sys.getrefcount(values) == before


def test_import_does_not_need_numpy():
    code = "import sys, plait; assert 'numpy' not in sys.modules; print(plait.__version__)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == plait.__version__
