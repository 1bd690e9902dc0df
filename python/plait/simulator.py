"""Predicts how long collectives take on a machine, by running plans on simulated links. See docs/simulate.md."""

from ._core import Simulation, simulate_plan
from ._core import extrapolate_on_machine as extrapolate
from ._core import simulate_on_machine as simulate

__all__ = ["Simulation", "extrapolate", "simulate", "simulate_plan"]
