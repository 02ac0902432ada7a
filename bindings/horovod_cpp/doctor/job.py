"""A real job of two ranks: what all other checks are about."""

from horovod_cpp.cluster.hvdrun_job import find_hvdrun
from horovod_cpp.doctor.bounded import capture, rank_program
from horovod_cpp.doctor.finding import Finding, ok, problem
from horovod_cpp.doctor.software import path_fix

_RANK = """
import time
import numpy as np, horovod_cpp as hvd
hvd.init()
for size in (1, 1 << 20):
    mine = np.arange(size, dtype=np.float32) + hvd.rank()
    took = []
    for _ in range(4 + 11):  # the first ones map memory and wake threads
        begin = time.perf_counter()
        total = hvd.allreduce(mine, hvd.Sum, name=f"doctor{size}")
        took.append(time.perf_counter() - begin)
        assert (total == 2 * np.arange(size, dtype=np.float32) + 1).all(), total
if hvd.rank() == 0:
    print(f"rank 0 says: {hvd.size()} ranks, {'with' if hvd.mpi_enabled() else 'without'} MPI, "
          f"4 MiB in {np.median(took[4:]) * 1e3:.1f} ms (median of 11)")
"""


def checks() -> list[Finding]:
    hvdrun = find_hvdrun()
    if hvdrun is None:
        return [problem("2 ranks by hvdrun", "there is no hvdrun",
                        "pip install --force-reinstall horovod_cpp")]
    output = capture([hvdrun, "-np", "2", "-H", "localhost:2", "--start-timeout", "20",
                      *rank_program(_RANK)], 40)
    said = output.text.partition("rank 0 says: ")
    if output.code == 0 and said[1]:
        return [ok("2 ranks by hvdrun", f"the sums are right: {said[2].splitlines()[0]}")]
    return [problem("2 ranks by hvdrun", output.why(), path_fix() or
                    "mend what is reported above; then: hvdrun -np 2 python -c 'import horovod_cpp "
                    "as hvd; hvd.init()'")]
