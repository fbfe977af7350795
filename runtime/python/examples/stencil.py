"""A stencil whose rows follow the speeds of the ranks: mpirun -n 3 python stencil.py [SWEEPS [SLOW_FROM]] [--made-up].

From sweep SLOW_FROM on the last rank is four times slower. Ranks wait to be slow, so three of them can share two cores.
"""
import sys, time, numpy
from mpi4py import MPI
import isochron

comm, rank, random = MPI.COMM_WORLD, MPI.COMM_WORLD.rank, numpy.random.default_rng(MPI.COMM_WORLD.rank)
made_up = "--made-up" in sys.argv  # times with 6 % noise in place of measured ones
numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
SWEEPS, SLOW_FROM = numbers + [1000, 0][len(numbers):]
ROWS, COLS, WARM_UP = 1200, 40 if made_up else 4000, 20

def find_pace(rank, sweep):
    return 8.0 if rank == comm.size - 1 and sweep >= SLOW_FROM else 2.0

def add_borders(rows, units):
    """Returns this rank's rows between those of its neighbours, hot above the first and cold below the last."""
    whole = numpy.vstack([numpy.ones((1, COLS)), rows, numpy.zeros((1, COLS))])
    if len(rows):
        above = max((other for other in range(rank) if units[other]), default=MPI.PROC_NULL)
        below = min((other for other in range(rank + 1, comm.size) if units[other]), default=MPI.PROC_NULL)
        comm.Sendrecv(whole[1], above, recvbuf=whole[-1], source=below)
        comm.Sendrecv(whole[-2], below, recvbuf=whole[0], source=above)
    return whole

def update_rows(whole, pace):
    """Makes each cell the mean of its neighbours, then waits as a rank of this pace would still compute."""
    begun, cpu = time.perf_counter(), time.thread_time()
    rows = whole[1:-1].copy()
    rows[:, 1:-1] = 0.25 * (whole[:-2, 1:-1] + whole[2:, 1:-1] + whole[1:-1, :-2] + whole[1:-1, 2:])
    cpu = time.thread_time() - cpu
    time.sleep(max(0.0, 0.0 if made_up else begun + pace * cpu - time.perf_counter()))
    return rows, cpu, time.perf_counter() - begun

def run_sweeps(**settings):
    """Runs all sweeps, prints their seconds over those of the ideal division, and returns the sum of the cells' bits."""
    seconds, ideal, work = numpy.zeros(2), numpy.zeros(2), numpy.zeros((2, comm.size))
    with isochron.Rebalancer(ROWS, comm, sweeps=SWEEPS, move_unit_s=1e-3 if made_up else None, **settings) as balancer:
        rows = numpy.full((len(balancer.part), COLS), 0.5)
        for sweep in range(SWEEPS):
            begun, units, pace = time.perf_counter(), len(rows), find_pace(rank, sweep)
            rows, cpu, took = update_rows(add_borders(rows, balancer.units), pace)
            work[:, rank] += units, cpu
            if balancer.observe(units * 1e-3 * pace * random.normal(1.0, 0.06) if made_up else took):
                rows = balancer.migrate(rows)
            seconds[int(sweep >= WARM_UP)] += time.perf_counter() - begun
        moves = [change["sweep"] for change in balancer.report()["changes"]]
    comm.Allreduce(MPI.IN_PLACE, work)
    comm.Allreduce(MPI.IN_PLACE, seconds, MPI.MAX)
    for sweep in range(SWEEPS):
        paces = numpy.array([find_pace(other, sweep) for other in range(comm.size)])
        ideal[int(sweep >= WARM_UP)] += ROWS / (work[0] / work[1] / paces).sum()
    if rank == 0:
        print(f"{seconds.sum():.2f} s, {seconds[1] / ideal[1]:.3f} x ideal after {WARM_UP} sweeps, moves after sweeps {moves}")
    return comm.allreduce(int(rows.view(numpy.uint64).sum())) % 2**64

same = run_sweeps(trigger=1e12) == run_sweeps()
print("the same cells:", same) if rank == 0 else None
