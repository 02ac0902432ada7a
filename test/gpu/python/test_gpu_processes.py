"""Several processes whose GPUs are the host: what one shares with another, and what goes wrong."""

import json
import re
import signal
import time

import pytest

EXACT = """
everyone = range(size)
def brought(r, numel, dtype):
    return ((np.arange(numel) * 7 + 3 * r) % 5 + 1).astype(dtype)
def there(values):
    return hvd.tensor(values, device=device)
def expect(tensor, values):
    assert tensor.device == device
    np.testing.assert_array_equal(tensor.cpu().numpy(), values)

in_flight = []
for dtype in ("float16", "float32", "float64", "int32", "int64", "uint8"):
    for numel in (0, 1, 5, 1001, 70003):
        inputs = [brought(r, numel, dtype) for r in everyone]
        x = there(inputs[rank])
        for op, expected in ((hvd.Sum, sum(inputs)), (hvd.Max, np.maximum.reduce(inputs)),
                             (hvd.Min, np.minimum.reduce(inputs))):
            in_flight.append((hvd.allreduce_async(x, op), expected))
for handle, expected in in_flight:
    expect(hvd.synchronize(handle), expected)

large = there(brought(rank, 1500007, "float32"))  # more than one chunk
for _ in range(2):
    before = large.cpu().numpy()
    hvd.allreduce_(large, hvd.Average)
expect(large, sum(brought(r, 1500007, "float32") for r in everyone) / size)

for root in everyone:
    expect(hvd.broadcast(there(brought(rank, 300, "int32")), root), brought(root, 300, "int32"))
rows = hvd.allgather(there(np.full((3 * rank, 2), rank)))
expect(rows, np.repeat(list(everyone), [3 * r for r in everyone])[:, None].repeat(2, 1))
splits = [r + rank for r in everyone]
got, received = hvd.alltoall(there(np.repeat(np.arange(size) + 10 * rank, splits)), splits)
expect(got, np.repeat([10 * r + rank for r in everyone], [r + rank for r in everyone]))
assert list(received) == [r + rank for r in everyone]
part = hvd.reducescatter(there(np.arange(2 * size + 1, dtype=np.float32) + rank), hvd.Sum)
whole = size * np.arange(2 * size + 1, dtype=np.float32) + sum(everyone)
lengths = [2 + (r < 1) for r in everyone]
expect(part, np.split(whole, np.cumsum(lengths)[:-1])[rank])
"""

SETS = """
pairs = [hvd.add_process_set(list(range(first, first + 2))) for first in range(0, size, 2)]
mine = pairs[rank // 2]
for step in range(3):
    one = hvd.full((1000,), rank + step, device=device)
    handles = [hvd.allreduce_async(one, hvd.Sum, process_set=mine, name="pair"),
               hvd.allreduce_async(one, hvd.Sum, name="all")]
    pair, every = (hvd.synchronize(handle) for handle in handles)
    assert pair[0].item() == sum(r + step for r in mine.ranks), pair[0]
    assert every[999].item() == sum(r + step for r in range(size))
outer = hvd.add_process_set([0, size - 1])
if outer.included():
    assert hvd.allgather(hvd.full((1,), rank, device=device), process_set=outer).tolist() == [0, size - 1]
hvd.barrier()
for each in (outer, *pairs):
    assert hvd.remove_process_set(each)
assert hvd.allreduce(hvd.ones(3, device=device), hvd.Sum).tolist() == [size] * 3
"""

