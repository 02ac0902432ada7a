"""Gradients of Keras' backend "tensorflow", by operations of horovod_cpp.tensorflow."""

from collections.abc import Sequence
from typing import Any

from horovod_cpp.front_end import check_same_setup
from horovod_cpp.tensorflow.reduction import Reduction as _Reduction


class Reduction:
    """In a graph gradients are reduced in buckets of some MiB, each as soon as it is there."""

    def __init__(self, named: Sequence[tuple[str, Any]], groups: Any, options: dict[str, Any],
                 overlap: bool) -> None:
        self._reduce, self._set = _Reduction(groups=groups, **options), options["process_set"]
        self._setup = [f"'{name}'" for name, _ in named]

    def reduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> Sequence[Any]:
        if self._setup and self._set.included():
            check_same_setup("DistributedOptimizer", self._setup, self._set)
            self._setup = []  # once
        return self._reduce(gradients, variables)
