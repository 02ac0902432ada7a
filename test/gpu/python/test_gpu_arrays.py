"""Arrays of GPUs in collectives, by DLPack, with the order of their streams."""

import pytest

EVERY_CALL = """
numbers = np.arange(6).reshape(3, 2)
total = sum(range(1, size + 1))
x = GpuArray(numbers * (rank + 1))
assert hvd.allreduce_(x, hvd.Sum, name="a") is x and (x.values == numbers * total).all()

x = GpuArray(numbers * (rank + 1))
y = hvd.allreduce(x, hvd.Average)
assert isinstance(y, Received) and (y.values == numbers * total / size).all()
assert (x.values == numbers * (rank + 1)).all()
assert np.allclose(hvd.allreduce(x, hvd.Sum, compression=hvd.Compression.fp16).values,
                   numbers * total)

on_host = np.full(3, rank + 1, np.float32)
ones, twos, host = hvd.grouped_allreduce([x, GpuArray([2]), on_host], hvd.Sum)
assert (ones.values == numbers * total).all() and twos.tolist() == [2 * size]
assert (host == total).all() and isinstance(host, np.ndarray)
pair = [GpuArray([rank]), GpuArray([1])]
assert hvd.grouped_allreduce_(pair, hvd.Max) is pair
assert pair[0].values == [size - 1] and pair[1].values == [1]

root = size - 1
assert (hvd.broadcast(x, root).values == numbers * size).all()
assert hvd.broadcast_(x, root) is x and (x.values == numbers * size).all()
rows = GpuArray(np.full((rank + 1, 2), rank))
gathered = hvd.allgather(rows).values
assert gathered.tolist() == [[r, r] for r in range(size) for _ in range(r + 1)]
onto = hvd.gather(rows, 0)
assert (onto is None) == (rank != 0) and (rank != 0 or (onto.values == gathered).all())
part = hvd.scatter(GpuArray(np.arange(2 * size)), 0)
assert part.tolist() == [2 * rank, 2 * rank + 1]
exchanged, splits = hvd.alltoall(GpuArray(np.full(2 * size, rank)), [2] * size)
assert exchanged.tolist() == [r for r in range(size) for _ in range(2)] and splits == [2] * size
mine = hvd.reducescatter(GpuArray(np.arange(size)), hvd.Sum)
assert mine.tolist() == [rank * size]
reduced = hvd.reduce(GpuArray([1]), 0, hvd.Sum)
assert rank != 0 or reduced.tolist() == [size]
assert hvd.allgather(GpuArray(np.zeros((0, 2)))).values.shape == (0, 2)
handle = hvd.allreduce_async(GpuArray([rank]), hvd.Max)
assert hvd.synchronize(handle).tolist() == [size - 1]
if hvd_gpu_operations == "nccl" and size > 1:
    with pytest.raises(hvd.UnsupportedError, match="send of a CUDA tensor: NCCL"):
        hvd.send(GpuArray([7, 8]), (rank + 1) % size)
elif size == 2:
    if rank == 0:
        hvd.send(GpuArray([7, 8]), 1)
    else:
        landing = GpuArray([0, 0])
        hvd.recv(landing, 0)
        assert landing.values.tolist() == [7, 8]
kept = OldGpuArray([rank])
assert hvd.allreduce_(kept, hvd.Sum).values == [sum(range(size))]
"""


def test_every_collective_takes_memory_of_the_ranks_gpu(ranks, machine):
    ranks.check(f"hvd_gpu_operations = '{machine['operations']}'" + EVERY_CALL, **machine)


@pytest.mark.parametrize("np", [1, 2])
def test_producers_order_one_stream_of_ours_and_consumers_streams_wait(ranks, np):
    ranks.check("""
first, second = GpuArray([1]), GpuArray([2])
stream_log()
hvd.grouped_allreduce_([first, second], hvd.Sum)
log = stream_log()
own, = {*first.asked, *second.asked}  # one stream, and a real one
assert own > 2 and own not in (first.stream, second.stream)
for array in (first, second):  # the producer's order, then a point of ours past it
    produced = next(point for what, point, on in log if (what, on) == ("record", array.stream))
    assert ("wait", produced, own) in log
ours = max(place for place, (what, _, on) in enumerate(log) if (what, on) == ("record", own))
assert all(place < ours for place, (what, _, on) in enumerate(log) if (what, on) == ("wait", own))
copies = [place for place, (what, _, on) in enumerate(log) if what == "copy"]
assert copies and min(copies) > ours and own not in {log[place][2] for place in copies}

Received.stream = module.hvd_test_make_stream()
array = GpuArray([3])
hvd.allreduce(array, hvd.Sum)
past, waits = stream_log()[-2:]
assert past[0] == "record" and past[2] == array.asked[0]
assert waits == ("wait", past[1], Received.stream)
""", np=np)


def test_the_engine_waits_for_the_producer_on_its_stream_and_not_on_the_host(ranks):
    ranks.check("""
array = GpuArray(np.ones(5))
hvd.barrier()
stream_log()
with stalled():
    handle = hvd.allreduce_async_(array, hvd.Sum)  # would not return if it waited
    assert not handle.wait_for(0.3)
hvd.synchronize(handle)
assert (array.values == size).all()
log = stream_log()
own = array.asked[0]
ready = next(point for what, point, on in log if (what, on) == ("record", own))
engines = next(place for place, (what, point, on) in enumerate(log)
               if (what, point) == ("wait", ready) and on != own)
copies = [place for place, (what, _, on) in enumerate(log) if what == "copy"]
assert copies and min(copies) > engines and log[copies[0]][2] == log[engines][2]
""")