# Ranks that have left the loop, ranks that disagree, and what goes by way of the host.
UNEVEN = """
for step in range(rank + 1):
    every = hvd.allreduce_async(hvd.full((1000,), rank + 1, device=device), hvd.Average, name="every")
    rows = hvd.allgather_async(hvd.full((2, 3), rank, device=device), name="rows")
    here = [r for r in range(size) if r >= step]
    assert hvd.synchronize(every)[0].item() == sum(r + 1 for r in here) / len(here)
    assert hvd.synchronize(rows).shape == (2 * len(here), 3)
assert hvd.join() == size - 1

with pytest.raises(hvd.MismatchError, match="odd"):
    hvd.allreduce(hvd.ones(2 + rank % 2, device=device), name="odd")
with pytest.raises(hvd.MismatchError, match="place"):
    hvd.allreduce(hvd.ones(2, device=device if rank % 2 else "cpu"), name="place")
assert hvd.allreduce(hvd.ones(2, device=device), hvd.Sum).tolist() == [size] * 2
pair = hvd.grouped_allreduce([hvd.full((3,), rank, device=device), hvd.ones(5)], hvd.Sum)
assert (pair[0].device, pair[1].device) == (device, "cpu")
assert pair[0].tolist() == [sum(range(size))] * 3 and pair[1].tolist() == [size] * 5
scaled = hvd.allreduce(hvd.full((4,), 4, dtype="int32", device=device), hvd.Sum, prescale_factor=0.5)
assert scaled.tolist() == [2 * size] * 4
half = hvd.allreduce(hvd.full((1000,), rank + 0.5, device=device), hvd.Sum,
                     compression=hvd.Compression.fp16)
assert half.dtype == "float32" and half[7].item() == sum(range(size)) + size / 2
state = {"a": hvd.full((5,), rank, device=device), "b": hvd.full((70000,), 2 * rank, device=device)}
hvd.broadcast_parameters(state, root_rank=size - 1)
assert state["a"].tolist() == [size - 1] * 5 and state["b"][-1].item() == 2 * size - 2
assert hvd.allgather_object({"rank": rank}) == [{"rank": r} for r in range(size)]
"""

AGAIN = """
for job in range(3):
    assert hvd.allreduce(hvd.ones(5, device=device), hvd.Sum).tolist() == [size] * 5
    hvd.shutdown()
    hvd.init()
"""

WAYS = [{"operations": "nccl", "devices": 4}, {"operations": "ipc", "devices": 1},
        {"operations": "host", "devices": 1}]


@pytest.fixture(params=WAYS, ids=lambda way: way["operations"])
def way(request):
    """What moves tensors of 4 ranks."""
    return request.param


@pytest.mark.parametrize("np", [2, 4])
def test_results_are_exact_for_every_dtype_and_size(ranks, way, np):
    ranks.check(EXACT, np=np, lazy=np, **way)


def test_process_sets_and_jobs_after_one_another(ranks, way):
    ranks.check(SETS + AGAIN, np=4, **way)


def test_ranks_that_have_joined_or_disagree(ranks, way):
    ranks.check(UNEVEN, np=3, lazy=5, **way)


@pytest.mark.parametrize("devices, operations", [(2, "nccl"), (1, "ipc")])
def test_auto_takes_nccl_where_each_rank_has_a_gpu_else_memory_that_is_shared(ranks, devices,
                                                                              operations):
    output = ranks.check("assert hvd.allreduce(hvd.ones(2, device=device), hvd.Sum)[0].item() == 2",
                         operations="auto", devices=devices,
                         environment={"HOROVOD_LOG_LEVEL": "info"})
    assert f"HVD_GPU_OPERATIONS=auto is {operations} here" in output, output


def test_a_launcher_may_show_each_rank_a_gpu_of_its_own(by_hand):
    source = """
import horovod_cpp as hvd
hvd.init()
assert hvd.allreduce(hvd.ones(2, device="cuda:0"), hvd.Sum).tolist() == [2, 2]
print("fine")
"""
    started = [by_hand.start(source, rank, 2, {"CUDA_VISIBLE_DEVICES": str(3 - rank)},
                             operations="nccl", devices=4)
               for rank in range(2)]
    for process in started:
        output, _ = process.communicate(timeout=60)
        assert "fine" in output.splitlines(), output


def test_nccl_refuses_ranks_that_share_a_gpu_naming_them(ranks):
    program = ranks.folder / "program.py"
    program.write_text("import horovod_cpp as hvd\nhvd.init()")
    done = ranks.launch([program], 3, environment=ranks.environment("nccl", 2))
    assert done.returncode != 0
    assert "ranks 0 and 2" in done.stdout and "0000:00:00.0" in done.stdout, done.stdout
    assert "HVD_GPU_OPERATIONS=ipc lets ranks share one" in done.stdout


def test_where_memory_cannot_be_shared_all_goes_by_way_of_the_host(ranks):
    output = ranks.check(EXACT, operations="ipc", devices=1, environment={"HOST_CUDA_IPC": "0"})
    assert len(re.findall("ranks cannot share GPU memory: rank 0 of 2: ", output)) == 1, output


