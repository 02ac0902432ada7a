"""Every collective from Python, on 1, 2 and 4 ranks."""

import pytest

DTYPES = ("['uint8', 'int8', 'uint16', 'int16', 'int32', 'int64', 'float16', 'float32', 'float64', "
          "'bool', 'complex64', 'complex128']")


@pytest.mark.parametrize("np", [1, 2, 4])
def test_movement_of_every_dtype(ranks, np):
    ranks.check(f"""
for dtype in {DTYPES}:
    mine = np.full((rank + 1, 2), rank % 2, dtype)
    rows = hvd.allgather(mine)
    want = np.concatenate([np.full((r + 1, 2), r % 2, dtype) for r in range(size)])
    assert rows.dtype == want.dtype and (rows == want).all(), (dtype, rows)
    at_root = hvd.gather(mine, size - 1)
    assert (at_root is None) == (rank != size - 1)
    if at_root is not None:
        assert (at_root == want).all()
    assert (hvd.broadcast(mine[:1], size - 1) == (size - 1) % 2).all()
    # Rank r gets r rows from everyone.
    whole = np.arange(size * (size - 1) // 2).astype(dtype)
    got, received = hvd.alltoall(whole, splits=list(range(size)))
    assert received == [rank] * size and got.dtype == whole.dtype
    part = whole[rank * (rank - 1) // 2:][:rank]
    assert (got == np.concatenate([part] * size)).all()
    assert hvd.alltoall(np.arange(2 * size).astype(dtype)).shape == (2 * size,)
    root = np.arange(3 * size).astype(dtype) if rank == 0 else np.zeros(0, dtype)
    assert (hvd.scatter(root, 0) == np.arange(3 * size).astype(dtype)[3 * rank:3 * rank + 3]).all()
    splits = [size - r for r in range(size)]
    root = np.arange(sum(splits)).astype(dtype) if rank == 0 else np.zeros(0, dtype)
    mine = hvd.scatter(root, 0, splits if rank == 0 else None)
    begin = sum(splits[:rank])
    assert (mine == np.arange(sum(splits)).astype(dtype)[begin:begin + splits[rank]]).all()
hvd.barrier()
""", np=np)


@pytest.mark.parametrize("np", [1, 2, 4])
def test_reductions_of_every_dtype(ranks, np):
    ranks.check(f"""
total = sum(r % 2 for r in range(size))
for dtype in {DTYPES}:
    if dtype == 'bool':
        continue
    rows = np.full((size + 1, 3), rank % 2, dtype)
    assert (hvd.allreduce(rows, hvd.Sum) == total).all(), dtype
    part = hvd.reducescatter(rows, hvd.Sum)
    assert part.shape == ((2 if rank == 0 else 1), 3) and (part == total).all()
    at_root = hvd.reduce(rows, size - 1, hvd.Sum)
    assert (at_root is None) == (rank != size - 1)
    assert at_root is None or (at_root == total).all()
    if not dtype.startswith('complex'):
        assert (hvd.reducescatter(rows, hvd.Max) == min(1, size - 1)).all()
    if 'int' in dtype:
        bits = np.full(3, 1 << rank, dtype)
        assert (hvd.allreduce(bits, hvd.BitOr) == (1 << size) - 1).all()
        assert (hvd.allreduce(bits | 16, hvd.BitAnd) == (17 if size == 1 else 16)).all()
    with pytest.raises(hvd.InvalidArgumentError, match='BitAnd' if 'int' not in dtype else 'Adasum'):
        hvd.allreduce(rows, hvd.BitAnd if 'int' not in dtype else hvd.Adasum)
mine = np.array([rank == 0, True])
assert hvd.allreduce(mine, hvd.BitOr).tolist() == [True, True]
assert hvd.allreduce(mine, hvd.Min).tolist() == [size == 1, True]
""", np=np)


def test_scales_and_groups(ranks):
    ranks.check("""
x = np.full(4, 2.0 + rank)
assert (hvd.allreduce(x, hvd.Sum, prescale_factor=0.5, postscale_factor=4.0) == 2 * 2 * 2.5).all()
tensors = [np.full(3, rank, np.float32), np.full((2, 2), 1 + rank), np.ones(1, np.int32)]
got = hvd.grouped_allreduce(tensors, hvd.Sum, name="group")
assert [g.dtype for g in got] == [t.dtype for t in tensors]
assert [g.ravel()[0] for g in got] == [1, 3, 2]
assert hvd.grouped_allreduce_(tensors, hvd.Sum) is tensors and tensors[1][0, 0] == 3
rows = hvd.grouped_allgather([np.full(rank + 1, rank), np.zeros((rank, 2))])
assert rows[0].tolist() == [0, 1, 1] and rows[1].shape == (1, 2)
a, b = hvd.grouped_reducescatter([np.arange(4.0), np.arange(2.0)], hvd.Sum)
assert a.tolist() == [[0.0, 2.0], [4.0, 6.0]][rank] and b.tolist() == [2.0 * rank]
values = hvd.grouped_broadcast([np.full(2, rank), np.full(3, 10.0 + rank)], 1)
assert values[0].tolist() == [1, 1] and values[1].tolist() == [11.0] * 3
with pytest.raises(hvd.MismatchError, match="tensors|group"):
    hvd.grouped_allreduce([np.ones(2)] * (2 + rank), name="lengths")
with pytest.raises(hvd.MismatchError, match="[Pp]rescale"):
    hvd.allreduce(np.ones(2), prescale_factor=1.0 + rank, name="scale")
hvd.barrier()
""")


