"""What can be told of arrays on GPUs without a GPU: how they are refused, and which stream a call goes on.

tests/gpu/python_test.py makes the calls, where there are GPUs.
"""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import plait
import pytest
from plait import streams


class OnGpu:
    """An array of a GPU as far as DLPack tells."""

    def __init__(self, device: tuple[int, int] = (2, 0)) -> None:
        self.device = device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **options):
        raise AssertionError("nobody may ask for memory that cannot be used")


@pytest.fixture
def comm():
    with plait.in_process(1)[0] as comm:
        yield comm


def test_host_memory_has_no_device_and_no_stream(comm):
    assert comm.device is None
    calls = (
        lambda: comm.all_reduce(np.ones(2), stream=0),
        lambda: comm.scatter(np.ones(2), stream=0),
        lambda: comm.send(np.ones(2), 0, stream=0),
        lambda: comm.exchange(sends={}, stream=0),
    )
    for call in calls:
        with pytest.raises(plait.InvalidArgument, match=r"stream: a communicator of host memory has none"):
            call()
    assert comm.all_reduce(np.ones(2)).tolist() == [1, 1]


@pytest.mark.parametrize("device", [(2, 0), (2, 1), (13, 0), (10, 0)])
def test_host_memory_refuses_what_is_on_a_device(comm, device):
    with pytest.raises(plait.InvalidArgument, match=rf"device type {device[0]}\).*device='cuda'"):
        comm.all_reduce(OnGpu(device))
    with pytest.raises(plait.InvalidArgument, match="out: the array is in the memory of a device"):
        comm.all_reduce(np.ones(2), out=OnGpu(device))


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "cuda:", "cpu:0", "", 1.5, True, "cuda:-1"])
def test_devices_that_are_none(device):
    with pytest.raises(plait.InvalidArgument, match=r"device: '.*' is none; pass 'cuda', 'cuda:0', a number, or 'cpu'"):
        plait.init(device=device)


@pytest.mark.parametrize("device", ["cuda", "cuda:0", 0, SimpleNamespace(__str__=None)])
def test_a_gpu_that_is_not_there(device, monkeypatch):
    def none():
        raise plait.InvalidArgument("no GPU")

    monkeypatch.setattr(plait._core, "look_at_cuda", none)
    with pytest.raises(plait.InvalidArgument):
        plait.init(device=device)


def test_the_number_of_a_device(monkeypatch):
    number_of = plait.communicator._number_of
    monkeypatch.setattr(plait._core, "look_at_cuda", lambda: SimpleNamespace(devices=["one", "two"]))
    monkeypatch.setattr(plait._core, "launch_environment", lambda: SimpleNamespace(local_rank=5))
    assert [number_of(it) for it in (None, "cpu", "cuda", "cuda:0", 1)] == [-1, -1, 1, 0, 1]
    with pytest.raises(plait.InvalidArgument, match="there is no GPU 2; this process sees 2"):
        number_of("cuda:2")
    monkeypatch.setattr(plait._core, "launch_environment", lambda: None)
    assert number_of("cuda") == 0


def test_devices_of_ranks_in_a_process():
    with pytest.raises(plait.InvalidArgument, match="there are 1 for 2 ranks"):
        plait.in_process(2, devices=[0])


@pytest.mark.parametrize(
    "stream",
    [
        7,
        SimpleNamespace(cuda_stream=7),  # torch
        SimpleNamespace(ptr=7),  # CuPy
        SimpleNamespace(handle=ctypes.c_void_p(7)),  # numba
        type("Stream", (), {"__cuda_stream__": lambda self: (0, 7)})(),  # cuda.core
    ],
)
def test_handles_of_streams(stream):
    assert streams.handle_of(stream) == 7


def test_the_default_stream_of_numba_is_null():
    assert streams.handle_of(SimpleNamespace(handle=ctypes.c_void_p(None))) == 0


