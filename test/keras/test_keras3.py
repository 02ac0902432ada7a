"""What Keras 3 alone has: gradients that it accumulates, and refusals."""

import re
import sys

import cloudpickle
import numpy
import pytest
from keras_training import alone, close, on_ranks, trained

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # ranks do not find the tests


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


def of_tensorflow_1(rank, size):
    import pytest
    import tensorflow as tf

    import horovod_cpp.keras as hvd

    with pytest.raises(TypeError, match="there is horovod_cpp.tensorflow.DistributedOptimizer"):
        hvd.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.1))
    return True


def test_an_optimizer_of_tensorflow_1_is_sent_to_its_own(cluster):
    assert on_ranks(cluster, of_tensorflow_1) == [True, True]


def other_passes(rank, size):
    import keras
    import numpy

    import horovod_cpp.keras as hvd

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1), backward_passes_per_step=2 + rank),
                  "mse")
    text = ""
    try:
        model.fit(numpy.ones((12, 3)), numpy.zeros((12, 2)), batch_size=2, verbose=0)
    except hvd.MismatchError as error:
        text = str(error)
    return text, float(hvd.allreduce(1.0, op="sum"))


def test_ranks_with_other_numbers_of_passes_are_told(cluster):
    for text, after in on_ranks(cluster, other_passes):
        assert "the ranks differ" in text and "(backward_passes_per_step=" in text, text
        assert after == 2


def built_already(rank, size):
    import keras
    import numpy
    import pytest

    import horovod_cpp.keras as hvd

    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build([keras.Variable(numpy.ones(2))])
    layer = keras.layers.Dense(2)
    layer.build((2, 2))
    for _ in range(2):  # nothing has changed after the first
        with pytest.raises(hvd.InvalidArgumentError, match="local layers of an optimizer that is built"):
            hvd.PartialDistributedOptimizer(optimizer, local_layers=layer)
    return True


def test_an_optimizer_that_is_built_is_refused_with_local_layers(cluster):
    assert on_ranks(cluster, built_already) == [True, True]


def changing(rank, size):
    """What a variable that has a gradient in the first of two passes alone becomes."""
    import keras
    import numpy

    import horovod_cpp.keras as hvd

    def variable():
        return keras.Variable(numpy.zeros(2, "float32"))

    seen = []
    for scale in (None, 4.0):
        both, first, never = variable(), variable(), variable()
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0, loss_scale_factor=scale),
                                             backward_passes_per_step=2)
        one = keras.ops.full((2,), (rank + 1.0) * (scale or 1))
        for _ in range(2):
            optimizer.apply([one, one, None], [both, first, never])
            optimizer.apply([one, None, None], [both, first, never])
        seen.append([numpy.asarray(each).tolist() for each in (both, first, never)])
    return seen


def test_a_gradient_that_is_missing_in_the_pass_that_updates_keeps_what_was_added(cluster):
    expected = [[-6.0, -6.0], [-3.0, -3.0], [0.0, 0.0]]  # averages of 1 and 2, in 4 and 2 passes
    assert on_ranks(cluster, changing) == [[expected, expected]] * 2


def loaded(rank, size, folder):
    """The weights of a model and of those in its file after the same steps; warnings."""
    import os
    import warnings

    import keras
    import numpy

    import horovod_cpp.keras as hvd

    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.25), backward_passes_per_step=2), "mse")
    path = os.path.join(folder, f"model{rank}.keras")
    model.save(path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        models = [model, hvd.load_model(path, backward_passes_per_step=2), hvd.load_model(path)]
    for each in models:
        each.fit(numpy.ones((2, 1)), numpy.zeros((2, 1)), batch_size=1, verbose=0)
    try:
        hvd.load_model(path, backward_passes_per_step=3)
    except hvd.InvalidArgumentError as error:
        text = str(error)
    return ([each.get_weights()[0].item() for each in models],
            [str(each.message) for each in caught if "load_model" in str(each.message)], text)


def test_a_loaded_model_adds_up_passes_where_it_is_told_again(cluster, tmp_path):
    (weights, (warning,), text), (other_weights, nothing, _) = on_ranks(cluster, loaded, str(tmp_path))
    assert weights == other_weights == [0, 0, 0.5] and nothing == []
    assert "give backward_passes_per_step=2 if they were summed before" in warning
    assert "backward_passes_per_step=3, and the optimizer's gradient_accumulation_steps is 2" in text


def local_infinity(rank, size, passes):
    """Iterations, loss scales and a shared variable, when a local gradient is infinite on rank 0."""
    import keras

    import horovod_cpp.keras as hvd

    shared, local = (keras.Variable([1.0]) for _ in range(2))
    optimizer = hvd.DistributedOptimizer(keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(0.5), initial_scale=4.0), backward_passes_per_step=passes)
    optimizer.register_local_var(local)
    one = keras.ops.ones([1])
    for factor in (float("inf") if rank == 0 else 1.0, 1.0):
        for _ in range(passes):
            optimizer.apply([one, factor * one], [shared, local])
    return (int(optimizer.iterations), float(optimizer.dynamic_scale),
            keras.ops.convert_to_numpy(shared).item())


