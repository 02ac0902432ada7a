"""horovod.tensorflow.keras.callbacks."""

from horovod_cpp.keras.callbacks import *  # noqa: F403
