"""Switching the recording of operations off."""

import contextlib

from horovod_cpp import _native


class no_grad(contextlib.ContextDecorator):
    """While in force, operations of this thread are not recorded and leaves may be changed in place.

    A context manager, ``with hvd.no_grad():``, and a decorator, ``@hvd.no_grad()``.
    """

    def __init__(self):
        self._pauses = []

    def __enter__(self):
        self._pauses.append(_native._GradPause())
        return self

    def __exit__(self, *_):
        self._pauses.pop().end()
