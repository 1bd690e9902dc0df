"""The tables of the benchmark pages, by the names that stand in the pages' markers."""

from __future__ import annotations

from tables import (
    COLLECTIVES,
    FROM_256_MIB,
    GIB,
    IN,
    KIB,
    MEAN,
    MIB,
    OUT,
    TO_16_MIB,
    ForwardedCalls,
    Grid,
    LinkRates,
    Machine,
    NcclTests,
    OneProcess,
    Row,
    Summary,
    Table,
    beside_nccl,
    coarse_ratio,
    coarse_ratio_to_peer,
    mean,
    nccl_better,
    time,
    time_and_better_nccl,
    time_at,
)

H100, H100_4, H200, H200_4, EPYC = "h100-2", "h100-4", "h200-2", "h200-4", "amd-epyc-2-cores"


def pick(machine: str, rows: dict[str, tuple[str, ...]]) -> list[Row]:
    """Rows of one machine: label -> kind, and place where it is not out of place."""
    return [Row(label, machine, *what) for label, what in rows.items()]


CPU_ROWS = [
    Row(f"{ranks} ranks, {peer}", EPYC, f"all_reduce-{ranks}-ranks-vs-{option}", OUT, coarse_ratio_to_peer)
    for peer, option in (("Open MPI", "mpi"), ("Gloo", "gloo"))
    for ranks in (2, 4)
]
CPU_SIZES = [4, 64, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB]
COARSE_MEAN = mean("mean of all", write=coarse_ratio)
CPU_FEW_SIZES = [64, KIB, 16 * KIB, 256 * KIB, 4 * MIB, 64 * MIB]


def beside_open_mpi(ranks: int, place: str) -> Grid:
    """All collectives on CPUs."""
    rows = [Row(it, EPYC, f"{it}-{ranks}-ranks-vs-mpi", place, coarse_ratio_to_peer) for it in COLLECTIVES]
    return Grid(rows, CPU_FEW_SIZES, (COARSE_MEAN,))


CPU_MESSAGES = [
    Row(f"{ranks} ranks{words}", EPYC, f"send_receive-{ranks}-ranks-vs-mpi", place, coarse_ratio_to_peer)
    for ranks in (2, 4)
    for place, words in ((OUT, ""), (IN, ", in place"))
]

HOST_SIZES = [4, KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB]


def over_hosts(rate: str, *hosts_and_ranks: tuple[int, int], peer: str = "mpi") -> Grid:
    """Hosts x ranks of each, as benchmarks/hosts.py measures them."""
    rows = [
        Row(label, EPYC, f"{collective}-{hosts * ranks}-ranks-{where}-vs-{peer}", OUT, coarse_ratio_to_peer)
        for collective in ("all_reduce", "broadcast")
        for hosts, ranks in hosts_and_ranks
        for label, where in [(f"{collective}, {hosts} x {ranks}", f"{hosts}-hosts-{rate}")]
    ]
    return Grid(rows, HOST_SIZES, (COARSE_MEAN,))


FEW_SIZES = [64, 256 * KIB, 16 * MIB, 256 * MIB]
MORE_SIZES = [64, 4 * KIB, 256 * KIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, GIB]
FEW_SIZES_4 = [128, 512 * KIB, 8 * MIB, 128 * MIB]
FEW_TIMED_SIZES = [8, 4 * KIB, 256 * KIB, 2 * MIB, 16 * MIB, 256 * MIB, GIB]
TIMED_SIZES = [8, 512, 4 * KIB, 32 * KIB, 256 * KIB, 2 * MIB, 16 * MIB, 128 * MIB, 256 * MIB, GIB]
VARIANT_SIZES = [64, 4 * KIB, 256 * KIB, 16 * MIB, 64 * MIB, 128 * MIB, 256 * MIB, GIB]
BOTH_ENDS = (TO_16_MIB, FROM_256_MIB)

VARIANTS_2 = {
    "all_reduce, bfloat16": ("all_reduce-bfloat16",),
    "all_reduce, launched each time": ("all_reduce-launched",),
}
VARIANTS_4 = {
    "all_reduce, bfloat16": ("all_reduce-bfloat16",),
    "reduce_scatter, bfloat16": ("reduce_scatter-bfloat16",),
    "all_reduce, pre-multiplied": ("all_reduce-mulsum",),
    "all_reduce, launched each time": ("all_reduce-launched",),
    "send_receive, launched each time": ("send_receive-launched",),
}

LAUNCHED = {
    name: (f"{name}-launched",) for name in ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all")
}

PDL_GRAPHS = [
    Row("without PDL", H200, "all_reduce-pdl-0", OUT, time),
    Row("with PDL", H200, "all_reduce", OUT, time),
]
PDL_LAUNCHED = [
    Row("without PDL", H200, "all_reduce-launched-pdl-0", OUT, time),
    Row("with PDL", H200, "all_reduce-launched", OUT, time),
    Row("better NCCL, in the run without", H200, "all_reduce-launched-pdl-0", OUT, nccl_better),
    Row("better NCCL, in the run with", H200, "all_reduce-launched", OUT, nccl_better),
]

