"""N hosts on this machine: what hosts.sh does, with hosts that are removed at the end of a `with`."""

import itertools
import os
import pathlib
import subprocess

import pytest

_made = itertools.count()
_SCRIPT = pathlib.Path(__file__).with_suffix(".sh")


class Hosts:
    """hosts.sh says what its verbs do; `hosts("cut", "a", "b")` calls one and returns its output."""

    def __init__(self, count):
        self._count = count
        self.name = f"hvd{os.getpid():x}x{next(_made)}"
        self.letters = "abcdefghijklmnopqrstuvwxyz"[:count]

    def command(self, verb, *words):
        """The words to be started."""
        return ["bash", str(_SCRIPT), verb, self.name, *map(str, words)]

    def __call__(self, verb, *words):
        done = subprocess.run(self.command(verb, *words), text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60, check=False)
        if done.returncode == 77:
            pytest.skip(done.stdout.strip())
        assert done.returncode == 0, done.stdout
        return done.stdout

    def __enter__(self):
        self("make", self._count)
        return self

    def __exit__(self, *_):
        self("remove")
