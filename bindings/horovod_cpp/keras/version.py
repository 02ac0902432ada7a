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
    remedy = ("install it: pip install keras" if _PACKAGE == "keras" else
              "unset TF_USE_LEGACY_KERAS, or install tf-keras in the version of TensorFlow: "
              "pip install --no-deps tf-keras")
    raise ImportError(f"horovod_cpp.keras needs {_PACKAGE}, which cannot be imported here ({error}); "
                      f"{remedy}") from error

IS_KERAS_2 = keras.__version__.startswith("2.")
