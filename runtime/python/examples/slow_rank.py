"""The emulated slowness of the last rank, which takes four times as long for a row, and the times of a run."""
import argparse
import time

import numpy
from mpi4py import MPI

# Time of a fast rank and of the slow one over the CPU time of the work: three ranks share two cores, and mostly wait.
PACES = [6.0, 24.0]
# Sweeps that are not counted in the second ratio.
WARM_UP = 20
# Relative noise of made-up times, and their seconds for a row.
NOISE, MADE_UP_ROW_S = 0.06, 1e-3


class SlowRank:
    """The words of the command line."""

    def __init__(self, comm):
        words = argparse.ArgumentParser()
        words.add_argument("sweeps", type=int, nargs="?", default=1000)
        words.add_argument("--slow-from", type=int, default=0, help="sweep from which the last rank is slow")
        words.add_argument("--granule", type=int, default=1, help="rows that stay together")
        words.add_argument("--made-up", action="store_true", help="times with 6 %% noise, for which no rank waits")
        words = words.parse_args()
        self.comm, self.sweeps, self.is_made_up = comm, words.sweeps, words.made_up
        self.slow_from, self.granule = words.slow_from, words.granule
        self.random = numpy.random.default_rng(comm.rank)
        # CPU seconds of a row, as the first sweep shows.
        self.row_s = MADE_UP_ROW_S if self.is_made_up else None

    def choose_settings(self, is_even):
        """Returns the settings of the balancer; with even parts no rows move."""
        settings = {"sweeps": self.sweeps, "granule": self.granule}
        if self.is_made_up:
            settings["move_unit_s"] = MADE_UP_ROW_S
        if is_even:
            settings["trigger"] = 1e12
        return settings

    def wait_quietly(self, messages):
        """Waits for messages, and leaves the core to others meanwhile: three ranks share two cores."""
        while not MPI.Request.Testall(messages):
            time.sleep(5e-5)

    def find_pace(self, rank, sweep):
        return PACES[rank == self.comm.size - 1 and sweep >= self.slow_from]

    def time_work(self, sweep, rows, work):
        """Does the work of a sweep, and sleeps until a rank of this pace would have finished. Returns its seconds."""
        if self.row_s is None:
            work()  # Once more, since the first time makes the pages of temporary arrays.
        begun, cpu = time.perf_counter(), time.thread_time()
        work()
        pace = self.find_pace(self.comm.rank, sweep)
        if self.is_made_up:
            return rows * MADE_UP_ROW_S * pace * self.random.normal(1.0, NOISE)
        if self.row_s is None:
            self.row_s = self.comm.allreduce((time.thread_time() - cpu) / max(rows, 1), MPI.MAX)
        time.sleep(max(0.0, begun + pace * self.row_s * rows - time.perf_counter()))
        return time.perf_counter() - begun


class RunTimes:
    """The seconds of a run: of its first sweeps, and of the others."""

    def __init__(self, pace):
        pace.comm.Barrier()
        self.pace, self.seconds, self.ended = pace, numpy.zeros(2), time.perf_counter()

    def end_sweep(self, sweep):
        now = time.perf_counter()
        self.seconds[int(sweep >= WARM_UP)] += now - self.ended
        self.ended = now

    def print_summary(self, rows, moves):
        """Prints the seconds of the run over those of the ideal division of `rows`, and its moves."""
        pace, ideal = self.pace, numpy.zeros(2)
        pace.comm.Allreduce(MPI.IN_PLACE, self.seconds, MPI.MAX)
        for sweep in range(pace.sweeps):
            speeds = [1.0 / (pace.row_s * pace.find_pace(rank, sweep)) for rank in range(pace.comm.size)]
            ideal[int(sweep >= WARM_UP)] += rows / sum(speeds)
        if pace.comm.rank == 0:
            total = self.seconds.sum() / ideal.sum()
            last = self.seconds[1] / ideal[1] if pace.sweeps > WARM_UP else numpy.nan
            print(f"{self.seconds.sum():.2f} s, {total:.3f} x ideal, {last:.3f} x after {WARM_UP} sweeps, "
                  f"{len(moves)} moves: after sweeps {moves}")
