"""Ctrl-C while a rank waits for one that does not come: KeyboardInterrupt soon, and the others learn
of it when the interrupted rank leaves."""

import pytest
from order import ORDER

# What every program starts with: rank 0 is interrupted in what rank 1 comes to too late.
HELPERS = ORDER + """
def interrupt(call):
    with pytest.raises(KeyboardInterrupt):
        signal_once_asleep(signal.SIGINT)
        call()
    pathlib.Path("interrupted").touch()
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
    wait_for("interrupted")
    with pytest.raises(hvd.HorovodInternalError, match="rank 0"):
        while True:
            {call}
            hvd.barrier()
""", own_processes=True)


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
    wait_for("interrupted")
    handle = start()
np.testing.assert_allclose(handle.synchronize(), np.full((64, 64), 2.0), rtol=1e-5)
""", own_processes=True)


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
    wait_for("interrupted")
    os.environ["HOROVOD_START_TIMEOUT"] = "2"  # this rank's: nobody comes any more
    with pytest.raises(hvd.Error):
        hvd.init()
""", environment={"HOROVOD_CONTROLLER": "gloo"})


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
    done = ranks.launch([program], 2, launcher="mpirun")
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
        pathlib.Path("interrupted").touch()
    signal.signal(signal.SIGUSR1, ask)
    signal_once_asleep(signal.SIGUSR1)
    hvd.init()
    assert seen == [False]
else:
    wait_for("interrupted")
    hvd.init()
assert hvd.size() == 2
""", environment={"HOROVOD_CONTROLLER": "gloo"})


def test_ctrl_c_ends_shutdown_when_a_rank_does_not_answer(ranks):
    ranks.check(HELPERS + """
pids = hvd.allgather_object(os.getpid())
if rank == 0:
    os.kill(pids[1], signal.SIGSTOP)
    wait_until_stopped(pids[1])
    with pytest.raises(KeyboardInterrupt):
        signal_once_asleep(signal.SIGINT)
        hvd.shutdown()
    assert not hvd.is_initialized()
    os.kill(pids[1], signal.SIGCONT)
else:
    with pytest.raises(hvd.HorovodInternalError, match="rank 0"):
        hvd.barrier()
""", own_processes=True)
