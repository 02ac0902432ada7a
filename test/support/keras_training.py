"""A model of Keras that two ranks train, and one process with the whole batch."""

import sys

import cloudpickle
import numpy

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # ranks do not find it

STEPS, BATCH = 6, 16


def trained(rank, size, make_optimizer, *, policy="float32", embedding=False, poison=None, passes=1,
            **options):
    """What a model has learned in a few steps of model.fit, on the rank's share of each batch.
    ``passes``: so many batches are one."""
    import numpy

    import horovod_cpp.keras as hvd
    from horovod_cpp.keras.version import keras  # which may be tf_keras

    if size > 1:
        hvd.init()
    keras.mixed_precision.set_global_policy(policy)
    keras.utils.set_random_seed(3)
    random = numpy.random.default_rng(5)
    if embedding:
        inputs = random.integers(0, 20, (STEPS * BATCH, 4))
        first = [keras.layers.Embedding(20, 6), keras.layers.Flatten()]
    else:
        inputs = random.normal(size=(STEPS * BATCH, 8)).astype("float32")
        first = [keras.layers.Dense(16, activation="tanh")]
    labels = random.integers(0, 4, STEPS * BATCH)
    share = BATCH // size
    mine = numpy.concatenate([numpy.arange(step * BATCH + rank * share,
                                           step * BATCH + (rank + 1) * share)
                              for step in range(STEPS)])
    inputs, labels = inputs[mine], labels[mine]
    if poison is not None and rank == size - 1:
        inputs[poison * share] = numpy.inf
    model = keras.Sequential([keras.Input(inputs.shape[1:]), *first,
                              keras.layers.Dense(4, dtype="float32")])
    optimizer = make_optimizer(keras)
    callbacks = []
    if size > 1:
        optimizer = hvd.DistributedOptimizer(optimizer, **options)
        callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0),
                     hvd.callbacks.MetricAverageCallback()]
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(inputs, labels, batch_size=share * passes, shuffle=False, verbose=0,
                        callbacks=callbacks)
    keras.mixed_precision.set_global_policy("float32")
    return history.history["loss"][0], model.get_weights(), int(model.optimizer.iterations)


def sgd(keras):
    return keras.optimizers.SGD(0.05, momentum=0.9)


def adam(keras):
    return keras.optimizers.AdamW(0.01, global_clipnorm=0.5)


def close(ranks, alone, tolerance=1e-6):
    for loss, weights, iterations in ranks:
        assert iterations == alone[2]
        numpy.testing.assert_allclose(loss, alone[0], rtol=1e-5)
        for mine, theirs in zip(weights, alone[1], strict=True):
            numpy.testing.assert_allclose(mine, theirs, rtol=0, atol=tolerance)
    for mine, theirs in zip(ranks[0][1], ranks[1][1]):
        numpy.testing.assert_array_equal(mine, theirs)


def on_ranks(cluster, function, *arguments, **options):
    def call():
        import horovod_cpp

        horovod_cpp.init()
        return function(horovod_cpp.rank(), horovod_cpp.size(), *arguments, **options)

    return cluster.run(call)


def alone(cluster, function, *arguments, **options):
    def call():
        import horovod_cpp

        horovod_cpp.init()
        return function(0, 1, *arguments, **options) if horovod_cpp.rank() == 0 else None

    return cluster.run(call)[0]
