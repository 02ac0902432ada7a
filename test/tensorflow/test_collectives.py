"""Every collective, eager and in tf.function."""

import shutil
import subprocess

import numpy as np
import pytest

DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "uint16", "int32",
          "int64", "complex64"]
ROWS = np.array([[1, 2], [3, 4], [5, 6]])


def run_all(dtype, in_graph):
    import tensorflow as tf

    import horovod_cpp.tensorflow as hvd

    mine = tf.cast(tf.constant([[1, 2], [3, 4], [5, 6]]) * (hvd.rank() + 1), dtype)
    calls = {
        "sum": lambda x: hvd.allreduce(x, op=hvd.Sum),
        "scaled": lambda x: hvd.allreduce(x, op="sum", prescale_factor=2.0, postscale_factor=3.0),
        "group": lambda x: hvd.grouped_allreduce([x, x[0]], op=hvd.Sum)[1],
        "mixed group": lambda x: hvd.grouped_allreduce([x, tf.ones([2], tf.int32)], op=hvd.Sum)[0],
        "scalar": lambda x: hvd.allreduce(x[0, 0], op=hvd.Sum),
        "empty": lambda x: hvd.allreduce(x[:0], op=hvd.Sum),
        "gathered": lambda x: hvd.allgather(x[:hvd.rank() + 1]),
        "group gathered": lambda x: hvd.grouped_allgather([x, x[:hvd.rank()]])[1],
        "broadcast": lambda x: hvd.broadcast(x, root_rank=1),
        "scattered": lambda x: hvd.reducescatter(x, op=hvd.Sum),
        "to all": lambda x: hvd.alltoall(x[:2]),
        "split": lambda x: hvd.alltoall(x, splits=[1, 2])[0],
        "received": lambda x: hvd.alltoall(x, splits=[1, 2])[1],
    }
    found = {}
    for name, call in calls.items():
        result = (tf.function(call) if in_graph else call)(mine)
        found[name] = tf.cast(result, tf.float64 if name == "received" else dtype).numpy()
    return {name: np.real(value).astype(float).tolist() for name, value in found.items()}


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_collectives_give_what_the_ranks_contributed(on_ranks, dtype, in_graph):
    total = 3 * ROWS
    for rank, found in enumerate(on_ranks(run_all, dtype, in_graph)):
        part = ROWS[:1] if rank == 0 else ROWS[1:]
        assert found == {
            "sum": total.tolist(),
            "scaled": (6 * total).tolist(),
            "group": total[0].tolist(),
            "mixed group": total.tolist(),
            "scalar": 3,
            "empty": [],
            "gathered": [[1, 2], [2, 4], [6, 8]],
            "group gathered": [[2, 4]],
            "broadcast": (2 * ROWS).tolist(),
            "scattered": (total[:2] if rank == 0 else total[2:]).tolist(),
            "to all": [ROWS[rank].tolist(), (2 * ROWS[rank]).tolist()],
            "split": np.concatenate([part, 2 * part]).tolist(),
            "received": [1, 1] if rank == 0 else [2, 2],
        }


def test_other_reductions_and_averages(on_ranks):
    def reduce():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        mine = tf.constant([1.0, 4.0]) if hvd.rank() == 0 else tf.constant([3.0, 2.0])
        return [hvd.allreduce(mine, op=op).numpy().tolist()
                for op in (None, hvd.Min, hvd.Max, hvd.Product, "average")]

    expected = [[2, 3], [1, 2], [3, 4], [3, 8], [2, 3]]
    assert on_ranks(reduce) == [expected, expected]


def test_shapes_are_known_as_far_as_ranks_agree_on_them(on_ranks):
    def shapes():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        @tf.function
        def call(x):
            result, splits = hvd.alltoall(x, splits=[1, 2])
            return (hvd.allreduce(x), hvd.allgather(x), hvd.broadcast(x, 0), hvd.reducescatter(x),
                    result, splits)

        known = call.get_concrete_function(tf.TensorSpec([3, 5], tf.float32))
        unknown = call.get_concrete_function(tf.TensorSpec(None, tf.float32))
        return [[each.shape.as_list() for each in known.outputs],
                [each.shape.rank for each in unknown.outputs]]

    for known, unknown in on_ranks(shapes):
        assert known == [[3, 5], [None, 5], [3, 5], [None, 5], [None, 5], [None]]
        assert unknown == [None, None, None, None, None, 1]


def test_a_group_is_whatever_gives_tensors(on_ranks):
    def group():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        rows = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        found = [hvd.grouped_allreduce((row for row in rows), op=hvd.Sum),
                 hvd.grouped_allgather(rows), hvd.grouped_reducescatter(rows, op=hvd.Sum)]
        return [[each.numpy().tolist() for each in results] for results in found]

    for rank, found in enumerate(on_ranks(group)):
        assert found == [[[2, 4], [6, 8]], [[1, 2, 1, 2], [3, 4, 3, 4]],
                         [[2 + 2 * rank], [6 + 2 * rank]]]


