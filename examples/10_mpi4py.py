"""Beside mpi4py: MPI starts the ranks and carries Plait's id to them; then the two compute the same sum.

mpirun -n 4 python examples/10_mpi4py.py
"""

import numpy as np
import plait
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
# plait.init() would find rank and size by itself. This way serves any communicator of MPI, such as a part of the world.
unique_id = plait.create_unique_id() if rank == 0 else None
unique_id = plait.UniqueId.from_bytes(world.bcast(bytes(unique_id) if rank == 0 else None, root=0))

with plait.Communicator(unique_id, rank, size) as comm:
    mine = np.arange(1000, dtype="float64") * rank
    by_mpi = np.empty_like(mine)
    world.Allreduce(mine, by_mpi, op=MPI.SUM)
    by_plait = comm.all_reduce(mine)
    assert np.array_equal(by_plait, by_mpi)
    if rank == 0:
        print(f"{size} ranks: both give {by_plait[1]:g} for element 1")