@pytest.mark.parametrize("stream", ["default", True, 1.5, object()])
def test_what_is_no_stream(stream):
    with pytest.raises(plait.InvalidArgument, match=r"stream: a .* is none; pass a stream of torch, CuPy or numba"):
        streams.handle_of(stream)


class DlTensor(ctypes.Structure):
    """DLPack's DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("dimensions", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


GIVE = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DlTensor))
CURRENT_STREAM = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


class DlExchange(ctypes.Structure):
    """DLPack's DLPackExchangeAPI."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("give_managed", ctypes.c_void_p),
        ("take_managed", ctypes.c_void_p),
        ("give", GIVE),
        ("current_stream", CURRENT_STREAM),
    )


@GIVE
def give(tensor, out):
    shape, strides = tensor.array.shape, [step // tensor.array.itemsize for step in tensor.array.strides]
    dimensions = len(shape)
    tensor.numbers = (ctypes.c_int64 * (2 * dimensions))(*shape, *strides)
    numbers = ctypes.cast(tensor.numbers, ctypes.POINTER(ctypes.c_int64))
    after = ctypes.cast(ctypes.byref(tensor.numbers, 8 * dimensions), ctypes.POINTER(ctypes.c_int64))
    code = {"i": 0, "f": 2, "c": 5}[tensor.array.dtype.kind]
    out[0] = DlTensor(
        tensor.array.ctypes.data, *tensor.device, dimensions, code, 8 * tensor.array.itemsize, 1, numbers, after, 0
    )
    return 0


@CURRENT_STREAM
def current_stream(device_type, device_id, stream):
    stream[0] = 1000 * device_type + device_id
    return 0


EXCHANGE = DlExchange(1, 3, None, None, None, None, give, current_stream)
CAPSULE_NAME = b"dlpack_exchange_api"  # a capsule keeps its address
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


class Tensor:
    """A tensor as torch 2.10 and later give their memory to C++."""

    __dlpack_c_exchange_api__ = new_capsule(ctypes.addressof(EXCHANGE), CAPSULE_NAME, None)

    def __init__(self, array, *, device=(1, 0), requires_grad=False, conjugated=False, negated=False):
        self.array, self.device, self.requires_grad = array, device, requires_grad
        self.is_conj, self.is_neg = (lambda: conjugated), (lambda: negated)
        self.dtype = f"torch.{array.dtype}"

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **options):
        raise BufferError("it stands for other numbers")


Tensor.__module__ = "torch"


def test_tensors_give_their_memory_without_calls_of_python(comm):
    given = np.arange(12, dtype="float32").reshape(3, 4)
    out = Tensor(np.zeros((3, 4), "float32"))
    comm.all_reduce(Tensor(given), out=out)
    assert (out.array == given).all()
    across = Tensor(np.zeros((4, 3), "float32").T)  # the other order
    comm.all_reduce(Tensor(given), out=across)
    assert (across.array == given).all()
    numbers = Tensor(np.arange(4) * 1j)
    comm.all_reduce(numbers, out=numbers)
    assert (numbers.array == np.arange(4) * 1j).all()


def test_tensors_that_stand_for_others_are_asked_as_any_array(comm):
    for tensor in (
        Tensor(np.ones(4), requires_grad=True),
        Tensor(np.ones(4) * 1j, conjugated=True),
    ):
        with pytest.raises(plait.InvalidArgument, match="a Tensor cannot be shared: it stands for other numbers"):
            comm.all_reduce(tensor)
    with pytest.raises(plait.InvalidArgument, match=r"array: the tensor is a negative view .*resolve_neg\(\)"):
        comm.all_reduce(Tensor(np.ones(4), negated=True))
    with pytest.raises(plait.InvalidArgument, match="array: the array is in the memory of a device"):
        comm.all_reduce(Tensor(np.ones(4), device=(2, 0)))


def test_the_stream_on_which_torch_works():
    stream = plait._core.torch_stream
    assert stream(Tensor(np.ones(4), device=(2, 1))) == 2001
    assert [stream(it) for it in (None, np.ones(4), Tensor(np.ones(4)), OnGpu())] == [None] * 4
