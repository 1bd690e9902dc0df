"""The training step: networks, fusion, overlap, against cases by hand, limits, and random ones."""

from __future__ import annotations

import itertools
import json
import math
import random

import pytest
from plait import InvalidArgument, InvalidInput, simulator, topology, training
from plait.training import Compute, Fusion, Gradient, Layer, Measured, Network, Simulated, train_step
from plait.training.fusion import schedule

# Parameters, and 10^9 multiply-adds of convolutions and dense layers, as torchvision publishes them for its models.
PUBLISHED = {
    "resnet50": (25_557_032, 4.09),
    "resnet152": (60_192_808, 11.51),
    "densenet201": (20_013_928, 4.29),
    "vgg16": (138_357_544, 15.47),
}
# Three layers of 4, 2 and 1 MB, the last of two gradients; backward takes 7, 2 and 1 ms, the last layer's first.
SMALL = Network(
    "small",
    "samples",
    "none",
    [Layer("a", (1_000_000,), 10), Layer("b", (500_000,), 20), Layer("c", (150_000, 100_000), 70)],
)
COMPUTE = Compute(forward_seconds=5e-3, backward_seconds=10e-3, update_seconds=1e-3)
ROWS = ["forward", "backward", "pack", "all_reduce", "unpack", "update"]


def linear(start, gbps):
    return lambda size: start + size / (gbps * 1e9)


def small_step(all_reduce, ranks=4, memory_gbps=math.inf, **options):
    return train_step(SMALL, ranks, 8, COMPUTE, all_reduce, memory_gbps=memory_gbps, **options)


@pytest.mark.parametrize("name", PUBLISHED)
def test_networks_are_the_published_ones(name):
    network = training.network(name)
    parameters, billions = PUBLISHED[name]
    assert network.parameters == parameters
    computing = sum(layer.multiply_adds for layer in network.layers if "normal" not in layer.name)
    assert computing / 1e9 == pytest.approx(billions, abs=0.01)


def test_cosmoflow_by_hand():
    channels = (4, 32, 64, 128, 256, 512)
    convolutions = sum(8 * a * b + b for a, b in itertools.pairwise(channels))
    assert training.network("cosmoflow").parameters == convolutions + (4**3 * 512 + 1) * 128 + 129 * 64 + 65 * 4


def test_unknown_network_is_refused():
    with pytest.raises(InvalidArgument, match="resnet50"):
        training.network("resnet51")


def test_gradients_come_in_the_order_of_the_backward_pass():
    found = training.gradients(SMALL, COMPUTE)
    assert [it.bytes for it in found] == [600_000, 400_000, 2_000_000, 4_000_000]
    assert [it.ready_seconds for it in found] == pytest.approx([12e-3, 12e-3, 14e-3, 15e-3])
    late = training.gradients(SMALL, COMPUTE, overlap=False, element_bytes=2)
    assert [(it.bytes, it.ready_seconds) for it in late] == [
        (n, 15e-3) for n in (300_000, 200_000, 1_000_000, 2_000_000)
    ]


def test_a_step_by_hand():
    # A look every 6 ms: at 12 ms for c's two gradients (1 MB), at 18 ms for b and a (6 MB). Copies of 1 GB/s take
    # 2 ms for 1 MB; an all-reduce takes 1 ms and 1 ms for each MB.
    step = small_step(linear(1e-3, 1), fusion=Fusion(math.inf, 6e-3), memory_gbps=1)
    first, second = step.messages
    assert (first.bytes, first.gradients, second.bytes, second.gradients) == (1_000_000, 2, 6_000_000, 2)
    assert (first.begin_seconds, first.end_seconds) == pytest.approx((12e-3, 18e-3))
    assert (second.begin_seconds, second.end_seconds) == pytest.approx((18e-3, 18e-3 + 12e-3 + 7e-3 + 12e-3))
    # After 15 ms: 1 ms of the first all-reduce and its 2 ms of unpacking, then all of the second, and the update.
    assert step.rows == pytest.approx(
        {"forward": 5e-3, "backward": 10e-3, "pack": 12e-3, "all_reduce": 8e-3, "unpack": 14e-3, "update": 1e-3}
    )
    assert step.seconds == pytest.approx(50e-3)
    assert step.throughput == pytest.approx(4 * 8 / 50e-3)
    assert step.speedup == pytest.approx(4 * 16 / 50)
    assert step.scaling_efficiency == pytest.approx(16 / 50)
    assert step.parallel_efficiency == pytest.approx(16 / 50)
    assert step.work["all_reduce"] == pytest.approx(9e-3)


