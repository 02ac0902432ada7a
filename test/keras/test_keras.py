"""Training with Keras on two ranks against one process with the whole batch."""

import sys

import cloudpickle
import numpy
import pytest
from keras_training import adam, alone, close, on_ranks, sgd, trained

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # ranks do not find the tests


@pytest.mark.parametrize("make_optimizer", [sgd, adam])
def test_two_ranks_equal_one_process_with_the_whole_batch(cluster, make_optimizer):
    close(on_ranks(cluster, trained, make_optimizer), alone(cluster, trained, make_optimizer))


def test_an_embedding_learns_as_in_one_process(cluster):
    close(on_ranks(cluster, trained, sgd, embedding=True), alone(cluster, trained, sgd, embedding=True))


def test_mixed_precision_skips_a_step_on_all_ranks_if_one_has_an_infinity(cluster):
    ranks = on_ranks(cluster, trained, sgd, policy="mixed_float16", poison=2)
    close(ranks, alone(cluster, trained, sgd, policy="mixed_float16", poison=2), 2e-3)
    assert all(numpy.isfinite(weights).all() for weights in ranks[0][1])


def exact(rank, size):
    """Three steps of numbers that float16 has without rounding; in the second one, one is infinite."""
    import numpy

    import horovod_cpp.keras as hvd
    from horovod_cpp.keras.version import keras

    keras.mixed_precision.set_global_policy("mixed_float16")
    random = numpy.random.default_rng(2)
    inputs = random.integers(-1, 2, (3, 8, 4)).astype("float32")
    labels = random.integers(0, 3, (3, 8, 2)).astype("float32") / 2
    inputs[1, 7] = numpy.inf
    mine = slice(rank * 8 // size, (rank + 1) * 8 // size)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, kernel_initializer="ones")])
    optimizer = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD(0.25), initial_scale=256.0)
    model.compile(hvd.DistributedOptimizer(optimizer) if size > 1 else optimizer, "mse")
    model.fit(inputs[:, mine].reshape(-1, 4), labels[:, mine].reshape(-1, 2), batch_size=8 // size,
              shuffle=False, verbose=0)
    keras.mixed_precision.set_global_policy("float32")
    return 0, model.get_weights(), int(model.optimizer.iterations)


def test_mixed_precision_equals_one_process_where_float16_rounds_nothing(cluster):
    whole = alone(cluster, exact)
    close(on_ranks(cluster, exact), whole)
    assert whole[2] == 2 and numpy.abs(whole[1][0] - 1).max() > 0.1


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
        return keras.optimizers.SGD(0.05)

    close(on_ranks(cluster, trained, distributed, **options),
          alone(cluster, trained, plain, passes=passes), 1e-3 if "compression" in options else 1e-6)


def reductions(rank, size, run_eagerly):
    import numpy

    import horovod_cpp as hvd
    from horovod_cpp.keras import DistributedOptimizer
    from horovod_cpp.keras.version import keras

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(DistributedOptimizer(keras.optimizers.SGD(0.01), backward_passes_per_step=3),
                  "mse", run_eagerly=run_eagerly)
    data = numpy.ones((12, 3)), numpy.zeros((12, 2))
    model.fit(*data, batch_size=1, epochs=3, verbose=0)  # 12 steps: after 16 ranks compare variables
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

    import numpy

    import horovod_cpp.keras as hvd
    from horovod_cpp.keras.version import keras

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)), "mse")
    data = numpy.ones((4, 3), "float32"), numpy.zeros((4, 2), "float32")
    model.fit(*data, batch_size=2, verbose=0,
              callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
    path = os.path.join(folder, f"model{rank}.keras")
    model.save(path)
    plain = keras.saving.load_model(path)
    again = hvd.load_model(path)
    state = [numpy.asarray(variable) for variable in model.optimizer.variables]
    for loaded in (plain, again):
        for mine, theirs in zip(state, loaded.optimizer.variables, strict=True):
            numpy.testing.assert_array_equal(mine, numpy.asarray(theirs))
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
    import numpy

    import horovod_cpp.keras as hvd
    from horovod_cpp.keras.version import keras

    keras.utils.set_random_seed(rank)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), keras.layers.BatchNormalization()])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01, momentum=0.9)), "mse")
    batches = 3 + 2 * rank
    rates = []

    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            rates.append(float(self.model.optimizer.learning_rate))

    model.fit(numpy.ones((2 * batches, 3)), numpy.zeros((2 * batches, 2)), batch_size=2, epochs=2,
              verbose=0, callbacks=[
                  hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.JoinCallback(),
                  hvd.callbacks.LearningRateWarmupCallback(0.01, 2, momentum_correction=False),
                  hvd.callbacks.MetricAverageCallback(), Watch()])
    return model.get_weights(), int(model.optimizer.iterations), rates


