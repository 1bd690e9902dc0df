"""`plait verify`: a machine, its links and its groups."""
from __future__ import annotations
import argparse
def add_parser(commands):
    return commands.add_parser("verify")
