"""The Keras that horovod_cpp.keras serves: the one that tf.keras is where there is TensorFlow."""

import importlib
import os
from typing import Any

# As TensorFlow decides.
_PACKAGE = ("tf_keras" if os.environ.get("TF_USE_LEGACY_KERAS") in ("1", "true", "True")
            else "keras")

try:
    keras: Any = importlib.import_module(_PACKAGE)
except ImportError as error:
    raise ImportError(f"horovod_cpp.keras needs {_PACKAGE}, which cannot be imported here ({error}); "
                      f"install it: pip install {_PACKAGE}" if _PACKAGE == "keras" else
                      "horovod_cpp.keras needs tf_keras, because TF_USE_LEGACY_KERAS is set, which "
                      f"cannot be imported here ({error}); unset it, or install tf-keras in the "
                      "version of TensorFlow: pip install --no-deps tf-keras") from error

IS_KERAS_2 = keras.__version__.startswith("2.")
