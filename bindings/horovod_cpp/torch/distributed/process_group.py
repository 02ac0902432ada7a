"""The collectives of torch.distributed, by the engine's.

Tensors are dense, on the CPU or the rank's GPU, and of any dtype that the engine has; those that
are written need not be contiguous. Roots, sources and destinations are places in the group, as
PyTorch hands them over. Each method submits and returns a Work; the ranks of a group make their
calls in one order.

Raises (all of them):
    TypeError: something is no dense tensor, or of a dtype that cannot be communicated.
    InvalidArgumentError: a mistake on this rank.
    UnsupportedError: the engine has no such reduction or call, or does not serve a tensor's device.
    MismatchError: from the Work's wait(): ranks disagree; on every rank.
"""

import collections
import datetime
import functools
import operator
import sys
import threading
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, TypeAlias, TypeVar

import torch
from torch._C import _distributed_c10d as c10d
from torch.distributed import distributed_c10d as c10d_functions

from horovod_cpp import _native
from horovod_cpp.torch import gpu, memory
from horovod_cpp.torch.distributed.groups import Group
from horovod_cpp.torch.distributed.work import Work, for_native_code, seconds_of
from horovod_cpp.torch.sparse import sparse_allreduce_async

_Anything = TypeVar("_Anything")
_Output: TypeAlias = torch.Tensor | Sequence[torch.Tensor]
_Finish: TypeAlias = Callable[[Any], list[torch.Tensor]]  # what a Work makes of the engine's result

_OPS = [(c10d.ReduceOp.SUM, _native.Sum), (c10d.ReduceOp.AVG, _native.Average),
        (c10d.ReduceOp.PRODUCT, _native.Product), (c10d.ReduceOp.MIN, _native.Min),
        (c10d.ReduceOp.MAX, _native.Max), (c10d.ReduceOp.BAND, _native.BitAnd),
        (c10d.ReduceOp.BOR, _native.BitOr)]

# Names are used again, so that the engine knows a loop's calls by short numbers after its first
# rounds. Many numbers of calls per round divide this. They are the same for calls of all kinds (/).
_NAMES = 240
_MOST_TAGS = 1 << 16  # of one group; above them in the engine's tag is the number of the group


def _reduce_op(options: Any, call: str) -> _native.ReduceOp:
    for theirs, ours in _OPS:
        if options.reduceOp == theirs:
            return ours
    raise _native.UnsupportedError(
        f"{call}: the engine has no reduction {options.reduceOp}; it has SUM, AVG, PRODUCT, MIN, "
        "MAX, BAND and BOR, and all_reduce has BXOR")


def _is_called_by_pytorchs_python() -> bool:
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals is globals():
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") == c10d_functions.__name__


def _as_row(tensor: torch.Tensor) -> _native.Tensor:
    """As one row, so that ranks that disagree on the number of elements get a MismatchError."""
    memory.check(tensor)
    return memory.source(tensor.detach().reshape(1, -1))


def _as_rows(tensors: Sequence[torch.Tensor], what: str) -> _native.Tensor:
    """One row each; they must be of one size."""
    sizes = {tensor.numel() for tensor in tensors}
    if len(sizes) != 1:
        raise _native.InvalidArgumentError(f"{what} of different sizes: "
                                           f"{[list(tensor.shape) for tensor in tensors]}")
    return memory.source(torch.stack([tensor.detach().reshape(-1) for tensor in tensors]))


def _check_count(tensors: Sequence[torch.Tensor], count: int, what: str) -> None:
    if len(tensors) != count:
        raise _native.InvalidArgumentError(f"{what}: {len(tensors)} tensors for {count} ranks")


def _only(tensors: Sequence[_Anything], call: str) -> _Anything:
    if len(tensors) != 1:
        raise _native.UnsupportedError(f"{call}: {len(tensors)} tensors; this backend takes one")
    return tensors[0]


def _copy_to(output: _Output, rows: Any) -> list[torch.Tensor]:
    """A result to one tensor, or its rows to several, which it returns."""
    if isinstance(output, torch.Tensor):
        output.detach().copy_(rows.view(output.shape))
        return [output]
    for each, row in zip(output, rows):
        each.detach().copy_(row.view(each.shape))
    return list(output)


