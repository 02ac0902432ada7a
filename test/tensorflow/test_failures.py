"""What goes wrong, and that the job goes on afterwards where it can."""

import pytest

import horovod_cpp


def test_a_mismatch_is_an_error_of_both_families_and_the_job_goes_on(on_ranks):
    def mismatch():
        import tensorflow as tf

        import horovod_cpp
        import horovod_cpp.tensorflow as hvd

        caught = []
        def of_tape(x, name):
            odd = tf.Variable(x, name=name)
            with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
                loss = tf.reduce_sum(odd * odd)
            return tape.gradient(loss, odd)

        for call in (hvd.allreduce, of_tape,
                     tf.function(lambda x, name: hvd.allreduce(x, name=name))):
            try:
                call(tf.ones([2 + hvd.rank()]), name="odd one")
            except tf.errors.FailedPreconditionError as error:
                caught.append((isinstance(error, horovod_cpp.MismatchError), str(error)))
        return caught, hvd.allreduce(tf.constant(1.0), op=hvd.Sum).numpy()

    for caught, after in on_ranks(mismatch):
        (eager, eager_text), (tape, tape_text), (graph, graph_text) = caught
        assert eager and tape and not graph
        for text in (eager_text, tape_text, graph_text):
            assert "odd one" in text and "[2]" in text and "[3]" in text
        assert after == 2


def test_a_mistake_of_one_rank_is_an_error_there(on_ranks):
    def mistake():
        import tensorflow as tf

        import horovod_cpp
        import horovod_cpp.tensorflow as hvd

        texts = []
        if hvd.rank() == 1:
            for call in (lambda: hvd.allreduce(tf.constant("text")),
                         lambda: hvd.broadcast(tf.constant(1, tf.uint32), root_rank=0),
                         lambda: hvd.broadcast(tf.constant(1.0), root_rank=7),
                         lambda: hvd.alltoall(tf.ones([3]), splits=[1, 1]),
                         lambda: hvd.alltoall(tf.ones([2]), splits=[[1, 1]]),
                         lambda: hvd.alltoall(tf.ones([3]), splits=[1.5, 1.5]),
                         lambda: hvd.allreduce(1.0, op="mean"),
                         lambda: hvd.allreduce(1.0, compression="zip")):
                with_error = ""
                try:
                    call()
                except horovod_cpp.InvalidArgumentError as error:
                    with_error = str(error)
                texts.append(with_error)
        return texts, hvd.allreduce(tf.constant(1.0), op=hvd.Sum).numpy()

    (nothing, first), (texts, second) = on_ranks(mistake)
    assert (nothing, first, second) == ([], 2, 2)
    for text, word in zip(texts, ("tf.string", "tf.uint32", "7", "splits", "one axis", "whole number",
                                  "mean", "zip"), strict=True):
        assert word in text


def test_a_value_of_another_type_is_a_type_error(on_ranks):
    def mistake():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        plain = tf.compat.v1.train.GradientDescentOptimizer(0.1)
        variable = tf.Variable([1.0, 2.0])
        texts = []
        for call in (lambda: hvd.broadcast(variable, root_rank=1.5),
                     lambda: hvd.broadcast_variables([variable], root_rank=True),
                     lambda: hvd.broadcast_variables(variable, root_rank=0),
                     lambda: hvd.DistributedOptimizer(plain, backward_passes_per_step=2.5),
                     lambda: hvd.DistributedOptimizer(plain, backward_passes_per_step=True)):
            try:
                call()
            except TypeError as error:
                texts.append(str(error))
        return texts

    for texts in on_ranks(mistake):
        for text, words in zip(texts, ("root_rank must be an int, got 1.5", "got True", "in a list",
                                       "got 2.5", "per_step must be an int, got True"), strict=True):
            assert words in text


def test_reports_of_stalls_have_the_users_line(on_ranks):
    def wait():
        import threading
        import time

        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd
        from horovod_cpp import call_site

        seen = []
        watch = threading.Timer(0.5, lambda: seen.append(call_site.where()))
        watch.start()
        if hvd.rank() == 1:
            time.sleep(1)
        hvd.allreduce(tf.constant(1.0))
        watch.join()
        return seen

    assert "in wait" in on_ranks(wait)[0][0]


def test_xla_is_refused_with_a_remedy(on_ranks):
    def compile_it():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        try:
            tf.function(hvd.allreduce, jit_compile=True)(tf.constant(1.0))
        except hvd.UnsupportedError as error:
            return str(error)

    assert all("jit_compile=False" in text for text in on_ranks(compile_it))


def test_a_killed_rank_is_an_error_on_the_other_and_not_a_hang(cluster, on_ranks, tmp_path):
    def die(path):
        import os
        import signal

        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        many = tf.function(lambda x: [hvd.allreduce(x + i, name=f"x{i}") for i in range(20)])
        if hvd.rank() == 1:
            hvd.allreduce(tf.constant(1.0), name="x0")
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            many(tf.constant(1.0))
        except tf.errors.OpError as error:
            path.write_text(f"{type(error).__name__} {error}")

    with pytest.raises(horovod_cpp.RankError, match="SIGKILL"):
        on_ranks(die, tmp_path / "text")
    text = (tmp_path / "text").read_text()
    assert text.startswith("AbortedError") and "HorovodInternalError" in text
    assert "rank 1" in text


def test_no_memory_for_a_result_is_an_error_that_a_new_job_may_overcome(on_ranks):
    def reduce():
        import resource

        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        large = tf.Variable(tf.ones([64 << 20]))  # 256 MiB, of which a result has to be apart
        call = tf.function(lambda: hvd.allreduce(large, op=hvd.Sum)).get_concrete_function()
        with open("/proc/self/statm") as sizes:
            size = int(sizes.read().split()[0]) * resource.getpagesize()
        limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (size + (100 << 20), limits[1]))
        text = ""
        try:
            call()
        except tf.errors.AbortedError as error:
            text = str(error)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limits)
        return "HorovodInternalError" in text, call()[-1].numpy()

    assert on_ranks(reduce) == [(True, 2)] * 2
