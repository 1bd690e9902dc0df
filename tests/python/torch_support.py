"""What the scenarios of plait.torch have in common: ranks, random tensors, and what results should be."""

import random
from datetime import timedelta

import plait.torch  # noqa: F401  the backend
import torch
import torch.distributed as dist

SCENARIOS = {}
SECONDS = timedelta(seconds=30)

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
BYTES = [torch.bool, torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2]
COMPLEX = [torch.complex64, torch.complex128]


def scenario(function):
    SCENARIOS[function.__name__] = function
    return function


class Ranks:
    """This rank, the group under test, and what is random: `shared` alike on all ranks, `own` not."""

    def __init__(self, name, backend="plait"):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.group = dist.new_group(backend=backend, timeout=SECONDS)
        self.gloo = dist.new_group(backend="gloo", timeout=SECONDS / 2)
        self.shared = random.Random(name)
        self.own = random.Random(f"{name} {self.rank}")

    def shape(self, first=None):
        """A shape of up to four axes, some of them empty. `first`: what divides the first axis."""
        axes = self.shared.randint(0 if first is None else 1, 4)
        shape = [self.shared.choice([0, 1, 2, 3, 5, 17]) for _ in range(axes)]
        if first is not None:
            shape[0] *= first
        return shape

    def fill(self, shape, dtype, times=1):
        """A new tensor of small whole numbers, other ones on each rank, that lies as it happens."""
        numbers = [times * self.own.randint(0, 3) for _ in range(torch.Size(shape).numel())]
        values = torch.tensor(numbers, dtype=torch.float64)
        values = values.reshape(shape)
        if dtype in COMPLEX:
            values = torch.complex(values, values.flip(0) if values.dim() else values)
        return self.laid(values.to(dtype))

    def laid(self, tensor):
        """The same elements, with gaps between them, in another order, or as they are."""
        way = self.own.choice(["dense", "dense", "gaps", "reversed"])
        if way == "gaps":
            wide = torch.zeros([*tensor.shape, 3], dtype=tensor.dtype)
            wide[..., 1] = tensor
            return wide[..., 1]
        if way == "reversed" and tensor.dim() > 1:
            axes = list(range(tensor.dim()))[::-1]
            return tensor.permute(axes).contiguous().permute(axes)
        return tensor

    def whole_mean(self, op, dtype):
        """What numbers have to be a multiple of, so that their mean is exact; that of integers is truncated."""
        return self.size if op == "AVG" and (dtype.is_floating_point or dtype.is_complex) else 1

    def rounds(self, number, dtypes):
        for _ in range(number):
            yield self.shared.choice(dtypes)

    def all(self, tensor):
        """The tensors of all ranks, carried by Gloo as objects."""
        data = bytes(tensor.detach().clone(memory_format=torch.contiguous_format).untyped_storage())
        all_data = [None] * self.size
        dist.all_gather_object(all_data, (tensor.shape, data), group=self.gloo)
        return [
            torch.frombuffer(bytearray(data), dtype=tensor.dtype).reshape(shape)
            if data
            else torch.empty(shape, dtype=tensor.dtype)
            for shape, data in all_data
        ]


def same(found, expected):
    assert found.dtype == expected.dtype and found.shape == expected.shape, (found.shape, expected.shape)
    is_byte = found.element_size() == 1  # which floats of one byte can be compared as
    a, b = (each.resolve_conj().contiguous().view(torch.uint8) if is_byte else each for each in (found, expected))
    assert torch.equal(a, b), f"{found} is not {expected}"


def combined(tensors, op):
    """What a reduction gives, by torch itself."""
    first = tensors[0]
    if first.dtype == torch.bool:
        stack = torch.stack(tensors)
        return stack.any(0) if op in ("SUM", "MAX") else stack.all(0)
    wide = torch.stack([each.to(torch.complex128 if first.is_complex() else torch.float64) for each in tensors])
    if op == "AVG":
        mean = wide.sum(0) / len(tensors)
        return (mean if first.is_floating_point() or first.is_complex() else mean.trunc()).to(first.dtype)
    function = {"SUM": wide.sum, "PRODUCT": wide.prod, "MIN": wide.amin, "MAX": wide.amax}[op]
    return function(0).to(first.dtype)


def operation(name):
    return getattr(dist.ReduceOp, name)


def failure_of(call, kind):
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")