def _check_numel(tensor: torch.Tensor, numel: int, what: str) -> None:
    if tensor.numel() != numel:
        raise _native.InvalidArgumentError(
            f"{what}: the output of shape {list(tensor.shape)} has {tensor.numel()} elements; "
            f"expected {numel}")


def _check_output(output: torch.Tensor, numel: int, dtype: torch.dtype, what: str) -> None:
    """A tensor of this many elements of this dtype that can be overwritten."""
    memory.check_output(output)
    _check_numel(output, numel, what)
    if output.dtype != dtype:
        raise _native.InvalidArgumentError(
            f"{what}: the output is of {output.dtype} and the input of {dtype}; give both one dtype")


def _check_outputs(outputs: Sequence[torch.Tensor], count: int, tensor: torch.Tensor,
                   what: str) -> None:
    """As many as this, each for a tensor like this one."""
    _check_count(outputs, count, what)
    for output in outputs:
        _check_output(output, tensor.numel(), tensor.dtype, what.partition(":")[0])


class _InPlace:
    """Tensors that a call overwrites, by way of dense copies where they are not contiguous."""

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        self._tensors = list(tensors)
        for tensor in self._tensors:
            memory.check_output(tensor)
        self._dense = [memory.dense(tensor.detach()) for tensor in self._tensors]
        self.native = [memory.target(tensor) for tensor in self._dense]

    def finish(self, _: object) -> list[torch.Tensor]:
        for tensor, dense in zip(self._tensors, self._dense):
            if dense.data_ptr() != tensor.data_ptr():
                gpu.handed_over(dense)
                tensor.detach().copy_(dense)
        return self._tensors


def _tag(group: Group, tag: int) -> int:
    """The engine's: its tags are those of all groups."""
    if not 0 <= tag < _MOST_TAGS:
        raise _native.InvalidArgumentError(f"tag {tag}: expected 0 to {_MOST_TAGS - 1}")
    return group.number * _MOST_TAGS + tag


