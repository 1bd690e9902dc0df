"""The rows that `plait bench` measures."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from .. import _core
from . import usage
from .bench_options import ALL, BY_COUNTS, DEFAULT_BYTES, MULSUM, TYPES

REDUCING = {"all_reduce", "reduce", "reduce_scatter", "reduce_scatter_v"}
ROOTED = {"reduce", "broadcast", "gather", "scatter", "gather_v", "scatter_v"}
_WITH_BLOCKS = {"reduce_scatter", "all_gather", "gather", "scatter", "all_to_all", *BY_COUNTS}
_IMBALANCE = 2.0


def cases_of(options: argparse.Namespace, ranks: int) -> Iterator[tuple]:
    """The rows of the table, as arguments of bench_result.Case. Raises UsageError."""
    collective = options.collective
    if options.copy_bound and collective != "all_reduce":
        raise usage.UsageError("bench: --copy-bound is for all_reduce")
    _check_messages(options, ranks)
    _complete_imbalance(options, ranks)
    roots = _roots(options, ranks)
    if collective == "barrier":
        for _ in range(options.run_cycles):
            yield collective, 0, 0, "uint8", "none", -1, ranks
        return
    for dtype in TYPES if options.datatype == ALL else [options.datatype]:
        for op in _ops(options, dtype):
            for root in roots:
                for _ in range(options.run_cycles):
                    for size in _sizes(options):
                        count = count_of(collective, size, _core.size_of(dtype), ranks)
                        total = count * _core.size_of(dtype) * (ranks if collective in _WITH_BLOCKS else 1)
                        yield collective, total, count, dtype, op, root, ranks


def _check_messages(options: argparse.Namespace, ranks: int) -> None:
    given = "--one-way" if options.one_way else "--window" if options.window > 1 else None
    if given is not None and options.collective != "send_receive":
        raise usage.UsageError(f"bench: {given} is for send_receive, not for {options.collective}")
    if options.one_way and ranks < 2:
        raise usage.UsageError("bench: --one-way is for two ranks and more")


def _complete_imbalance(options: argparse.Namespace, ranks: int) -> None:
    """How many times the mean block that of rank 0 is. None where all blocks are equal by their nature."""
    if options.collective not in BY_COUNTS:
        if options.imbalance is not None:
            raise usage.UsageError(f"bench: --imbalance is for {', '.join(BY_COUNTS)}, not for {options.collective}")
        return
    if options.device == "cuda":
        raise usage.UsageError(f"bench: {options.collective} runs on host memory; leave --device cuda out")
    if options.imbalance is None:
        options.imbalance = min(_IMBALANCE, ranks)
    if options.imbalance > ranks:
        raise usage.UsageError(
            f"bench: --imbalance {options.imbalance:g} is more than {usage.counted(ranks, 'rank')}: rank 0 would have "
            "more than all there is"
        )


def _roots(options: argparse.Namespace, ranks: int) -> list[int]:
    if options.root != ALL and options.root >= ranks:
        raise usage.UsageError(f"bench: root {options.root} is not one of {usage.counted(ranks, 'rank')}")
    if options.collective not in ROOTED:
        return [-1]  # nccl-tests takes any root there, too
    return list(range(ranks)) if options.root == ALL else [options.root]


def _ops(options: argparse.Namespace, dtype: str) -> tuple[str, ...]:
    """The operations of a type, as nccl-tests prints them."""
    if options.collective == "send_receive":
        return ("sum",)
    if options.collective not in REDUCING:
        return ("none",)
    of_type = (*_core.reduce_op_names(dtype), MULSUM)
    if options.op == ALL:
        return of_type
    if options.op not in of_type and options.datatype != ALL:
        raise usage.UsageError(f"bench: {dtype} has no {options.op}; it has {', '.join(of_type)}")
    return (options.op,) if options.op in of_type else ()


def _sizes(options: argparse.Namespace) -> Iterator[int]:
    largest = options.maxbytes
    if options.minbytes > largest:
        default = "; -b is 32M where it is not given" if options.minbytes == DEFAULT_BYTES else ""
        raise usage.UsageError(f"bench: -b {options.minbytes} is more than -e {largest}{default}")
    if options.minbytes == 0 and options.stepfactor > 1 and largest > 0:
        raise usage.UsageError("bench: -b 0 stays 0 with every -f; use -i, or -b 8")
    if options.stepbytes == 0 and options.stepfactor == 1:
        raise usage.UsageError("bench: -i 0 never gets any further")
    size = options.minbytes
    while size <= largest:
        yield size
        if size == largest:
            return
        size = size * options.stepfactor if options.stepfactor > 1 else size + options.stepbytes


def count_of(collective: str, size: int, element: int, ranks: int) -> int:
    """nccl-tests' count for a size: blocks are whole multiples of 16 bytes."""
    if collective not in _WITH_BLOCKS:
        return size // element
    return size // element // ranks & ~(16 // element - 1)
