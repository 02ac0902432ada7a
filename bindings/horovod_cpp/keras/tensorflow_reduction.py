"""Gradients of Keras' backend "tensorflow", by operations of horovod_cpp.tensorflow."""

from collections.abc import Sequence
from typing import Any

from horovod_cpp.tensorflow.reduction import Reduction as _Reduction


class Reduction:
    """In a graph, which ``model.fit`` makes of a step, gradients are reduced in buckets of some
    MiB, each as soon as it is there."""

    def __init__(self, named: Sequence[tuple[str, Any]], groups: Any, options: dict[str, Any],
                 overlap: bool) -> None:
        if isinstance(groups, (list, tuple)):
            groups = [[variable.value for variable in group] for group in groups]
        self._reduce = _Reduction(groups=groups, **options)

    def reduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> Sequence[Any]:
        return self._reduce(gradients, [variable.value for variable in variables])