class ProcessGroup(c10d.ProcessGroup):  # type: ignore[misc]  # torch may be missing
    """Some ranks of the job, as torch.distributed's functions use them."""

    def __init__(self, session: Any, group: Group, name: str, rank: int,
                 timeout: datetime.timedelta) -> None:
        """``group``: a groups.Group; ``name``: PyTorch's; ``rank``: this process's place in it."""
        super().__init__(rank, len(group.ranks))
        self._session = session
        self._group = group
        self._name = name
        self._timeout = seconds_of(timeout)
        self._lock = threading.Lock()
        self._count = 0  # of calls, without transfers
        self._flying: collections.deque[Work] = collections.deque()  # the older ones end before

    # -- what PyTorch asks for

    def getBackendName(self) -> str:
        """The name that init_process_group() knows."""
        return "horovod_cpp"

    _get_backend_name = getBackendName

    @property
    def group_name(self) -> str:
        """What PyTorch calls the group."""
        return self._name

    def _get_backend(self, _device: object) -> "ProcessGroup":
        return self

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """Of calls from now on."""
        self._timeout = seconds_of(timeout)

    def shutdown(self) -> None:
        """Ends the session with its default group. Called by destroy_process_group()."""
        if self._group.number == 0:
            self._session.close()

    # -- reductions

    def allreduce(self, tensors: Sequence[torch.Tensor], options: Any = None) -> Any:
        """Every tensor becomes the ranks' reduction."""
        options = options or c10d.AllreduceOptions()
        if len(tensors) == 1 and tensors[0].is_sparse:
            return self._allreduce_sparse(tensors, _reduce_op(options, "all_reduce"))
        if options.reduceOp == c10d.ReduceOp.BXOR:
            return self._allreduce_xor(_only(tensors, "all_reduce"))
        op = _reduce_op(options, "all_reduce")
        targets = _InPlace(tensors)
        if len(tensors) == 1:
            return self._submit("all_reduce", targets.finish, _native.allreduce_async_,
                                targets.native[0], op)
        return self._submit("all_reduce", targets.finish, _native.grouped_allreduce_async_,
                            targets.native, op)

    allreduce_coalesced = allreduce

    def _allreduce_sparse(self, tensors: Sequence[torch.Tensor], op: _native.ReduceOp) -> Any:
        def finish(result: Any) -> list[torch.Tensor]:
            with torch.no_grad():  # what detach() gives has indices of its own
                return [tensors[0].copy_(result)]

        return self._submit("all_reduce", finish, functools.partial(
            sparse_allreduce_async, tensors[0], op=op))

    def _allreduce_xor(self, tensor: torch.Tensor) -> Any:
        def finish(gathered: Any) -> list[torch.Tensor]:
            combined = functools.reduce(operator.xor, memory.result(gathered))
            return [tensor.detach().copy_(combined.view(tensor.shape))]

        memory.check_output(tensor)
        return self._submit("all_reduce", finish, _native.allgather_async, _as_row(tensor))

    def reduce(self, tensors: Sequence[torch.Tensor], options: Any) -> Any:
        """The root's tensor becomes the ranks' reduction; the others stay as they are."""
        tensor, op = _only(tensors, "reduce"), _reduce_op(options, "reduce")
        source, root = memory.source(tensor), self._rank_at(options.rootRank)
        if options.rootRank == self.rank():
            memory.check_output(tensor)
        return self._submit(
            "reduce", lambda result: [tensor] if result is None else _copy_to(
                tensor, memory.result(result)), _native.reduce_async, source, root, op)

    def reduce_scatter(self, outputs: Sequence[torch.Tensor],
                       input_lists: Sequence[Sequence[torch.Tensor]], options: Any = None) -> Any:
        """The output becomes the reduction of this place's tensor in the ranks' lists."""
        inputs = _only(input_lists, "reduce_scatter")
        _check_count(inputs, self.size(), "reduce_scatter: input_list")
        return self._reduce_scatter([_only(outputs, "reduce_scatter")],
                                    [_as_rows(inputs, "reduce_scatter: inputs")], options)

    def _reduce_scatter_base(self, output: torch.Tensor, tensor: torch.Tensor,
                             options: Any = None) -> Any:
        return self.reduce_scatter_tensor_coalesced([output], [tensor], options)

    reduce_scatter_single = _reduce_scatter_base

    def reduce_scatter_tensor_coalesced(self, outputs: Sequence[torch.Tensor],
                                        inputs: Sequence[torch.Tensor], options: Any = None) -> Any:
        """Every output becomes this place's part of the reduction of the ranks' tensors."""
        for output, tensor in zip(outputs, inputs):
            _check_output(output, tensor.numel() // self.size(), tensor.dtype,
                          "reduce_scatter_tensor")
            _check_numel(tensor, output.numel() * self.size(), "reduce_scatter_tensor (its input)")
        return self._reduce_scatter(outputs, [
            memory.source(tensor.detach().reshape(self.size(), output.numel()))
            for output, tensor in zip(outputs, inputs)], options)

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    def _reduce_scatter(self, outputs: Sequence[torch.Tensor], sources: Sequence[_native.Tensor],
                        options: Any) -> Any:
        for output in outputs:
            memory.check_output(output)
        op = _reduce_op(options or c10d.ReduceScatterOptions(), "reduce_scatter")

        def finish(results: Any) -> list[torch.Tensor]:
            for output, result in zip(outputs, results):
                _check_numel(output, result.numel(), "reduce_scatter")
                _copy_to(output, memory.result(result))
            return list(outputs)

        return self._submit("reduce_scatter", finish, _native.grouped_reducescatter_async, sources,
                            op)

    # -- movement

    def broadcast(self, tensors: Sequence[torch.Tensor], options: Any) -> Any:
        """Every rank's tensor becomes the root's."""
        targets = _InPlace([_only(tensors, "broadcast")])
        root = self._rank_at(options.rootRank)
        return self._submit("broadcast", targets.finish, _native.broadcast_async_,
                            targets.native[0], root)

    def allgather(self, output_lists: Sequence[Sequence[torch.Tensor]],
                  inputs: Sequence[torch.Tensor], options: Any = None) -> Any:
        """The list becomes the ranks' tensors, which are of one size."""
        outputs, tensor = _only(output_lists, "all_gather"), _only(inputs, "all_gather")
        _check_outputs(outputs, self.size(), tensor, "all_gather: tensor_list")
        return self._allgather([outputs], [tensor], "all_gather")

    def _allgather_base(self, output: torch.Tensor, tensor: torch.Tensor,
                        options: Any = None) -> Any:
        return self.allgather_into_tensor_coalesced([output], [tensor], options)

    all_gather_single = _allgather_base

    def allgather_into_tensor_coalesced(self, outputs: Sequence[torch.Tensor],
                                        inputs: Sequence[torch.Tensor], options: Any = None) -> Any:
        """Every output becomes the ranks' tensors one after the other."""
        for output, tensor in zip(outputs, inputs):
            _check_output(output, tensor.numel() * self.size(), tensor.dtype,
                          "all_gather_into_tensor")
        return self._allgather(outputs, inputs, "all_gather_into_tensor")

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def allgather_coalesced(self, output_lists: Sequence[Sequence[torch.Tensor]],
                            inputs: Sequence[torch.Tensor], options: Any = None) -> Any:
        """List r becomes the tensors of rank r."""
        _check_count(output_lists, self.size(), "all_gather_coalesced: output_tensor_lists")
        by_input = [[outputs[place] for outputs in output_lists] for place in range(len(inputs))]
        return self._allgather(by_input, inputs, "all_gather_coalesced")

    def _allgather(self, outputs: Sequence[_Output], inputs: Sequence[torch.Tensor],
                   what: str) -> Any:
        """Each of ``outputs``: a list of tensors, or one tensor for all ranks'."""
        def finish(gathered: Any) -> Any:
            for output, result in zip(outputs, gathered):
                _copy_to(output, memory.result(result))
            return list(outputs[0]) if len(outputs) == 1 and isinstance(outputs[0], list) else (
                list(outputs))

        return self._submit(what, finish, _native.grouped_allgather_async,
                            [_as_row(tensor) for tensor in inputs])

    def gather(self, output_lists: Sequence[Sequence[torch.Tensor]], inputs: Sequence[torch.Tensor],
               options: Any) -> Any:
        """The root's list becomes the ranks' tensors, which are of one size."""
        tensor, root = _only(inputs, "gather"), self._rank_at(options.rootRank)
        outputs = list(_only(output_lists, "gather")) if options.rootRank == self.rank() else []
        if outputs:
            _check_outputs(outputs, self.size(), tensor, "gather: gather_list")

        def finish(result: Any) -> list[torch.Tensor]:
            return [] if result is None else _copy_to(outputs, memory.result(result))

        return self._submit("gather", finish, _native.gather_async, _as_row(tensor), root)

    def scatter(self, outputs: Sequence[torch.Tensor],
                input_lists: Sequence[Sequence[torch.Tensor]], options: Any) -> Any:
        """The output becomes this place's tensor in the root's list."""
        output, root = _only(outputs, "scatter"), self._rank_at(options.rootRank)
        memory.check_output(output)
        source = _as_row(output)
        if options.rootRank == self.rank():
            inputs = _only(input_lists, "scatter")
            _check_count(inputs, self.size(), "scatter: scatter_list")
            _check_output(output, inputs[0].numel(), inputs[0].dtype, "scatter")
            source = _as_rows(inputs, "scatter: inputs")
        return self._submit("scatter", lambda result: _copy_to(output, memory.result(result)),
                            _native.scatter_async, source, root, None)

    def alltoall_base(self, output: torch.Tensor, tensor: torch.Tensor,
                      output_splits: Sequence[int], input_splits: Sequence[int],
                      options: Any = None) -> Any:
        """The output becomes the rows that the ranks sent here; no splits: equal parts."""
        memory.check_output(output)
        even = [len(output) // self.size()] * self.size()
        expected = list(output_splits) or even
        if sum(expected) != len(output) or len(expected) != self.size():
            raise _native.InvalidArgumentError(f"all_to_all_single: {len(output)} rows of output "
                                               f"for output_split_sizes {expected}")

        def finish(result: Any) -> list[torch.Tensor]:
            rows, received = result
            if list(received) != expected:
                raise _native.InvalidArgumentError(
                    f"all_to_all_single: the ranks {self._group.ranks} sent {list(received)} rows here, "
                    f"but output_split_sizes is {expected}")
            return _copy_to(output, memory.result(rows))

        return self._submit("all_to_all_single", finish, _native.alltoall_async,
                            memory.source(tensor.detach()), list(input_splits) or None)

    all_to_all_single = alltoall_base

    def alltoall(self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor],
                 options: Any = None) -> Any:
        """Output r becomes rank r's input for this rank; sizes may differ."""
        _check_count(outputs, self.size(), "all_to_all: output_tensor_list")
        _check_count(inputs, self.size(), "all_to_all: input_tensor_list")
        for output in outputs:
            memory.check_output(output)
        source = memory.source(torch.cat([tensor.detach().reshape(-1) for tensor in inputs]))
        expected = [output.numel() for output in outputs]

        def finish(result: Any) -> list[torch.Tensor]:
            elements, received = memory.result(result[0]), list(result[1])
            if received != expected:
                raise _native.InvalidArgumentError(
                    f"all_to_all: the ranks {self._group.ranks} sent {received} elements here, but "
                    f"the outputs have {expected}")
            return _copy_to(outputs, elements.split(received))

        return self._submit("all_to_all", finish, _native.alltoall_async, source,
                            [tensor.numel() for tensor in inputs])

    def barrier(self, options: Any = None, opts: Any = None) -> Any:
        """Ends when all ranks of the group have called it."""
        return self._submit("barrier", lambda _: [], _native.barrier_async)

    # -- transfers

    def send(self, tensors: Sequence[torch.Tensor], destination: int, tag: int) -> Work:
        """To one rank, whose recv() has the same tag; independent of everything else."""
        call = _native.isend(memory.source(_only(tensors, "send")), self._rank_at(destination),
                             _tag(self._group, tag))
        return Work(call, lambda _: list(tensors), self._describe(f"send to rank {destination}"),
                    self._timeout)

    def recv(self, tensors: Sequence[torch.Tensor], source: int, tag: int) -> Work:
        """From one rank, whose send() has the same tag."""
        targets = _InPlace([_only(tensors, "recv")])
        call = _native.irecv(targets.native[0], self._rank_at(source), _tag(self._group, tag))
        return Work(call, targets.finish, self._describe(f"recv from rank {source}"), self._timeout)

    def recv_anysource(self, tensors: Sequence[torch.Tensor], tag: int) -> NoReturn:
        """Not supported: raises UnsupportedError."""
        raise _native.UnsupportedError("recv from any rank is not supported by backend "
                                       "horovod_cpp; give src=")

    # -- submission

    def _rank_at(self, place: int) -> int:
        """Of the job."""
        if not 0 <= place < self.size():
            raise _native.InvalidArgumentError(
                f"rank {place} is not in the process group of ranks {self._group.ranks}")
        return self._group.ranks[place]

    def _describe(self, what: str) -> Callable[[], str]:
        """Of a call, which is rarely asked for; without the group, so that no Work keeps it."""
        rank, ranks = self.rank(), self._group.ranks
        return lambda: f"{what} by rank {rank} of the process group of ranks {ranks}"

    def _submit(self, kind: str, finish: _Finish, start: Callable[..., Any],
                *arguments: Any) -> Any:
        """``start``: the engine's function, which takes the call's name and the set too."""
        with self._lock:
            while self._flying and self._flying[0].ends_within(0):
                self._flying.popleft()
            # Until the next name is not in flight any more.
            if len(self._flying) == _NAMES and not self._flying[0].ends_within(self._timeout):
                raise self._flying[0].late()
            name = f"/torch.{self._group.number}.{self._count % _NAMES}"
            call = start(*arguments, name=name, process_set=self._group.process_set)
            self._count += 1
            work = Work(call, finish, self._describe(kind), self._timeout, self._session.finisher)
            self._flying.append(work)
        if _is_called_by_pytorchs_python():
            return work
        if kind != "all_reduce":  # for DDP this has to overlap; its futures are asked for errors
            work.wait()
        return for_native_code(work)