def test_waiting_for_a_cycle_counts_as_all_reduce():
    step = small_step(linear(0, math.inf), fusion=Fusion(math.inf, 20e-3))
    assert step.rows["all_reduce"] == pytest.approx(5e-3)


def test_without_overlap_the_rows_are_the_sum():
    all_reduce = linear(1e-3, 1)
    step = small_step(all_reduce, overlap=False, fusion=Fusion(math.inf, None), memory_gbps=1)
    assert step.rows == pytest.approx(step.work)
    assert step.seconds == pytest.approx(16e-3 + all_reduce(7_000_000) + 2 * 14e-3)


def test_with_infinite_bandwidth_compute_is_alone():
    for fusion in (Fusion(0, 0), Fusion(math.inf, None), Fusion(1 << 20, 1e-9)):
        step = small_step(linear(0, math.inf), fusion=fusion)
        assert step.seconds == pytest.approx(COMPUTE.seconds, abs=1e-8)
        assert step.scaling_efficiency == pytest.approx(1, abs=1e-6)


def test_one_rank_sends_nothing():
    step = small_step(lambda size: 1 / 0, ranks=1)
    assert step.messages == [] and step.seconds == COMPUTE.seconds and step.speedup == 1


def test_threshold_of_nothing_and_of_everything():
    resnet = training.network("resnet50")
    compute = Compute.from_throughput(resnet, 64, 405)
    alone = train_step(resnet, 8, 64, compute, linear(1e-5, 10), fusion=Fusion(0))
    assert [it.gradients for it in alone.messages] == [1] * 161
    assert alone.work["pack"] == 0  # what is alone goes from where it is
    whole = train_step(resnet, 8, 64, compute, linear(1e-5, 10), fusion=Fusion(math.inf, None))
    assert [(it.bytes, it.gradients) for it in whole.messages] == [(4 * resnet.parameters, 161)]
    end = compute.forward_seconds + compute.backward_seconds
    assert whole.messages[0].begin_seconds == pytest.approx(end)
    assert whole.rows["all_reduce"] == pytest.approx(1e-5 + 4 * resnet.parameters / 10e9)


def test_a_thread_that_blocks_fuses_more():
    all_reduce = linear(4e-3, 1)
    free = small_step(all_reduce, fusion=Fusion(math.inf, 0))
    blocked = small_step(all_reduce, fusion=Fusion(math.inf, 0, blocks=True))
    assert [it.gradients for it in free.messages] == [2, 1, 1]
    assert [it.gradients for it in blocked.messages] == [2, 2]
    assert blocked.seconds < free.seconds


def test_broadcast_of_parameters_is_a_row_of_its_own():
    step = small_step(linear(0, math.inf), fusion=Fusion(2_000_000, 0), broadcast=linear(1e-3, 1))
    assert list(step.rows) == [*ROWS, "broadcast"]
    assert step.rows["broadcast"] == pytest.approx(3 * 1e-3 + 7e-3)
    assert step.seconds == pytest.approx(COMPUTE.seconds + 10e-3)


def test_start_broadcasts_each_tensor_or_fused():
    assert training.start_seconds(SMALL, linear(1e-3, 1)) == pytest.approx(4e-3 + 7e-3)
    assert training.start_seconds(SMALL, linear(1e-3, 1), threshold_bytes=math.inf) == pytest.approx(1e-3 + 7e-3)


@pytest.mark.parametrize("seed", range(100))
def test_random_schedules_keep_the_rules(seed):
    draw = random.Random(seed)
    times = sorted(draw.choice([0.0, 1.0, draw.uniform(0, 20)]) for _ in range(draw.randint(1, 30)))
    gradients = [Gradient(draw.randint(1, 100), time) for time in times]
    threshold = draw.choice([0, 50, 200, math.inf])
    fusion = Fusion(threshold, draw.choice([None, 0, 0.5, 7]), blocks=draw.random() < 0.5)
    pace = draw.choice([0.0, 0.01, 0.1])
    messages = schedule(gradients, fusion, lambda size, count: (0.0, 0.1 + pace * size, 0.0))
    at = 0
    for message, before in zip(messages, [None, *messages], strict=False):
        part = gradients[at : at + message.gradients]
        at += message.gradients
        assert message.bytes == sum(it.bytes for it in part)
        assert message.bytes <= threshold or len(part) == 1
        assert message.begin_seconds >= part[-1].ready_seconds
        free = before.end_seconds if before else 0.0
        assert message.begin_seconds >= free
        # It waits for nothing but the engine, and a cycle at most.
        if fusion.cycle_seconds is not None:
            due = part[-1].ready_seconds + fusion.cycle_seconds
            assert message.begin_seconds <= max(due, free) + 1e-9
    assert at == len(gradients)