def test_sparse_gradients_are_gathered(on_ranks):
    def gather():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        slices = tf.IndexedSlices(tf.constant([[1.0, 2.0]]) * (hvd.rank() + 1),
                                  tf.constant([hvd.rank()], tf.int64), tf.constant([2, 2]))
        dense, sparse = hvd.grouped_allreduce([tf.constant(4.0), slices])
        return dense.numpy(), tf.convert_to_tensor(sparse).numpy().tolist()

    assert on_ranks(gather) == [(4, [[0.5, 1], [1, 2]])] * 2


def test_factors_are_the_same_where_a_program_writes_numbers_with_commas(on_ranks, tmp_path):
    path = tmp_path / "de_DE.UTF-8"
    if not shutil.which("localedef") or subprocess.run(
            ["localedef", "-i", "de_DE", "-f", "UTF-8", path]).returncode != 0:
        pytest.skip("this machine cannot make a locale")

    def scaled(folder):
        import locale
        import os

        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        os.environ["LOCPATH"] = folder
        locale.setlocale(locale.LC_NUMERIC, "de_DE.UTF-8")
        try:
            return hvd.allreduce(tf.constant(4.0), op=hvd.Sum, prescale_factor=0.25).numpy()
        finally:
            locale.setlocale(locale.LC_NUMERIC, "C")

    assert on_ranks(scaled, str(tmp_path)) == [2, 2]


def test_a_name_in_a_graph_may_have_any_letters(on_ranks):
    def named():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        return tf.function(lambda x: hvd.allreduce(x, op=hvd.Sum, name="ä b/c"))(1.0).numpy()

    assert on_ranks(named) == [2, 2]


def test_compressed_sums_are_those_of_small_integers(on_ranks):
    def reduce():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        return [hvd.allreduce(tf.constant([1.0, 2.0]), op=hvd.Sum, compression=each).numpy().tolist()
                for each in (hvd.Compression.fp16, "bf16")]

    assert on_ranks(reduce) == [[[2, 4], [2, 4]]] * 2


def test_variables_begin_alike(on_ranks):
    def begin():
        import keras
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        layer = keras.layers.Dense(1, kernel_initializer=keras.initializers.Constant(2 * hvd.rank()))
        layer.build((1, 1))
        variables = [tf.Variable([float(hvd.rank())]), tf.Variable(hvd.rank() + 5),
                     layer.kernel]
        hvd.broadcast_variables(variables, root_rank=1)
        return [each.numpy().tolist() for each in variables]

    assert on_ranks(begin) == [[[1], 6, [[2]]]] * 2


def test_process_sets_reduce_among_themselves(on_ranks):
    def reduce():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        alone = [hvd.add_process_set([rank]) for rank in range(2)][hvd.rank()]
        one = tf.function(lambda x: hvd.allreduce(x, process_set=alone, op=hvd.Sum))
        return one(tf.constant(5.0 + hvd.rank())).numpy()

    assert on_ranks(reduce) == [5, 6]


def test_a_rank_without_data_joins(on_ranks):
    def uneven():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        sums = [hvd.allreduce(tf.constant(1.0), op=hvd.Sum, name="x").numpy()
                for _ in range(1 + hvd.rank())]
        last = hvd.join()
        hvd.barrier()
        return sums, last

    assert on_ranks(uneven) == [([2], 1), ([2, 1], 1)]


def test_objects_travel(on_ranks):
    def send():
        import horovod_cpp.tensorflow as hvd

        return (hvd.broadcast_object({"rank": hvd.rank()}, root_rank=1),
                hvd.allgather_object(hvd.rank()))

    assert on_ranks(send) == [({"rank": 1}, [0, 1])] * 2


def test_operations_tell_where_a_rank_stands_when_they_run(on_ranks):
    def ask():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        first = hvd.add_process_set([0])
        number = first.process_set_id

        def answers():
            return tf.stack([hvd.rank_op(), hvd.size_op(), hvd.local_rank_op(name="mine"),
                             hvd.local_size_op(), hvd.size_op(number),
                             hvd.process_set_included_op(number), hvd.process_set_included_op()])

        with tf.Graph().as_default():
            nodes = answers()
            with tf.compat.v1.Session() as session:
                in_session = session.run(nodes).tolist()
        in_function = tf.function(answers)
        found = [answers().numpy().tolist(), in_function().numpy().tolist(), in_session]
        hvd.remove_process_set(first)
        texts = []
        for late in (answers, in_function):
            try:
                late()
            except tf.errors.InvalidArgumentError as error:
                texts.append(str(error))
        return found, hvd.rank_op().dtype.name, hvd.rank_op().shape.rank, number, texts

    for rank, (found, dtype, axes, number, texts) in enumerate(on_ranks(ask)):
        assert found == [[rank, 2, rank, 2, 1, 1 - rank, 1]] * 3
        assert (dtype, axes) == ("int32", 0)
        assert len(texts) == 2 and all(str(number) in text for text in texts)
