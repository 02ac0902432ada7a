"""Programs on 2 and more ranks; each covers one subject."""

import time

import pytest
from order import ORDER


@pytest.mark.parametrize("launcher", ["mpirun", "hvdrun"])
def test_collectives_are_exact_for_every_dtype(ranks, launcher):
    ranks.check("""
assert size == 2 and hvd.local_size() == 2 and hvd.cross_size() == 1
for dtype in ["uint8", "int32", "int64", "float16", "float32", "float64", "bfloat16"]:
    mine = hvd.tensor([[1, 2], [3, 4]], dtype=dtype) if rank == 0 else hvd.tensor([[5, 0], [1, 4]], dtype=dtype)
    for op, want in [(hvd.Sum, [[6, 2], [4, 8]]), (hvd.Average, [[3, 1], [2, 4]]),
                     (hvd.Min, [[1, 0], [1, 4]]), (hvd.Max, [[5, 2], [3, 4]]),
                     (hvd.Product, [[5, 0], [3, 16]])]:
        assert hvd.allreduce(mine, op).tolist() == want, (dtype, op)
    rows = hvd.allgather(mine[: rank + 1])
    assert rows.tolist() == [[1, 2], [5, 0], [1, 4]] and rows.dtype == dtype
    assert hvd.broadcast(mine, 1).tolist() == [[5, 0], [1, 4]]
array = np.arange(3.0) + rank
assert hvd.allreduce(array, hvd.Sum).tolist() == [1.0, 3.0, 5.0]
assert isinstance(hvd.allgather(array), np.ndarray)
assert hvd.allgather(np.zeros((0, 2)) if rank else np.ones((2, 2))).shape == (2, 2)
""", launcher=launcher)


def test_asynchronous_calls_in_other_orders_and_in_place(ranks):
    ranks.check("""
names = [f"t{i}" for i in range(50)]
handles = {n: hvd.allreduce_async(np.full(4, int(n[1:]) + rank), hvd.Sum, name=n)
           for n in (names if rank == 0 else reversed(names))}
for name, handle in handles.items():
    assert hvd.synchronize(handle).tolist() == [2 * int(name[1:]) + 1] * 4
    assert hvd.poll(handle)
array = np.full(1000, rank + 1.0)
assert hvd.allreduce_(array, hvd.Sum, name="x") is array and (array == 3).all()
tensor = hvd.full((2,), rank)
hvd.broadcast_(tensor, 1)
assert tensor.tolist() == [1.0, 1.0]
""")


def test_ranks_that_disagree_get_one_error_and_go_on(ranks):
    ranks.check("""
def fails(call, *words):
    with pytest.raises(hvd.MismatchError) as caught:
        call()
    text = str(caught.value)
    assert all(word in text for word in words), text
    everywhere = [hvd.broadcast_object(text, root) for root in range(size)]
    assert len(set(everywhere)) == 1, everywhere
    assert hvd.allreduce(np.ones(2), hvd.Sum).tolist() == [2.0, 2.0]

fails(lambda: hvd.allreduce(np.ones(2 + rank), name="shape"), "shape", "[2]", "[3]")
fails(lambda: hvd.allreduce(np.ones(2, np.float64 if rank else np.float32), name="kind"),
      "kind", "float32", "float64")
fails(lambda: hvd.allreduce(np.ones(2), hvd.Min if rank else hvd.Max, name="op"), "op", "Min", "Max")
fails(lambda: hvd.broadcast(np.ones(2), rank, name="root"), "root")
fails(lambda: hvd.allgather(np.ones((2, 2 + rank)), name="rows"), "rows")
""")


def test_what_one_rank_cannot_broadcast_is_an_error_on_all(ranks):
    ranks.check("""
for wrong, root in ((0, 0), (size - 1, 0)):
    weights = np.ones(3)
    weights.flags.writeable = rank != wrong
    with pytest.raises(hvd.InvalidArgumentError if rank == wrong else hvd.MismatchError,
                       match="read-only"):
        hvd.broadcast_parameters({"weights": weights}, root)
for bad in ({"weights": "text" if rank == 0 else np.ones(3)}, [3 if rank == 0 else ("w", np.ones(3))]):
    with pytest.raises(hvd.MismatchError if rank else TypeError):
        hvd.broadcast_parameters(bad)
assert hvd.allreduce(np.ones(2), hvd.Sum).tolist() == [size] * 2
""")