@pytest.mark.parametrize("seed", range(50))
def test_random_steps_lie_between_compute_and_the_sum(seed):
    draw = random.Random(seed)
    layers = [
        Layer(str(i), tuple(draw.randint(1, 10**6) for _ in range(draw.randint(1, 3))), draw.randint(1, 100))
        for i in range(draw.randint(1, 20))
    ]
    network = Network("random", "samples", "none", layers)
    compute = Compute(draw.uniform(0, 1e-2), draw.uniform(0, 1e-2), draw.uniform(0, 1e-3))
    fusion = Fusion(draw.choice([0, 1e5, math.inf]), draw.choice([0, 1e-4, None]))
    step = train_step(network, 4, 2, compute, linear(1e-5, draw.choice([0.1, 1, 100])), fusion=fusion, memory_gbps=100)
    assert list(step.rows) == ROWS
    assert sum(step.rows.values()) == pytest.approx(step.seconds)
    ends = [compute.forward_seconds + compute.backward_seconds, *(it.end_seconds for it in step.messages)]
    assert step.seconds == pytest.approx(max(ends) + compute.update_seconds)
    assert compute.seconds <= step.seconds * (1 + 1e-12)
    assert step.seconds <= sum(step.work.values()) + (fusion.cycle_seconds or 0) + 1e-12
    assert all(step.rows[row] <= step.work[row] + 1e-12 for row in ROWS if row != "all_reduce")
    assert step.parallel_efficiency == pytest.approx(step.scaling_efficiency)


@pytest.mark.parametrize(
    ("ranks", "efficiency", "speedup", "throughput"), [(16, 0.939, 15.0, 5788), (192, 0.897, 172, 69537.94)]
)
def test_speedup_is_efficiency_times_ranks(ranks, efficiency, speedup, throughput):
    """As NV-Group reports both (NVG-84)."""
    compute = Compute(0.05, 0.1, 0.01)
    exposed = compute.seconds * (1 / efficiency - 1)
    step = train_step(
        SMALL, ranks, 64, compute, lambda size: exposed, fusion=Fusion(math.inf, None), memory_gbps=math.inf
    )
    assert step.scaling_efficiency == pytest.approx(efficiency)
    assert step.speedup == pytest.approx(speedup, rel=2e-3)
    assert step.throughput == pytest.approx(step.throughput_of_one * step.speedup)
    assert throughput / speedup == pytest.approx(400, rel=0.05)  # images/s of one V100


def test_compute_from_a_throughput():
    resnet = training.network("resnet50")
    compute = Compute.from_throughput(resnet, 64, 400, memory_gbps=500)
    assert compute.seconds == pytest.approx(64 / 400)
    assert compute.update_seconds == pytest.approx(20 * resnet.parameters / 500e9)
    assert compute.backward_seconds == pytest.approx(2 * compute.forward_seconds)
    with pytest.raises(InvalidArgument, match="larger batch"):
        Compute.from_throughput(training.network("vgg16"), 1, 10_000)


def test_simulated_times_are_the_simulator_s():
    machine = topology.machine("dgx1-v100")
    times = Simulated(machine, "ring")
    exact = {
        size: simulator.simulate(machine, "all_reduce", size, "ring").seconds for size in (1 << 20, 3 << 19, 5 << 20)
    }
    assert times(1 << 20) == exact[1 << 20]
    for size, seconds in exact.items():
        assert times(size) == pytest.approx(seconds, rel=0.02)
    assert times(4) == times(1024)
    with pytest.raises(InvalidArgument):
        Simulated(topology.machine("summit", 4), "rings")(1 << 20)


