"""Process sets and join from Python."""

from order import ORDER


def test_sets_are_registered_used_and_removed(ranks):
    ranks.check("""
evens, odds = hvd.ProcessSet([2, 0]), hvd.ProcessSet([1, 3])
assert evens.process_set_id is None and evens.included() is None and evens.ranks == [0, 2]
hvd.shutdown()
hvd.init(process_sets=[evens, odds])
assert (evens.process_set_id, odds.process_set_id) == (1, 2)
mine = evens if rank % 2 == 0 else odds
assert mine.included() and mine.size() == 2 and mine.rank() == rank // 2
assert hvd.allreduce(np.array([rank]), hvd.Sum, process_set=mine).tolist() == [2 if rank % 2 == 0 else 4]
assert hvd.allgather(np.array([rank]), process_set=mine).tolist() == mine.ranks
assert hvd.broadcast(np.array([rank]), mine.ranks[1], process_set=mine).tolist() == [mine.ranks[1]]
assert hvd.allgather_object(rank, process_set=mine) == mine.ranks
other = odds if rank % 2 == 0 else evens
with pytest.raises(hvd.InvalidArgumentError, match="not"):
    hvd.allreduce(np.ones(1), process_set=other)
with pytest.raises(hvd.InvalidArgumentError):
    hvd.broadcast(np.ones(1), other.ranks[0], process_set=mine)
with pytest.raises(hvd.InvalidArgumentError, match="registered already, as number 1"):
    hvd.add_process_set(evens)
twin = hvd.add_process_set([0, 2])  # another set of the same ranks
assert twin != evens and twin.process_set_id == 3
third = hvd.add_process_set([0, 1, 2])
assert third.process_set_id == 4 and third.included() == (rank < 3)
everyone = hvd.add_process_set(range(size))
assert everyone != hvd.global_process_set and everyone.ranks == [0, 1, 2, 3]
assert hvd.allreduce(np.ones(1), hvd.Sum, process_set=everyone)[0] == 4
assert hvd.remove_process_set(everyone)
# Overlapping sets in different orders on different ranks.
if rank < 3:
    a = lambda: hvd.allreduce_async(np.ones(1000), hvd.Sum, name="a", process_set=third)
    b = lambda: hvd.allreduce_async(np.ones(1000), hvd.Sum, name="b")
    handles = [a(), b()] if rank == 0 else [b(), a()][::1]
    sums = sorted(hvd.synchronize(h)[0] for h in handles)
    assert sums == [3.0, 4.0]
else:
    hvd.allreduce(np.ones(1000), hvd.Sum, name="b")
assert hvd.remove_process_set(third) and not hvd.remove_process_set(third)
assert third.process_set_id is None
with pytest.raises(hvd.InvalidArgumentError, match="not registered"):
    hvd.barrier(process_set=third)
assert not hvd.remove_process_set(hvd.global_process_set)
with pytest.raises(hvd.MismatchError):
    hvd.add_process_set([0, 1 + 2 * (rank % 2)])
hvd.barrier()
""", np=4)


def test_a_disjoint_set_goes_on_while_another_waits(ranks):
    ranks.check("""
import os, time
left, right = hvd.add_process_set([0, 1]), hvd.add_process_set([2, 3])
if rank == 1:
    while not os.path.exists("right.done"):  # rank 0 waits for this one in the other set
        time.sleep(0.01)
if rank in left.ranks:
    assert hvd.allreduce(np.ones(1), hvd.Sum, process_set=left, name="slow")[0] == 2
else:
    for _ in range(200):
        assert hvd.allreduce(np.ones(1), hvd.Sum, process_set=right)[0] == 2
    open("right.done", "w").close()
hvd.barrier()
""", np=4)


def test_join_of_ranks_without_data(ranks):
    ranks.check(ORDER + """
steps = [0, 1, 3][rank]
for step in range(steps):
    active = [r for r in range(3) if [0, 1, 3][r] > step]
    x = hvd.allreduce(np.array([float(10 ** rank)]), name="x")
    assert np.isclose(x[0], sum(10.0 ** r for r in active) / len(active)), (step, x)
    rows = hvd.allgather(np.full((rank, 2), rank), name="rows")
    assert rows[:, 0].tolist() == [r for r in active for _ in range(r)]
    if 0 not in active:
        with pytest.raises(hvd.MismatchError, match="joined"):
            hvd.broadcast(np.ones(1), 0, name="b")
assert hvd.join() == 2
if rank == 0:
    handle = hvd.join_async(average="size")
    with pytest.raises(hvd.InvalidArgumentError, match="joined"):
        hvd.allreduce(np.ones(1), name="late")
    pathlib.Path("refused").touch()
    assert hvd.synchronize(handle) == 2
else:
    if rank == 2:
        wait_for("refused")
    assert hvd.allreduce(np.array([3.0]))[0] == 2.0  # two ranks contribute, three divide
    if rank == 2:  # after rank 1, or this would wait for it
        assert hvd.allreduce(np.array([3.0]), hvd.Sum, name="more")[0] == 3.0
    assert hvd.join() == 2
assert hvd.allreduce(np.ones(1), hvd.Sum)[0] == 3
""", np=3)


def test_copies_are_the_same_set_and_pickles_find_it_by_its_ranks(ranks):
    ranks.check("""
import copy, pickle
def again(x):
    return pickle.loads(pickle.dumps(x))

by_init, unregistered = hvd.ProcessSet([1, 0]), hvd.ProcessSet([1])
hvd.shutdown()
hvd.init(process_sets=[by_init, [1]])
added = hvd.add_process_set([0])
twin = hvd.add_process_set([0])  # the same ranks, and another set
for one in (hvd.global_process_set, by_init, added, twin):
    assert copy.copy(one) is one and copy.deepcopy({"a": [one]})["a"][0] is one and again(one) is one
assert copy.deepcopy(unregistered) is unregistered and again(unregistered).ranks == [1]
assert again(unregistered).process_set_id is None
layer = hvd.SyncBatchNorm(1, process_set=added)
x = hvd.tensor([[1.0], [3.0]]) * (rank + 1)  # rank 0 is alone in its set, rank 1 outside of it
for copied in (copy.deepcopy(layer), again(layer)):
    assert np.allclose(copied(x).numpy().ravel(), [-1, 1], atol=1e-4)
pickled = pickle.dumps(added)
hvd.shutdown()
with pytest.raises(hvd.InvalidArgumentError, match=r"ranks \\[0\\].*add_process_set\\(\\[0\\]\\)"):
    pickle.loads(pickled)
hvd.init()
hvd.add_process_set([1])
with pytest.raises(hvd.InvalidArgumentError, match=r"ranks \\[0\\].*not"):
    pickle.loads(pickled)
other = hvd.add_process_set([0])
assert pickle.loads(pickled) is other
hvd.remove_process_set(other)
with pytest.raises(hvd.InvalidArgumentError, match=r"ranks \\[0\\].*not"):
    pickle.loads(pickled)
""")
