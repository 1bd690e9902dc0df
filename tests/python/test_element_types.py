"""Which elements arrays may have, and what truth values and complex numbers come to."""

from __future__ import annotations

import array
import ctypes
import functools
import pickle

import numpy as np
import plait
import pytest
from ranks import in_threads

TEXTS = [np.array(["ab", "c"]), np.array([b"ab", b"c"]), array.array("u", "ab"), (ctypes.c_wchar * 2)("a", "b")]
RECORDS = [np.zeros(2, [("a", "i4"), ("O", "f4")]), np.zeros(2, "V8")]
TIMES = [np.zeros(2, "datetime64[s]"), np.zeros(2, "timedelta64[ms]")]
SWAPPED = [np.array([1, 2], ">f4"), np.array([1, 2], ">i8"), np.array([1, 2j], ">c16")]
LONG = [np.ones(2, np.longdouble), np.ones(2, np.clongdouble), (ctypes.c_longdouble * 2)()]
NUMBERS_AS_OBJECTS = [np.array([1, 2.5], object), memoryview(np.array([1, 2.5], object))]
if hasattr(np.dtypes, "StringDType"):
    NUMBERS_AS_OBJECTS.append(np.array(["1", "2.5"], np.dtypes.StringDType()))
REFERENCES = [
    *NUMBERS_AS_OBJECTS,
    np.array([(1, None)], [("a", "i8"), ("b", "O")]),
    np.array([((None, 1),)], [("outer", [("inner", "O"), ("i", "i8")])]),
    (ctypes.py_object * 2)(1, 2),
    (ctypes.c_void_p * 2)(),
    (ctypes.c_char_p * 2)(),
    (ctypes.c_wchar_p * 2)(),
    (ctypes.POINTER(ctypes.c_int) * 2)(),
]


@pytest.fixture
def alone():
    with plait.in_process(1)[0] as communicator:
        yield communicator


def refusals(communicator, values) -> set[str]:
    """What each way to pass the array is refused with, whatever type it is read as."""
    good = np.zeros(2)
    types = [None, *(["uint8", "bool", "bfloat16", "int32", "float32", "int64", "float64", "complex64", "complex128"])]
    found = set()
    for dtype in types:
        for call in (
            lambda dtype=dtype: communicator.all_reduce(values, dtype=dtype),
            lambda dtype=dtype: communicator.broadcast(values, out=values, dtype=dtype),
            lambda: communicator.broadcast(good, out=values, dtype="float64"),
            lambda dtype=dtype: communicator.scatter(good, out=values, dtype=dtype or "float64"),
            lambda dtype=dtype: communicator.recv(values, 0, dtype=dtype),
            lambda dtype=dtype: communicator.exchange(sends={0: values}, receives={0: good}, dtype=dtype),
        ):
            with pytest.raises(plait.InvalidArgument) as caught:
                call()
            found.add(str(caught.value))
    assert all("are not known; " in text for text in found if "cannot be read" not in text), found
    return found


def advice_on(communicator, values) -> str:
    """What the error of the array alone advises: code, to be evaluated."""
    refusals(communicator, values)
    with pytest.raises(plait.InvalidArgument) as caught:
        communicator.all_reduce(values)
    text = str(caught.value)
    return text.partition("pass ")[2].partition(";")[0].partition(" or the like")[0]


def follow(advice, values):
    return eval(advice, {"numpy": np, "array": values})


@pytest.mark.parametrize("values", REFERENCES, ids=repr)
def test_references_are_never_read_as_numbers(alone, values):
    for text in refusals(alone, values):
        assert "references" in text or "elements of type" not in text or "read as" in text, text
    before = pickle.dumps(values) if isinstance(values, np.ndarray) else None
    assert before is None or pickle.dumps(values) == before


@pytest.mark.parametrize("values", NUMBERS_AS_OBJECTS, ids=repr)
def test_advice_on_objects_works(alone, values):
    assert list(alone.all_reduce(follow(advice_on(alone, values), values))) == [1, 2.5]
    sent = pickle.dumps(np.asarray(values))
    received = bytearray(len(sent))
    alone.exchange(sends={0: sent}, receives={0: received})
    assert list(pickle.loads(received)) == list(np.asarray(values))