def test_a_name_twice_in_flight_is_an_error_on_this_rank_only(ranks):
    ranks.check("""
if rank == 0:
    first = hvd.allreduce_async(np.ones(2), hvd.Sum, name="twice")
    with pytest.raises(hvd.InvalidArgumentError, match="twice"):
        hvd.allreduce_async(np.ones(2), hvd.Sum, name="twice")
    hvd.broadcast_object("go")
    assert hvd.synchronize(first).tolist() == [2.0, 2.0]
else:
    hvd.broadcast_object(None)
    assert hvd.allreduce(np.ones(2), hvd.Sum, name="twice").tolist() == [2.0, 2.0]
""")


def test_waiting_lets_other_python_threads_run(ranks):
    ranks.check(ORDER + """
if rank == 0:
    waiter = threading.Thread(target=lambda: hvd.allreduce(np.ones(1), name="late"))
    waiter.start()
    for _ in range(20):
        time.sleep(0.01)
        assert waiter.is_alive()
    pathlib.Path("ticked").touch()
    waiter.join()
else:
    wait_for("ticked")
    hvd.allreduce(np.ones(1), name="late")
""")


def test_ctrl_c_interrupts_a_wait(ranks):
    ranks.check(ORDER + """
if rank == 0:
    handle = hvd.allreduce_async(np.ones(1), hvd.Sum, name="late")
    with pytest.raises(KeyboardInterrupt):
        signal_once_asleep(signal.SIGINT)
        hvd.synchronize(handle)
    hvd.broadcast_object("go")
    assert hvd.synchronize(handle).tolist() == [2.0]  # the operation itself went on
else:
    hvd.broadcast_object(None)
    assert hvd.allreduce(np.ones(1), hvd.Sum, name="late").tolist() == [2.0]
""")


def test_arrays_in_flight_are_kept_and_then_dropped_on_a_python_thread(ranks):
    ranks.check("""
import gc, threading
dropped = []
class Array(np.ndarray):
    def __del__(self):
        dropped.append(threading.current_thread())
for step in range(20):
    array = np.full(1000, step).view(Array)
    handle = hvd.allreduce_async(array, hvd.Sum, name=f"a{step}")
    del array
    assert (hvd.synchronize(handle) == step * size).all()
    del handle
hvd.shutdown()
gc.collect()
assert len(dropped) >= 20 and set(dropped) == {threading.main_thread()}, dropped
""")


def test_parameters_optimizer_state_and_objects_come_from_the_root(ranks):
    ranks.check("""
hvd.manual_seed(rank)
model = hvd.nn.Sequential(hvd.nn.Linear(3, 2), hvd.nn.BatchNorm2d(2))
hvd.broadcast_parameters(model.state_dict(), root_rank=1)
for name, tensor in model.state_dict().items():
    assert hvd.bitwise_equal(hvd.broadcast(tensor, 0), tensor), name

x = hvd.tensor([1.0], requires_grad=True)
optimizer = hvd.optim.SGD([x], lr=0.5 if rank == 0 else 0.1, momentum=0.5)
if rank == 0:
    hvd.sum(x).backward()
    optimizer.step()
before = x.item()
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
assert x.item() == before
assert optimizer.param_groups[0]["lr"] == 0.5
state = optimizer.state_of(x)
assert state["step"] == 1 and state["momentum_buffer"].tolist() == [1.0]

offset = 5
thing = hvd.broadcast_object({"f": lambda v: v + offset} if rank == 1 else None, root_rank=1)
assert thing["f"](1) == 6
with pytest.raises(hvd.InvalidArgumentError):
    hvd.broadcast_object(1, root_rank=7)
""")


