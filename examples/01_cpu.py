"""Ranks are processes, and data is in host memory: the mean of everybody's gradient, then everybody's first elements.

plait run -n 4 -- python examples/01_cpu.py
"""

import numpy as np
import plait

with plait.init() as comm:  # rank and size from the launcher: `plait run`, torchrun, mpirun or srun
    gradient = np.full(1000, comm.rank, dtype=np.float32)
    comm.all_reduce(gradient, op="avg", out=gradient)  # in place
    heads = comm.all_gather(np.array([comm.rank * 10, comm.rank * 10 + 1]))
    if comm.rank == 0:
        print(f"{comm.size} ranks: the mean is {gradient.mean()}, the heads are {heads.tolist()}")
