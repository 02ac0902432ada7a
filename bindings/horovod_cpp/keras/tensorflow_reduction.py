"""Gradients of Keras' backend "tensorflow", by operations of horovod_cpp.tensorflow."""

from collections.abc import Sequence
from typing import Any

from horovod_cpp.tensorflow.reduction import Reduction as _Reduction


class Reduction:
    """In a graph, which ``model.fit`` makes of a step, gradients are reduced in buckets of some
    MiB, each as soon as it is there."""

    def __init__(self, named: Sequence[tuple[str, Any]], groups: Any, options: dict[str, Any],
                 overlap: bool) -> None:
        self.reduce = _Reduction(groups=groups, **options)
