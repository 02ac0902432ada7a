"""DistributedOptimizer."""

import contextlib
import copy
import functools
import pickle
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import torch

from horovod_cpp import _native
from horovod_cpp._native import Adasum, Average, ProcessSet, ReduceOp, global_process_set
from horovod_cpp.front_end import reduce_op
from horovod_cpp.objects import whole_number
from horovod_cpp.short_traceback import short_traceback
from horovod_cpp.torch import compression as compressors
from horovod_cpp.torch import memory
from horovod_cpp.torch.collectives import allreduce
from horovod_cpp.torch.compression import Compression
from horovod_cpp.torch.gradients import add_parameters, parameters_of, reducer_of, works_alone
from horovod_cpp.torch.gradients import refuse as _refuse

_Closure: TypeAlias = Callable[[], Any]
_Groups: TypeAlias = int | Sequence[Sequence[torch.Tensor]]
_NamedParameters: TypeAlias = Iterable[tuple[str, torch.Tensor]] | Mapping[str, torch.Tensor]

if TYPE_CHECKING:
    from torch.optim import Optimizer as _Wrapped
else:
    _Wrapped = object  # the optimizer's class comes behind in the order of inheritance


def _check_reduced(reducer: _native._GradientReducer) -> None:
    """Else this rank would step with gradients that the others do not have."""
    if name := reducer.in_flight:
        _refuse("step() inside skip_synchronize() while the gradient of "
                f"{_native._quoted(name)} is being reduced; call synchronize() first")
    if name := reducer.unreduced:
        _refuse("step() inside skip_synchronize() although what backward() has added to the "
                f"gradient of {_native._quoted(name)} is not reduced; call synchronize() first")


