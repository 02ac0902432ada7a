"""Training with Keras on two ranks against one process with the whole batch."""

import sys

import cloudpickle
import numpy
import pytest

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # ranks do not find the tests

STEPS, BATCH = 6, 16


def trained(rank, size, make_optimizer, *, policy="float32", embedding=False, poison=None, **options):
    """What a model has learned in a few steps of model.fit, on the rank's share of each batch."""
    import keras
    import numpy

    import horovod_cpp.keras as hvd

    if size > 1:
        hvd.init()
    keras.config.set_dtype_policy(policy)
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
    history = model.fit(inputs, labels, batch_size=share, shuffle=False, verbose=0,
                        callbacks=callbacks)
    keras.config.set_dtype_policy("float32")
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


@pytest.mark.parametrize("make_optimizer", [sgd, adam])
def test_two_ranks_equal_one_process_with_the_whole_batch(cluster, make_optimizer):
    close(on_ranks(cluster, trained, make_optimizer), alone(cluster, trained, make_optimizer))


def test_an_embedding_learns_as_in_one_process(cluster):
    close(on_ranks(cluster, trained, sgd, embedding=True), alone(cluster, trained, sgd, embedding=True))


def test_mixed_precision_skips_a_step_on_all_ranks_if_one_has_an_infinity(cluster):
    ranks = on_ranks(cluster, trained, sgd, policy="mixed_float16", poison=2)
    close(ranks, alone(cluster, trained, sgd, policy="mixed_float16", poison=2), 2e-3)
    assert ranks[0][2] == STEPS - 1


@pytest.mark.parametrize("options", [
    {"op": "sum", "gradient_predivide_factor": 1.0}, {"compression": "fp16"}, {"groups": 1},
    {"gradient_predivide_factor": 2.0}, {"backward_passes_per_step": 2},
    {"backward_passes_per_step": 2, "average_aggregated_gradients": True}])
def test_options(cluster, options):
    rate = 0.05 / (2 if options.get("op") == "sum" else 1)
    passes = options.get("backward_passes_per_step", 1)
    if passes > 1 and not options.get("average_aggregated_gradients"):
        rate /= passes

    def distributed(keras):
        return keras.optimizers.SGD(rate)

    def plain(keras):
        return keras.optimizers.SGD(0.05, gradient_accumulation_steps=passes if passes > 1 else None)

    close(on_ranks(cluster, trained, distributed, **options), alone(cluster, trained, plain),
          1e-3 if "compression" in options else 1e-6)


def accumulating_sgd(keras):
    return keras.optimizers.SGD(0.05, momentum=0.9, gradient_accumulation_steps=3)


def accumulating_adam(keras):
    return keras.optimizers.AdamW(0.01, global_clipnorm=0.5, gradient_accumulation_steps=2, use_ema=True)


def scaled_adam(keras):
    return keras.optimizers.Adam(0.01, gradient_accumulation_steps=2, loss_scale_factor=8.0)


def scaling_sgd(keras):
    return keras.optimizers.LossScaleOptimizer(accumulating_sgd(keras))


@pytest.mark.parametrize("make_optimizer, embedding", [
    (accumulating_sgd, False), (accumulating_sgd, True), (accumulating_adam, False),
    (scaled_adam, False), (scaling_sgd, False)])
def test_gradients_of_several_passes_equal_those_of_one_process(cluster, make_optimizer, embedding):
    close(on_ranks(cluster, trained, make_optimizer, embedding=embedding),
          alone(cluster, trained, make_optimizer, embedding=embedding))


def test_an_infinity_in_one_of_several_passes_skips_their_update_on_all_ranks(cluster):
    ranks = on_ranks(cluster, trained, scaling_sgd, poison=1)
    assert [iterations for _, _, iterations in ranks] == [1, 1]
    for mine, theirs in zip(ranks[0][1], ranks[1][1]):
        numpy.testing.assert_array_equal(mine, theirs)
        assert numpy.isfinite(mine).all()


