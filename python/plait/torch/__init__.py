"""The backend "plait" of torch.distributed: `import plait.torch`, then `init_process_group("plait")`.

Collectives and messages of tensors in host memory and on GPUs, of ranks on one host or several. docs/pytorch.md has the
rest.
"""

from __future__ import annotations

from typing import Any

try:
    import torch
    import torch.distributed as dist
except ImportError as error:
    raise ImportError("plait.torch needs PyTorch: pip install torch") from error

from .hooks import all_reduce_hook, extend_monitored_barrier, monitored_barrier
from .process_group import ProcessGroup
from .store_of_job import register as _register_stores

__all__ = ["ProcessGroup", "all_reduce_hook", "monitored_barrier"]


def _create(options: Any, settings: Any) -> ProcessGroup:
    return ProcessGroup(
        options.store,
        options.group_rank,
        options.group_size,
        options.timeout,
        name=options.group_id,
        global_ranks=options.global_ranks_in_group,
        settings=settings,
    )


if not hasattr(dist.Backend, "PLAIT"):
    # ShardedTensor, for one, makes tensors on any GPU that a backend names.
    _devices = ["cpu", "cuda"] if torch.cuda.device_count() else ["cpu"]
    dist.Backend.register_backend("plait", _create, extended_api=True, devices=_devices)
    _register_stores()
    extend_monitored_barrier()
