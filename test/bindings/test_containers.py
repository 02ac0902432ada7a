"""Ranks in containers: PID namespaces of their own, a small /dev/shm; and what they leave there."""

import os
import pathlib
import subprocess
import sys

import pytest

WITHOUT = pathlib.Path(__file__).resolve().parents[1] / "support" / "without.py"
LIMITS = {"HOROVOD_STALL_CHECK_TIME_SECONDS": "60", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "90",
          "HVD_FLIGHT_RECORDER_SIZE": "0"}

DYING = """
import os, time
import numpy as np
import horovod_cpp as hvd
hvd.init()
assert hvd.local_size() == 2
assert hvd.allreduce(np.ones(1), hvd.Sum)[0] == 2
print("process", os.getpid(), flush=True)
go = os.environ["HVD_RENDEZVOUS"].removeprefix("file://") + ".go"
if hvd.rank() == 1:
    while not os.path.exists(go):
        time.sleep(0.01)
    os._exit(9)
open(go, "w").close()
try:
    hvd.allreduce(np.ones(1))
except hvd.PeerLostError as error:
    print("lost:", error, flush=True)
os._exit(0)
"""


def in_pid_namespace(program, rank, before=""):
    """A rank whose PID namespace is its own, as a container's; `before` runs in it first."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    script = f'{before} "{sys.executable}" -c "$PROGRAM"; exit $?'
    return subprocess.Popen(
        ["unshare", *user, "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", script],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, **LIMITS, "PROGRAM": program, "HOROVOD_RANK": str(rank),
             "HOROVOD_SIZE": "2", "HVD_RENDEZVOUS": in_pid_namespace.rendezvous})


@pytest.fixture
def rendezvous(tmp_path):
    in_pid_namespace.rendezvous = f"file://{tmp_path}/meeting"


@pytest.mark.parametrize("before", ["", "true; (true); (true);"])
def test_a_death_in_another_pid_namespace_is_seen(rendezvous, before):
    """Also where both processes have the same number, and where the numbers belong to others."""
    started = [in_pid_namespace(DYING, 0), in_pid_namespace(DYING, 1, before)]
    try:
        outputs = [each.communicate(timeout=60)[0] for each in started]
    finally:
        for each in started:
            each.kill()
    numbers = [text.split("process ")[1].split()[0] for text in outputs]
    assert (numbers[0] == numbers[1]) == (before == ""), outputs
    assert "lost: " in outputs[0] and "is gone: its process ended" in outputs[0], outputs[0]


def test_a_small_dev_shm_does_not_limit_sets_or_arenas(ranks):
    program = ranks.folder / "program.py"
    program.write_text("""
import os
import horovod_cpp as hvd
hvd.init()
for _ in range(100):
    hvd.add_process_set(range(hvd.size()))
weight = hvd.zeros(4 << 20)
weight.requires_grad = True
optimizer = hvd.DistributedOptimizer(hvd.optim.SGD([weight], lr=0.1), [("weight", weight)])
hvd.sum(weight).backward()
optimizer.step()
shared = [line for line in open("/proc/self/maps") if "hvd" in line and " rw-s " in line]
assert any("memfd:hvd" in line for line in shared), shared
assert not [line for line in shared if "/dev/shm" in line], shared
assert os.listdir("/dev/shm") == []
print("fine", flush=True)
""")
    done = subprocess.run(
        [sys.executable, WITHOUT, "shm=64k", "--", "hvdrun", "--gloo", "-np", "4", sys.executable,
         program], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PATH": os.path.dirname(sys.executable) + ":" + os.environ["PATH"]})
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("fine") == 4 and "warning" not in done.stderr.lower(), done.stderr


def test_one_set_too_many_is_an_error_of_that_call_on_all_ranks(ranks):
    ranks.check("""
sets = [hvd.add_process_set([0, 1]) for _ in range(256)]
with pytest.raises(hvd.UnsupportedError, match=r"add_process_set.*rank 0: more than 256"):
    hvd.add_process_set([0, 1])
assert hvd.allreduce(np.ones(1), hvd.Sum)[0] == 3
assert hvd.remove_process_set(sets[7])
again = hvd.add_process_set([0, 1])
if rank < 2:
    assert hvd.allreduce(np.ones(1), hvd.Sum, process_set=again)[0] == 2
hvd.barrier()  # who leaves ends the job of all
""", np=3)
