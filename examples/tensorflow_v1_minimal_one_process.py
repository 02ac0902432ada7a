"""Trains a small network in the style of TensorFlow 1 on handwritten digits, which write_digits.py
puts into a folder.

    python examples/write_digits.py digits
    python examples/tensorflow_v1_minimal_one_process.py digits    # one process
    hvdrun -np 2 python examples/tensorflow_v1_minimal.py digits   # as many ranks as you like
"""
import argparse

import numpy as np
import tensorflow.compat.v1 as tf


def digits(folder, part):
    """The images and labels of one pair of IDX files."""
    files = (np.fromfile(f"{folder}/{part}-{what}-ubyte", np.uint8)
             for what in ("images-idx3", "labels-idx1"))
    images, labels = (each[skip:] for each, skip in zip(files, (16, 8)))
    return images.reshape(len(labels), 64) / np.float32(255), labels


class Test(tf.train.SessionRunHook):
    """Prints how the trained network does on other images."""

    def end(self, session):
        values = session.run([loss, accuracy], dict(zip((images, labels), test)))
        print("test loss {:.7f} accuracy {:.4f}".format(*values))


parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument("folder", help="what write_digits.py wrote")
parser.add_argument("--steps", type=int, default=800)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--learning-rate", type=float, default=0.05)
args = parser.parse_args()
tf.disable_eager_execution()
tf.set_random_seed(1)
train, test = (digits(args.folder, part) for part in ("train", "t10k"))

images = tf.placeholder(tf.float32, [None, 64])
labels = tf.placeholder(tf.int64, [None])
values = images
for layer, width in enumerate([64, 10]):
    weights = tf.get_variable(f"weights{layer}", [values.shape[1], width])
    bias = tf.get_variable(f"bias{layer}", [width], initializer=tf.zeros_initializer())
    values = (tf.nn.relu(values) if layer else values) @ weights + bias
loss = tf.losses.sparse_softmax_cross_entropy(labels, values)
accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(values, 1), labels), tf.float32))

optimizer = tf.train.AdagradOptimizer(args.learning_rate)
train_op = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())
hooks = [Test(), tf.train.StopAtStepHook(last_step=args.steps)]
step = 0
with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
    while not session.should_stop():
        batch = np.arange(step, step + args.batch_size) % len(train[1])
        session.run(train_op, {images: train[0][batch], labels: train[1][batch]})
        step += args.batch_size