class _Distributed(_Wrapped):  # type: ignore[misc]  # torch may be missing
    """What every wrapped optimizer has; in front of its class in the order of inheritance."""

    _hvd_wrapped_class: type[torch.optim.Optimizer]
    _hvd_options: dict[str, Any]  # DistributedOptimizer()'s
    _hvd_groups: _Groups
    _hvd_first_name: str  # of a parameter
    _hvd_reducer: _native._GradientReducer
    _hvd_skips = False
    param_groups: list[dict[str, Any]]
    _parameter_names: dict[torch.Tensor, str]

    def __copy__(self) -> Any:
        """Shares all it knows, as the copy of any optimizer does, so also what reduces."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Reduces the copied parameters from its first step on; all ranks copy alike."""
        make, arguments = self.__reduce_ex__(pickle.DEFAULT_PROTOCOL)
        other = memo[id(self)] = make(*copy.deepcopy(arguments, memo))
        return other

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        """The class was made here, so a pickle has the optimizer that was wrapped, and how."""
        plain = object.__new__(self._hvd_wrapped_class)
        plain.__dict__.update({name: value for name, value in self.__dict__.items()
                               if name not in _OF_WRAPPED})
        names = [(name, parameter) for parameter, name in self._parameter_names.items()]
        return wrapped_again, (plain, names, self._hvd_groups, self._hvd_options)

    @short_traceback
    def synchronize(self) -> None:
        """Wait until every gradient is reduced; ``param.grad`` are the results. Collective.

        Call it before reading or clipping gradients. A second call before the next backward()
        changes nothing, and neither does step() then; but ranks ask each other in each call, so all
        have to make it.
        """
        self._hvd_reducer.synchronize()

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Context in which step() does not synchronize: call synchronize(), change the gradients,
        then step inside it."""
        if self._hvd_options["op"] == Adasum:
            _refuse("skip_synchronize() makes no sense with Adasum, which reduces what step() "
                    "changed")
        before, self._hvd_skips = self._hvd_skips, True
        try:
            yield
        finally:
            self._hvd_skips = before

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Context in which backward() only accumulates on this rank; the first pass after it, or
        step(), reduces the sum."""
        self._hvd_reducer.hold()
        try:
            yield
        finally:
            self._hvd_reducer.release()

    @short_traceback
    def set_backward_passes_per_step(self, passes: int) -> None:
        """From the next step on; collective.

        Raises:
            MismatchError: the ranks give different numbers; on every rank.
            StalledError: some ranks do not call it, for as long as a stall may last.
        """
        self._hvd_reducer.set_backward_passes_per_step(passes)
        self._hvd_options["backward_passes_per_step"] = passes

    @short_traceback
    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """The wrapped optimizer's, with its arguments (``set_to_none``).

        Raises:
            InvalidArgumentError: reductions are in flight, between backward() and step().
        """
        if name := self._hvd_reducer.in_flight:
            _refuse(f"zero_grad() while the gradient of {_native._quoted(name)} is being reduced; "
                    "call step() or synchronize() first, and a backward() that is not meant for "
                    "this optimizer inside its no_sync()")
        self._hvd_reducer.drop_accumulated()
        super().zero_grad(*args, **kwargs)

    @short_traceback
    def step(self, closure: _Closure | None = None, *args: Any, **kwargs: Any) -> Any:
        """synchronize(), then the wrapped optimizer's step.

        ``closure``, if there is one, is called by the wrapped optimizer as often as it likes, the
        same number of times on every rank; its gradients are reduced each time it returns. If it
        raises, what backward() started ends first: then zero_grad() and go on. It has to raise on
        every rank: the others take their step.

        Raises:
            InvalidArgumentError: inside skip_synchronize(), and gradients have come that are not
                reduced.
        """
        reducer = self._hvd_reducer
        if not reducer.active:
            return self._hvd_plain_step(closure, *args, **kwargs)
        if self._hvd_options["overlap_step"] and not self._hvd_skips:
            return self._hvd_step_as_reduced(closure, *args, **kwargs)
        if closure is not None and not self._hvd_skips:
            return self._hvd_plain_step(functools.partial(self._hvd_closure, closure),
                                        *args, **kwargs)
        if self._hvd_skips:
            _check_reduced(reducer)
        else:
            self.synchronize()
        reducer.begin_step()
        return self._hvd_plain_step(closure, *args, **kwargs)

    # PyTorch's profiler and step hooks sit on the wrapped class's.
    step.hooked = True  # type: ignore[attr-defined]

    @property
    def _step_supports_amp_scaling(self) -> Any:
        """PyTorch's GradScaler asks for it at the begin of its step(), before it changes gradients
        that may still be in flight."""
        if self._hvd_reducer.active and not self._hvd_reducer.synchronized:
            _refuse("a GradScaler's step() before gradients are reduced: it would scale them on "
                    "their way, or skip a step that other ranks take; call synchronize() after "
                    "backward(), and the scaler inside skip_synchronize()")
        return self.__dict__.get("_step_supports_amp_scaling",
                                 getattr(super(), "_step_supports_amp_scaling", False))

    @_step_supports_amp_scaling.setter
    def _step_supports_amp_scaling(self, supports: bool) -> None:
        self.__dict__["_step_supports_amp_scaling"] = supports

    def _hvd_plain_step(self, closure: _Closure | None, *args: Any, **kwargs: Any) -> Any:
        if closure is None:
            return super().step(*args, **kwargs)
        return super().step(closure, *args, **kwargs)

    def _hvd_step_as_reduced(self, closure: _Closure | None, *args: Any, **kwargs: Any) -> None:
        """Each bucket's parameters as soon as they are reduced, then those of which the reducer
        does not hear."""
        if closure is not None:
            _refuse("overlap_step updates parameters before all gradients have come, and a closure "
                    "asks for all of them; give one of the two")
        groups, stepped = self.param_groups, set[int]()

        def step_with(wanted: Callable[[torch.Tensor], bool]) -> None:
            parts = [{**group, "params": [each for each in group["params"] if wanted(each)]}
                     for group in groups]
            self.param_groups = [part for part in parts if part["params"]]
            try:
                if self.param_groups:
                    self._hvd_plain_step(None, *args, **kwargs)
            finally:
                self.param_groups = groups

        def on_reduced(numbers: list[int]) -> None:
            now = {id(self._hvd_reducer.gradients.entries[number].parameter) for number in numbers}
            stepped.update(now)
            step_with(lambda each: id(each) in now)

        self._hvd_reducer.synchronize(on_reduced)
        step_with(lambda each: id(each) not in stepped)
        self._hvd_reducer.begin_step()

    def _hvd_closure(self, closure: _Closure) -> Any:
        try:
            with torch.enable_grad():
                loss = closure()
        except Exception:
            with contextlib.suppress(Exception):  # what the closure raised says more
                self._hvd_reduce()
            raise
        self._hvd_reduce()
        op = self._hvd_options["op"]
        # It decides by the loss: equally on all ranks, except with Adasum, where each steps by itself.
        if isinstance(self, torch.optim.LBFGS) and op != Adasum:
            loss = allreduce(torch.as_tensor(loss).detach(), op=op,
                             name=f"{self._hvd_first_name}.loss",
                             process_set=self._hvd_options["process_set"])
        return loss

    def _hvd_reduce(self) -> None:
        self._hvd_reducer.synchronize()
        self._hvd_reducer.begin_step()

    @short_traceback
    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """The wrapped optimizer's; its parameters are reduced too. All ranks add the same."""
        known = {id(parameter) for group in self.param_groups for parameter in group["params"]}
        super().add_param_group(param_group)
        number = len(self.param_groups) - 1
        named = [(f"added.{self._hvd_first_name}.{number}.{place}", parameter)
                 for place, parameter in enumerate(self.param_groups[-1]["params"])
                 if id(parameter) not in known and memory.has_gradient(parameter)]
        self._parameter_names.update({parameter: name for name, parameter in named})
        add_parameters(self._hvd_reducer, named)


