"""The costs of ABCI that Ueno and Yokota's page computes with, and which rows of Table II they were fitted to (UEN-37).

`plait calibrate` made the profile from half of the table's hierarchies. The other half was kept out of the fit: what
the page says of those is a prediction.
"""

from __future__ import annotations

import json
from functools import cache

from .. import calibration, models, topology
from ..calibration.measured import LAYERS_FORMAT
from . import data, data_text

PROFILE = "abci_2019.json"
GPUS_OF_NODE = 4
HELD_OUT_SHARE = 0.5  # as in the command that the profile names
_PAPER = data("ueno.json")


@cache
def hierarchies(ranks: int) -> models.Hierarchies:
    """The model of so many GPUs of ABCI, with the one set of costs."""
    nodes = ranks // GPUS_OF_NODE
    machine = topology.machine("abci")
    profile = models.parse_profile(data_text(PROFILE), PROFILE)
    return models.Hierarchies(machine.replicate(nodes) if nodes > 1 else machine, ranks, profile)


@cache
def held_out() -> frozenset[tuple[int, ...]]:
    """The hierarchies of Table II that the profile was not fitted to, by the rule of `plait calibrate`."""
    table = [{"factors": row["factors"], "busbw_mbps": row["mbps"]} for row in _PAPER["table_2"]["rows"]]
    source = {"machine": "ABCI", "date": "2019"}
    text = {"format": LAYERS_FORMAT, "source": source, "bytes": _PAPER["message_bytes"], "rows": table}
    rows = calibration.read_rows([(json.dumps(text), "Table II")]).rows
    out = calibration.held_out(rows, HELD_OUT_SHARE)
    return frozenset(rows[i].factors for i in out)


def use(factors: list[int]) -> str:
    """Says whether a hierarchy's rows were fitted or held out."""
    return "held out" if tuple(factors) in held_out() else "fitted"


def flat_ring_share(ranks: int) -> float:
    """Bytes over the message that a ring across nodes waits for in each of its two phases, by the profile.

    A ring of p has p - 1 steps of 1/p of the message; `exposed_steps` more are not overlapped.
    """
    exposed = json.loads(data_text(PROFILE))["costs"]["rings"]["mixed"]["exposed_steps"]
    return (ranks - 1 + exposed) / ranks


def command() -> str:
    """How the profile was made."""
    return json.loads(data_text(PROFILE))["source"]["command"]
