"""What ranks share before they train: parameters and the state of optimizers."""

import collections
import contextlib
import io
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import torch

from horovod_cpp import _native, pickling
from horovod_cpp._native import ProcessSet, global_process_set
from horovod_cpp.objects import allgather_made, broadcast_object, words
from horovod_cpp.short_traceback import short_traceback
from horovod_cpp.torch import gpu, memory

_Pairs: TypeAlias = Sequence[tuple[str, torch.Tensor]]


@short_traceback
def broadcast_parameters(params: Mapping[str, torch.Tensor] | Iterable[Any], root_rank: int = 0,
                         process_set: ProcessSet = global_process_set) -> None:
    """Overwrite every tensor with the values of rank ``root_rank``; collective.

    Args:
        params: ``model.state_dict()``, ``model.named_parameters()``, or a list of tensors, which
            are then known by position; the same names, shapes and dtypes on every rank. None
            among them is skipped.
        root_rank: a rank of the job, in ``process_set``.

    Raises:
        TypeError: ``params`` is a model, or something in it is no tensor or no pair.
        InvalidArgumentError: elements of a tensor share memory, or it is a parameter of a lazy
            module before its first forward; two have one name.
        UnsupportedError: a tensor lies on the meta device, or another one that is not served.
        Exception: whatever ``params`` raises itself. The other ranks get any of these as a
            MismatchError of the same words, before anything was sent.
        MismatchError: they are not the same; on every rank, naming the first difference, before
            anything was sent.
    """
    with _refused_everywhere(root_rank, process_set):
        pairs = _named(params)
    _broadcast(pairs, root_rank, process_set)


@contextlib.contextmanager
def _refused_everywhere(root_rank: int, process_set: ProcessSet) -> Iterator[None]:
    """What this rank does before _broadcast(). The other ranks, which wait there, hear of its
    error."""
    try:
        yield
    except Exception as error:  # whatever the program's own objects raise
        _native._refuse_parameters(words(error), root_rank, process_set)
        raise


def _named(params: Any) -> list[tuple[str, torch.Tensor]]:
    if not isinstance(params, collections.abc.Iterable) or (
            isinstance(params, torch.nn.Module) and not isinstance(params, torch.nn.ParameterList)):
        raise TypeError(f"broadcast_parameters: params is a {type(params).__name__}; pass "
                        "model.state_dict() or model.named_parameters()")
    pairs: dict[str, tuple[str, torch.Tensor]] = {}
    items = params.items() if isinstance(params, collections.abc.Mapping) else params
    for place, item in enumerate(items):
        pair = item if isinstance(item, tuple) else (f"parameter.{place}", item)
        if len(pair) != 2 or not isinstance(pair[0], str):
            kinds = ", ".join(type(each).__name__ for each in pair)
            raise TypeError(f"broadcast_parameters: entry {place} of params is a tuple ({kinds}); "
                            "expected a pair (name, tensor)")
        if pair[0] in pairs:
            raise _native.InvalidArgumentError(
                f"broadcast_parameters: params has the name '{pair[0]}' twice")
        if pair[1] is not None:
            pairs[pair[0]] = pair
    return list(pairs.values())


@torch.no_grad()  # type: ignore[untyped-decorator]
def _broadcast(pairs: _Pairs, root_rank: int, process_set: ProcessSet) -> None:
    with _refused_everywhere(root_rank, process_set):
        dense = [_dense(name, tensor) for name, tensor in pairs]
        native = [(name, memory.target(sent)) for (name, _), sent in zip(pairs, dense)]
    _native.broadcast_parameters(native, root_rank, process_set)
    for (_, tensor), sent in zip(pairs, dense):
        if sent.data_ptr() != tensor.data_ptr():  # another memory layout
            tensor.detach().copy_(sent)
        else:
            memory.written(tensor)


