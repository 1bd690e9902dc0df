"""Plans and the algorithms that make them. Every plan here has passed the verifier."""

from ._core import Algorithm, MachinePlan, Plan, algorithms
from ._core import make_plan as make
from ._core import plan_for_machine as for_machine
from ._core import plan_from_json as from_json

__all__ = ["Algorithm", "MachinePlan", "Plan", "algorithms", "for_machine", "from_json", "make"]
