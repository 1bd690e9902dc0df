"""An algorithm of your own: this program writes a plan, Plait proves it right, and the ranks run it.

plait run -n 4 -- python examples/06_own_plan.py

The plan is a broadcast along a chain. Rank 0 stores the message in the scratch of rank 1, which stores it in that of
rank 2, and so on. docs/algorithms/plans.md explains the operations.
"""

import json

import numpy as np
import plait


def reduce(to, source):
    return {"op": "reduce", "to": to, "from": [source], "chunk": 0}


def chain(ranks):
    """The queue of each rank: wait for the rank before, store the message here and at the next, tell the next."""
    plans = []
    for rank in range(ranks):
        source = f"r{rank}.input" if rank == 0 else f"r{rank}.scratch[0]"
        operations = [{"op": "wait", "number": 0, "rank": rank - 1, "queue": 0}] if rank > 0 else []
        if rank + 1 < ranks:
            operations.append(reduce([f"r{rank}.output", f"r{rank + 1}.scratch[0]"], source))
            operations.append({"op": "signal", "number": 0, "rank": rank + 1, "queue": 0})
        else:
            operations.append(reduce([f"r{rank}.output"], source))
        needs = int(rank > 0)  # one slot of scratch, one signal
        queues = [{"engine": "cpu", "operations": operations}]
        plans.append({"scratch_slots": needs, "host_slots": 0, "signals": needs, "messages": 0, "queues": queues})
    return {
        "plait_plan": 2,
        "algorithm": "my_chain",
        "collective": "broadcast",
        "access": "staged",
        "root": 0,
        "blocks": 1,
        "chunks_per_block": 1,
        "in_place": True,
        "node_of": [0] * ranks,
        "ranks": plans,
    }


with plait.init() as comm:
    plan = json.dumps(chain(comm.size))
    message = np.arange(5) if comm.rank == 0 else np.zeros(5, dtype=int)
    received = comm.run(plan, message)  # proves the plan first; take out the wait and see
    print(f"rank {comm.rank}: {received.tolist()}")