@pytest.mark.parametrize("values", [*SWAPPED, *LONG], ids=repr)
def test_advice_on_other_numbers_works(alone, values):
    copy = follow(advice_on(alone, values), values)
    alone.all_reduce(copy, out=copy)
    values[:] = copy.tolist()  # a list, for ctypes
    assert list(values) == list(copy)


@pytest.mark.parametrize("values", [*TEXTS, *RECORDS, *TIMES], ids=repr)
def test_advice_on_other_bytes_works(alone, values):
    view = follow(advice_on(alone, values), values)
    before = bytes(memoryview(view).cast("B"))
    received = np.zeros_like(view)
    alone.exchange(sends={0: view}, receives={0: received})
    assert received.tobytes() == before
    alone.broadcast(view, out=view)  # in place, since it is the same memory
    assert np.shares_memory(view, np.frombuffer(values, "uint8"))


class DLPackOf:
    """A tensor of DLPack whose type says whatever it is told."""

    def __init__(self, values, **changes):
        self.values, self.changes = values, changes

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self):
        capsule = self.values.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        tensor = DLTensor.from_address(pointer(capsule, b"dltensor"))
        for name, value in self.changes.items():
            setattr(tensor, name, value)
        return capsule


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("dimensions", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("queues", ctypes.c_uint16),
    )


UNKNOWN = [
    {"code": 3},  # an opaque handle
    {"code": 3, "bits": 8},
    {"code": 99},
    {"code": 8, "bits": 8},  # float8_e4m3
    {"code": 10, "bits": 16},  # float8_e4m3fn of 16 bits
    {"code": 0, "bits": 4},
    {"code": 0, "bits": 12},
    {"code": 0, "bits": 32, "queues": 2},
    {"code": 4},  # bfloat16 of 64 bits
    {"code": 5, "bits": 32},  # complex32
    {"code": 6},  # truth values of 64 bits
]


@pytest.mark.parametrize("changes", UNKNOWN, ids=repr)
def test_unknown_types_of_dlpack(alone, changes):
    refusals(alone, DLPackOf(np.zeros(2), **changes))


@pytest.mark.parametrize(
    ("changes", "dtype"),
    [({"code": 6}, "bool"), ({"code": 5, "bits": 64}, "complex64"), ({"code": 12}, "uint8"), ({"code": 1}, "uint8")],
)
def test_known_types_of_dlpack(alone, changes, dtype):
    values = np.array([1, 0], np.int8) if "bits" not in changes else np.array([1, 2], np.int64)
    result = alone.all_reduce(DLPackOf(values, **changes))
    assert result.dtype == dtype and result.tobytes() == values.tobytes()


def test_records_that_only_numpy_shows(alone):
    """Without the buffer protocol a record has the letter V, and one that holds objects as well."""

    class Record:
        def __init__(self, values):
            self.__array_interface__ = values.__array_interface__
            self.dtype, self.values = values.dtype, values

    refusals(alone, Record(np.zeros(2, [("a", "O")])))
    refusals(alone, Record(np.array([None, None])))


OR, AND = np.logical_or, np.logical_and
TRUTH = {"sum": OR, "max": OR, "prod": AND, "min": AND}


def truth(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).random(shape) < 0.6


@pytest.mark.parametrize("op", TRUTH)
@pytest.mark.parametrize("size", [1, 3])
def test_truth_values_are_combined(op, size):
    arrays = [truth(seed, 2 * size, 77) for seed in range(size)]
    right = functools.reduce(TRUTH[op], arrays)

    def rank(communicator):
        mine = arrays[communicator.rank].copy()
        reduced = communicator.reduce(mine, op, root=size - 1)
        part = communicator.reduce_scatter(mine, op)
        assert communicator.all_reduce(mine, op, out=mine) is mine
        return mine, part, reduced

    for number, (whole, part, reduced) in enumerate(in_threads(size, rank)):
        assert whole.dtype == part.dtype == bool
        np.testing.assert_array_equal(whole, right)
        np.testing.assert_array_equal(part, right[2 * number : 2 * number + 2])
        if number == size - 1:
            np.testing.assert_array_equal(reduced, right)
        else:
            assert reduced is None


