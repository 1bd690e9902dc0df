"""The analyses of the papers that Plait is built on, as pages: what they report beside what Plait's models give.

`plait paper NAME` writes them. Each paper has a module here, whose `page()` returns the whole page, and a file of
values in `data`, each with the section that it is from. Plots need matplotlib, which the extra `report`
brings; nothing else in Plait does.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from importlib import resources
from typing import Any

from .page import Page

PAPERS = {
    "ueno": "hierarchical ring all-reduce on ABCI, 4 to 2,048 GPUs (Ueno and Yokota, 2019)",
    "blink": "broadcast, gather, all-gather and all-reduce on subsets of a DGX-1 (Wang et al., 2020)",
    "nv-group": "all-reduce over NVLink groups on Summit and DGX-2, to 1,536 GPUs, and training (Chu et al., 2020)",
    "awan": "broadcast of large messages on KESCH, 8 to 1,024 GPUs (Awan et al., 2016)",
    "temucin": "two paths between GPUs, all-reduce over them, and training, on Mist and Cedar (Temucin et al., 2022)",
}


def make(name: str, progress: Callable[[str], object] | None = None) -> Page:
    """The page of a paper, one of PAPERS. Takes seconds, or half a minute; `progress` hears what is done.

    Raises ImportError without matplotlib.
    """
    module = importlib.import_module(f".{name.replace('-', '_')}", __name__)
    if hasattr(module, "prepare"):  # what takes long
        module.prepare(progress)
    return module.page()


def data_text(file: str) -> str:
    """The text of a file of `data`."""
    return resources.files(__name__).joinpath("data", file).read_text(encoding="utf-8")


def data(file: str) -> Any:
    """The values of a JSON file of `data`."""
    return json.loads(data_text(file))
