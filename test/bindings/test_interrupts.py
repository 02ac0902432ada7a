"""Ctrl-C while a rank waits for one that does not come: KeyboardInterrupt soon, and the others learn
of it when the interrupted rank leaves."""

import pytest

# What every program starts with: rank 0 is interrupted in what rank 1 comes to too late.
HELPERS = """
import os, pathlib, signal, threading, time
interrupted = pathlib.Path("interrupted")

def interrupt(call):
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        call()
    took = time.monotonic() - start
    assert took < 1.3, took
    interrupted.touch()

def wait_until_interrupted():
    for _ in range(3000):
        if interrupted.exists():
            return
        time.sleep(0.01)
    raise TimeoutError("rank 0 was not interrupted")
"""

MODEL = """
model = hvd.nn.Linear(2, 1)
optimizer = hvd.optim.SGD(model.parameters(), lr=0.1)
"""
TRAINING = MODEL + """
optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), {options})
def train():
    model(hvd.ones((1, 2))).sum().backward()
    optimizer.step()
"""

# What is there before, and what waits for the other rank.
CALLS = {
    "allreduce": ("", "hvd.allreduce(np.ones(1), name='late')"),
    "compressed": ("", "hvd.allreduce(np.ones((64, 64), 'f4'), name='late', "
                       "compression=hvd.Compression.powersgd())"),
    "barrier": ("", "hvd.barrier()"),
    "broadcast_parameters": (MODEL, "hvd.broadcast_parameters(model.state_dict())"),
    "broadcast_optimizer_state": (MODEL, "hvd.broadcast_optimizer_state(optimizer)"),
    "broadcast_object": ("", "hvd.broadcast_object('x', root_rank=1)"),
    "allgather_object": ("", "hvd.allgather_object('x')"),
    "add_process_set": ("", "hvd.add_process_set([0])"),
    "remove_process_set": ("made = hvd.add_process_set([0])", "hvd.remove_process_set(made)"),
    "step": (TRAINING.format(options="compression=hvd.Compression.fp16"), "train()"),
    "overlap": (TRAINING.format(options="overlap_step=True"), "train()"),
    "ddp": (MODEL, "hvd.DistributedDataParallel(model)"),
    "batch_norm": ("norm = hvd.SyncBatchNorm(2)", "norm(hvd.ones((4, 2)))"),
    "average": (MODEL + "model(hvd.ones((1, 2))).sum().backward()",
                "hvd.average_gradients(model)"),
}


@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_ends_a_wait_and_the_others_learn_who_left(ranks, name):
    before, call = CALLS[name]
    ranks.check(HELPERS + before + f"""
if rank == 0:
    interrupt(lambda: {call})
else:
    wait_until_interrupted()
    with pytest.raises(hvd.HorovodInternalError, match="rank 0"):
        while True:
            {call}
            hvd.barrier()
""")


# Its rounds go on when somebody asks.
def test_a_compressed_call_goes_on_after_ctrl_c(ranks):
    ranks.check(HELPERS + """
def start():
    return hvd.allreduce_async(np.ones((64, 64), "f4"), hvd.Sum, name="late",
                               compression=hvd.Compression.powersgd(1))
if rank == 0:
    handle = start()
    interrupt(handle.synchronize)
else:
    wait_until_interrupted()
    handle = start()
np.testing.assert_allclose(handle.synchronize(), np.full((64, 64), 2.0), rtol=1e-5)
""")


INIT = """
import pytest
import horovod_cpp as hvd
""" + HELPERS + """
rank = int(os.environ.get("HOROVOD_RANK", os.environ.get("OMPI_COMM_WORLD_RANK")))
"""


@pytest.mark.parametrize("waiting", [0, 1])
def test_ctrl_c_ends_init(ranks, waiting):
    ranks.prologue = INIT
    ranks.check(f"""
if rank == {waiting}:
    interrupt(hvd.init)
    assert not hvd.is_initialized()
else:
    wait_until_interrupted()
    with pytest.raises(hvd.Error):
        hvd.init()
""", environment={"HOROVOD_START_TIMEOUT": "5", "HOROVOD_CONTROLLER": "gloo"})


def test_ctrl_c_ends_init_inside_mpi(ranks):
    ranks.prologue = INIT
    program = ranks.folder / "program.py"
    program.write_text(INIT + """
if rank == 0:
    interrupt(hvd.init)
    assert not hvd.is_initialized()
    with pytest.raises(hvd.UnsupportedError, match="start a new process"):
        hvd.init()
    print("rank 0 was interrupted", flush=True)
    os._exit(3)
time.sleep(60)
""")
    done = ranks.launch([program], 2, launcher="mpirun", timeout=40)
    assert "rank 0 was interrupted" in done.stdout, done.stdout


# Other signals' handlers may ask, and leave.
def test_signal_handlers_run_while_init_waits(ranks):
    ranks.prologue = INIT
    ranks.check("""
if rank == 0:
    seen = []
    def ask(*_):
        seen.append(hvd.is_initialized())
        hvd.shutdown()
        with pytest.raises(hvd.InvalidArgumentError, match="signal handler"):
            hvd.init()
        interrupted.touch()
    signal.signal(signal.SIGUSR1, ask)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    hvd.init()
    assert seen == [False]
else:
    wait_until_interrupted()
    hvd.init()
assert hvd.size() == 2
""", environment={"HOROVOD_CONTROLLER": "gloo"})


def test_ctrl_c_ends_shutdown_when_a_rank_does_not_answer(ranks):
    ranks.check(HELPERS + """
pids = hvd.allgather_object(os.getpid())
if rank == 0:
    os.kill(pids[1], signal.SIGSTOP)
    threading.Timer(4, os.kill, (pids[1], signal.SIGCONT)).start()
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        hvd.shutdown()
    assert time.monotonic() - start < 2.5
    assert not hvd.is_initialized()
else:
    with pytest.raises(hvd.HorovodInternalError, match="rank 0"):
        hvd.barrier()
""")