def test_any_byte_but_zero_is_true():
    """Sums and products of such bytes overflow to 0."""
    given = [[2, 128, 0, 255, 0], [128, 128, 7, 1, 0]]

    def rank(communicator):
        mine = np.array(given[communicator.rank], np.uint8).view(bool)
        return [communicator.all_reduce(mine, op).astype(bool).tolist() for op in ("sum", "prod", "max", "min")]

    either, both = [True, True, True, True, False], [True, True, False, True, False]
    assert in_threads(2, rank) == [[either, both, either, both]] * 2


COMPLEX = ["complex64", "complex128"]


def numbers(seed: int, dtype: str, *shape: int) -> np.ndarray:
    real, imaginary = np.random.default_rng(seed).integers(-8, 8, (2, *shape))
    return (real + 1j * imaginary).astype(dtype)


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("size", [1, 4])
def test_complex_numbers_are_added(dtype, size):
    arrays = [numbers(seed, dtype, 3 * size, 50) for seed in range(size)]
    right = sum(arrays)

    def rank(communicator):
        mine = arrays[communicator.rank]
        average = communicator.all_reduce(mine, "avg")
        part = communicator.reduce_scatter(mine)
        factored = communicator.all_reduce(mine, plait.premul_sum(communicator.rank + 1))
        reduced = communicator.reduce(mine.copy(), root=0)
        return communicator.all_reduce(mine), average, part, factored, reduced

    for number, (total, average, part, factored, reduced) in enumerate(in_threads(size, rank)):
        assert {array.dtype.name for array in (total, average, part, factored)} == {dtype}
        np.testing.assert_array_equal(total, right)
        np.testing.assert_array_equal(average, right / size)  # sizes are powers of two
        np.testing.assert_array_equal(part, right[3 * number : 3 * number + 3])
        np.testing.assert_array_equal(factored, sum((r + 1) * array for r, array in enumerate(arrays)))
        assert number > 0 or np.array_equal(reduced, right)


@pytest.mark.parametrize("dtype", ["bool", *COMPLEX])
@pytest.mark.parametrize("size", [1, 3])
def test_both_are_moved(dtype, size):
    make = truth if dtype == "bool" else lambda seed, *shape: numbers(seed, dtype, *shape)
    arrays = [make(seed, 2 * size, 30) for seed in range(size)]

    def rank(communicator):
        me, mine = communicator.rank, arrays[communicator.rank]
        right, left = (me + 1) % size, (me - 1) % size
        received = np.empty_like(mine)
        communicator.exchange(sends={right: mine}, receives={left: received})
        np.testing.assert_array_equal(received, arrays[left])
        np.testing.assert_array_equal(communicator.broadcast(mine, size - 1), arrays[size - 1])
        np.testing.assert_array_equal(communicator.all_gather(mine), np.concatenate(arrays))
        gathered = communicator.gather(mine)
        assert me != 0 or np.array_equal(gathered, np.concatenate(arrays))
        np.testing.assert_array_equal(communicator.scatter(mine), arrays[0][2 * me : 2 * me + 2])
        out = np.empty((2, 30), dtype)
        communicator.scatter(mine if me == 0 else None, out=out)
        np.testing.assert_array_equal(out, arrays[0][2 * me : 2 * me + 2])
        exchanged = communicator.all_to_all(mine)
        np.testing.assert_array_equal(exchanged, np.concatenate([array[2 * me : 2 * me + 2] for array in arrays]))
        assert exchanged.dtype == dtype
        if size > 1 and me < 2:
            other = 1 - me
            if me == 0:
                communicator.send(mine, other)
            else:
                table = communicator.recv((2 * size, 30), other, dtype=dtype)
                assert table.dtype == dtype and np.array_equal(table, arrays[other])

    in_threads(size, rank)


