"""hvd.Cluster: calls, namespaces, failures and replacement of workers."""

import os
import signal
import sys
import threading
import time

import cloudpickle
import pytest

import horovod_cpp as hvd

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # ranks cannot import this file


@pytest.fixture
def cluster(marked_processes):
    with hvd.Cluster(np=2) as cluster:
        yield cluster
    assert marked_processes() == []


def total_of_ranks():
    return hvd.allreduce(hvd.tensor([hvd.rank() + 1]), hvd.Sum).item()


def test_calls_go_to_the_same_processes_which_are_initialised(cluster):
    first = cluster.run(lambda base, *, step: (os.getpid(), base + step * hvd.rank()), args=(5,),
                        kwargs={"step": 10})
    assert [value for _, value in first] == [5, 15]
    assert cluster.run(os.getpid) == [process for process, _ in first]
    assert cluster.run(total_of_ranks) == [3, 3]
    assert os.getpid() not in cluster.run(os.getpid)


def test_init_may_be_called_again(cluster):
    assert cluster.run(lambda: (hvd.init(), total_of_ranks())[1]) == [3, 3]


def test_globals_that_functions_set_stay_on_their_rank(cluster):
    def build():
        global kept_on_rank
        kept_on_rank = [hvd.rank()]

    cluster.run(build)
    assert "kept_on_rank" not in globals()
    assert cluster.run(lambda: kept_on_rank) == [[0], [1]]  # noqa: F821
    assert cluster.pull("kept_on_rank", ranks=1) == [[1]]
    cluster.push({"kept_on_rank": "pushed"}, ranks=[1])
    assert cluster.run(lambda: kept_on_rank) == [[0], "pushed"]  # noqa: F821
    with pytest.raises(hvd.RankError, match="'nowhere' is not defined"):
        cluster.pull("nowhere")


def test_some_ranks_answer_in_the_order_in_which_they_are_given(cluster):
    assert cluster.run(hvd.rank, ranks=[1, 0]) == [1, 0]
    assert cluster.run(hvd.rank, ranks=1) == [1]


@pytest.mark.parametrize("ranks", [2, -1, [], [0, 0], ["0"]])
def test_ranks_that_are_not_there_are_refused(cluster, ranks):
    with pytest.raises(hvd.InvalidArgumentError, match="from 0 to 1"):
        cluster.run(hvd.rank, ranks=ranks)


def test_output_has_the_rank_in_front(cluster, capfd):
    cluster.run(lambda: print(f"hello from {hvd.rank()}\nand again"))
    lines = capfd.readouterr().out.splitlines()
    assert sorted(lines) == ["[0] and again", "[0] hello from 0", "[1] and again",
                             "[1] hello from 1"]


def test_threads_take_turns(cluster):
    results = {}
    threads = [threading.Thread(target=lambda n=n: results.update(
        {n: cluster.run(lambda: (total_of_ranks(), n))})) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == {n: [(3, n), (3, n)] for n in range(6)}


def test_a_mistake_leaves_the_job_as_it_is(cluster):
    cluster.run(lambda: hvd.add_process_set([1]) and None)
    with pytest.raises(hvd.RankError, match="ZeroDivisionError") as caught:
        cluster.run(lambda: 1 / 0)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "worker.py" not in caught.value.traceback and "<lambda>" in caught.value.traceback
    assert cluster.run(hvd.process_set_ids) == [[0, 1], [0, 1]]


def test_a_rank_that_raises_ends_the_call_of_the_others(cluster):
    def work():
        if hvd.rank() == 1:
            raise KeyError("lost on the way")
        hvd.allreduce(hvd.ones((1,)), name="never")

    processes = cluster.run(os.getpid)
    start = time.monotonic()
    with pytest.raises(hvd.RankError, match="rank 1 raised KeyError") as caught:
        cluster.run(work)
    assert time.monotonic() - start < 10
    assert caught.value.rank == 1 and isinstance(caught.value.__cause__, KeyError)
    assert cluster.run(total_of_ranks) == [3, 3]
    assert cluster.run(os.getpid) == processes


def die_by_signal():
    os.kill(os.getpid(), signal.SIGKILL)


def die_by_exit():
    os._exit(3)


def die_by_segmentation_fault():
    import ctypes

    ctypes.string_at(0)


@pytest.mark.parametrize("die, words", [
    (die_by_signal, "rank 1 was killed by SIGKILL"), (die_by_exit, "rank 1 exited with code 3"),
    (die_by_segmentation_fault, "rank 1 was killed by SIGSEGV"),
])
def test_a_rank_that_dies_is_named_and_replaced(cluster, die, words):
    def work():
        if hvd.rank() == 1:
            die()
        hvd.allreduce(hvd.ones((1,)), name="never")

    cluster.push({"kept": 7})
    before = cluster.run(os.getpid)
    with pytest.raises(hvd.RankError, match=words) as caught:
        cluster.run(work)
    assert caught.value.rank == 1 and "variables of rank 1 are lost" in str(caught.value)
    assert cluster.run(total_of_ranks) == [3, 3]
    after = cluster.run(os.getpid)
    assert after[0] == before[0] and after[1] != before[1]
    assert cluster.pull("kept", ranks=0) == [7]
    with pytest.raises(hvd.RankError, match="'kept' is not defined"):
        cluster.pull("kept", ranks=1)


def test_a_rank_that_dies_between_calls_is_replaced_with_a_warning(cluster):
    os.kill(cluster.run(os.getpid)[0], signal.SIGKILL)
    while cluster.status()[0].state == "idle":
        time.sleep(0.01)
    assert cluster.status()[0].state == "was killed by SIGKILL"
    with pytest.warns(RuntimeWarning, match="rank 0 of the cluster was killed by SIGKILL"):
        assert cluster.run(total_of_ranks) == [3, 3]


def test_a_call_that_takes_too_long_is_interrupted(cluster):
    processes = cluster.run(os.getpid)
    with pytest.raises(TimeoutError, match="longer than 0.5 s"):
        cluster.run(lambda: time.sleep(600), timeout=0.5)
    assert cluster.run(os.getpid) == processes


def test_a_rank_that_does_not_react_is_killed(cluster):
    def work():
        if hvd.rank() == 1:
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        time.sleep(600)

    start = time.monotonic()
    with pytest.raises(TimeoutError, match="did not react to the interrupt and was killed: rank 1"):
        cluster.run(work, timeout=0.5)
    assert time.monotonic() - start < 0.5 + 2
    assert cluster.run(total_of_ranks) == [3, 3]
