"""Calibration: measured rows in, the costs of a profile out, with residuals. See docs/calibration.md."""

from .constants import Constant, constants_of
from .fit import Fit, Residuals, fit, held_out
from .measured import Row, read_rows
from .profile_file import profile_with

__all__ = ["Constant", "Fit", "Residuals", "Row", "constants_of", "fit", "held_out", "profile_with", "read_rows"]
