"""What a program is told: values that are not finite, averages of integers, names, the summary."""

import re

import pytest


def output_of(ranks, source, **options):
    return ranks.check(source, own_processes=True, **options)


def test_a_gradient_that_is_not_finite_is_named_on_all_ranks_with_its_step(ranks):
    text = output_of(ranks, """
hvd.manual_seed(1)
model = hvd.nn.Sequential(hvd.nn.Linear(3, 2), hvd.nn.Linear(2, 1))
optimizer = hvd.DistributedOptimizer(hvd.optim.SGD(model.parameters(), lr=0.1),
                                     named_parameters=model.named_parameters(), groups=1)
for step in range(1, 5):
    optimizer.zero_grad()
    x = np.ones((4, 3), np.float32)
    if step == 3 and rank == 1:
        x[2, 1] = np.nan
    hvd.mse_loss(model(hvd.tensor(x)), hvd.zeros(4, 1)).backward()
    try:
        optimizer.step()
        assert step != 3, "nobody noticed"
    except hvd.InvalidArgumentError as error:
        print("step", step, error)
""", flags=["--check-nan"])
    told = re.findall(r"step 3 rank 1's gradient of '[\w.]+' is not finite \(step 3\)", text)
    assert len(told) == 2 and text.count("not finite") == 2, text


def test_any_call_that_sums_is_checked_and_nothing_is_unless_one_asks_for_it(ranks):
    source = """
try:
    hvd.allreduce(np.full(3, np.inf if rank == 0 else 1, np.float16), name="metric")
    print("not noticed")
except hvd.InvalidArgumentError as error:
    print(error)
assert hvd.allreduce(np.ones(1), hvd.Sum, name="metric")[0] == 2
"""
    text = output_of(ranks, source, environment={"HVD_CHECK_NAN": "1"})
    assert len(re.findall(r"rank 0's 'metric' \(allreduce\) is not finite \(submission \d+\)",
                          text)) == 2, text
    assert output_of(ranks, source).count("not noticed") == 2


def test_an_average_of_integers_is_warned_about_once_per_series_of_names_on_rank_0(ranks):
    text = output_of(ranks, """
for step in range(3):
    hvd.allreduce(np.array([3 + rank]), name=f"step.{step}")
    hvd.allreduce(np.array([3 + rank]), name="count")
    hvd.allreduce(np.array([3 + rank]))
    hvd.allreduce(np.array([3 + rank]), hvd.Sum, name="sum")
    hvd.allreduce(np.array([3.0 + rank]), name="mean")
    hvd.allreduce(np.array([3.0 + 1j * rank]), name="complex mean")
""")
    warnings = [line for line in text.splitlines() if "truncated" in line]
    assert len(warnings) == 3 and all(line.startswith("[0]") for line in warnings), text
    assert "'step.0' (allreduce) averages int64" in text
    assert "'count' (allreduce) averages int64: the mean is truncated to a whole number" in text
    assert "an unnamed allreduce averages int64" in text


def test_a_rank_whose_gradients_nobody_else_gets_is_told_once(ranks):
    text = output_of(ranks, """
first = hvd.add_process_set([0])
for _ in range(2):
    model = hvd.nn.Linear(2, 1)
    hvd.DistributedOptimizer(hvd.optim.SGD(model.parameters(), lr=0.1),
                             named_parameters=model.named_parameters(), process_set=first)
""")
    warnings = [line for line in text.splitlines() if "gradients are not reduced" in line]
    assert len(warnings) == 1 and warnings[0].startswith("[1]"), text
    assert "rank 1 is not in process set 1, which has rank 0" in warnings[0]


def test_a_root_that_does_not_exist_is_told_which_ranks_there_are(ranks):
    text = output_of(ranks, """
ones = hvd.add_process_set([1])
for root, known in ((2, hvd.global_process_set), (0, ones)):
    if known.included():
        try:
            hvd.broadcast(np.ones(1), root, name="x", process_set=known)
        except hvd.InvalidArgumentError as error:
            print(error)
""")
    assert text.count("'x' (broadcast): root rank 2 does not exist: this job has ranks 0 and 1") == 2
    assert ("'x' (broadcast of process set 1): root rank 0 is not in process set 1, which has rank 1"
            in text), text


def test_the_summary_has_six_lines_and_ranks_have_an_age(ranks):
    text = output_of(ranks, """
for _ in range(5):
    hvd.allreduce(np.ones(1000), name="x")
print(hvd.summary())
if rank == 0:
    known = hvd.metrics()["ranks"]
    assert known[0]["age_seconds"] == 0 and known[1]["age_seconds"] >= 0, known
    assert all(each["late_seconds_per_batch"] >= 0 for each in known), known
""")
    of_rank_0 = [line[4:] for line in text.splitlines() if line.startswith("[0] ")]
    assert len(of_rank_0) == 6, text
    assert [line.split()[0] for line in of_rank_0] == [
        "horovod_cpp:", "moved", "exposed", "engine", "slowest", "as"], text
    assert "[1] horovod_cpp: rank 1 of 2" in text


def test_a_name_may_be_used_again_once_its_handle_is_dropped(ranks):
    output_of(ranks, """
values = np.ones(1)
for _ in range(200):
    hvd.allreduce_async_(values, hvd.Average, name="x")
held = hvd.allreduce_async_(values, hvd.Sum, name="x")
try:
    if rank == 0:
        hvd.allreduce_async_(values, hvd.Sum, name="never")
        hvd.allreduce_async_(values, hvd.Sum, name="never")  # the first was dropped
    held.synchronize()
    assert values[0] == size, values
finally:
    del held
""")


@pytest.mark.parametrize(
    "how", [{"flags": ["--mpi"]}, {"flags": ["--gloo"]}, {"launcher": "mpirun"}],
    ids=["hvdrun --mpi", "hvdrun --gloo", "mpirun"])
def test_a_message_that_nobody_received_is_named_at_both_ends(ranks, how):
    output = ranks.check("""
if rank == 0:
    hvd.isend(np.ones(3), 1, tag=7)
else:
    with pytest.raises(hvd.AbortedError, match="receive from rank 0 with tag 8 .*rank 0 left"):
        hvd.recv(np.ones(1 << 20, np.float32), 0, tag=8)
""", **how)
    unfinished = "unfinished send to rank 1 with tag 7 (3 of float64, 24 bytes)"
    assert output.count(unfinished) == 1, output


def test_a_batch_norm_is_named_by_its_place_in_the_model(ranks):
    text = output_of(ranks, """
alone, part = hvd.SyncBatchNorm(2 + rank), hvd.SyncBatchNorm(2 + rank)
for model in (alone, hvd.nn.Sequential(hvd.nn.Identity(), part)):
    try:
        model(hvd.ones((4, 2 + rank)))
    except hvd.MismatchError as error:
        print(error)
""")
    assert text.count("'sync_batch_norm.forward' (allreduce)") == 2, text
    assert text.count("'sync_batch_norm.1.forward' (allreduce)") == 2, text
