"""SyncBatchNormalization: two ranks against one process with both batches."""

import sys

import cloudpickle
import numpy
import pytest

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # ranks do not find the tests


def normalized(rank, size, rows, *, masked=False, in_graph=False, **options):
    """Of this rank's part of a batch: results, gradients for it, for gamma and beta; statistics."""
    import keras
    import numpy

    import horovod_cpp.keras as hvd

    if size > 1:
        hvd.init()
    random = numpy.random.default_rng(2)
    x, weights = (random.normal(size=(sum(rows), 4, 3)).astype("float32") for _ in range(2))
    x += 2
    mask = random.integers(0, 2, (sum(rows), 4)).astype(bool)
    first = sum(rows[:rank])
    mine = slice(first, first + rows[rank]) if size > 1 else slice(None)
    layer = (hvd.SyncBatchNormalization if size > 1 else keras.layers.BatchNormalization)(**options)
    layer.build((None, 4, 3))
    layer.gamma.assign([1.0, 2.0, 3.0][:layer.gamma.shape[0]] + [4.0] * (layer.gamma.shape[0] - 3))
    x, weights, mask = x[mine], weights[mine], mask[mine] if masked else None
    trained = [layer.gamma, layer.beta]
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        def run(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = layer(x, training=True, mask=mask)
                loss = tf.reduce_sum(y * weights)
            return y, tape.gradient(loss, [x, *(each.value for each in trained)])

        y, gradients = (tf.function(run) if in_graph else run)(tf.constant(x))
        found = [each.numpy() for each in (y, *gradients)]
    else:
        import torch

        x = torch.tensor(x, requires_grad=True)
        y = layer(x, training=True, mask=None if mask is None else torch.tensor(mask))
        (y * torch.tensor(weights)).sum().backward()
        found = [each.detach().numpy() for each in (y, x.grad, *(each.value.grad for each in trained))]
    found += [keras.ops.convert_to_numpy(each) for each in (layer.moving_mean, layer.moving_variance)]
    inference = keras.ops.convert_to_numpy(layer(x, training=False))
    return [*found, inference]


def on_ranks(cluster, function, *arguments, **options):
    def call():
        import horovod_cpp

        horovod_cpp.init()
        return function(horovod_cpp.rank(), horovod_cpp.size(), *arguments, **options)

    return cluster.run(call)


@pytest.mark.parametrize("options", [{}, {"in_graph": True}, {"axis": 1}, {"masked": True}], ids=str)
@pytest.mark.parametrize("rows", [(3, 3), (5, 2), (4, 0)])
def test_two_ranks_normalize_as_one_process_with_both_batches(cluster, rows, options):
    ranks = on_ranks(cluster, normalized, rows, **options)
    alone, = cluster.run(lambda: normalized(0, 1, rows, **options), ranks=[0])
    y, for_x, for_gamma, for_beta, mean, variance, inference = zip(*ranks)
    for found, expected in zip(
            [numpy.concatenate(y), numpy.concatenate(for_x), sum(for_gamma), sum(for_beta),
             mean[0], variance[0], numpy.concatenate(inference)], alone, strict=True):
        numpy.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    numpy.testing.assert_array_equal(mean[0], mean[1])
    numpy.testing.assert_array_equal(variance[0], variance[1])


def test_a_model_is_saved_and_loaded_with_the_layer(cluster, tmp_path):
    def save_and_load(rank, size, path):
        import keras

        import horovod_cpp.keras as hvd

        model = keras.Sequential([keras.Input((3,)), hvd.SyncBatchNormalization(momentum=0.5)])
        model.compile("sgd", "mse")
        x = numpy.arange(12, dtype="float32").reshape(4, 3) * (rank + 1)
        model.fit(x, x, epochs=2, batch_size=4, verbose=0)
        if rank == 0:
            model.save(path)
        hvd.broadcast(0.0, 0)  # rank 0 has written
        loaded = keras.saving.load_model(path)
        return (type(loaded.layers[0]) is hvd.SyncBatchNormalization, loaded.layers[0].momentum,
                keras.ops.convert_to_numpy(loaded.layers[0].moving_mean).tolist())

    first, second = on_ranks(cluster, save_and_load, str(tmp_path / "model.keras"))
    assert first == second
    assert first[:2] == (True, 0.5)
    assert first[2] == [0.75 * each for each in (6.75, 8.25, 9.75)]


def test_fused_is_refused_and_the_front_end_of_tensorflow_has_the_layer_too(cluster):
    def call(rank, size):
        import keras

        import horovod_cpp.keras as hvd

        if keras.backend.backend() == "tensorflow":
            import horovod_cpp.tensorflow

            assert horovod_cpp.tensorflow.SyncBatchNormalization is hvd.SyncBatchNormalization
        try:
            hvd.SyncBatchNormalization(fused=True)
        except hvd.UnsupportedError as error:
            return str(error)

    assert all("fused" in text for text in on_ranks(cluster, call))