TYPE_SIZES = [4 * KIB, 64 * KIB, MIB, 4 * MIB, 16 * MIB, 256 * MIB]
TYPES_2 = {
    "all_reduce, int8": ("all_reduce-int8",),
    "all_reduce, float8_e4m3fn": ("all_reduce-float8_e4m3fn",),
    "all_reduce, float16": ("all_reduce-float16",),
    "all_reduce, float64": ("all_reduce-float64",),
    "all_reduce, bfloat16, average": ("all_reduce-bfloat16-avg",),
    "all_reduce, float32, maximum": ("all_reduce-max",),
    "all_reduce, bfloat16, maximum": ("all_reduce-bfloat16-max",),
    "all_reduce, int8, maximum": ("all_reduce-int8-max",),
    "all_reduce, float8_e4m3fn, maximum": ("all_reduce-float8_e4m3fn-max",),
    "all_reduce, float8_e4m3fn, product": ("all_reduce-float8_e4m3fn-prod",),
    "reduce_scatter, int8": ("reduce_scatter-int8",),
    "reduce_scatter, float8_e4m3fn": ("reduce_scatter-float8_e4m3fn",),
    "reduce_scatter, bfloat16": ("reduce_scatter-bfloat16",),
    "reduce_scatter, bfloat16, average, in place": ("reduce_scatter-bfloat16-avg", IN),
    "reduce, int8": ("reduce-int8",),
    "reduce, bfloat16": ("reduce-bfloat16",),
}
TYPES_4 = {
    "all_reduce, int8": ("all_reduce-int8",),
    "all_reduce, float8_e4m3fn": ("all_reduce-float8_e4m3fn",),
    "all_reduce, bfloat16, average": ("all_reduce-bfloat16-avg",),
    "reduce_scatter, int8": ("reduce_scatter-int8",),
}

ODD_SIZES = [1000 * 3**power for power in (1, 3, 5, 7, 8, 9, 10, 11, 12)]
ODD = {
    "all_reduce": ("all_reduce-odd_sizes",),
    "reduce_scatter": ("reduce_scatter-odd_sizes",),
    "broadcast": ("broadcast-odd_sizes",),
    "reduce": ("reduce-odd_sizes",),
    "all_gather": ("all_gather-odd_sizes",),
    "all_gather, in place": ("all_gather-odd_sizes", IN),
}
LONG_ODD_SIZES = ODD_SIZES[4:8]
LONG_ODD = [
    Row("2 GPUs, all_to_all", H200, "all_to_all-odd_sizes"),
    Row("4 GPUs, all_gather", H200_4, "all_gather-odd_sizes"),
    Row("4 GPUs, all_gather, in place", H200_4, "all_gather-odd_sizes", IN),
]

UNALIGNED_2 = {
    "all_reduce, float32": ("all_reduce-unaligned",),
    "all_reduce, bfloat16": ("all_reduce-bfloat16-unaligned",),
    "all_reduce, int8": ("all_reduce-int8-unaligned",),
    "all_reduce, float8_e4m3fn": ("all_reduce-float8_e4m3fn-unaligned",),
    "reduce_scatter, bfloat16": ("reduce_scatter-bfloat16-unaligned",),
    "reduce_scatter, int8": ("reduce_scatter-int8-unaligned",),
    "all_gather, float32": ("all_gather-unaligned",),
    "all_gather, float32, in place": ("all_gather-unaligned", IN),
}
UNALIGNED_4 = {
    "all_reduce, float32": ("all_reduce-unaligned",),
    "all_reduce, bfloat16": ("all_reduce-bfloat16-unaligned",),
    "reduce_scatter, float32": ("reduce_scatter-unaligned",),
    "reduce, float32": ("reduce-unaligned",),
    "broadcast, float32": ("broadcast-unaligned",),
    "all_gather, float32": ("all_gather-unaligned",),
    "all_gather, float32, in place": ("all_gather-unaligned", IN),
}
UNALIGNED_H100 = {
    "all_gather, float32": ("all_gather-unaligned",),
    "all_gather, float32, in place": ("all_gather-unaligned", IN),
    "all_gather, int8": ("all_gather-int8-unaligned",),
    "all_gather, int8, in place": ("all_gather-int8-unaligned", IN),
    "all_to_all, int8": ("all_to_all-int8-unaligned",),
    "broadcast, int8": ("broadcast-int8-unaligned",),
    "all_reduce, int8": ("all_reduce-int8-unaligned",),
    "all_reduce, bfloat16": ("all_reduce-bfloat16-unaligned",),
    "reduce_scatter, bfloat16": ("reduce_scatter-bfloat16-unaligned",),
}
UNALIGNED_SIZES = [64, KIB, 16 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB]


def beside_better_nccl(rows: list[Row]) -> Grid:
    pairs = [row._replace(cell=time_and_better_nccl) for row in rows]
    return Grid(pairs, [16 * MIB, 256 * MIB], corner="Plait / better NCCL, µs")


FEW_SMS = [
    Row("4 GPUs, at most 8", H200_4, "all_reduce-max_sms-8"),
    Row("4 GPUs, at most 16", H200_4, "all_reduce-max_sms-16"),
    Row("2 GPUs, at most 16", H200, "all_reduce-max_sms-16"),
]
FEW_SMS_SIZES = [4 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, GIB]

