"""What settings do: deterministic mode, malformed values, autotune."""

import pytest

# Prints a hash of every loss and of the final parameters.
TRAINING = """
import hashlib
from horovod_cpp import nn
hvd.manual_seed(3)
model = nn.Sequential(nn.Linear(64, 200), nn.ReLU(), nn.Linear(200, 150), nn.ReLU(),
                      nn.Linear(150, 10))
optimizer = hvd.DistributedOptimizer(hvd.optim.Adam(model.parameters(), lr=0.01),
                                     model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
random = np.random.default_rng(rank)
digest = hashlib.sha256()
for step in range(40):
    images = hvd.tensor(random.standard_normal((8, 64), dtype=np.float32))
    labels = hvd.tensor(random.integers(0, 10, 8))
    optimizer.zero_grad()
    loss = hvd.cross_entropy(model(images), labels)
    loss.backward()
    digest.update(hvd.allreduce(np.array([loss.item()])).tobytes())
    # Loose tensors, whose order and batches differ from run to run.
    handles = [hvd.allreduce_async(random.standard_normal(1000 + 37 * i), name=f"loose{i}")
               for i in random.permutation(6)]
    for total in sorted(map(hvd.synchronize, handles), key=len):
        digest.update(total.tobytes())
    optimizer.step()
for name, value in sorted(model.state_dict().items()):
    digest.update(value.numpy().tobytes())
everyone = hvd.allgather_object(digest.hexdigest())
assert everyone == [everyone[0]] * size
if rank == 0:
    print("digest", everyone[0])
"""


def digest(ranks, np, **options):
    output = ranks.check(TRAINING, np=np, **options)
    return next(line for line in output.splitlines() if "digest" in line)


@pytest.mark.parametrize("np", [2, pytest.param(3, marks=pytest.mark.full)])
def test_two_runs_in_deterministic_mode_are_bitwise_equal(np, ranks):
    first = digest(ranks, np, flags=["--deterministic"])
    again = digest(ranks, np, environment={"HOROVOD_DETERMINISTIC": "1"})
    assert first == again


def test_deterministic_mode_fuses_only_groups_and_refuses_to_autotune(ranks):
    ranks.check("""
tensors = [np.full(10, float(i)) for i in range(30)]
def batches(call):
    before = hvd.metrics()["batches"]
    call()
    return hvd.metrics()["batches"] - before
def loose():
    handles = [hvd.allreduce_async(t, name=f"t{i}") for i, t in enumerate(tensors)]
    for handle in handles:
        hvd.synchronize(handle)
hvd.barrier()
assert batches(loose) == 30
assert batches(lambda: hvd.grouped_allreduce(tensors, name="group")) == 1
""", flags=["--deterministic"])
    program = ranks.folder / "program.py"
    done = ranks.launch([program], 2, flags=["--deterministic", "--autotune"])
    assert done.returncode != 0
    assert "HOROVOD_DETERMINISTIC=1 and HOROVOD_AUTOTUNE=1" in done.stdout, done.stdout


def test_every_setting_refuses_what_it_cannot_read(ranks):
    ranks.check("""
import os
hvd.shutdown()
accepting = set()
names = [row["name"] for row in hvd.config()]
assert len(names) == len(set(names)) >= 29
for name in names:
    os.environ[name] = "not-a-value"
    try:
        hvd.config()
        accepting.add(name)
    except hvd.InvalidArgumentError as error:
        assert name in str(error) and "not-a-value" in str(error) and "expected" in str(error)
        with pytest.raises(hvd.InvalidArgumentError, match=name):
            hvd.init()
        assert not hvd.is_initialized()
    del os.environ[name]
assert accepting == {"HOROVOD_TIMELINE", "HVD_FLIGHT_RECORDER_DIR", "HOROVOD_AUTOTUNE_LOG",
                     "HOROVOD_HOSTNAME", "HOROVOD_GLOO_IFACE", "HVD_RENDEZVOUS",
                     "HVD_ADVERTISE_ADDRESS"}
for name, value in [("HOROVOD_CYCLE_TIME", "-1"), ("HOROVOD_FUSION_THRESHOLD", "1e6"),
                    ("HOROVOD_CACHE_CAPACITY", "12 "), ("HVD_STATS", "2"),
                    ("HOROVOD_THREAD_AFFINITY", "0,"), ("HVD_TIMELINE_MAX_MB", "0"),
                    ("HOROVOD_STALL_CHECK_TIME_SECONDS", "nan"),
                    ("HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", "1.5")]:
    os.environ[name] = value
    with pytest.raises(hvd.InvalidArgumentError) as caught:
        hvd.init()
    assert f"{name}='{value}'" in str(caught.value), caught.value
    del os.environ[name]
hvd.init()
""", np=1)


def test_a_job_with_a_malformed_setting_ends_with_its_name_and_value(ranks):
    program = ranks.folder / "program.py"
    program.write_text("import horovod_cpp as hvd\nhvd.init()\n")
    done = ranks.launch([program], 2, environment={"HOROVOD_FUSION_THRESHOLD": "64MB"})
    assert done.returncode != 0
    assert "HOROVOD_FUSION_THRESHOLD='64MB'" in done.stdout, done.stdout


def test_results_are_right_while_autotune_changes_the_settings(ranks):
    log = ranks.folder / "tuned.csv"
    said = ranks.check("""
for step in range(400):
    handles = [hvd.allreduce_async(np.full(3000 * (i + 1), rank + step, np.float32), hvd.Sum,
                                   name=f"tensor{i}") for i in range(8)]
    for handle in handles:
        assert (hvd.synchronize(handle) == sum(range(size)) + size * step).all(), step
""", flags=["--autotune", "--autotune-log-file", log, "--autotune-warmup-samples", "1",
            "--autotune-steps-per-sample", "2", "--autotune-bayes-opt-max-samples", "5"])
    assert "observers" not in said, said  # rank 0 has one more than the others
    header, *rows = log.read_text().splitlines()
    columns = header.split(",")
    assert all(len(row.split(",")) == len(columns) for row in rows), log.read_text()
    settings = {tuple(row.split(",")[1:3]) for row in rows}
    assert len(settings) >= 3, log.read_text()
    assert rows[0].startswith("default,") and rows[-1].startswith("chosen,"), log.read_text()
