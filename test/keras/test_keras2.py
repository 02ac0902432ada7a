"""What Keras 2 alone has: legacy optimizers, passes without accumulators of its own, sessions."""

import os
import subprocess
import sys

import cloudpickle
import numpy
import pytest
from keras_training import adam, alone, close, on_ranks, sgd, trained
from ranks import hvdrun

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # ranks do not find the tests


def legacy_sgd(keras):
    return keras.optimizers.legacy.SGD(0.05, momentum=0.9)


def legacy_adam(keras):
    return keras.optimizers.legacy.Adam(0.01, global_clipnorm=0.5)


@pytest.mark.parametrize("options", [{}, {"embedding": True}])
@pytest.mark.parametrize("make_optimizer", [legacy_sgd, legacy_adam])
def test_legacy_optimizers_equal_those_of_one_process(cluster, make_optimizer, options):
    close(on_ranks(cluster, trained, make_optimizer, **options),
          alone(cluster, trained, make_optimizer, **options))


@pytest.mark.parametrize("make_optimizer, policy", [
    (sgd, "float32"), (adam, "float32"), (legacy_sgd, "float32"), (legacy_adam, "float32"),
    (sgd, "mixed_float16"), (legacy_sgd, "mixed_float16")])
def test_averages_of_several_passes_equal_those_of_a_larger_batch(cluster, make_optimizer, policy):
    close(on_ranks(cluster, trained, make_optimizer, policy=policy, backward_passes_per_step=3,
                   average_aggregated_gradients=True),
          alone(cluster, trained, make_optimizer, policy=policy, passes=3),
          1e-6 if policy == "float32" else 2e-3)


def test_gradients_of_an_embedding_are_added_up_dense(cluster):
    options = {"embedding": True, "sparse_as_dense": True, "backward_passes_per_step": 2,
               "average_aggregated_gradients": True}
    close(on_ranks(cluster, trained, sgd, **options),
          alone(cluster, trained, sgd, embedding=True, passes=2))


@pytest.mark.parametrize("make_optimizer", [sgd, legacy_sgd])
@pytest.mark.parametrize("passes", [1, 3])
def test_an_infinity_skips_an_update_on_all_ranks(cluster, make_optimizer, passes):
    ranks = on_ranks(cluster, trained, make_optimizer, policy="mixed_float16", poison=1,
                     backward_passes_per_step=passes, average_aggregated_gradients=True)
    close(ranks, alone(cluster, trained, make_optimizer, policy="mixed_float16", passes=passes,
                       poison=1 // passes), 2e-3)
    assert all(numpy.isfinite(weights).all() for weights in ranks[0][1])


def looped(rank, size):
    """Training with a train_step of the user's, which AutoGraph converts, and by hand."""
    import tensorflow as tf

    import horovod_cpp.tensorflow as hvd
    from horovod_cpp.keras.version import keras

    class Model(keras.Sequential):
        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((self(x) - y) ** 2)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
            return {"loss": loss}

    model = Model([keras.layers.Dense(1, kernel_initializer="ones", input_shape=(2,))])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.125)))
    model.fit(numpy.full((2, 2), rank + 1.0), numpy.zeros((2, 1)), batch_size=2, verbose=0)
    variables = [tf.Variable([8.0]), tf.Variable([8.0])]
    for optimizer, variable, aggregated in zip(
            (keras.optimizers.SGD(1.0), keras.optimizers.legacy.SGD(1.0)), variables,
            ({"skip_gradients_aggregation": True}, {"experimental_aggregate_gradients": False})):
        optimizer = hvd.DistributedOptimizer(optimizer, op=hvd.Sum)
        optimizer.apply_gradients([(tf.constant([rank + 1.0]), variable)])
        optimizer.apply_gradients([(tf.constant([2.0]), variable)], **aggregated)
    return [each.numpy().tolist() for each in (*model.variables, *variables)]


def test_a_loop_of_the_users_reduces_what_is_not_aggregated_yet(cluster):
    # Predictions of 2 and 4: their gradients are 4, 16 of a weight and 4, 8 of the bias.
    assert on_ranks(cluster, looped) == [[[[-0.25], [-0.25]], [-0.75], [3.0], [3.0]]] * 2


