"""A tf.GradientTape whose gradients are those of all ranks."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from horovod_cpp._native import Average, ProcessSet, ReduceOp, global_process_set
from horovod_cpp.front_end import reduce_op, variables_of_layers
from horovod_cpp.tensorflow.compression import Compression
from horovod_cpp.tensorflow.reduction import Reduction

__all__ = ["DistributedGradientTape", "PartialDistributedGradientTape"]


class _Distributed:
    """In front of the class of the tape."""

    _reduction: Reduction

    def gradient(self, target: Any, sources: Any, output_gradients: Any = None,
                 use_generic_names: bool = False, **options: Any) -> Any:
        """tf.GradientTape.gradient(), reduced over the ranks.

        ``use_generic_names`` is Horovod's and has no effect: names of calls never contain those of
        variables.
        """
        gradients = super().gradient(  # type: ignore[misc]  # of the tape
            target, sources, output_gradients, **options)
        reduced = self._reduction(tf.nest.flatten(gradients), tf.nest.flatten(sources))
        return tf.nest.pack_sequence_as(gradients, reduced)

    def register_local_source(self, source: Any) -> None:
        """The gradient of this variable is not reduced: it is this rank's own."""
        self._reduction.keep_local(source)


def DistributedGradientTape(
        gradtape: Any, device_dense: str = "", device_sparse: str = "",
        compression: Any = Compression.none, sparse_as_dense: bool = False,
        op: ReduceOp | str = Average, gradient_predivide_factor: float = 1.0, num_groups: int = 0,
        groups: int | Sequence[Sequence[Any]] | None = None,
        process_set: ProcessSet = global_process_set, scale_local_gradients: bool = True) -> Any:
    """A tape like ``gradtape``, with what it has recorded, whose gradient() is reduced over the ranks.

    Args:
        gradtape: a tf.GradientTape, recording or not.
        device_dense, device_sparse: Horovod's, without effect.
        compression: how gradients travel: Compression.fp16, "bf16".
        sparse_as_dense: tf.IndexedSlices are made dense; otherwise their rows are gathered.
        op: Average, Sum, Adasum.
        gradient_predivide_factor: part of the averaging's division that is made before the sum.
        num_groups: the older way to say ``groups``.
        groups: how many calls reduce all gradients together, or lists of variables, one each. By
            default in buckets of 4 MiB, each as soon as it is there; eagerly all in one call.
        process_set: whose ranks call this; on others nothing is reduced.
        scale_local_gradients: those of register_local_source() are divided by the number of ranks.

    Raises:
        InvalidArgumentError: an option does not fit.
    """
    if not isinstance(gradtape, tf.GradientTape) or isinstance(gradtape, _Distributed):
        raise TypeError(f"DistributedGradientTape: expected a plain tf.GradientTape, got {gradtape!r}")
    tape: Any = object.__new__(type("DistributedGradientTape", (_Distributed, type(gradtape)), {}))
    tape.__dict__.update(gradtape.__dict__)
    tape._reduction = Reduction(compression, sparse_as_dense, reduce_op(op),
                                gradient_predivide_factor, groups or num_groups, process_set,
                                scale_local_gradients)
    return tape


def PartialDistributedGradientTape(gradtape: Any, *args: Any, local_layers: Any = None,
                                   **options: Any) -> Any:
    """DistributedGradientTape that does not reduce the gradients of some layers.

    Args:
        local_layers: a Keras layer or several, which are built; on every rank the same.
        gradtape, args, options: DistributedGradientTape's. With ``scale_local_gradients`` these
            gradients are divided by the number of ranks, as an average would.

    Raises:
        InvalidArgumentError: one of ``local_layers`` is not a layer, or is not built.
    """
    tape = DistributedGradientTape(gradtape, *args, **options)
    for variable in variables_of_layers(local_layers, "PartialDistributedGradientTape"):
        tape.register_local_source(variable)
    return tape
