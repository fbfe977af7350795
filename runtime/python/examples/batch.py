"""Shares of a batch, whose samples are drawn anew for each step: none has to move. `mpirun -n 3 python batch.py`.

The last rank takes four times as long for a sample, by made-up times.
"""
from mpi4py import MPI

import isochron

comm = MPI.COMM_WORLD
sample_s = 4e-3 if comm.rank == comm.size - 1 else 1e-3
with isochron.Rebalancer(900, comm, sweeps=20, move_unit_s=0) as balancer:
    for step in range(20):
        count = len(balancer.part)
        balancer.observe(sample_s * count)  # draw and compute count samples here
    print(f"rank {comm.rank} has {len(balancer.part)} of 900 samples")
