"""Lists of gradients over the ranks, for what wraps tapes and optimizers."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from horovod_cpp import _native, call_site
from horovod_cpp._native import Average, ProcessSet, ReduceOp, global_process_set
from horovod_cpp.front_end import check_groups
from horovod_cpp.tensorflow.collectives import allreduce_group
from horovod_cpp.tensorflow.compression import Compression
from horovod_cpp.tensorflow.errors import raising_both
from horovod_cpp.tensorflow.library import number_of


def same(variable: Any) -> Any:
    """By which a variable is known: tf.Variable compares by elements in some modes, and one of Keras 3
    is the tf.Variable in it."""
    value = getattr(variable, "value", None)  # of tf.Variable a method
    known = variable if value is None or callable(value) else value
    return known.ref() if hasattr(known, "ref") else id(known)


def _note(variables: Sequence[Any]) -> str:
    """What is in a group."""
    names = [getattr(each, "path", getattr(each, "name", None)) for each in variables]
    known = ["a tensor" if name is None else repr(name.partition(":")[0]) for name in names]
    return f"; on this rank these are the gradients of {', '.join(known)}"


# Of small gradients, calls cost more than what they carry.
_BUCKET_BYTES = 4 << 20


@dataclasses.dataclass
class Reduction:
    """How gradients are reduced: options of Horovod's tapes and optimizers."""

    compression: Any = None
    sparse_as_dense: bool = False
    op: ReduceOp = Average
    gradient_predivide_factor: float = 1.0
    groups: int | Sequence[Sequence[Any]] | None = None
    process_set: ProcessSet = global_process_set
    scale_local_gradients: bool = True

    def __post_init__(self) -> None:
        self._local: set[Any] = set()
        if self.compression is None:
            self.compression = Compression.none
        if not 1e-30 <= self.gradient_predivide_factor <= 1e30:
            raise _native.InvalidArgumentError(
                f"gradient_predivide_factor={self.gradient_predivide_factor}, which must be between "
                "1e-30 and 1e30")
        if self.gradient_predivide_factor != 1.0 and self.op != Average:
            raise _native.InvalidArgumentError(
                "gradient_predivide_factor works with op=Average only, not with "
                f"{ReduceOp(self.op).name}")
        check_groups(self.groups)

    def keep_local(self, variable: Any) -> None:
        """The gradient of this one stays this rank's own, divided by the number of ranks."""
        self._local.add(same(variable))

    @raising_both
    def __call__(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """The reduced gradients; None where there is none. ``variables``: which each belongs to."""
        results = list(gradients)
        number_of(self.process_set)  # which refuses one that was not registered
        ranks = self.process_set.size() or 1
        if not self.process_set.included():  # so nothing is reduced
            call_site.warn(f"gradients are not reduced: this rank is not in {self.process_set}")
        if ranks == 1 or not self.process_set.included():
            return results
        shared = []
        for i, (gradient, variable) in enumerate(zip(results, variables, strict=True)):
            if gradient is None:
                continue
            if same(variable) in self._local:
                if self.scale_local_gradients:
                    results[i] = tf.math.scalar_mul(1 / ranks, gradient)  # of tf.IndexedSlices too
            else:
                shared.append(i)
        for members in self._calls(shared, variables):
            reduced_together = self._reduced([results[i] for i in members],
                                             [variables[i] for i in members])
            for i, reduced in zip(members, reduced_together):
                results[i] = reduced
        return results

    def _calls(self, shared: list[int], variables: Sequence[Any]) -> list[list[int]]:
        """Which gradients are reduced as one call.

        In a graph those of some MiB are one, which starts as soon as they are there; eager calls wait
        for each other, and so there is one for all.
        """
        if isinstance(self.groups, int) and self.groups > 0:
            count = min(self.groups, len(shared))
            bounds = [len(shared) * part // count for part in range(count + 1)] if count else [0]
            return [shared[first:end] for first, end in zip(bounds, bounds[1:])]
        if self.groups and not isinstance(self.groups, int):
            group_of = {same(variable): number for number, group in enumerate(self.groups)
                        for variable in group}
            calls: dict[Any, list[int]] = {}
            for i in shared:
                key = same(variables[i])
                calls.setdefault(group_of.get(key, key), []).append(i)
            return list(calls.values())
        if tf.executing_eagerly():
            return [shared] if shared else []
        buckets: list[list[int]] = []
        left = 0
        for i in reversed(shared):  # the order in which a backward pass gives gradients
            elements = tf.TensorShape(variables[i].shape).num_elements()
            size = (_BUCKET_BYTES if elements is None  # so it is alone
                    else elements * tf.as_dtype(variables[i].dtype).base_dtype.size)
            if size > left or not buckets:
                buckets.append([])
                left = _BUCKET_BYTES
            buckets[-1].append(i)
            left -= size
        return buckets

    def _reduced(self, gradients: list[Any], variables: Sequence[Any]) -> list[Any]:
        if self.sparse_as_dense:
            gradients = [tf.convert_to_tensor(each) for each in gradients]
        factor = self.gradient_predivide_factor
        return allreduce_group(gradients, self.op, self.compression, 1.0 / factor, factor, None,
                               self.process_set, _note(variables))
