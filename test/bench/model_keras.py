#!/usr/bin/env python3
"""Models that Keras trains on TensorFlow, and reductions, when keras_fit.py asks:

    model_keras.py             answers lines "MODEL STEPS"
    model_keras.py --hvd       as a rank of horovod_cpp
    model_keras.py --mwms      as a worker of TensorFlow's MultiWorkerMirroredStrategy
    model_keras.py --version   versions

Ranks answer "MODEL/plain STEPS", without the others, and "allreduce/BYTES/WAY TIMES", a sum. WAY: an
"eager" call; a call of a tf.function that does nothing else ("graph"); of a tensor that the same
tf.function made, as gradients are ("inside"); and the engine's own on a NumPy array, in place ("raw")
or with a new result ("apart").
"""

import json
import os
import sys
import time

import questions

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", KERAS_BACKEND="tensorflow")

import keras
import numpy as np
import tensorflow as tf
from keras import layers

BATCH = 64


def mlp():
    return [layers.Input((784,)), layers.Dense(256, "relu"), layers.Dense(256, "relu"), layers.Dense(10)]


def cnn():
    return [layers.Input((28, 28, 1)), layers.Conv2D(16, 3, activation="relu"), layers.MaxPooling2D(),
            layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(), layers.Flatten(),
            layers.Dense(10)]


MODELS = {"mlp": mlp, "cnn": cnn}


class StepTimes(keras.callbacks.Callback):
    """Milliseconds from the end of a step to the end of the next one."""

    def on_train_begin(self, logs=None):
        self.ends = []

    def on_train_batch_end(self, batch, logs=None):
        self.ends.append(time.perf_counter())

    def walls(self):
        return [1e3 * (end - begin) for begin, end in zip(self.ends, self.ends[1:])]


class Alone(questions.Alone):
    """A process that trains by model.fit."""

    def optimizer(self, optimizer):
        return optimizer

    def training(self, kind):
        """A function of how many steps, which returns the wall's clock of each."""
        model, times = keras.Sequential(MODELS[kind]()), StepTimes()
        model.compile(self.optimizer(sgd()), loss())

        def train(steps):
            images, labels = samples(model, (steps + 1) * BATCH)
            model.fit(images, labels, BATCH, shuffle=False, verbose=0, callbacks=[times])
            return times.walls()

        return train


class Rank(Alone):
    """Of several; `allreduce` is a sum."""

    def reduction(self, size, way):
        """A function of how often, which returns the wall's clock of each."""
        reduce = {"eager": self.allreduce, "graph": tf.function(self.allreduce)}[way]
        return self.timed(lambda: tf.fill([size], 1.0), reduce)

    def timed(self, make, reduce):
        """Of what was made anew, by all ranks before one begins."""
        made = []

        def begin():
            made[:] = [make()]
            self.meet()

        def measure(times):
            _, walls, result = questions.timed(lambda: reduce(*made), times, begin)
            self.check(result)
            return walls

        return measure

    def check(self, result):
        if result[0] != int(os.environ["WORLD_SIZE"]):
            sys.exit(f"{sys.argv}: a wrong sum")


class Hvd(Rank):
    def __init__(self):
        import horovod_cpp
        import horovod_cpp.keras
        import horovod_cpp.tensorflow

        self.engine, self.hvd = horovod_cpp, horovod_cpp.tensorflow
        self.optimizer = horovod_cpp.keras.DistributedOptimizer
        self.meet = horovod_cpp.barrier
        horovod_cpp.init()

    def allreduce(self, tensor):
        return self.hvd.allreduce(tensor, op=self.hvd.Sum)

    def reduction(self, size, way):
        if way == "inside":
            return self.inside(size)
        if way in ("raw", "apart"):
            array = np.empty(size, np.float32)
            reduce = {"raw": self.engine.allreduce_, "apart": self.engine.allreduce}[way]
            return self.timed(lambda: array.fill(1.0),
                              lambda _: reduce(array, op=self.engine.Sum, name=way))
        return super().reduction(size, way)

    def inside(self, size):
        """TensorFlow's own clock, in a tf.function that makes what it reduces: other than an argument
        that may be reduced in place."""
        @tf.function
        def reduce(value):
            tensor = tf.fill([size], value)
            with tf.control_dependencies([tensor]):
                self.hvd.barrier()
                begin = tf.timestamp()
            with tf.control_dependencies([begin]):
                result = self.allreduce(tensor)
            with tf.control_dependencies([result]):
                return tf.timestamp() - begin, result[:1]

        def measure(times):
            seconds, results = zip(*(reduce(tf.constant(1.0)) for _ in range(times)))
            self.check(results[-1])
            return [1e3 * float(each) for each in seconds]

        return measure


class Mwms(Rank):
    """Keras 3 cannot do it by fit(), so this is a loop of its own, without fit()'s work."""

    def __init__(self):
        port, count = int(os.environ["MASTER_PORT"]), int(os.environ["WORLD_SIZE"])
        os.environ["TF_CONFIG"] = json.dumps({
            "cluster": {"worker": [f"127.0.0.1:{port + rank}" for rank in range(count)]},
            "task": {"type": "worker", "index": int(os.environ["RANK"])}})
        communication = tf.distribute.experimental
        ring = communication.CommunicationOptions(
            implementation=communication.CommunicationImplementation.RING)
        self.strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=ring)
        meet = tf.function(self.allreduce)
        self.meet = lambda: meet(tf.zeros([1]))

    def allreduce(self, tensor):
        return self.strategy.run(lambda value: tf.distribute.get_replica_context().all_reduce(
            "sum", tf.identity(value)), (tensor,))

    def training(self, kind):
        with self.strategy.scope():
            model, optimizer = keras.Sequential(MODELS[kind]()), sgd()
            optimizer.build(model.trainable_variables)

        def step_of_one(images, labels):
            with tf.GradientTape() as tape:
                error = loss()(labels, model(images, training=True))
            optimizer.apply(tape.gradient(error, model.trainable_variables), model.trainable_variables)
            return error

        step = tf.function(lambda *batch: self.strategy.run(step_of_one, batch))
        batch = [tf.constant(each) for each in samples(model, BATCH)]
        return lambda steps: questions.timed(lambda: float(step(*batch)), steps)[1]


WORLDS = {"--hvd": Hvd, "--mwms": Mwms}


def sgd():
    return keras.optimizers.SGD(0.01, momentum=0.9)


def loss():
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def samples(model, count):
    numbers = np.random.default_rng(1)
    return (numbers.random((count, *model.input_shape[1:]), np.float32),
            numbers.integers(0, 10, count))


def measured(world, name):
    kind, *ways = name.split("/")
    if kind == "allreduce":
        measure = world.reduction(int(ways[0]) // 4, ways[1])
    else:
        measure = (Alone() if "plain" in ways else world).training(kind)
    return lambda times: {"wall": measure(times)}


def main():
    if sys.argv[1:] == ["--version"]:
        print(json.dumps({"tensorflow": tf.__version__, "keras": keras.__version__}))
        return
    world = WORLDS[sys.argv[1]]() if sys.argv[1:] else Alone()
    questions.answer_all(world, lambda name: measured(world, name))


if __name__ == "__main__":
    main()
