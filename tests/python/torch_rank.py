"""One rank of the tests of plait.torch: runs scenarios, and says in a file how each of them ended.

Arguments: rank, size, a folder for the store and the results, the backend, and the names of scenarios. The ranks meet
by Gloo, which is also what Plait's results are compared with. Every scenario has a group of the backend to itself.
"""

import contextlib
import json
import sys
import traceback
from pathlib import Path

import torch.distributed as dist
import torch_collectives  # noqa: F401  scenarios, as the next three
import torch_messages  # noqa: F401
import torch_own_messages  # noqa: F401
import torch_programs  # noqa: F401
import torch_stand_ins
import torch_streams  # noqa: F401
from torch_support import SCENARIOS, SECONDS, Ranks


def main():
    rank, size, folder, backend, *names = sys.argv[1:]
    if backend == "plait_on_streams":
        torch_stand_ins.register()
    store = dist.FileStore(f"{folder}/store", int(size))
    dist.init_process_group("gloo", store=store, rank=int(rank), world_size=int(size), timeout=SECONDS)
    with Path(folder, f"rank{rank}").open("w") as results:
        for name in names:
            ranks = Ranks(name, backend)
            try:
                SCENARIOS[name](ranks)
                outcome = "passed"
            except Exception:
                outcome = traceback.format_exc()
                ranks.group.abort()
            with contextlib.suppress(RuntimeError):
                dist.barrier()
            print(json.dumps([name, outcome]), file=results, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