class _DistributedAdasum(_Distributed):
    """Steps on this rank's gradients, then combines what that changed over the ranks."""

    @short_traceback
    def step(self, closure: _Closure | None = None, *args: Any, **kwargs: Any) -> Any:
        """The wrapped optimizer's step on this rank; then parameters become what they were plus the
        Adasum of the ranks' changes."""
        self._hvd_reducer.agree_on_setup()
        parameters = [parameter for group in self.param_groups for parameter in group["params"]
                      if parameter.requires_grad]
        before = [parameter.detach().clone(memory_format=torch.contiguous_format)
                  for parameter in parameters]
        if closure is None:
            self._hvd_reduce()  # which averages and clips this rank's gradients
        result = self._hvd_plain_step(closure and functools.partial(self._hvd_closure, closure),
                                      *args, **kwargs)
        with torch.no_grad():
            compression = self._hvd_options["compression"]
            pairs = [compression.compress(parameter - start)
                     for parameter, start in zip(parameters, before)]
            changes = [memory.dense(change) for change, _ in pairs]
            _native.grouped_allreduce_([memory.target(change) for change in changes], Adasum,
                                       f"{self._hvd_reducer.name}.adasum",
                                       process_set=self._hvd_options["process_set"])
            for parameter, start, change, (_, context) in zip(parameters, before, changes, pairs):
                parameter.copy_(start.add_(compression.decompress(change, context)))
        return result

    step.hooked = True  # type: ignore[attr-defined]


@short_traceback
def DistributedOptimizer(optimizer: torch.optim.Optimizer,
                         named_parameters: _NamedParameters | None = None,
                         compression: Any = Compression.none, backward_passes_per_step: int = 1,
                         op: ReduceOp | str | None = Average,
                         gradient_predivide_factor: float = 1.0, num_groups: int = 0,
                         groups: _Groups | None = None, sparse_as_dense: bool = False,
                         process_set: ProcessSet = global_process_set, *,
                         gradient_as_bucket_view: bool = True,
                         average_aggregated_gradients: bool = False,
                         clip_grad_norm: float | None = None, clip_when: str = "after",
                         overlap_step: bool = False) -> Any:
    """Wrap an optimizer: gradients are reduced over all ranks before each update.

    When backward() has finished a parameter's gradient, its reduction starts while the rest of
    backward() still runs; step() waits for all of them and lets the wrapped optimizer update. Used
    by the thread that calls backward(). Parameters without a gradient count as zeros, so that every
    rank reduces the same names. What passes beyond ``backward_passes_per_step`` add is reduced by
    step(), on its own; ranks may make different numbers of them. If parameters differ between ranks
    at the first step, or after 1, 2, 4, 8... steps, the first rank warns and names them, unless
    HVD_CHECK_PARAMETERS is 0.

    ``copy.deepcopy((model, optimizer))``, pickle and ``torch.save`` take it along: the copy is wrapped
    alike and reduces the copied parameters, if all ranks copy or load alike, after init(). What
    "int8" and powersgd keep for the next gradient starts empty.

    Args:
        optimizer: any torch.optim.Optimizer, also of a class of your own.
        named_parameters: pairs (name, parameter) or a dict that name every parameter of the
            optimizer, such as ``model.named_parameters()``; None numbers them.
        compression: how gradients travel: a Compression, or its name, such as "fp16".
        backward_passes_per_step: gradients are summed over this many passes before reduction.
            A step() after fewer reduces what there is.
        op: (or its name, such as "sum") Average, Sum, Min, Max, Product; or Adasum, which combines what the optimizer changed.
        gradient_predivide_factor: with Average, gradients are divided by it before the sum and
            multiplied by it afterwards.
        num_groups: Horovod's older way to give a number for ``groups``.
        groups: gradients that are reduced together: a number of groups, or lists of parameters.
        sparse_as_dense: make sparse gradients dense before they are reduced, and sparse afterwards.
            Otherwise coordinates and values are gathered, neither compressed nor divided before.
        process_set: the ranks to reduce over; a rank outside trains on its own.
        gradient_as_bucket_view: from the second step on gradients lie in memory that the ranks of a
            host share, which changes no bit, or on a GPU in NCCL's, and are reduced where they are.
            Where there is none, and with ``compression``, they stay PyTorch's and travel packed.
        average_aggregated_gradients: divide the sum over passes by the number of passes it has.
        clip_grad_norm: largest joint L2 norm of the gradients; None: no clipping.
        clip_when: "after" the reduction, or "before" it (each rank's own gradients, which with Adasum
            it always is).
        overlap_step: step() updates each parameter as soon as its gradient is reduced, which changes
            no bit, for optimizers that update parameters one by one, as all of PyTorch's but LBFGS
            do. Not with clip_grad_norm, Adasum or a closure.

    Returns:
        An optimizer whose class derives from that of ``optimizer`` and shares its state with it.

    Raises:
        UnsupportedError: parameters lie on a GPU, and the job has no collectives of GPUs, or this
            rank's run on another one.
        TypeError: ``optimizer`` is not an Optimizer, or an option is of a wrong type.
        InvalidArgumentError: before init(), names repeat or miss a parameter, or options are out of
            range or exclude each other.
        MismatchError: by the first step(), on every rank: the ranks differ in parameters' names,
            in groups, in backward_passes_per_step or in another option.
    """
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"expected a torch.optim.Optimizer, got {type(optimizer).__name__}")
    if isinstance(optimizer, _Distributed):
        _refuse("the optimizer is wrapped already")
    if groups is not None and num_groups:
        _refuse("groups and num_groups exclude each other; groups takes a number too")
    if groups is None:
        groups = whole_number("num_groups", num_groups)
    return _wrapped(
        optimizer, parameters_of(optimizer, named_parameters),
        groups, {
            "compression": compressors.chosen(compression), "op": reduce_op(op),
            "backward_passes_per_step": backward_passes_per_step,
            "gradient_predivide_factor": gradient_predivide_factor,
            "sparse_as_dense": sparse_as_dense, "process_set": process_set,
            "gradient_as_bucket_view": gradient_as_bucket_view,
            "average_aggregated_gradients": average_aggregated_gradients,
            "clip_grad_norm": clip_grad_norm, "clip_when": clip_when,
            "overlap_step": overlap_step})