def test_adasum_of_equal_and_of_orthogonal_vectors_on_three_ranks(ranks):
    ranks.check("""
same = hvd.allreduce(np.array([1.0, 2.0, 3.0]), hvd.Adasum)
assert np.allclose(same, [1, 2, 3]), same        # equal gradients: their average
mine = np.zeros(3)
mine[rank] = 2.0
assert np.allclose(hvd.allreduce(mine, hvd.Adasum), [2, 2, 2])  # orthogonal ones: their sum
""", np=3)


def test_transfers_meet_by_pair_and_tag(ranks):
    ranks.check("""
if rank == 0:
    sent = [hvd.isend(np.full(3, i, np.int64), 1, tag=i % 2) for i in range(6)]
    big = hvd.isend(np.arange(1 << 20, dtype=np.float32), 1, tag=9)
    [hvd.synchronize(handle) for handle in [*sent, big]]
    with pytest.raises(hvd.MismatchError, match="float32"):
        hvd.send(np.ones(2, np.float32), 1)
    hvd.send(np.ones(2), 1)
else:
    box = np.empty(1 << 20, np.float32)
    assert hvd.recv(box, 0, tag=9) is box and box[12345] == 12345
    for tag, first in [(1, 1), (0, 0), (1, 3), (0, 2), (0, 4), (1, 5)]:
        assert hvd.recv(np.empty(3, np.int64), 0, tag=tag).tolist() == [first] * 3
    with pytest.raises(hvd.MismatchError, match="float32"):
        hvd.recv(np.empty(2), 0)
    assert hvd.recv(np.empty(2), 0).tolist() == [1.0, 1.0]
with pytest.raises(hvd.InvalidArgumentError):
    hvd.send(np.ones(1), 7)
with pytest.raises(hvd.InvalidArgumentError):
    hvd.send(np.ones(1), 1 - rank, tag=-1)
hvd.barrier()
""")


def test_wrong_arguments_are_errors_on_this_rank_that_name_them(ranks):
    ranks.check("""
def refused(call, *words):
    with pytest.raises(hvd.InvalidArgumentError) as caught:
        call()
    assert all(word in str(caught.value) for word in words), caught.value
refused(lambda: hvd.alltoall(np.ones(4), splits=[1, 2]), "splits", "4")
refused(lambda: hvd.alltoall(np.ones(4), splits=[1, 2, 1]), "splits")
refused(lambda: hvd.alltoall(np.ones(4), splits=[-1, 5]), "-1")
refused(lambda: hvd.alltoall(np.ones(3)), "3")
refused(lambda: hvd.reducescatter(np.ones(())), "scalar")
refused(lambda: hvd.broadcast(np.ones(1), 5), "5")
refused(lambda: hvd.gather(np.ones(1), -1), "-1")
refused(lambda: hvd.join(average="half"), "half")
refused(lambda: hvd.allreduce(np.ones(1), hvd.Min, compression=hvd.Compression.fp16), "Min")
with pytest.raises(TypeError):
    hvd.allreduce(np.ones(1), compression=16)
refused(lambda: hvd.allreduce(np.ones(1), compression="fp61"), "fp61", "fp16")
with pytest.raises(TypeError):
    hvd.allreduce("text")
assert hvd.allreduce(np.ones(1), hvd.Sum).tolist() == [2.0]
""")


def test_objects_of_all_ranks(ranks):
    ranks.check("""
everyone = hvd.allgather_object({"rank": rank, "text": "x" * rank})
assert everyone == [{"rank": r, "text": "x" * r} for r in range(size)]
assert hvd.broadcast_object([rank], root_rank=2) == [2]
""", np=3)


def test_an_object_that_cannot_be_pickled_is_an_error_on_every_rank(ranks):
    ranks.check("""
import threading
class Refuses:
    def __reduce__(self):
        raise RuntimeError("not today")
bad = threading.Lock() if rank == 0 else Refuses()

for root, own, words in [(0, TypeError, "rank 0.*cannot be pickled: TypeError: cannot pickle '_thread.lock'"),
                         (2, RuntimeError, "rank 2.*cannot be pickled: RuntimeError: not today")]:
    expected = (own, words.split(": ")[-1]) if rank == root else (hvd.InvalidArgumentError, words)
    with pytest.raises(expected[0], match=expected[1]):
        hvd.broadcast_object([bad] if rank == root else None, root_rank=root)
    with pytest.raises(expected[0], match=expected[1]):
        hvd.allgather_object([bad] if rank == root else rank, name="some")

with pytest.raises((TypeError, RuntimeError), match="cannot pickle|not today"):
    hvd.allgather_object(bad)  # each rank has its own mistake
assert hvd.broadcast_object(rank, root_rank=1) == 1 and hvd.allgather_object(rank) == [0, 1, 2]
""", np=3)


def test_ranks_that_joined_contribute_no_object(ranks):
    ranks.check("""
if rank == 1:
    assert hvd.join() == 0
else:
    assert hvd.allgather_object("here") == ["here"]
    hvd.join()
""")


def test_a_wrong_root_of_an_object_fails_on_every_rank_and_the_next_call_works(ranks):
    ranks.check("""
for root in (hvd.tensor(0.7), 1.0, "1"):
    with pytest.raises(TypeError, match="root_rank must be an int, got"):
        hvd.broadcast_object([rank], root)
assert hvd.broadcast_object([rank], hvd.tensor(1)) == [1]
""", np=2)