TABLES: dict[str, Table] = {
    "summary": Summary(
        {"2 H100": (H100, ""), "4 H100": (H100_4, ""), "2 H200": (H200, ""), "4 H200": (H200_4, "")}, COLLECTIVES[:6]
    ),
    "CPU, summary": Summary(
        {f"{ranks} ranks": (EPYC, f"-{ranks}-ranks-vs-mpi") for ranks in (2, 4)}, COLLECTIVES, coarse_ratio
    ),
    "CPU, more sizes": Grid(CPU_ROWS, CPU_SIZES, (COARSE_MEAN,)),
    "CPU, 2 ranks": beside_open_mpi(2, OUT),
    "CPU, 4 ranks": beside_open_mpi(4, OUT),
    "CPU, 2 ranks in place": beside_open_mpi(2, IN),
    "CPU, 4 ranks in place": beside_open_mpi(4, IN),
    "CPU, messages": Grid(CPU_MESSAGES, CPU_SIZES, (COARSE_MEAN,)),
    "hosts, unshaped": over_hosts("unshaped", (2, 1), (2, 2), (4, 1), (4, 2)),
    "hosts, 1 Gbit/s": over_hosts("1-gbps", (2, 1), (2, 2), (4, 1), (4, 2)),
    "hosts, 10 Gbit/s": over_hosts("10-gbps", (2, 1), (2, 2), (4, 1), (4, 2)),
    "hosts, Gloo": over_hosts("10-gbps", (2, 1), (2, 2), peer="gloo"),
    "2 H100": Machine(H100, FEW_SIZES, (MEAN,), in_place_too=()),
    "2 H100, all_reduce": beside_nccl(H100, "all_reduce", FEW_TIMED_SIZES),
    "2 H100, all_reduce of more sizes": beside_nccl(H100, "all_reduce", TIMED_SIZES),
    "2 H100, all_reduce of bfloat16": beside_nccl(H100, "all_reduce-bfloat16", TIMED_SIZES),
    "2 H100, more sizes": Machine(H100, MORE_SIZES, BOTH_ENDS),
    "2 H100, unaligned": Grid(pick(H100, UNALIGNED_H100), UNALIGNED_SIZES),
    "4 H100": Machine(H100_4, FEW_SIZES_4, (MEAN,), in_place_too=()),
    "4 H100, launched": Grid(pick(H100_4, LAUNCHED), FEW_SIZES_4, (MEAN,)),
    "2 H200": Machine(H200, FEW_SIZES, (MEAN,), in_place_too=()),
    "2 H200, all_reduce": beside_nccl(H200, "all_reduce", TIMED_SIZES),
    "2 H200, more sizes": Machine(H200, MORE_SIZES, BOTH_ENDS),
    "2 H200, variants": Grid(pick(H200, VARIANTS_2), VARIANT_SIZES, BOTH_ENDS),
    "2 H200, types": Grid(pick(H200, TYPES_2), TYPE_SIZES, (time_at(256 * MIB),)),
    "2 H200, odd sizes": Grid(pick(H200, ODD), ODD_SIZES, (MEAN,)),
    "2 H200, unaligned": beside_better_nccl(pick(H200, UNALIGNED_2)),
    "2 H200, PDL in graphs": Grid(PDL_GRAPHS, [8, 128, 2 * KIB, 32 * KIB, 512 * KIB, 2 * MIB], corner="µs"),
    "2 H200, PDL without graphs": Grid(PDL_LAUNCHED, [8, 64, 512, 4 * KIB, 32 * KIB, 256 * KIB], corner="µs"),
    "4 H200": Machine(H200_4, FEW_SIZES, (MEAN,), in_place_too=()),
    "4 H200, all_reduce": beside_nccl(H200_4, "all_reduce", TIMED_SIZES),
    "4 H200, more sizes": Machine(H200_4, MORE_SIZES, BOTH_ENDS),
    "4 H200, variants": Grid(pick(H200_4, VARIANTS_4), VARIANT_SIZES, BOTH_ENDS),
    "4 H200, types": Grid(pick(H200_4, TYPES_4), [16 * MIB, 256 * MIB], (time_at(256 * MIB),)),
    "4 H200, unaligned": beside_better_nccl(pick(H200_4, UNALIGNED_4)),
    "H200, long odd sizes": Grid(LONG_ODD, LONG_ODD_SIZES),
    "H200, few SMs": Grid(FEW_SMS, FEW_SMS_SIZES),
    "2 H200, nccl-tests": NcclTests(H200),
    "2 H200, nccl-tests in one process": OneProcess(H200, [16 * MIB, 32 * MIB, 64 * MIB, 128 * MIB, 256 * MIB]),
    "2 H200, link rates": LinkRates(H200),
    "CPU, forwarded calls": ForwardedCalls(EPYC),
}

# file -> machine and title of a figure of all_reduce
FIGURES = {"docs/all_reduce_2_h100.svg": (H100, "all_reduce of float32 over 2 H100, in CUDA graphs")}
