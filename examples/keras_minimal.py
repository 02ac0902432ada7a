"""Trains a small Keras network on handwritten digits, which write_digits.py puts into a folder.

    python examples/write_digits.py digits
    python examples/keras_minimal_one_process.py digits    # one process
    hvdrun -np 2 python examples/keras_minimal.py digits   # as many ranks as you like
"""
import argparse

import horovod_cpp.keras as hvd
import keras
import numpy as np
from keras import layers


def digits(folder, part):
    """The images and labels of one pair of IDX files."""
    files = (np.fromfile(f"{folder}/{part}-{what}-ubyte", np.uint8)
             for what in ("images-idx3", "labels-idx1"))
    images, labels = (each[skip:] for each, skip in zip(files, (16, 8)))
    return images.reshape(len(labels), 8, 8, 1) / np.float32(255), labels


parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument("folder", help="what write_digits.py wrote")
folder = parser.parse_args().folder
hvd.init()
keras.utils.set_random_seed(1 + hvd.rank())
(images, labels), test = (digits(folder, part) for part in ("train", "t10k"))
count = len(labels) // hvd.size() * hvd.size()  # as many on each rank
images, labels = (each[hvd.rank():count:hvd.size()] for each in (images, labels))
model = keras.Sequential([
    keras.Input((8, 8, 1)),
    layers.Conv2D(16, 3, padding="same", activation="relu"), layers.MaxPooling2D(2),
    layers.Conv2D(32, 3, padding="same", activation="relu"), layers.MaxPooling2D(2),
    layers.Flatten(), layers.Dense(10)])
optimizer = keras.optimizers.SGD(0.05 * hvd.size(), momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer)
model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True),
              metrics=["accuracy"])
callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0),
             hvd.callbacks.MetricAverageCallback()]
model.fit(images, labels, batch_size=32, epochs=10, callbacks=callbacks,
          verbose=2 if hvd.rank() == 0 else 0)
_, accuracy = model.evaluate(*test, verbose=0)
print(f"test accuracy {accuracy:.4f}")
