"""Divides the rows of a matrix by benchmarks of its own kernel, from nothing: `mpirun -n 3 python partition.py`."""
import numpy
from mpi4py import MPI

import isochron

ROWS, COLS, SWEEPS = 3000, 1000, 20
comm = MPI.COMM_WORLD


class Rows:
    """Some rows of a matrix, and their products with a vector."""

    def __init__(self):
        self.x = numpy.full(COLS, 0.5)

    def initialize(self, count):
        self.matrix, self.y = numpy.ones((count, COLS)), numpy.zeros(count)

    def execute(self):
        # numpy.dot may use several threads; a kernel that is bound to a core should not.
        numpy.einsum("ij,j->i", self.matrix, self.x, out=self.y)

    def finalize(self):
        del self.matrix, self.y


rows = Rows()
with isochron.Session(comm) as session:
    partition = session.partition(ROWS, epsilon=0.1)
    while not partition.iterate(rows):
        pass
rows.initialize(partition.units[comm.rank])
for _ in range(SWEEPS):
    rows.execute()
print(f"rank {comm.rank} has {len(rows.y)} rows, and the sum of their products is {rows.y.sum():.0f}", flush=True)
