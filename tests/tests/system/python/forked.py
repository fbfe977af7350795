"""Forked children, which use what their parents have made."""

import multiprocessing
import os
import signal

import numpy

import isochron

ROWS = numpy.ones((4, 4))
ON = (isochron.Distribution.on_one(4, 4),) * 3
# Arguments of methods that need some.
ARGUMENTS = {
    "gemm": (ROWS, ROWS),
    "prepare": (ON, float),
    "run": (ROWS, ROWS),
    "measure": (8, 8, [8]),
    "record": (1, 1.0),
    "observe": (1.0,),
    "migrate": (ROWS,),
    "migrate_blocks": ([ROWS],),
    "note_move": (1.0,),
    "restore": (b"{}",),
    "benchmark": (None, 1),
    "recon": (None, [1]),
    "partition": (4,),
    "iterate": (None,),
}


def use_all(made):
    """Uses each public member of each value, and expects the refusal of a forked child."""
    n_refused = 0
    for value in made:
        kind = type(value)
        for name in [name for name in vars(kind) if not name.startswith("_")]:
            if isinstance(vars(kind)[name], staticmethod):
                continue
            try:
                member = getattr(value, name)
                if callable(member):
                    member = member(*ARGUMENTS.get(name, ()))
                if name == "step":
                    member.__enter__()
            except isochron.InputError as error:
                assert "is a forked child of process" in str(error), (kind, name, error)
                n_refused += 1
            else:
                raise AssertionError(f"{kind.__name__}.{name} works in a forked child")
    return n_refused


def run_forked(work):
    """Runs work in a forked child, which must not wait for ever."""
    child = os.fork()
    if not child:
        signal.alarm(60)
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0, "the child has failed, or has waited for ever"


def check_forked(comm, ranks):
    """Makes values on a communicator, and forks children that use them. The parent can use them afterwards."""
    on = (isochron.Distribution.on_one(4, 4, ranks=ranks),) * 3

    def check(made):
        assert use_all(made) > 30
        if comm is not None:
            for make in (lambda: isochron.Session(comm)), (lambda: isochron.Rebalancer(9, comm)):
                try:
                    make()
                except isochron.InputError as error:
                    assert "is a forked child of process" in str(error), error
                else:
                    raise AssertionError("a forked child has a communicator")
        with isochron.Session(blas="embedded") as own:
            assert (own.gemm(ROWS, ROWS) == 4).all()

    with isochron.Session(comm, blas="embedded") as session, isochron.Rebalancer(60, comm) as balancer:
        product = session.prepare(on, float, strategy="homogeneous")
        made = session, balancer, product, session.partition(9), isochron.Node(blas="embedded")
        run_forked(lambda: check(made))
        # multiprocessing forks by this method, which was its default up to Python 3.13.
        forking = multiprocessing.get_context("fork")
        worker = forking.Process(target=check, args=(made,))
        worker.start()
        worker.join(60)
        assert worker.exitcode == 0, worker
        assert not balancer.observe(1.0)
        a = ROWS if session.rank == 0 else None
        c = product.run(a, a)
        assert session.rank > 0 or (c == 4).all()
