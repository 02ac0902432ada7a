"""Trains a small network with TensorFlow 2 on handwritten digits, which write_digits.py puts into a
folder.

    python examples/write_digits.py digits
    python examples/tensorflow_minimal_one_process.py digits    # one process
    hvdrun -np 2 python examples/tensorflow_minimal.py digits   # as many ranks as you like
"""
import argparse

import horovod_cpp.tensorflow as hvd
import keras
import numpy as np
import tensorflow as tf
from keras import layers


def digits(folder, part):
    """The images and labels of one pair of IDX files."""
    files = (np.fromfile(f"{folder}/{part}-{what}-ubyte", np.uint8)
             for what in ("images-idx3", "labels-idx1"))
    images, labels = (each[skip:] for each, skip in zip(files, (16, 8)))
    return images.reshape(len(labels), 8, 8, 1) / np.float32(255), labels.astype(np.int64)


parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument("folder", help="what write_digits.py wrote")
folder = parser.parse_args().folder
hvd.init()
keras.utils.set_random_seed(1 + hvd.rank())
train, test = (digits(folder, part) for part in ("train", "t10k"))
count = len(train[1]) // hvd.size() * hvd.size()  # as many on each rank
train = tuple(each[hvd.rank():count:hvd.size()] for each in train)
data = tf.data.Dataset.from_tensor_slices(train).shuffle(2000).batch(32, drop_remainder=True)
model = keras.Sequential([
    keras.Input((8, 8, 1)),
    layers.Conv2D(16, 3, padding="same", activation="relu"), layers.MaxPooling2D(2),
    layers.Conv2D(32, 3, padding="same", activation="relu"), layers.MaxPooling2D(2),
    layers.Flatten(), layers.Dense(10)])
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = keras.optimizers.SGD(0.05 * hvd.size(), momentum=0.9)
optimizer.build(model.trainable_variables)
hvd.broadcast_variables(model.variables + optimizer.variables, root_rank=0)


@tf.function
def train_step(images, labels):
    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(images, training=True))
    tape = hvd.DistributedGradientTape(tape)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for epoch in range(10):
    losses = [train_step(images, labels) for images, labels in data]
    loss = hvd.allreduce(tf.reduce_mean(losses))
    if hvd.rank() == 0:
        print(f"epoch {epoch + 1}: loss {loss:.4f}")
predicted = tf.argmax(model(test[0]), axis=1)
print(f"test accuracy {np.mean(predicted == test[1]):.4f}")
