"""A hundred init/shutdown rounds in one process, over MPI, leave nothing behind."""

import re

from ranks import Ranks

ROUNDS = 100
WARM_ROUNDS = 10
GROWTH_LIMIT_KIB = 1024

PROGRAM = f"""
import gc, os, time
hvd.shutdown()

def resident_kib():
    gc.collect()
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS:"):
            return int(line.split()[1])

def threads():
    "The least of a while: Linux lists one a little longer than it can be waited for."
    seen = []
    for _ in range(20):
        time.sleep(0.05)
        seen.append(len(os.listdir("/proc/self/task")))
    return min(seen)

def usage():
    return threads(), len(os.listdir("/proc/self/fd")), resident_kib(), mappings()

def mappings():
    return sum("hvd" in line or "horovod" in line for line in open("/proc/self/maps"))

seen = []
for number in range({ROUNDS}):
    hvd.init()
    total = hvd.allreduce(np.full(100000, hvd.rank() + 1.0, np.float32), hvd.Sum, name="gradient")
    assert (total == 3).all()
    if number % 2:
        hvd.add_process_set(hvd.ProcessSet([0]))
        hvd.allgather(np.ones(3))
    hvd.shutdown()
    assert not hvd.is_initialized()
    if number in ({WARM_ROUNDS}, {ROUNDS} - 1):
        seen += usage()
print("threads, files, KiB, mappings:", *seen[:4], "then", *seen[4:], flush=True)
"""


def test_a_hundred_rounds_leave_no_threads_files_or_memory(tmp_path):
    output = Ranks(tmp_path).check(PROGRAM, timeout=300, own_processes=True)
    four = r"(\d+) (\d+) (\d+) (\d+)"
    rows = re.findall(f"mappings: {four} then {four}", output)
    assert len(rows) == 2, output
    for row in rows:
        print("threads, files, resident KiB, mappings:", *row)
        threads, files, kib, maps, threads_now, files_now, kib_now, maps_now = map(int, row)
        assert (threads_now, files_now, maps_now) == (threads, files, maps), output
        assert kib_now - kib <= GROWTH_LIMIT_KIB, output
