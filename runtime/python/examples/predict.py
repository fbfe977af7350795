"""Predicts a ring of bodies on each number of processes, and runs it on the ranks that are fastest: `mpirun -n 4 python predict.py`."""
import numpy
from mpi4py import MPI

import isochron

# A unit is the forces of 1000 bodies on one.
BODIES, OTHERS = 6000, 1000
comm = MPI.COMM_WORLD


def find_forces(mine, others):
    away = others - mine[:, None]
    return (away / (away * away + 1)).sum(axis=1)


class Forces:
    """The kernel: the work without the messages."""

    def initialize(self, units):
        self.mine, self.others = numpy.arange(units, dtype=float), numpy.arange(OTHERS, dtype=float)

    def execute(self):
        find_forces(self.mine, self.others)

    def finalize(self):
        del self.mine, self.others


class Ring(isochron.Algorithm):
    """Each process has a part of the bodies, and the parts go round."""

    def __init__(self, count):
        self.count = count

    def processes(self):
        return self.count

    def volume(self, process):
        return BODIES / self.count * BODIES / OTHERS

    def size(self, process):
        return BODIES / self.count

    def bytes(self, source, to):
        return 8 * BODIES if to == (source + 1) % self.count else 0

    def scheme(self, order):
        with order.repeat(self.count):
            with order.par():
                for process in range(self.count):
                    order.compute(process, 100 / self.count)
            with order.par():
                for process in range(self.count if self.count > 1 else 0):
                    order.transfer(process, (process + 1) % self.count, 100 / self.count)


def run(ring):
    mine = numpy.arange(BODIES // ring.size, dtype=float)
    others, forces = mine.copy(), numpy.zeros(len(mine))
    ring.Barrier()
    start = MPI.Wtime()
    for _ in range(ring.size):
        for first in range(0, len(others), OTHERS):
            forces += find_forces(mine, others[first : first + OTHERS])
        ring.Sendrecv_replace(others, (ring.rank + 1) % ring.size, source=(ring.rank - 1) % ring.size)
    ring.Barrier()
    return MPI.Wtime() - start


with isochron.Session(comm) as session:
    platform = session.recon(Forces(), [100, 1000, 6000], max_seconds=1)
choice = isochron.choose([Ring(count) for count in range(1, comm.size + 1)], platform)
group = isochron.group(choice.places, comm)
if group is not None:
    seconds = run(group)
    if group.rank == 0:
        print(f"{group.size} processes: predicted {choice.run.seconds:.4f} s, measured {seconds:.4f} s", flush=True)
    group.Free()