def test_ranks_may_have_different_numbers_of_batches(cluster):
    (one, steps, rates), (other, steps_of_other, more_rates) = on_ranks(cluster, uneven)
    assert steps == steps_of_other == 10
    assert rates == more_rates[:3] + more_rates[5:8]
    for mine, theirs in zip(one, other):
        numpy.testing.assert_array_equal(mine, theirs)


def rates(rank, size):
    import numpy

    import horovod_cpp.keras as hvd
    from horovod_cpp.keras.version import keras

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
    import copy
    import pickle

    import numpy
    import pytest

    import horovod_cpp.keras as hvd
    from horovod_cpp.keras.version import keras

    def sgd():
        return keras.optimizers.SGD(0.1)

    with pytest.raises(TypeError, match=r"a keras.optimizers.Optimizer of Keras .*, got 'sgd'; "
                       r"make one with keras.optimizers.get\('sgd'\)"):
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
        keras.mixed_precision.LossScaleOptimizer(hvd.DistributedOptimizer(sgd()))
    with pytest.raises(hvd.Error, match=r"call broadcast_variables\(model.variables"):
        hvd.broadcast_global_variables(0)
    for call in (lambda: hvd.broadcast_variables([], "a"), lambda: hvd.broadcast(1.0, "a")):
        with pytest.raises(TypeError, match="root_rank must be an int, got 'a'"):
            call()
    hvd.barrier()
    with pytest.raises(TypeError, match="expected Keras variables, got ndarray"):
        hvd.broadcast_variables([numpy.ones(2)])
    layer = keras.layers.Dense(2)
    with pytest.raises(hvd.InvalidArgumentError, match=f"layer '{layer.name}' is not built"):
        hvd.PartialDistributedOptimizer(sgd(), local_layers=layer)
    with pytest.raises(hvd.InvalidArgumentError, match="a str, which is not a Keras layer"):
        hvd.PartialDistributedOptimizer(sgd(), local_layers=["dense"])
    layer = keras.layers.Dense(2, name="mine")
    layer.build((1, 2 + rank))
    with pytest.raises(hvd.InvalidArgumentError, match="global_clipnorm, whose norm would be another"):
        hvd.PartialDistributedOptimizer(keras.optimizers.SGD(0.1, global_clipnorm=1.0), local_layers=layer)
    wrapped = hvd.DistributedOptimizer(sgd())
    for another in (copy.copy, copy.deepcopy, pickle.dumps,
                    lambda each: type(each).from_config(each.get_config())):
        with pytest.raises(hvd.InvalidArgumentError, match=r"DistributedOptimizer\(SGD.from_config\("):
            another(wrapped)
    alone = hvd.add_process_set([0])
    if rank == 1:  # names both
        with pytest.raises(hvd.InvalidArgumentError, match=f"set {alone.process_set_id}, which has rank 0"):
            alone.rank()
    with pytest.raises(hvd.MismatchError, match=r"'0.(mine/)?kernel' float.. \[3, 2\] on rank 1.*the "
                       "same model"):
        hvd.broadcast_variables(layer.trainable_variables)
    assert float(hvd.allreduce(rank, op="sum")) == 1 and hvd.allreduce(1.5).shape == ()
    assert hvd.allgather(rank).tolist() == [0, 1] and int(hvd.broadcast(rank + 5, 1)) == 6
    return True


def test_what_cannot_be_done_is_refused_and_named(cluster):
    assert on_ranks(cluster, refusals) == [True, True]


def partly(rank, size):
    import numpy

    import horovod_cpp.keras as hvd
    from horovod_cpp.keras.version import keras

    keras.utils.set_random_seed(1)
    shared, local = keras.layers.Dense(3, use_bias=False), keras.layers.Dense(1, use_bias=False)
    rows = keras.layers.Embedding(2, 2)
    model = keras.Sequential([keras.Input((1,), dtype="int32"), rows, shared, local])
    model.compile(hvd.PartialDistributedOptimizer(keras.optimizers.SGD(0.1),
                                                  local_layers=[rows, local]), "mse")
    model.fit(numpy.ones((2, 1), "int32"), numpy.full((2, 1, 1), rank + 1.0), batch_size=2, verbose=0)
    return [numpy.asarray(layer.weights[0]) for layer in (shared, rows, local)]


def test_local_layers_stay_each_ranks_own(cluster):
    (shared, *local), (shared_of_other, *local_of_other) = on_ranks(cluster, partly)
    numpy.testing.assert_array_equal(shared, shared_of_other)
    for mine, theirs in zip(local, local_of_other, strict=True):
        assert not numpy.array_equal(mine, theirs)


