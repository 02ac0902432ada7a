"""What the ranks of an optimizer agree on before they reduce."""

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from horovod_cpp import _native
from horovod_cpp._native import ProcessSet
from horovod_cpp.torch import memory
from horovod_cpp.torch.in_flight import Attempts

#: The least int64: what a maximum takes for no number, also from a rank that has joined.
NOTHING = -(1 << 63)


def digest(texts: Iterable[object]) -> int:
    """A number of 63 bits, so that its negative is one of 64."""
    joined = "\n".join(map(str, texts)).encode()
    return int.from_bytes(hashlib.blake2b(joined, digest_size=8).digest(), "big") >> 1


def both_ways(numbers: Sequence[int]) -> list[int]:
    """What to ask Agreement.greatest() for, so that it tells the least of each number too."""
    return [*numbers, *(number if number == NOTHING else -number for number in numbers)]


class Agreement:
    """Of one optimizer, ``name``. All ranks of the set ask the same in the same order."""

    def __init__(self, name: str, process_set: ProcessSet) -> None:
        self.process_set = process_set
        self._name = name
        self._asked: dict[str, Any] = {}  # what is just being asked: (numbers, call)
        self._answers: dict[str, list[int]] = {}  # of this round

    @contextlib.contextmanager
    def round(self) -> Iterator[None]:
        """Questions that belong together. After Ctrl-C the next round goes on with the question that
        was interrupted: those before it get the answers that they had."""
        try:
            yield
        except Exception:
            self._answers.clear()
            raise
        self._answers.clear()

    def greatest(self, what: str, numbers: Sequence[int]) -> list[int]:
        """Of all ranks' numbers of 64 bits; inside of a round."""
        if what in self._answers:
            return self._answers[what]
        if what not in self._asked:
            values = torch.tensor(numbers)
            self._asked[what] = values, _native.allreduce_async_(
                memory.target(values), _native.ReduceOp.Max, f"{self._name}.{what}", 1.0, 1.0,
                None, self.process_set)
        values, call = self._asked[what]
        attempts = Attempts()
        attempts.run(call.synchronize)
        del self._asked[what]
        attempts.raise_first()
        self._answers[what] = values.tolist()
        return self._answers[what]