def corrected(rank, size):
    import horovod_cpp.keras as hvd
    from horovod_cpp.keras.version import keras

    model = keras.Sequential([keras.layers.Dense(1, kernel_initializer="zeros", input_shape=(1,))])
    model.compile(hvd.DistributedOptimizer(legacy_sgd(keras)), "mse")
    seen = []

    class Watch(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            seen.append(float(self.model.optimizer.momentum))

    model.fit(numpy.ones((2, 1)), numpy.ones((2, 1)), batch_size=2, epochs=2, verbose=0, callbacks=[
        hvd.callbacks.LearningRateScheduleCallback(0.05, lambda epoch: 0.5 if epoch else 1.0),
        Watch()])
    return seen, float(model.optimizer.momentum)


def test_the_momentum_of_a_legacy_optimizer_follows_the_learning_rate_in_a_traced_step(cluster):
    for seen, after in on_ranks(cluster, corrected):
        assert seen == pytest.approx([0.9, 0.45]) and after == pytest.approx(0.9)


def loaded(rank, size, folder):
    import horovod_cpp.keras as hvd
    from horovod_cpp.keras.version import keras

    model = keras.Sequential([keras.layers.Dense(2, input_shape=(3,))])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.legacy.Adam(0.01)), "mse")
    data = numpy.full((4, 3), rank + 1.0), numpy.zeros((4, 2))
    model.fit(*data, batch_size=2, verbose=0,
              callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
    path = os.path.join(folder, f"model{rank}.h5")  # from other files Keras restores no legacy optimizer
    model.save(path)
    plain, again = keras.saving.load_model(path), hvd.load_model(path)
    assert type(plain.optimizer) is keras.optimizers.legacy.Adam
    for each in (model, again):
        each.fit(*data, batch_size=2, verbose=0)
    for mine, theirs in zip(model.get_weights(), again.get_weights(), strict=True):
        numpy.testing.assert_array_equal(mine, theirs)
    return again.get_weights()


def test_a_model_with_a_legacy_optimizer_goes_on_from_its_file(cluster, tmp_path):
    one, other = on_ranks(cluster, loaded, str(tmp_path))
    for mine, theirs in zip(one, other, strict=True):
        numpy.testing.assert_array_equal(mine, theirs)


def refused(rank, size):
    import keras as first_found
    import pytest

    import horovod_cpp.keras as hvd
    from horovod_cpp.keras.version import keras

    with pytest.raises(hvd.UnsupportedError, match="SyncBatchNormalization needs Keras 3, and this is"):
        hvd.SyncBatchNormalization()
    if first_found is not keras:
        with pytest.raises(TypeError, match=r"of Keras 2\..*; for those unset TF_USE_LEGACY_KERAS"):
            hvd.DistributedOptimizer(first_found.optimizers.SGD())
    return True


def test_what_keras_2_has_not_is_refused(cluster):
    assert on_ranks(cluster, refused) == [True, True]


if "TF_USE_LEGACY_KERAS" in os.environ:  # beside Keras 3
    def test_an_optimizer_of_keras_2_is_refused_where_keras_3_is_served():
        script = """
import tf_keras
import horovod_cpp.tensorflow as hvd
hvd.init()
try:
    hvd.DistributedOptimizer(tf_keras.optimizers.SGD())
except TypeError as error:
    assert "of Keras 3." in str(error) and "for those set TF_USE_LEGACY_KERAS=1" in str(error), error
else:
    raise AssertionError("not refused")
"""
        environment = {name: value for name, value in os.environ.items() if name != "TF_USE_LEGACY_KERAS"}
        done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True,
                              text=True, timeout=120)
        assert done.returncode == 0, done.stderr