def kept(rank, size, callback):
    """Kernels and momenta of a shared and of a local layer, when a callback has given out variables."""
    import numpy

    import horovod_cpp.keras as hvd
    from horovod_cpp.keras.version import keras

    shared, local = keras.layers.Dense(1, use_bias=False), keras.layers.BatchNormalization()
    model = keras.Sequential([keras.Input((1,)), local, shared])
    shared.set_weights([numpy.full((1, 1), rank + 1.0)])
    local.set_weights([numpy.full(1, each + 8.0 * rank) for each in (1.0, 2.0, 3.0, 4.0)])
    model.compile(hvd.PartialDistributedOptimizer(
        keras.optimizers.SGD(0.25, momentum=0.5), local_layers=local, scale_local_gradients=False), "mse")
    model.fit(numpy.full((2, 1), rank + 1.0), numpy.ones((2, 1)), batch_size=2, verbose=0,
              callbacks=[getattr(hvd.callbacks, callback)(*[0] * (callback != "JoinCallback"))])
    _, of_local, of_shared = (numpy.asarray(each).item()
                              for each in list(model.optimizer.variables)[-3:])
    return ([*(each.item() for each in local.get_weights()), of_local],
            [shared.get_weights()[0].item(), of_shared])


@pytest.mark.parametrize("callback", ["BroadcastGlobalVariablesCallback", "JoinCallback"])
def test_callbacks_leave_local_layers_to_each_rank(cluster, callback):
    (local, shared), (other_local, other_shared) = on_ranks(cluster, kept, callback)
    assert shared == other_shared
    for mine, theirs in zip(local, other_local, strict=True):
        assert mine != theirs


def broadcast_to_folds(rank, size):
    import numpy

    import horovod_cpp.keras as hvd
    from horovod_cpp.keras.version import keras

    callback, weights = hvd.callbacks.BroadcastGlobalVariablesCallback(0), []
    for fold in range(2):
        keras.utils.set_random_seed(2 * fold + rank)
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), "mse")
        model.fit(numpy.ones((2, 3)), numpy.zeros((2, 2)), verbose=0, callbacks=[callback])
        weights += model.get_weights()
    return weights


def test_a_callback_broadcasts_each_model_that_it_is_given_to(cluster):
    for mine, theirs in zip(*on_ranks(cluster, broadcast_to_folds)):
        numpy.testing.assert_array_equal(mine, theirs)


def unbuilt(rank, size, built_ranks):
    import numpy

    import horovod_cpp.keras as hvd
    from horovod_cpp.keras.version import keras

    keras.utils.set_random_seed(1 + rank)
    model = keras.Sequential([keras.layers.Dense(3), keras.layers.Dense(1)])
    if rank < built_ranks:
        model.build((None, 2))
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.5)), "mse")
    model.fit(numpy.full((4, 2), rank + 1.0), numpy.zeros((4, 1)), batch_size=2, verbose=0,
              callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
    return [numpy.asarray(each) for each in (*model.variables, *model.optimizer.variables)]


@pytest.mark.parametrize("built_ranks", [0, 1])
def test_a_model_that_takes_its_shapes_from_the_data_is_alike_on_all_ranks(cluster, built_ranks):
    mine, theirs = on_ranks(cluster, unbuilt, built_ranks)
    for first, second in zip(mine, theirs, strict=True):
        numpy.testing.assert_array_equal(first, second)


def checkpoints(rank, size, folder):
    import os

    import numpy

    import horovod_cpp.keras as hvd
    from horovod_cpp.keras.version import keras

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01)), "mse")
    kind = "h5" if keras.__version__.startswith("2.13") else "keras"  # which that one cannot write
    best = hvd.callbacks.BestModelCheckpoint(os.path.join(folder, f"{rank}.{kind}"), monitor="loss")
    model.fit(numpy.ones((4, 3)), numpy.zeros((4, 2)), batch_size=2, epochs=2, verbose=0, callbacks=[
        hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback(), best])
    return best.best


def test_rank_0_alone_writes_the_best_model(cluster, tmp_path):
    one, other = on_ranks(cluster, checkpoints, str(tmp_path))
    assert one == other and one is not None
    assert [path.stem for path in tmp_path.iterdir()] == ["0"]


def corrected_momentum(rank, size):
    import numpy

    import horovod_cpp.keras as hvd
    from horovod_cpp.keras.version import keras

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


def mismatched(rank, size):
    import numpy

    import horovod_cpp.keras as hvd
    from horovod_cpp.keras.version import keras

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2 + rank, name="odd")])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), "mse")
    text = ""
    try:
        model.fit(numpy.ones((2, 3)), numpy.zeros((2, 2 + rank)), batch_size=2, verbose=0)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    return text, float(hvd.allreduce(1.0, op="sum"))


def test_ranks_with_different_layers_are_told_which_and_the_job_goes_on(cluster):
    for text, after in on_ranks(cluster, mismatched):
        assert text.startswith(("MismatchError", "FailedPreconditionError")), text
        assert all(words in text for words in ("odd/", "2]", "3]", "rank 0", "rank 1")), text
        assert after == 2
