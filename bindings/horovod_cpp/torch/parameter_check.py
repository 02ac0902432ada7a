"""Tells of ranks that begin to train different models."""

import warnings
from collections.abc import Sequence
from typing import Any

from horovod_cpp import _native, call_site
from horovod_cpp.torch import memory
from horovod_cpp.torch.agreement import NOTHING, Agreement, both_ways, digest

_SHOWN = 8  # ranks


class ParameterCheck:
    """Compares parameters over the ranks at the first step of an optimizer, when it is too late to
    broadcast them; one rank then warns.

    ``numbers()`` travel with the agreement that an optimizer makes anyway. Only if hashes differ are
    there two small allreduces more. A rank that is past its first step, or that wants no check, takes
    part with NOTHING: so ranks need not agree on that.
    """

    def __init__(self, entries: Sequence[Any], agreement: Agreement) -> None:
        self._entries = entries
        self._agreement = agreement
        self._hashes: list[int] | None = None  # of all parameters; None: they do not count here

    def begin(self, is_first_step: bool) -> None:
        """Before ``numbers()``."""
        self._hashes = [_hash_of(entry.parameter) for entry in self._entries] if (
            is_first_step and _is_wanted()) else None

    def numbers(self) -> list[int]:
        """For an allreduce of Max, whose results are those of ``end()``."""
        return both_ways([NOTHING if self._hashes is None else digest(self._hashes)])

    def end(self, most: int, least: int) -> None:
        """Collective if they differ, and then on all ranks."""
        if most == NOTHING or most == -least:
            return
        count = len(self._entries)
        extremes = self._agreement.greatest("parameters",
                                            both_ways(self._hashes or [NOTHING] * count))
        different = [place for place in range(count)
                     if extremes[place] != -extremes[count + place]]
        ranks = self._agreement.process_set.ranks
        own: list[int] = [NOTHING] * len(ranks)
        if self._hashes is not None:
            own[ranks.index(_native.rank())] = self._hashes[different[0]]
        by_rank = zip(ranks, self._agreement.greatest("parameters.ranks", own))
        self._warn(different, {rank: value for rank, value in by_rank if value != NOTHING})

    def _warn(self, different: list[int], by_rank: dict[int, int]) -> None:
        first, *_ = by_rank
        if _native.rank() != first:
            return
        others = [rank for rank, value in by_rank.items() if value != by_rank[first]]
        name, more = self._entries[different[0]].name, len(different) - 1
        names = f"'{name}'" + (f" and {more} more of {len(self._entries)}" if more else "")
        process_set = self._agreement.process_set
        within = "" if process_set is _native.global_process_set else ", process_set=process_set"
        warnings.warn(
            f"DistributedOptimizer: parameters differ between rank {first} and {_listed(others)} at "
            f"the first step: {names}. Each rank would train another model: call "
            f"hvd.broadcast_parameters(model.state_dict(), root_rank={first}{within}) before the "
            "first step. HVD_CHECK_PARAMETERS=0 turns this check off",
            stacklevel=call_site.user_level())


def _listed(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:_SHOWN]))
    more = f" and {len(ranks) - _SHOWN} more" if len(ranks) > _SHOWN else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}{more}"


def _hash_of(parameter: Any) -> int:
    """63 bits: a number whose negative there is."""
    return _native._content_hash(memory.source(parameter.detach().cpu())) >> 1


def _is_wanted() -> bool:
    return next(row["value"] for row in _native.config()
                if row["name"] == "HVD_CHECK_PARAMETERS") == "1"
