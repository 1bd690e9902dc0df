"""Plans and the algorithms that make them. Every plan here has passed the verifier."""

from ._core import Algorithm, Plan, algorithms
from ._core import make_plan as make
from ._core import plan_from_json as from_json

__all__ = ["Algorithm", "Plan", "algorithms", "from_json", "make"]
