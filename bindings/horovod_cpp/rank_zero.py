"""Work that one rank does alone."""

import contextlib
from collections.abc import Iterator

from horovod_cpp import _native
from horovod_cpp._native import ProcessSet


@contextlib.contextmanager
def rank_zero_section(timeout: float = 600.0,
                      process_set: ProcessSet = _native.global_process_set) -> Iterator[bool]:
    """A part of the program that rank 0 (of a set: its first rank) runs alone.

        with hvd.rank_zero_section() as mine:
            if mine:
                hvd.save("checkpoint.safetensors", model.state_dict())

    The others wait at its end, and are not reported as stalled meanwhile. All ranks of the set enter
    it; no collective over the set may run inside.

    Args:
        timeout: seconds that the others wait.
        process_set: the ranks that take part.

    Raises:
        InvalidArgumentError: ``timeout`` is not above 0.
        AbortedError: on the others, when an exception left the block on rank 0; with its text.
        StalledError: on the others, when rank 0 took longer than ``timeout``.
    """
    section = _native._RankZeroSection(float(timeout), process_set)
    try:
        yield section.mine
    except BaseException as error:
        if section.mine:
            section.fail(f"{type(error).__name__}: {error}")
        else:
            section.abandon()
        raise
    section.finish()