def _dense(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """What is broadcast in place of a tensor."""
    with memory.about(f"'{name}'"):
        memory.check_output(tensor)
        return memory.dense(tensor.detach())


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _groups(optimizer: torch.optim.Optimizer) -> Any:
    """What has to be alike on all ranks."""
    for number, group in enumerate(optimizer.param_groups):
        for place, parameter in enumerate(group["params"]):
            with memory.about(f"parameter {place} of group {number}"):
                memory.check_values(parameter)
    return [[(list(parameter.shape), f"{parameter.dtype} on {parameter.device.type}")
             for parameter in group["params"]] for group in optimizer.param_groups]


def _difference(groups: Any, root: Any) -> str:
    if len(groups) != len(root):
        return f"{len(groups)} groups and {len(root)}"
    for number, (group, other) in enumerate(zip(groups, root)):
        if len(group) != len(other):
            return f"group {number} has {len(group)} parameters and {len(other)}"
        for place, (one, two) in enumerate(zip(group, other)):
            if one != two:
                return f"parameter {place} of group {number} has {one[0]} {one[1]} and " \
                       f"{two[0]} {two[1]}"
    return ""


def _travels(value: torch.Tensor) -> bool:
    """Whether it travels as it lies: of a parameter its data does, to which pickle comes next, so that
    it stays one. On the CPU what is sparse or has no memory of its own is pickled."""
    if isinstance(value, torch.nn.Parameter):
        return False
    try:
        memory.check_output(value)
    except (TypeError, _native.Error):
        return gpu.is_gpus(value)
    return True


def _pack_state(optimizer: torch.optim.Optimizer) -> tuple[bytes, list[torch.Tensor]]:
    """Pickled without the tensors, wherever they are in it, and these: they travel as they lie."""
    tensors: list[torch.Tensor] = []
    taken: dict[int, int] = {}  # some are there several times

    def take(value: object) -> int | None:
        if not isinstance(value, torch.Tensor) or not _travels(value):
            return None
        if id(value) not in taken:
            taken[id(value)] = len(tensors)
            tensors.append(value)
        return taken[id(value)]

    places = {id(parameter): place for place, parameter in enumerate(_parameters(optimizer))}
    options = [{name: value for name, value in group.items() if name != "params"}
               for group in optimizer.param_groups]
    state = [(places.get(id(key)), None if id(key) in places else key, value)
             for key, value in optimizer.state.items()]
    packed = pickling.dumps((options, state), take)
    return packed, [tensor.detach() for tensor in tensors]


def _like(tensor: tuple[Any, torch.dtype, bool],
          optimizer: torch.optim.Optimizer) -> torch.Tensor:
    """For a tensor of the root's: (shape, dtype, whether it lies on a GPU); there on this rank's."""
    shape, dtype, on_gpu = tensor
    if not on_gpu:
        return torch.empty(shape, dtype=dtype)
    mine = next(filter(gpu.is_gpus, _parameters(optimizer)), None)
    if mine is None:
        return torch.empty(shape, dtype=dtype, device=gpu.own_devices()[0])
    return mine.detach().new_empty(shape, dtype=dtype)


def _take_state(optimizer: torch.optim.Optimizer, packed: bytes,
                tensors: Sequence[torch.Tensor]) -> None:
    unpickler: Any = pickle.Unpickler(io.BytesIO(packed))
    unpickler.persistent_load = tensors.__getitem__
    options, state = unpickler.load()
    for group, values in zip(optimizer.param_groups, options):
        for name in [name for name in group if name != "params" and name not in values]:
            del group[name]
        group.update(values)
    parameters = _parameters(optimizer)
    optimizer.state.clear()
    for place, key, value in state:
        optimizer.state[key if place is None else parameters[place]] = value


@short_traceback
def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int = 0,
                              model: torch.nn.Module | None = None,
                              process_set: ProcessSet = global_process_set) -> None:
    """Make options (learning rates and so on) and state those of rank ``root_rank``; collective.

    Takes no step and makes no gradients. The state of the other ranks is replaced by the root's,
    whatever it holds; the root's stays as it is. Every optimizer of PyTorch works, and others
    that keep their whole state in ``param_groups`` and ``state``.

    Args:
        optimizer: wrapped or not, with parameters of the same shapes and dtypes on every rank.
        root_rank: a rank of the job, in ``process_set``.
        model: Horovod's; ignored.

    Raises:
        TypeError: ``optimizer`` is not an optimizer.
        InvalidArgumentError: ``root_rank`` is not in the set, a parameter is that of a lazy module
            before its first forward, or another rank failed; before anything was sent.
        MismatchError: the parameter groups differ from the root's; on every rank.
    """
    what, is_root = "broadcast_optimizer_state", _native.rank() == root_rank
    packed = b""
    tensors: list[torch.Tensor] = []

    def prepare() -> Any:
        nonlocal packed, tensors
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f"expected a torch.optim.Optimizer, got {type(optimizer).__name__}")
        if root_rank not in process_set.ranks:
            raise _native.InvalidArgumentError(f"{what}: root rank {root_rank} is not among "
                                               f"the ranks {process_set.ranks}")
        if is_root:
            packed, tensors = _pack_state(optimizer)
        return _groups(optimizer)

    every = allgather_made(prepare, what, None, process_set)
    for rank, groups in every.items():
        root = every.get(root_rank, groups)  # the broadcast refuses a root that joined
        if groups != root:
            raise _native.MismatchError(f"{what}: the parameter groups of rank {rank} are not "
                                        f"those of rank {root_rank}: {_difference(groups, root)}")
    shapes = [(tensor.shape, tensor.dtype, gpu.is_gpus(tensor)) for tensor in tensors]
    packed, shapes = broadcast_object((packed, shapes), root_rank, process_set=process_set)
    with _refused_everywhere(root_rank, process_set):
        if not is_root:
            tensors = [_like(shape, optimizer) for shape in shapes]
    _broadcast([(f"optimizer.{number}", tensor) for number, tensor in enumerate(tensors)],
               root_rank, process_set)
    if not is_root:
        _take_state(optimizer, packed, tensors)