def reductions(rank, size, run_eagerly):
    import keras
    import numpy

    import horovod_cpp as hvd
    from horovod_cpp.keras import DistributedOptimizer

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(DistributedOptimizer(keras.optimizers.SGD(0.01), backward_passes_per_step=3),
                  "mse", run_eagerly=run_eagerly)
    data = numpy.ones((12, 3)), numpy.zeros((12, 2))
    model.fit(*data, batch_size=1, epochs=1, steps_per_epoch=3, verbose=0)
    before = hvd.metrics()["by_kind"]["allreduce"]["bytes"]
    model.fit(*data, batch_size=1, verbose=0)
    return hvd.metrics()["by_kind"]["allreduce"]["bytes"] - before


def test_gradients_are_reduced_in_the_pass_that_updates_alone(cluster):
    for run_eagerly in (False, True):
        for count in on_ranks(cluster, reductions, run_eagerly):
            gradients = (3 * 2 + 2) * 4  # bytes of a pass
            assert 4 * gradients <= count < 5 * gradients  # 12 passes; PyTorch's ranks also agree


def saves(rank, size, folder):
    import os

    import keras
    import numpy

    import horovod_cpp.keras as hvd

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)), "mse")
    data = numpy.ones((4, 3), "float32"), numpy.zeros((4, 2), "float32")
    model.fit(*data, batch_size=2, verbose=0,
              callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
    path = os.path.join(folder, f"model{rank}.keras")
    model.save(path)
    plain = keras.saving.load_model(path)
    again = hvd.load_model(path)
    state = [keras.ops.convert_to_numpy(variable) for variable in model.optimizer.variables]
    for loaded in (plain, again):
        for mine, theirs in zip(state, loaded.optimizer.variables, strict=True):
            numpy.testing.assert_array_equal(mine, keras.ops.convert_to_numpy(theirs))
    model.fit(*data, batch_size=2, verbose=0)
    again.fit(*data, batch_size=2, verbose=0)
    for mine, theirs in zip(model.get_weights(), again.get_weights(), strict=True):
        numpy.testing.assert_array_equal(mine, theirs)
    wrapped, unwrapped = (keras.saving.serialize_keras_object(each)
                          for each in (again.optimizer, plain.optimizer))
    for key in ("class_name", "config"):  # the module is Keras' name for its class, or where it is
        assert wrapped[key] == unwrapped[key]
    return [type(each.optimizer) is type(keras.optimizers.Adam()) for each in (plain, again)]


def test_files_have_the_plain_optimizer_and_load_model_wraps_it_again(cluster, tmp_path):
    assert on_ranks(cluster, saves, str(tmp_path)) == [[True, False]] * 2


def uneven(rank, size):
    import keras
    import numpy

    import horovod_cpp.keras as hvd

    keras.utils.set_random_seed(rank)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01, momentum=0.9)), "mse")
    batches = 3 + 2 * rank
    model.fit(numpy.ones((2 * batches, 3)), numpy.zeros((2 * batches, 2)), batch_size=2, epochs=2,
              verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0),
                                    hvd.callbacks.JoinCallback(), hvd.callbacks.MetricAverageCallback()])
    return model.get_weights(), int(model.optimizer.iterations)


def test_ranks_may_have_different_numbers_of_batches(cluster):
    (one, steps), (other, steps_of_other) = on_ranks(cluster, uneven)
    assert steps == steps_of_other == 10
    for mine, theirs in zip(one, other):
        numpy.testing.assert_array_equal(mine, theirs)


def rates(rank, size):
    import keras
    import numpy

    import horovod_cpp.keras as hvd

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.4)), "mse")
    seen = []

    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append(float(self.model.optimizer.learning_rate))

    history = model.fit(
        numpy.ones((4, 3)), numpy.zeros((4, 2)), batch_size=2, epochs=4, verbose=0, callbacks=[
            hvd.callbacks.BroadcastGlobalVariablesCallback(0),
            hvd.callbacks.LearningRateWarmupCallback(0.4, warmup_epochs=2),
            hvd.callbacks.LearningRateScheduleCallback(0.4, lambda epoch: 0.1 ** (epoch - 1), 2, 4),
            Watch()])
    return seen, history.history["lr"]


