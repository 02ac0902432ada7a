"""hvd.run(): a function on several ranks, from a script or a notebook."""

import pickle
import sys

import cloudpickle

from horovod_cpp.calls import check_np, failure_of, refuse_on_a_rank
from horovod_cpp.output import Printer, view_here
from horovod_cpp.pool import Pool


def run(fn, args=(), kwargs=None, np=2, *, env=None, timeout=None, start_timeout=60.0,
        executable=None):
    """Call ``fn(*args, **kwargs)`` on ``np`` ranks on this machine and wait for the results."""
    if not callable(fn):
        raise TypeError(f"hvd.run calls a function, got {type(fn).__name__}")
    check_np("hvd.run", np)
    refuse_on_a_rank("hvd.run")
    data = cloudpickle.dumps((fn, tuple(args), dict(kwargs or {})))
    view, display = view_here()
    pool = Pool(np, Printer(view, range(np)), env, executable, start_timeout, initialise=False,
                display=display)
    try:
        pool.ready()
        outcomes = pool.call(("call", data, sys.path), range(np), timeout)
        failure = failure_of(pool, outcomes, timeout, alive_after=False)
    finally:
        pool.close()
        pool.printer.finish()
    if failure is not None:
        raise failure
    return [pickle.loads(outcomes[rank].value) for rank in range(np)]