@pytest.mark.parametrize("operations, devices", [("nccl", 2), ("ipc", 1)])
def test_a_gpu_that_is_full_is_told_to_all_ranks(by_hand, operations, devices):
    source = f"""
import horovod_cpp as hvd
hvd.init()
x = hvd.ones(1000000, device=f"cuda:{{hvd.rank() % {devices}}}")
try:
    print("sum", hvd.allreduce(x, hvd.Sum, compression=hvd.Compression.fp16)[0].item())
    print("sum", hvd.allreduce(x, hvd.Sum)[0].item())
except hvd.HorovodInternalError as error:
    print(type(error).__name__, error)
"""
    started = [by_hand.start(source, rank, 2, {"HOST_CUDA_MEMORY": str(10**6)} if rank else {},
                             operations=operations, devices=devices) for rank in range(2)]
    said = [process.communicate(timeout=60)[0] for process in started]
    if operations == "nccl":
        for output in said:
            assert "rank 1" in output and "ncclMemAlloc of" in output, said
    else:
        assert "rank 1 of 2: cudaMalloc of" in said[0], said
        assert all(output.count("sum 2.0") == 2 for output in said), said


def test_ranks_that_want_different_ways_are_told(by_hand):
    source = """
import horovod_cpp as hvd
try:
    hvd.init()
except hvd.Error as error:
    print(type(error).__name__, error)
"""
    started = [by_hand.start(source, rank, 2, operations=way)
               for rank, way in enumerate(["nccl", "ipc"])]
    for process in started:
        output, _ = process.communicate(timeout=60)
        assert "HVD_GPU_OPERATIONS is 'nccl' on rank 0 and 'ipc' on rank 1" in output, output


# Goes on until a rank is gone; says when it is in the middle, and what it was told.
SURVIVOR = """
import json, sys, time
import horovod_cpp as hvd
hvd.init()
device = f"cuda:{hvd.rank() % DEVICES}"
tensors = [hvd.ones(200000, device=device) for _ in range(4)]
try:
    for step in range(10**9):
        for handle in [hvd.allreduce_async_(x, hvd.Average, name=f"{i}") for i, x in enumerate(tensors)]:
            hvd.synchronize(handle)
        if step == 3:
            print("up", flush=True)
except hvd.HorovodInternalError as error:
    print(json.dumps({"error": type(error).__name__, "text": str(error), "at": time.monotonic()}),
          flush=True)
hvd.shutdown()
"""


def wait_until_up(started):
    """They may warn of something before."""
    for process in started:
        said = []
        while "up\n" not in said:
            said.append(process.stdout.readline())
            assert said[-1], said  # it has ended


@pytest.mark.parametrize("victim", [0, 2])
def test_every_survivor_learns_of_a_killed_rank_and_ends(by_hand, way, victim):
    source = SURVIVOR.replace("DEVICES", str(way["devices"]))
    started = [by_hand.start(source, rank, 4, **way) for rank in range(4)]
    wait_until_up(started)
    started[victim].send_signal(signal.SIGKILL)
    killed = time.monotonic()
    for rank in set(range(4)) - {victim}:
        output, _ = started[rank].communicate(timeout=30)
        told = json.loads(next(line for line in output.splitlines() if line.startswith("{")))
        assert told["error"] in ("PeerLostError", "AbortedError"), told
        assert f"rank {victim}" in told["text"], told
        assert told["at"] - killed < 10, told
        assert started[rank].returncode == 0, output


def test_a_rank_that_stands_still_is_a_stall(by_hand, way):
    limit = {"HOROVOD_STALL_CHECK_TIME_SECONDS": "1", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "7"}
    source = SURVIVOR.replace("DEVICES", str(way["devices"]))
    started = [by_hand.start(source, rank, 2, limit, **way) for rank in range(2)]
    wait_until_up(started)
    started[1].send_signal(signal.SIGSTOP)
    said = next(line for line in started[0].stdout if line.startswith("{"))
    started[1].kill()
    told = json.loads(said)
    assert told["error"] == "StalledError" and "rank 1" in told["text"], told
    started[0].communicate(timeout=30)
    assert started[0].returncode == 0
