"""Simulations with the costs of the default profile, where a machine of one NVLink fabric would get another one."""

from __future__ import annotations

from .. import plans, simulator, topology

PROFILE = "default"


def simulate(
    machine: topology.Topology, collective: str, size: int, algorithm: str, parts: int = 0
) -> simulator.Simulation:
    """A call of `size` bytes over all GPUs. Raises InvalidArgument where the algorithm has no plan for them."""
    plan = plans.for_machine(machine, collective, algorithm, parts=parts, message_bytes=size).plan
    return simulator.simulate_plan(machine, plan, size, profile=PROFILE)