TUTORIAL = """
import os
import numpy
import tensorflow as tf
import horovod.MODULE as hvd

hvd.init()
tf.keras.utils.set_random_seed(hvd.rank())
random = numpy.random.default_rng(hvd.rank())
images = random.normal(size=(64, 8, 8)).astype("float32")
labels = (images.mean(axis=(1, 2)) > 0).astype("int64")
dataset = tf.data.Dataset.from_tensor_slices((images[..., None], labels))
dataset = dataset.repeat().shuffle(64).batch(8)
model = tf.keras.Sequential([
    tf.keras.layers.Conv2D(4, [3, 3], activation="relu", input_shape=(8, 8, 1)),
    tf.keras.layers.Dropout(0.25), tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(2, activation="softmax")])
scaled_lr = 0.01 * hvd.size()
opt = hvd.DistributedOptimizer(tf.optimizers.Adam(scaled_lr), backward_passes_per_step=1,
                               average_aggregated_gradients=True, compression=hvd.Compression.fp16)
model.compile(loss=tf.losses.SparseCategoricalCrossentropy(), optimizer=opt, metrics=["accuracy"],
              experimental_run_tf_function=False)
callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LearningRateWarmupCallback(initial_lr=scaled_lr, warmup_epochs=1, verbose=1),
    hvd.callbacks.LearningRateScheduleCallback(initial_lr=scaled_lr, multiplier=0.5, start_epoch=1)]
if hvd.rank() == 0:
    callbacks.append(tf.keras.callbacks.ModelCheckpoint("checkpoint-{epoch}.h5"))
model.fit(dataset, steps_per_epoch=8 // hvd.size(), callbacks=callbacks, epochs=2,
          verbose=1 if hvd.rank() == 0 else 0)
epoch = int(hvd.broadcast(2 if os.path.exists("checkpoint-2.h5") else 0, 0, name="resume_from_epoch"))
if hvd.rank() == 0:
    model = hvd.load_model(f"checkpoint-{epoch}.h5", compression=hvd.Compression.fp16)
model.fit(dataset, steps_per_epoch=4, callbacks=callbacks[:2], initial_epoch=epoch, epochs=3, verbose=0)
one, other = hvd.allgather_object(model.get_weights())
assert all((mine == theirs).all() for mine, theirs in zip(one, other, strict=True))
score = model.evaluate(dataset.take(4), verbose=0)
print("accuracy", float(hvd.allreduce(score[1])))
"""


@pytest.mark.parametrize("module", ["keras", "tensorflow.keras"])
def test_a_tutorial_of_horovod_runs_as_it_is(tmp_path, module):
    script = tmp_path / "script.py"
    script.write_text(TUTORIAL.replace("MODULE", module))
    done = subprocess.run([hvdrun(), "-np", "2", sys.executable, "-m", "horovod_cpp.compat", script],
                          capture_output=True, text=True, timeout=240, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Epoch 1: the learning rate has been raised to 0.02" in done.stdout
    assert done.stdout.count("accuracy 0.") + done.stdout.count("accuracy 1.") == 2


SESSION = """
import sys
import numpy
import tensorflow as tf
import horovod.tensorflow.keras as hvd


def refuse(text, optimizer, **options):
    try:
        hvd.DistributedOptimizer(optimizer, **options)
    except hvd.InvalidArgumentError as error:
        assert text in str(error), error
    else:
        raise AssertionError("not refused")


getattr(tf.compat.v1, sys.argv[1])()
hvd.init()
keras = tf.keras
model = keras.Sequential([keras.layers.Dense(2, input_shape=(3,))])
model.compile(hvd.DistributedOptimizer(keras.optimizers.legacy.SGD(0.1, momentum=0.5)), "mse")
hvd.broadcast_global_variables(0)
start = hvd.allgather_object(model.get_weights())
numpy.testing.assert_array_equal(start[0][0], start[1][0])
model.fit(numpy.full((4, 3), hvd.rank() + 1.0), numpy.zeros((4, 2)), batch_size=2, verbose=0, callbacks=[
    hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LearningRateWarmupCallback(0.1, warmup_epochs=1, steps_per_epoch=2)])
end = hvd.allgather_object(model.get_weights())
for mine, theirs, before in zip(*end, start[0], strict=True):
    numpy.testing.assert_array_equal(mine, theirs)
    assert not numpy.array_equal(mine, before)
refuse("Keras initializes no variables", keras.optimizers.legacy.SGD(), backward_passes_per_step=2)
if sys.argv[1] == "disable_v2_behavior":
    refuse("keras.optimizers.legacy", keras.optimizers.SGD())
"""


@pytest.mark.parametrize("behavior", ["disable_eager_execution", "disable_v2_behavior"])
def test_a_script_of_horovod_trains_in_a_graph_of_tensorflow_1(tmp_path, behavior):
    script = tmp_path / "script.py"
    script.write_text(SESSION)
    done = subprocess.run(
        [hvdrun(), "-np", "2", sys.executable, "-m", "horovod_cpp.compat", script, behavior],
        capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
