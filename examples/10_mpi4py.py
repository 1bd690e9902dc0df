"""Beside mpi4py: MPI starts the ranks and carries Plait's id to them; then the two compute the same sum.

    mpirun -n 4 python examples/10_mpi4py.py

Needs an MPI and mpi4py: pip install mpi4py.
"""

import sys

import numpy as np
import plait

try:
    from mpi4py import MPI
except (ImportError, RuntimeError) as error:  # RuntimeError: there is mpi4py, but no library of MPI
    sys.exit(f"this example needs mpi4py and an MPI ({error}): pip install mpi4py")

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
# plait.init() would find rank and size by itself. This way serves any communicator of MPI, such as a part of the world.
secret = world.bcast(bytes(plait.create_unique_id()) if rank == 0 else None, root=0)

with plait.Communicator(plait.UniqueId.from_bytes(secret), rank, size) as comm:
    mine = np.arange(1000, dtype="float64") * rank
    by_mpi = np.empty_like(mine)
    world.Allreduce(mine, by_mpi, op=MPI.SUM)
    by_plait = comm.all_reduce(mine)
    are_equal = np.array_equal(by_plait, by_mpi)
    if rank == 0:
        print(f"{size} ranks: {'both give' if are_equal else 'DIFFERENT:'} {by_plait[1]:g} for element 1")
