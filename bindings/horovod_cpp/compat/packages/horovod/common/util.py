"""horovod.common.util: what scripts use of it."""

import collections.abc
import contextlib
import functools
import importlib.util
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import horovod_cpp
from horovod_cpp.store_meeting import environment

_Item = TypeVar("_Item")

EXTENSIONS = ["torch"]  # the frameworks that compat serves


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether this framework, "torch", can be used here."""
    return ext_base_name in EXTENSIONS and importlib.util.find_spec(ext_base_name) is not None


@functools.cache
def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether the framework finds a GPU; asked in a process of its own, so that CUDA does not start
    in this one."""
    if not extension_available(ext_base_name):
        return False
    asked = subprocess.run([sys.executable, "-c", "import torch; print(torch.cuda.is_available())"],
                           text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return asked.stdout.strip() == "True"


def _asked_with_verbose(function: Callable[[], _Item]) -> Callable[..., _Item]:
    """``function`` with Horovod's argument, which changes nothing."""
    @functools.wraps(function)
    def asked(verbose: bool = False) -> _Item:
        return function()

    return asked


mpi_built = _asked_with_verbose(horovod_cpp.mpi_built)
gloo_built = _asked_with_verbose(horovod_cpp.gloo_built)
nccl_built = _asked_with_verbose(horovod_cpp.nccl_built)
ddl_built = _asked_with_verbose(horovod_cpp.ddl_built)
ccl_built = _asked_with_verbose(horovod_cpp.ccl_built)
cuda_built = _asked_with_verbose(horovod_cpp.cuda_built)
rocm_built = _asked_with_verbose(horovod_cpp.rocm_built)


def env(**variables: str | None) -> contextlib.AbstractContextManager[None]:
    """Context with these environment variables; those that are None stay as they are."""
    return environment({name: value for name, value in variables.items() if value is not None})


def get_average_backwards_compatibility_fun(reduce_ops: Any) -> Callable[[Any, Any], Any]:
    """A function (op, average) -> op for callers that take both, with Horovod's rules."""
    def chosen(op: Any, average: bool | None) -> Any:
        if average is None:
            return reduce_ops.Average if op is None else op
        if op is not None:
            raise ValueError("op and average exclude each other; average=True is op=Average, "
                             "average=False is op=Sum")
        warnings.warn("average is deprecated; use op", DeprecationWarning, stacklevel=2)
        return reduce_ops.Average if average else reduce_ops.Sum

    return chosen


def num_rank_is_power_2(num_rank: int) -> bool:
    """Whether it is 1, 2, 4, 8 and so on. Adasum needs no such number here."""
    return num_rank > 0 and num_rank.bit_count() == 1


def split_list(l: Sequence[_Item], n: int) -> list[Sequence[_Item]]:  # noqa: E741, Horovod's name
    """``n`` parts of ``l`` in order; the first of them are one longer if need be."""
    size, longer = divmod(len(l), n)
    ends = [size * part + min(part, longer) for part in range(n + 1)]
    return [l[first:end] for first, end in zip(ends, ends[1:])]


def is_iterable(x: object) -> bool:
    """Whether iter(x) works."""
    return isinstance(x, collections.abc.Iterable) or hasattr(type(x), "__getitem__")
