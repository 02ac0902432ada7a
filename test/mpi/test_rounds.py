"""A hundred init/shutdown rounds in one process, over MPI, leave nothing behind."""

import pathlib
import re
import subprocess
import sys

ROUNDS = 100
WARM_ROUNDS = 10
GROWTH_LIMIT_KIB = 1024

PROGRAM = f"""
import gc, os
import numpy as np
import horovod_cpp as hvd

def resident_kib():
    gc.collect()
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS:"):
            return int(line.split()[1])

def usage():
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")), resident_kib()

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
    seen.append((*usage(), mappings()))
print("threads, files, KiB, mappings:", *seen[{WARM_ROUNDS}], "then", *seen[-1], flush=True)
"""


def test_a_hundred_rounds_leave_no_threads_files_or_memory(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    hvdrun = pathlib.Path(sys.executable).with_name("hvdrun")
    done = subprocess.run([hvdrun, "-np", "2", sys.executable, program], text=True, timeout=300,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    four = r"(\d+) (\d+) (\d+) (\d+)"
    rows = re.findall(f"mappings: {four} then {four}", done.stdout)
    assert len(rows) == 2, done.stdout
    for row in rows:
        print("threads, files, resident KiB, mappings:", *row)
        threads, files, kib, maps, threads_now, files_now, kib_now, maps_now = map(int, row)
        assert (threads_now, files_now, maps_now) == (threads, files, maps), done.stdout
        assert kib_now - kib <= GROWTH_LIMIT_KIB, done.stdout
