"""A stencil whose rows follow the speeds of the ranks.

`mpirun -n 3 python stencil.py [SWEEPS] [--slow-from SWEEP] [--granule ROWS] [--made-up]`
`slow_rank.py` makes the last rank four times slower, and prints the times.
"""
import numpy
from mpi4py import MPI

import isochron
from slow_rank import RunTimes, SlowRank

ROWS, COLS = 1200, 4000
comm = MPI.COMM_WORLD
pace = SlowRank(comm)


def make_plate():
    """Returns the plate, in which every row has its place: hot above its first row, and cold below its last."""
    return numpy.vstack([numpy.ones(COLS), numpy.full((ROWS, COLS), 0.5), numpy.zeros(COLS)])


def exchange_borders(balancer, plate):
    """Takes the rows around this rank's from its neighbours."""
    above, below = (MPI.PROC_NULL if other is None else other for other in balancer.neighbours)
    pace.wait_quietly([
        comm.Irecv(plate[-1], below, 1), comm.Irecv(plate[0], above, 2),
        comm.Isend(plate[1], above, 1), comm.Isend(plate[-2], below, 2)])


def update_rows(plate, rows):
    """Sets each inner cell of `rows` to the mean of its four neighbours in the plate."""
    inner = rows[:, 1:-1]
    numpy.add(plate[1:-1, :-2], plate[1:-1, 2:], out=inner)
    inner += plate[:-2, 1:-1] + plate[2:, 1:-1]
    inner *= 0.25


def run_sweeps(is_even):
    """Runs all sweeps. Returns the sum of the cells' bits."""
    with isochron.Rebalancer(ROWS, comm, **pace.choose_settings(is_even)) as balancer:
        times = RunTimes(pace)
        whole, other, part = make_plate(), make_plate(), balancer.part
        for sweep in range(pace.sweeps):
            plate, rows = whole[part.start:part.stop + 2], other[part.start + 1:part.stop + 1]
            exchange_borders(balancer, plate)
            seconds = pace.time_work(sweep, len(part), lambda: update_rows(plate, rows))
            whole, other = other, whole
            if balancer.observe(seconds):
                part = balancer.part
                rows = balancer.migrate(rows, out=whole[part.start + 1:part.stop + 1])
            times.end_sweep(sweep)
        times.print_summary(ROWS, [change["sweep"] for change in balancer.report()["changes"]])
    return comm.allreduce(int(rows.view(numpy.uint64).sum())) % 2**64


even, balanced = run_sweeps(is_even=True), run_sweeps(is_even=False)
if comm.rank == 0:
    print(f"the same cells: {str(even == balanced).lower()}, sum of bits {balanced:016x}")