def test_memory_that_a_consumer_lets_go_is_used_again_past_its_work(ranks):
    ranks.check("""
tensor = hvd.tensor([1.0, 2.0]).to(f"cuda:{own_device()}")
capsule = tensor.__dlpack__(stream=1)  # the legacy default stream
ready, ours = stream_log()[-2:]
assert ready[0] == "record" and ours == ("wait", ready[1], 1)
del capsule
(_, point, theirs), waits = stream_log()
assert theirs == 1 and waits == ("wait", point, ready[2])
""", np=1)


def test_results_are_there_for_consumers_streams_and_in_place_for_the_host(ranks):
    ranks.check("""
array = GpuArray([1, 2])
hvd.barrier()
stream_log()
with results_stalled():
    result = hvd.allreduce(array, hvd.Sum)
    log = stream_log()
assert waits_past_a_copy(log, array.asked[0]) and result.tolist() == [size, 2 * size]
points = [point for what, point, stream in log if (what, stream) == ("record", array.asked[0])]
assert any(("wait", point, 1) in log for point in points)  # the stream that Received asks for

hvd.barrier()
with results_stalled():  # of the caller's own memory nobody knows on which stream it is read
    handle = hvd.allreduce_async_(array, hvd.Sum)
    assert not handle.wait_for(0.2)
assert handle.wait_for(60) and handle.synchronize() is array
assert array.values.tolist() == [size, 2 * size]
""")


def test_without_collectives_of_gpus_the_error_says_what_to_set(ranks):
    ranks.check("""
for call in (hvd.allreduce, hvd.allreduce_, hvd.allgather):
    with pytest.raises(hvd.UnsupportedError, match="this gpu_arrays.GpuArray lies on CUDA device "
                       f"{own_device()}, and this job has no.*HVD_GPU_OPERATIONS=auto"):
        call(GpuArray([1]))
assert hvd.allreduce(np.ones(1), hvd.Sum) == size
""", operations="none")


def test_memory_of_another_device_is_refused_naming_both(ranks):
    ranks.check("""
other = 1 - own_device()
with pytest.raises(hvd.UnsupportedError, match=f"lies on CUDA device {other}, but rank {rank} "
                   f"communicates on CUDA device {own_device()}.*set_device"):
    hvd.allreduce_(GpuArray([1], device=other))
with pytest.raises(hvd.UnsupportedError, match="CUDA's managed memory .DLPack type 13."):
    hvd.allreduce_(GpuArray([1], device_type=13))
lying = GpuArray([1])
lying.device = 13
with pytest.raises(hvd.UnsupportedError, match="CUDA's managed memory .DLPack type 13."):
    hvd.allreduce_(lying)
lying.device = 8
with pytest.raises(hvd.UnsupportedError, match="Metal"):
    hvd.allreduce_(lying)
assert not hvd.allreduce(GpuArray([1])).values[0] - 1
""")


def test_what_needs_the_cpu_refuses_memory_of_a_gpu(ranks):
    ranks.check("""
import ctypes
with pytest.raises(hvd.UnsupportedError, match="CUDA device 0"):
    hvd.from_dlpack(GpuArray([1]))
copied = hvd.tensor(GpuArray([1, 2]))
assert copied.device == "cuda:0" and copied.tolist() == [1, 2]
strides = (ctypes.c_int64 * 2)(1, 2)
with pytest.raises(hvd.InvalidArgumentError, match="GPU and is not contiguous"):
    hvd.allreduce(GpuArray([[1, 2], [3, 4]], strides=strides))
with pytest.raises(hvd.InvalidArgumentError, match="contiguous"):
    hvd.allreduce_(GpuArray([[1, 2], [3, 4]], strides=strides))
for call in (hvd.allreduce, hvd.allreduce_, lambda x: hvd.allgather(x)):
    with pytest.raises(hvd.InvalidArgumentError, match="axis 1 of this gpu_arrays.GpuArray runs backwards"):
        call(GpuArray([[1, 2], [3, 4]], strides=(ctypes.c_int64 * 2)(2, -1)))
class Nameless(GpuArray):
    __module__ = "nowhere"
class Plain:  # of no library: the result is a Tensor
    def __init__(self, array): self.array = array
    def __dlpack__(self, **arguments): return self.array.__dlpack__(**arguments)
    def __dlpack_device__(self): return self.array.__dlpack_device__()
tensor = hvd.allreduce(Plain(GpuArray([1, 2])))
assert isinstance(tensor, hvd.Tensor) and tensor.device == "cuda:0" and tensor.shape == (2,)
assert hvd.allreduce_(tensor) is tensor and Received(tensor).tolist() == [1, 2]
assert (tensor + 1).tolist() == [2, 3] and tensor.__dlpack__(copy=True) is not None
with pytest.raises(hvd.UnsupportedError, match=r"numpy.*cuda:0.*\\.cpu\\(\\)"):
    tensor.numpy()
for stream in (0, -2):
    with pytest.raises(BufferError, match=f"stream {stream}"):
        tensor.__dlpack__(stream=stream)
with pytest.raises(BufferError, match=r"\\(2, 0\\)"):
    tensor.__dlpack__(dl_device=(1, 0))
stream_log()
tensor.__dlpack__(stream=-1)
assert stream_log() == []
""", np=1)
