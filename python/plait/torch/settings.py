"""Settings of communicators that torch.distributed asks for."""

from __future__ import annotations

import copy
from datetime import timedelta

from .. import _core
from ..errors import InvalidArgument

_MOST_SECONDS = 7 * 24 * 3600.0  # the longest time-out that Plait's settings take


def settings_with(settings: _core.Settings | None, timeout: timedelta) -> _core.Settings:
    """Those given, or those of the environment, with the time-out of torch.distributed."""
    if settings is not None and not isinstance(settings, _core.Settings):
        raise InvalidArgument(f"pg_options: a {type(settings).__name__} is none; pass plait.Settings(...), or nothing")
    made = _core.Settings.from_environment() if settings is None else copy.deepcopy(settings)
    made.timeout_seconds = made.bootstrap_timeout_seconds = min(timeout.total_seconds(), _MOST_SECONDS)
    return made