def _wrapped(optimizer: torch.optim.Optimizer, named: Sequence[tuple[str, torch.Tensor]],
             groups: _Groups, options: dict[str, Any]) -> Any:
    reducer = reducer_of(named, groups, options)
    by_changes = options["op"] == Adasum and named and not works_alone(options["process_set"])
    wrapped_class = type(optimizer)
    derived = type(wrapped_class.__name__,
                   (_DistributedAdasum if by_changes else _Distributed, wrapped_class),
                   {"_hvd_wrapped_class": wrapped_class})
    wrapped: Any = object.__new__(derived)
    wrapped.__dict__ = optimizer.__dict__  # groups and state too, for schedulers that have either
    if scheduled := wrapped.__dict__.get("step"):
        wrapped.step = _synchronizing(scheduled, wrapped)
    wrapped._hvd_options = options
    wrapped._hvd_groups = groups
    wrapped._hvd_first_name = named[0][0] if named else ""
    wrapped._hvd_reducer = reducer
    wrapped._parameter_names = {parameter: name for name, parameter in named}  # Horovod's
    reducer.gradients.optimizer = weakref.ref(wrapped)  # whose options the ranks compare
    return wrapped


def _synchronizing(scheduled: Callable[..., Any], wrapped: Any) -> Callable[..., Any]:
    """In the place of a scheduler's wrapper of the step that does not synchronize, with its mark:
    a scheduler warns of an optimizer without one, and of one that has not been stepped."""
    reference = weakref.ref(wrapped)

    @functools.wraps(scheduled)
    def step(*args: Any, **kwargs: Any) -> Any:
        optimizer = reference()
        if optimizer is None:
            return scheduled(*args, **kwargs)
        optimizer._step_count = getattr(optimizer, "_step_count", 0) + 1  # PyTorch 1 looks at it
        optimizer._opt_called = True  # PyTorch 2
        return type(optimizer).step(optimizer, *args, **kwargs)

    return step


# What wrapping adds to an optimizer, and what others hang into the wrapped one.
_OF_WRAPPED = ("_hvd_options", "_hvd_groups", "_hvd_first_name", "_hvd_reducer", "_hvd_skips",
               "_parameter_names", "step")


def wrapped_again(optimizer: torch.optim.Optimizer,
                  named_parameters: Sequence[tuple[str, torch.Tensor]], groups: _Groups,
                  options: dict[str, Any]) -> Any:
    """Of a copy or what a pickle has: the copied optimizer, wrapped as the original was."""
    if not _native.is_initialized():
        _refuse("it is loaded before init(), and belongs to a job: call init() first")
    return _wrapped(optimizer, named_parameters, groups, options)