@pytest.mark.parametrize("passes", [1, 2])
def test_a_local_infinity_skips_the_step_on_all_ranks(cluster, passes):
    assert on_ranks(cluster, local_infinity, passes) == [(1, 2.0, 1 - 0.5 * passes / 2)] * 2


def adversaries(rank, size, callbacks, batches):
    """The weights of a generator and a discriminator with an optimizer each, and their momenta."""
    import keras
    import numpy

    import horovod_cpp.keras as hvd

    class Adversaries(keras.Model):
        def __init__(self):
            super().__init__()
            keras.utils.set_random_seed(3)
            self.generator, self.discriminator = (
                keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)]) for _ in range(2))
            self.built = True
            for name in ("of_discriminator", "of_generator"):
                optimizer = keras.optimizers.SGD(0.25, momentum=0.5)
                setattr(self, name, hvd.DistributedOptimizer(optimizer) if size > 1 else optimizer)

        def losses(self, x):
            made = self.discriminator(self.generator(x))
            yield keras.ops.mean(self.discriminator(x) ** 2 - made), self.discriminator, self.of_discriminator
            made = self.discriminator(self.generator(x))
            yield keras.ops.mean(made ** 2), self.generator, self.of_generator

        def train_step(self, x):
            if keras.backend.backend() == "torch":
                for loss, part, optimizer in self.losses(x):
                    self.zero_grad()
                    loss.backward()
                    optimizer.apply([each.value.grad for each in part.trainable_variables],
                                    part.trainable_variables)
                return {"loss": loss}
            import tensorflow as tf

            steps = self.losses(x)
            for _ in range(2):
                with tf.GradientTape() as tape:
                    loss, part, optimizer = next(steps)
                optimizer.apply(tape.gradient(loss, part.trainable_variables), part.trainable_variables)
            return {"loss": loss}

    model = Adversaries()
    model.compile(jit_compile=False)
    model.fit(numpy.arange(2 * batches[rank])[rank::size] / 4.0, batch_size=2 // size, shuffle=False,
              verbose=0, callbacks=[getattr(hvd.callbacks, each)() for each in callbacks])
    return [keras.ops.convert_to_numpy(each).tolist()
            for each in (*model.trainable_variables, *model.of_discriminator.variables,
                         *model.of_generator.variables)]


def test_a_model_with_several_optimizers_learns_as_in_one_process(cluster):
    expected = numpy.concatenate([numpy.ravel(each) for each in alone(cluster, adversaries, [], [3])])
    for found in on_ranks(cluster, adversaries, [], [3, 3]):
        numpy.testing.assert_allclose(numpy.concatenate([numpy.ravel(each) for each in found]), expected,
                                      rtol=1e-5, atol=1e-6)


def test_all_optimizers_of_a_model_are_alike_after_a_join(cluster):
    one, other = on_ranks(cluster, adversaries, ["JoinCallback"], [4, 2])
    assert one == other


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


def starting_apart(rank, size, is_built, broadcasts):
    """The warnings of a training whose ranks make models of other values."""
    import warnings

    import numpy

    import horovod_cpp.keras as hvd
    from horovod_cpp.keras.version import keras

    hvd.init()
    keras.utils.set_random_seed(rank)
    first = [keras.Input((3,))] if is_built[rank] else []
    model = keras.Sequential([*first, keras.layers.Dense(2, name="only")])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), "mse")
    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)] if broadcasts else []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(numpy.ones((8, 3), "float32"), numpy.ones((8, 2), "float32"), batch_size=4, epochs=2,
                  verbose=0, callbacks=callbacks)
    return ([str(each.message) for each in caught if "parameters differ" in str(each.message)],
            model.get_weights()[0].tolist())


def test_a_forgotten_broadcast_is_one_warning_on_the_first_rank(cluster):
    ((text,), one), (others, two) = on_ranks(cluster, starting_apart, [True, True], broadcasts=False)
    assert others == [] and one != two
    # The bias is 0 on both.
    assert re.match("DistributedOptimizer: parameters differ between rank 0 and rank 1 at the first "
                    "step: '0.(sequential/)?only/kernel'. Each rank", text), text
    assert "BroadcastGlobalVariablesCallback" in text and "HVD_CHECK_PARAMETERS=0" in text


@pytest.mark.parametrize("is_built", [[True, True], [False, False], [True, False]])
def test_no_rank_warns_of_values_that_a_callback_broadcasts(cluster, is_built):
    (one, values), (two, same_values) = on_ranks(cluster, starting_apart, is_built, broadcasts=True)
    assert one == two == [] and values == same_values