BAD = [
    (lambda c: c.all_reduce(np.ones(2, bool), "avg"), "op 'avg': truth values have no average; pass 'sum'"),
    (lambda c: c.all_reduce(np.ones(2, bool), plait.premul_sum(1)), "op: truth values are not multiplied"),
    (lambda c: c.all_reduce(np.ones(2, complex), "prod"), "op 'prod': complex numbers are reduced as pairs of floats"),
    (lambda c: c.reduce(np.ones(2, complex), "max"), "op 'max': complex numbers have no order"),
    (lambda c: c.reduce_scatter(np.ones(2, "complex64"), "min"), "op 'min': complex numbers have no order"),
    (lambda c: c.all_reduce(np.ones(2, bool), out=np.ones(2, "u1")), "its elements are uint8, those of array bool"),
    (lambda c: c.all_reduce(np.ones(2, "c8"), out=np.ones(2)), "its elements are float64, those of array complex64"),
    (lambda c: c.all_reduce(np.ones(2, "f4"), dtype="complex64"), "have 4 bytes and cannot be read as complex64 of 8"),
    (lambda c: c.all_reduce(np.ones(2), dtype="complex32"), "'complex32' is none of: int8, .*, bool, complex64, comp"),
    (lambda c: c.plan_for("all_reduce", 5, dtype="complex64", op="max"), "complex numbers have no order"),
]


@pytest.mark.parametrize(("call", "words"), BAD, ids=[words for _, words in BAD])
def test_what_they_do_not_have(alone, call, words):
    with pytest.raises(plait.InvalidArgument, match=words):
        call(alone)


def test_plans_of_complex_numbers_are_those_of_their_parts():
    (communicator, *_) = plait.in_process(4)
    for count in (1, 1000, 1 << 20):
        pairs = communicator.plan_for("all_reduce", count, dtype="complex64")
        assert pairs == communicator.plan_for("all_reduce", 2 * count, dtype="float32")


@pytest.mark.parametrize(
    ("dtype", "name"), [(bool, "bool"), (int, "int64"), (float, "float64"), (complex, "complex128")]
)
def test_types_of_python_are_what_numpy_takes_them_for(alone, dtype, name):
    assert np.dtype(dtype) == name
    assert alone.all_reduce(bytearray(32), dtype=dtype).dtype == name


def test_results_have_the_type_that_was_asked_for(alone):
    assert alone.all_reduce(np.ones(4, bool), dtype="uint8").dtype == np.uint8
    assert alone.all_reduce(np.ones(4, np.int32), dtype="float32").dtype == np.float32
    assert alone.all_reduce(np.ones(4, np.int16), dtype="bfloat16").dtype == np.int16  # which holds its bits
    assert alone.all_reduce(np.ones(4, "c8"), dtype="float64").dtype == np.float64


def test_torch_tensors_of_these_types():
    torch = pytest.importorskip("torch")

    def rank(communicator):
        either = communicator.all_reduce(torch.tensor([communicator.rank == 0, False]))
        total = communicator.all_reduce(torch.tensor([1 + 2j, communicator.rank]))
        raw = communicator.all_reduce(torch.ones(8, dtype=torch.uint8), dtype="float32")
        return either, total, raw

    for either, total, raw in in_threads(2, rank):
        assert either.dtype == torch.bool and either.tolist() == [True, False]
        assert total.dtype == torch.complex64 and total.tolist() == [2 + 4j, 1]
        assert raw.dtype == torch.float32 and raw.shape == (2,)


def test_advice_on_tensors_works(alone):
    torch = pytest.importorskip("torch")
    ml_dtypes = pytest.importorskip("ml_dtypes")
    tensor = torch.ones(3, dtype=torch.float8_e8m0fnu)
    with pytest.raises(plait.InvalidArgument, match=r"pass tensor.view\(torch.uint8\)"):
        alone.all_reduce(tensor)
    assert list(alone.broadcast(tensor.view(torch.uint8))) == [127] * 3
    values = np.ones(3, ml_dtypes.float8_e8m0fnu)
    refusals(alone, values)
    assert list(alone.broadcast(follow(advice_on(alone, values), values))) == [127] * 3