def test_init_and_shutdown_repeat_on_many_ranks(ranks):
    ranks.check("""
for round in range(5):
    assert hvd.allreduce(np.ones(1), hvd.Sum).tolist() == [size]
    hvd.shutdown()
    hvd.init()
""", np=3)


def test_a_child_forked_after_shutdown_ends_at_once(ranks):
    ranks.check("""
import os, sys, time
hvd.shutdown()
child = os.fork()
if child == 0:
    with pytest.raises(hvd.AbortedError, match="forked"):
        hvd.init()
    sys.exit(7)
end = time.monotonic() + 20
done = (0, 0)
while done[0] == 0 and time.monotonic() < end:
    done = os.waitpid(child, os.WNOHANG)
    time.sleep(0.05)
if done[0] == 0:
    os.kill(child, 9)
assert os.waitstatus_to_exitcode(done[1]) == 7 and done[0] == child, done
""", own_processes=True)


def test_a_rank_that_leaves_is_named_to_those_that_wait(ranks):
    ranks.check("""
if rank == 1:
    hvd.shutdown()
else:
    with pytest.raises(hvd.AbortedError, match="1"):
        hvd.allreduce(np.ones(1), name="alone")
""")


def test_a_timeline_that_cannot_be_written_is_every_ranks_error(ranks):
    program = ranks.folder / "timeline.py"
    program.write_text("""
import numpy as np
import horovod_cpp as hvd
try:
    hvd.init()
    hvd.allreduce(np.ones(1), name="x")
except hvd.Error as error:
    print(type(error).__name__, error)
""")
    done = ranks.launch([program], 2, environment={"HOROVOD_TIMELINE": "/no/such/folder/timeline"})
    said = [line for line in done.stdout.splitlines() if "cannot write the timeline" in line]
    assert any("InvalidArgumentError" in line for line in said), done.stdout
    assert any("PeerLostError rank 0" in line for line in said), done.stdout


def with_an_end_of_rank_1(ranks, np, what, environment=None):
    """A job that would go on forever, of which rank 1 does `what` after some steps."""
    program = ranks.folder / "program.py"
    program.write_text(f"""
import os, signal
import numpy as np
import horovod_cpp as hvd
hvd.init()
for step in range(10**9):
    if hvd.rank() == 1 and step == 20:
        {what}
    hvd.allreduce(np.ones(1000), name="x")
""")
    return ranks.launch([program], np, environment=environment)


def test_a_rank_that_raises_is_the_one_that_hvdrun_reports(ranks):
    done = with_an_end_of_rank_1(ranks, 3, 'raise ValueError("boom")')
    assert done.returncode == 1
    output, _, report = done.stdout.partition("hvdrun: rank ")
    assert report.startswith("1 of 3 failed first"), done.stdout
    assert "[1] ValueError: boom" in output and "boom" not in report, done.stdout  # said once


def test_a_rank_that_is_stopped_ends_the_job_at_the_stall_limit(ranks, marked_processes):
    done = with_an_end_of_rank_1(ranks, 3, "os.kill(os.getpid(), signal.SIGSTOP)", environment={
        "HOROVOD_STALL_CHECK_TIME_SECONDS": "1", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "7"})
    assert done.returncode == 1
    assert "StalledError" in done.stdout and "for rank 1" in done.stdout, done.stdout
    end = time.monotonic() + 30
    while marked_processes() and time.monotonic() < end:
        time.sleep(0.05)
    assert marked_processes() == []


def test_a_killed_rank_ends_the_job_naming_it(ranks, marked_processes):
    done = with_an_end_of_rank_1(ranks, 2, "os.kill(os.getpid(), signal.SIGKILL)")
    assert done.returncode != 0
    assert "rank 1" in done.stdout and "SIGKILL" in done.stdout, done.stdout
    assert marked_processes() == []


def test_a_job_over_mpi_says_so(ranks):
    ranks.check("""
assert hvd.mpi_built() and hvd.mpi_enabled() and hvd.mpi_threads_supported() in (True, False)
assert hvd.is_homogeneous()
""", flags=["--mpi"])
