"""Gradients of Keras' backend "tensorflow", by operations of horovod_cpp.tensorflow."""

from collections.abc import Sequence
from typing import Any

from horovod_cpp.front_end import check_same_setup
from horovod_cpp.tensorflow.reduction import Reduction as _Reduction


class Reduction:
    """In a graph, which ``model.fit`` makes of a step, gradients are reduced in buckets of some
    MiB, each as soon as it is there."""

    def __init__(self, named: Sequence[tuple[str, Any]], groups: Any, options: dict[str, Any],
                 passes: int) -> None:
        self._reduce, self._set = _Reduction(groups=groups, **options), options["process_set"]
        self._setup = [f"backward_passes_per_step={passes}", *(f"'{name}'" for name, _ in named)]
        self._agreed = False

    def reduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> Sequence[Any]:
        if not self._agreed and self._set.included():
            check_same_setup("DistributedOptimizer", self._setup, self._set)
            self._agreed = True
        return self._reduce(gradients, variables)