def test_measured_times():
    times = Measured([(2000, 4.0), (1000, 2.0), (4000, 6.0)])
    assert [times(size) for size in (1, 1000, 1500, 3000, 4000, 6000)] == [2, 2, 3, 5, 6, 8]
    for rows in ([(1, 1.0)], [(1, 1.0), (1, 2.0)], [(1, 1.0), (2, 0.0)]):
        with pytest.raises(InvalidArgument):
            Measured(rows)
    rows = [{"size": 1024, "out_of_place": {"time": 5.0}}, {"size": 2048, "out_of_place": {"time": 6.0}}]
    bench = Measured.from_bench(json.dumps({"results": rows}))
    assert [bench(size) for size in (1024, 2048)] == pytest.approx([5e-6, 6e-6])
    with pytest.raises(InvalidInput, match=r"my\.json"):
        Measured.from_bench("[]", "my.json")


def test_throughput_of_a_gpu_has_a_source():
    rate, source = training.samples_per_second(training.network("resnet50"), "NVIDIA V100-SXM2 32GB")
    assert rate == 405 and "Lambda" in source
    assert training.samples_per_second(training.network("vgg16"), "NVIDIA V100")[1].startswith("assumed")
    with pytest.raises(InvalidArgument, match="V100"):
        training.samples_per_second(training.network("vgg16"), "NVIDIA K80")


@pytest.mark.parametrize("options", [{"threshold_bytes": -1}, {"threshold_bytes": math.nan}, {"cycle_seconds": -1}])
def test_fusion_refuses(options):
    with pytest.raises(InvalidArgument):
        Fusion(**options)


def messages_of(name, threshold=1 << 30, cycle=5e-3):
    """Bytes of the messages on four V100 (TEM-42)."""
    network = training.network(name)
    rate, _ = training.samples_per_second(network, "V100")
    compute = Compute.from_throughput(network, 32, rate)
    fusion = Fusion(threshold, cycle)
    return [it.bytes for it in train_step(network, 4, 32, compute, linear(2e-5, 30), fusion=fusion).messages]


def test_sizes_of_messages_depend_on_the_network():
    """TEM-43: VGG16 sends the largest messages, DenseNet-201 medium ones."""
    sizes = {name: messages_of(name) for name in PUBLISHED}
    assert max(sizes, key=lambda name: max(sizes[name])) == "vgg16"
    assert max(sizes["vgg16"]) > 400e6
    assert 10 * max(sizes["densenet201"]) < max(sizes["vgg16"])
    assert max(sizes["densenet201"]) < 0.5 * sum(sizes["densenet201"])
    for name, parts in sizes.items():
        assert sum(parts) == 4 * training.network(name).parameters


def test_a_tenth_of_the_time_bounds_the_gain():
    """TEM-45: with a tenth of the run in all-reduces, no faster one gains more than 1/0.9."""
    all_reduce = linear(COMPUTE.seconds / 9, math.inf)
    slow = small_step(all_reduce, overlap=False, fusion=Fusion(math.inf, None))
    assert slow.rows["all_reduce"] / slow.seconds == pytest.approx(0.1)
    fast = small_step(linear(0, math.inf), overlap=False, fusion=Fusion(math.inf, None))
    assert slow.seconds / fast.seconds == pytest.approx(1 / 0.9)
    assert slow.epoch_seconds(3200) == pytest.approx(100 * slow.seconds)


def test_the_buffer_hardly_matters_for_cosmoflow():
    """TEM-47."""
    network = training.network("cosmoflow")
    compute = Compute.from_throughput(network, 4, training.samples_per_second(network, "V100")[0])
    times = Simulated(topology.machine("mist"), "ring")
    seconds = [
        train_step(network, 4, 4, compute, times, fusion=Fusion(size)).seconds
        for size in (0, 1 << 20, 64 << 20, 1 << 30)
    ]
    assert max(seconds) < 1.05 * min(seconds)


def test_a_broadcast_in_each_step_costs_its_share():
    """AWA-31: the row of the broadcast is what a faster one can save at most."""
    slow = small_step(linear(0, math.inf), broadcast=linear(4e-3, math.inf), fusion=Fusion(math.inf, None))
    fast = small_step(linear(0, math.inf), broadcast=linear(1e-3, math.inf), fusion=Fusion(math.inf, None))
    assert slow.seconds - fast.seconds == pytest.approx(3e-3)
    assert slow.parallel_efficiency == 1 and slow.scaling_efficiency == pytest.approx(16 / 20)