def test_the_learning_rate_rises_and_falls(cluster):
    for seen, of_epochs in on_ranks(cluster, rates):
        numpy.testing.assert_allclose(
            seen, [0.25, 0.3, 0.35, 0.4, 0.04, 0.04, 0.004, 0.004], rtol=1e-6)
        numpy.testing.assert_allclose(of_epochs, [0.3, 0.4, 0.04, 0.004], rtol=1e-6)


def refusals(rank, size):
    import keras
    import numpy
    import pytest

    import horovod_cpp.keras as hvd

    def sgd():
        return keras.optimizers.SGD(0.1)

    with pytest.raises(TypeError, match="a keras.optimizers.Optimizer of Keras 3, got a <class 'str'>"):
        hvd.DistributedOptimizer("sgd")
    with pytest.raises(hvd.InvalidArgumentError, match="wrapped already"):
        hvd.DistributedOptimizer(hvd.DistributedOptimizer(sgd()))
    with pytest.raises(ValueError, match="op is Max; Keras' optimizers take Average or Sum"):
        hvd.DistributedOptimizer(sgd(), op="max")
    with pytest.raises(hvd.InvalidArgumentError, match="groups and num_groups exclude each other"):
        hvd.DistributedOptimizer(sgd(), groups=2, num_groups=2)
    with pytest.raises(hvd.InvalidArgumentError, match="backward_passes_per_step=0"):
        hvd.DistributedOptimizer(sgd(), backward_passes_per_step=0)
    with pytest.raises(hvd.UnsupportedError, match="a LossScaleOptimizer.*must be inside"):
        keras.optimizers.LossScaleOptimizer(hvd.DistributedOptimizer(sgd()))
    with pytest.raises(hvd.UnsupportedError, match=r"call broadcast_variables\(model.variables"):
        hvd.broadcast_global_variables(0)
    with pytest.raises(TypeError, match="expected Keras variables, got ndarray"):
        hvd.broadcast_variables([numpy.ones(2)])
    again = sgd()
    again.build([keras.Variable(numpy.ones(2))])
    layer = keras.layers.Dense(2)
    layer.build((2, 2))
    for _ in range(2):  # nothing has changed after the first
        with pytest.raises(hvd.InvalidArgumentError, match="local layers of an optimizer that is built"):
            hvd.PartialDistributedOptimizer(again, local_layers=layer)
    layer = keras.layers.Dense(2)
    with pytest.raises(hvd.InvalidArgumentError, match=f"layer '{layer.name}' is not built"):
        hvd.PartialDistributedOptimizer(sgd(), local_layers=layer)
    variable = keras.Variable(numpy.ones(2 + rank), name="mine")
    with pytest.raises(hvd.MismatchError, match=r"'0.mine' float.. \[3\] on rank 1"):
        hvd.broadcast_variables([variable])
    assert float(hvd.allreduce(rank, op="sum")) == 1 and hvd.allreduce(1.5).shape == ()
    assert hvd.allgather(rank).tolist() == [0, 1] and int(hvd.broadcast(rank + 5, 1)) == 6
    return True


def test_what_cannot_be_done_is_refused_and_named(cluster):
    assert on_ranks(cluster, refusals) == [True, True]


def partly(rank, size):
    import keras
    import numpy

    import horovod_cpp.keras as hvd

    keras.utils.set_random_seed(1)
    shared, local = keras.layers.Dense(3, use_bias=False), keras.layers.Dense(1, use_bias=False)
    rows = keras.layers.Embedding(2, 2)
    model = keras.Sequential([keras.Input((1,), dtype="int32"), rows, shared, local])
    model.compile(hvd.PartialDistributedOptimizer(keras.optimizers.SGD(0.1),
                                                  local_layers=[rows, local]), "mse")
    model.fit(numpy.ones((2, 1), "int32"), numpy.full((2, 1, 1), rank + 1.0), batch_size=2, verbose=0)
    return [keras.ops.convert_to_numpy(layer.weights[0]) for layer in (shared, rows, local)]


