"""Plait: collective communication over every useful path of a machine at once."""

from . import errors, plans, simulator, topology
from ._core import Plan, PremulSum, Settings, UniqueId, __version__, create_unique_id, premul_sum
from .building import get_include, get_library_dir
from .communicator import Communicator, in_process, init
from .errors import Error, InvalidArgument, InvalidInput, InvalidPlan, Mismatch, PeerFailed, Timeout
from .streams import BLOCKING

__all__ = [
    "BLOCKING",
    "Communicator",
    "Error",
    "InvalidArgument",
    "InvalidInput",
    "InvalidPlan",
    "Mismatch",
    "PeerFailed",
    "Plan",
    "PremulSum",
    "Settings",
    "Timeout",
    "UniqueId",
    "__version__",
    "create_unique_id",
    "errors",
    "get_include",
    "get_library_dir",
    "in_process",
    "init",
    "plans",
    "premul_sum",
    "simulator",
    "topology",
]
