"""Callbacks for ``model.fit`` over many ranks, under Horovod's names."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy

import horovod_cpp
from horovod_cpp import ProcessSet, global_process_set
from horovod_cpp.keras.variables import broadcast_variables, shared_variables, values_of
from horovod_cpp.keras.version import keras

__all__ = ["BestModelCheckpoint", "BroadcastGlobalVariablesCallback", "JoinCallback",
           "LearningRateScheduleCallback", "LearningRateWarmupCallback", "MetricAverageCallback"]

# Keras' classes have no types for mypy, and "type: ignore" says so: Keras may be missing.
_Multiplier = float | Callable[[float], float]


class BroadcastGlobalVariablesCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Gives every rank the variables of the model and its optimizers that rank ``root_rank`` has,
    before the first batch, or after it if the model takes its shapes from the data.

    Seeds of dropout and the like stay each rank's own, and so do local layers.

    Args:
        root_rank: a rank of the job.
        device: Horovod's; not used.
        process_set: the ranks that train together.
    """

    def __init__(self, root_rank: int, device: str = "",
                 process_set: ProcessSet = global_process_set) -> None:
        super().__init__()
        self.root_rank = root_rank
        self._process_set = process_set
        self._done = False

    def set_model(self, model: Any) -> None:
        self._done = self._done and model is self.model
        super().set_model(model)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self._done:
            return
        if self._built_everywhere():
            self._broadcast()
        elif wrapping := getattr(self.model.optimizer, "_hvd", None):
            wrapping.broadcast_follows = True

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if not self._done:
            self._broadcast()

    def _built_everywhere(self) -> bool:
        """A rank may have loaded its model, or called it before."""
        built = numpy.array(self.model.built, numpy.uint8)
        return bool(horovod_cpp.allreduce(built, "min", "BroadcastGlobalVariablesCallback.built",
                                          process_set=self._process_set))

    def _broadcast(self) -> None:
        broadcast_variables(shared_variables(self.model), self.root_rank, self._process_set)
        self._done = True


class MetricAverageCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Averages the metrics of an epoch over the ranks, for the callbacks after it in the list, such
    as ReduceLROnPlateau, ModelCheckpoint and EarlyStopping, which then decide alike on every rank.

    Args:
        device: Horovod's; not used.
        process_set: the ranks that train together.
    """

    def __init__(self, device: str = "", process_set: ProcessSet = global_process_set) -> None:
        super().__init__()
        self._process_set = process_set

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if not logs:
            return
        names = sorted(name for name, value in logs.items() if numpy.ndim(value) == 0)
        averages = horovod_cpp.grouped_allreduce(
            [numpy.asarray(logs[name], numpy.float64) for name in names],
            name="MetricAverageCallback." + ".".join(names), process_set=self._process_set)
        logs.update((name, float(average)) for name, average in zip(names, averages))


class JoinCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """At the end of each epoch a rank waits until all have ended theirs: ranks may have different
    numbers of batches.

    A rank that waits takes part in the others' steps with zeros, and its variables go on without
    them: so rank ``join()`` ended last gives its variables to all, those that
    BroadcastGlobalVariablesCallback would. Put it first in the list.
    """

    def __init__(self, process_set: ProcessSet = global_process_set) -> None:
        super().__init__()
        self._process_set = process_set

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        last = horovod_cpp.join(process_set=self._process_set)
        broadcast_variables(shared_variables(self.model), last, self._process_set)


def _number(hyperparameter: Any) -> float:
    """A number, or a variable of one."""
    return float(hyperparameter if isinstance(hyperparameter, (int, float))
                 else values_of([hyperparameter])[0])


class LearningRateScheduleCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Sets the learning rate to ``initial_lr`` times a multiplier from one epoch to another.

    Args:
        initial_lr: the learning rate of multiplier 1.
        multiplier: a number, or a function of the epoch, which is a whole number with ``staircase``
            and counts batches as parts of one without.
        start_epoch: the first epoch, from 0, in which it is set.
        end_epoch: the first in which it is no longer set; None: until the end.
        staircase: set it once per epoch.
        momentum_correction: scale the momentum by the change of the learning rate for that batch,
            as in Goyal et al., "Accurate, Large Minibatch SGD", section 3 (2017).
        steps_per_epoch: without ``staircase``, batches of an epoch; None: what fit() counts, on the
            rank that has most.

    Raises:
        ValueError: without ``staircase``, neither ``steps_per_epoch`` nor fit() says how many
            batches an epoch has.
    """

    def __init__(self, initial_lr: float, multiplier: _Multiplier, start_epoch: int = 0,
                 end_epoch: int | None = None, staircase: bool = True,
                 momentum_correction: bool = True, steps_per_epoch: int | None = None) -> None:
        super().__init__()
        self.initial_lr = initial_lr
        self.start_epoch, self.end_epoch = start_epoch, end_epoch
        self.staircase = staircase if callable(multiplier) else True
        self.momentum_correction = momentum_correction
        self.steps_per_epoch: Any = steps_per_epoch
        self.multiplier = multiplier if callable(multiplier) else lambda epoch: multiplier
        self.current_epoch = 0
        self._momentum: float | None = None  # of before the correction

    def on_train_begin(self, logs: Any = None) -> None:
        momentum = getattr(self._plain(), "momentum", None)
        if (self.momentum_correction and isinstance(momentum, float) and momentum
                and keras.backend.backend() == "tensorflow" and not self.model.run_eagerly
                and horovod_cpp.rank() == 0):
            warnings.warn(f"{type(self).__name__}: TensorFlow traces the optimizer's momentum into the "
                          "step, so it is not corrected; give momentum_correction=False, or "
                          "compile(run_eagerly=True)", stacklevel=2)
        if not self.staircase and self.steps_per_epoch is None:
            self.steps_per_epoch = self._most_steps()
            if not self.steps_per_epoch:
                raise ValueError(f"{type(self).__name__}: fit() does not tell how many batches an epoch "
                                 "has; give steps_per_epoch")

    def _most_steps(self) -> int:
        """Of the ranks that train together: the rate has to be the same on all. 0: none knows."""
        own = numpy.array(self.params.get("steps") or 0)
        wrapping = getattr(self.model.optimizer, "_hvd", None)
        if wrapping is None or not wrapping.process_set.included():
            return int(own)
        return int(horovod_cpp.allreduce(own, "max", f"{type(self).__name__}.steps",
                                         process_set=wrapping.process_set))

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.current_epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self.current_epoch < self.start_epoch or (
                self.end_epoch is not None and self.current_epoch >= self.end_epoch):
            return
        if self.staircase:
            if batch == 0:
                self._adjust(self.current_epoch)
        else:
            self._adjust(self.current_epoch + batch / self.steps_per_epoch)

    def _plain(self) -> Any:
        """The optimizer that updates, inside one that scales the loss."""
        return getattr(self.model.optimizer, "inner_optimizer", self.model.optimizer)

    def _adjust(self, epoch: float) -> None:
        optimizer = self._plain()
        before = _number(optimizer.learning_rate)
        now = self.initial_lr * self.multiplier(epoch)
        optimizer.learning_rate = now
        momentum = getattr(optimizer, "momentum", None)
        if self.momentum_correction and before and momentum is not None and _number(momentum):
            self._momentum = momentum = _number(momentum)
            optimizer.momentum = momentum * now / before

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._momentum is not None:
            self._plain().momentum, self._momentum = self._momentum, None

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if logs is not None:
            logs["lr"] = _number(self.model.optimizer.learning_rate)


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Raises the learning rate from ``initial_lr / size()`` to ``initial_lr`` batch by batch over the
    first epochs, after Goyal et al., section 2.2 (2017).

    Args:
        initial_lr: the learning rate of all ranks together, usually that of one times ``size()``.
        warmup_epochs: how many epochs it takes.
        momentum_correction, steps_per_epoch: as in LearningRateScheduleCallback.
        verbose: 1: rank 0 prints when it is done.
    """

    def __init__(self, initial_lr: float, warmup_epochs: int = 5, momentum_correction: bool = True,
                 steps_per_epoch: int | None = None, verbose: int = 0) -> None:
        def multiplier(epoch: float) -> float:
            # So that the last batch of the warm-up, not the one after, has the whole rate.
            epoch += 1 / self.steps_per_epoch
            return 1 / horovod_cpp.size() * (epoch * (horovod_cpp.size() - 1) / warmup_epochs + 1)

        self.warmup_epochs = warmup_epochs
        super().__init__(initial_lr, multiplier, 0, warmup_epochs, False, momentum_correction,
                         steps_per_epoch)
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        super().on_epoch_end(epoch, logs)
        if epoch == self.warmup_epochs - 1 and self.verbose and horovod_cpp.rank() == 0:
            print(f"Epoch {epoch + 1}: the learning rate has been raised to "
                  f"{_number(self.model.optimizer.learning_rate):g}")


class BestModelCheckpoint(keras.callbacks.ModelCheckpoint):  # type: ignore[misc]
    """Keras' ModelCheckpoint that keeps only the best model, and writes on rank 0 alone.

    Args:
        filepath: where to; in Keras 3 ends in ``.keras`` or, with ``save_weights_only``, ``.weights.h5``.
        monitor, verbose, mode, save_freq, save_weights_only: ModelCheckpoint's. The ranks decide
            alike if MetricAverageCallback comes before it in the list.
    """

    def __init__(self, filepath: Any, monitor: str = "val_loss", verbose: int = 0,
                 mode: str = "auto", save_freq: str | int = "epoch",
                 save_weights_only: bool = False) -> None:
        super().__init__(filepath, monitor, verbose, save_best_only=True,
                         save_weights_only=save_weights_only, mode=mode, save_freq=save_freq)

    def set_model(self, model: Any) -> None:
        super().set_model(model if horovod_cpp.rank() == 0 else _Unsaved(model))


class _Unsaved:
    """A model for a callback that is to decide as on rank 0, and not to write."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Nothing."""

    save_weights = save