def test_local_layers_stay_each_ranks_own(cluster):
    (shared, *local), (shared_of_other, *local_of_other) = on_ranks(cluster, partly)
    numpy.testing.assert_array_equal(shared, shared_of_other)
    for mine, theirs in zip(local, local_of_other, strict=True):
        assert not numpy.array_equal(mine, theirs)


def unbuilt(rank, size, built_ranks):
    import keras
    import numpy

    import horovod_cpp.keras as hvd

    keras.utils.set_random_seed(1 + rank)
    model = keras.Sequential([keras.layers.Dense(3), keras.layers.Dense(1)])
    if rank < built_ranks:
        model.build((None, 2))
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.5)), "mse")
    model.fit(numpy.full((4, 2), rank + 1.0), numpy.zeros((4, 1)), batch_size=2, verbose=0,
              callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
    return [keras.ops.convert_to_numpy(each) for each in (*model.variables, *model.optimizer.variables)]


@pytest.mark.parametrize("built_ranks", [0, 1])
def test_a_model_that_takes_its_shapes_from_the_data_is_alike_on_all_ranks(cluster, built_ranks):
    mine, theirs = on_ranks(cluster, unbuilt, built_ranks)
    for first, second in zip(mine, theirs, strict=True):
        numpy.testing.assert_array_equal(first, second)


def scaled_later(rank, size, folder):
    import os

    import keras
    import numpy

    import horovod_cpp.keras as hvd

    keras.config.set_dtype_policy("mixed_float16")
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), "mse", auto_scale_loss=False)
    path = os.path.join(folder, f"model{rank}.keras")
    model.save(path)
    model = hvd.load_model(path)
    model.fit(numpy.full((4, 3), rank), numpy.zeros((4, 2)), batch_size=2, verbose=0, callbacks=[
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.LearningRateScheduleCallback(0.01, 1.0, momentum_correction=False)])
    keras.config.set_dtype_policy("float32")
    return model.get_weights()


def test_a_loaded_model_is_distributed_where_its_loss_was_not_scaled(cluster, tmp_path):
    one, other = on_ranks(cluster, scaled_later, str(tmp_path))
    for mine, theirs in zip(one, other):
        numpy.testing.assert_array_equal(mine, theirs)


def checkpoints(rank, size, folder):
    import os

    import keras
    import numpy

    import horovod_cpp.keras as hvd

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01)), "mse")
    best = hvd.callbacks.BestModelCheckpoint(os.path.join(folder, f"{rank}.keras"), monitor="loss")
    model.fit(numpy.ones((4, 3)), numpy.zeros((4, 2)), batch_size=2, epochs=2, verbose=0, callbacks=[
        hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback(), best])
    return best.best


def test_rank_0_alone_writes_the_best_model(cluster, tmp_path):
    one, other = on_ranks(cluster, checkpoints, str(tmp_path))
    assert one == other and one is not None
    assert [path.name for path in tmp_path.iterdir()] == ["0.keras"]


def corrected_momentum(rank, size):
    import keras
    import numpy

    import horovod_cpp.keras as hvd

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.4, momentum=0.8)), "mse",
                  run_eagerly=True)
    seen = []
    update = model.optimizer.update_step

    def watched(*arguments):
        seen.append(model.optimizer.momentum)
        return update(*arguments)

    if keras.backend.backend() == "tensorflow":
        model.optimizer.update_step = watched
    else:  # which updates all variables at once
        model.optimizer._backend_update_step, update = watched, model.optimizer._backend_update_step
    model.fit(numpy.ones((2, 3)), numpy.zeros((2, 2)), batch_size=2, epochs=3, verbose=0, callbacks=[
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.LearningRateScheduleCallback(0.4, lambda epoch: 0.5 if epoch else 1.0)])
    return list(dict.fromkeys(seen)), model.optimizer.momentum


def test_the_momentum_follows_the_learning_rate_for_a_batch(cluster):
    for seen, after in on_ranks(cluster, corrected_momentum):
        assert seen == pytest.approx([0.8, 0.4]) and after == 0.8
