"""Runs Python programs on several ranks, for the tests of test/bindings, test/mpi and test/torch."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile

import pytest
from rank_pool import run_in_pool


def hvdrun():
    """The command of the installed package."""
    found = shutil.which("hvdrun", path=sysconfig.get_path("scripts"))
    assert found, "hvdrun was not installed together with the package"
    return found


MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe"]


# Most programs do the same on any number of ranks, and twice as long on four.
SIZES = pytest.mark.parametrize("np", [2, pytest.param(4, marks=pytest.mark.full)])


class OwnOutputs:
    """mpirun passes on what ranks write piece by piece, so that a line of one may end up in the
    middle of another's. With these flags it writes a file for each rank instead."""

    def __init__(self, folder):
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="outputs", dir=folder))
        self.flags = ["--output-filename", f"{self._folder}:nocopy"]

    def after(self, own_words):
        """What mpirun itself said, then each rank's standard error and output, in rank order."""
        files = sorted(self._folder.glob("*/rank.*/std*"))
        return "\n".join([own_words, *(path.read_text(errors="replace") for path in files)])


def run_mpirun(arguments, folder):
    """Runs mpirun in `folder`. The lines of the output are whole."""
    outputs = OwnOutputs(folder)
    done = subprocess.run([*MPIRUN, *outputs.flags, *map(str, arguments)], cwd=folder, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
                          check=False)
    done.stdout = outputs.after(done.stdout)
    return done


class Ranks:
    """Runs Python programs on several ranks, in a folder of their own."""

    def __init__(self, folder, prologue=None):
        self.folder = folder
        self.prologue = PROLOGUE if prologue is None else prologue

    def launch(self, command, np, launcher="hvdrun", timeout=120, environment=None, flags=()):
        """Runs `command` (words after the interpreter) and returns the finished process. The lines
        of its output are whole; hvdrun sees to that by itself."""
        outputs = OwnOutputs(self.folder) if launcher == "mpirun" else None
        if outputs:
            flags = [*flags, *outputs.flags]
        done = self.start(command, np, launcher, environment, flags)
        try:
            text, _ = done.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(done.pid, signal.SIGKILL)
            print(done.communicate()[0])  # the ranks' reports of what they wait for
            raise
        if outputs:
            text = outputs.after(text)
        return subprocess.CompletedProcess(done.args, done.returncode, text)

    def start(self, command, np, launcher="hvdrun", environment=None, flags=()):
        """The same, not waited for; a process group of its own. `flags`: of the launcher."""
        start = {
            "hvdrun": [hvdrun(), "-np", str(np)],
            "mpirun": [*MPIRUN, "-np", str(np)],
        }[launcher]
        return subprocess.Popen(
            [*start, *map(str, flags), sys.executable, *map(str, command)], cwd=self.folder,
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, **(environment or {})})

    def check(self, source, np=2, timeout=120, own_processes=False, **options):
        """Runs a program text on every rank; all must succeed. Returns the output. With other
        `options` (of launch()) or where a program needs `own_processes`, it is started for them."""
        program = self.folder / "program.py"
        program.write_text(self.prologue + source)
        if not options and not own_processes:
            code, output = run_in_pool([hvdrun(), "-np", str(np)], np, program, timeout)
            assert code == 0, output
            return output
        done = self.launch([program], np, timeout=timeout, **options)
        assert done.returncode == 0, done.stdout
        return done.stdout


class ByHand:
    """Starts ranks with the variables that torchrun sets, or some of them."""

    def __init__(self, folder, port):
        self.folder = folder
        self._port = port
        self._ranks = []

    def start(self, source, rank, size, environment=None, clear=()):
        program = self.folder / f"program{rank}.py"  # another rank may be reading its own just now
        program.write_text(source)
        variables = {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank),
                     "LOCAL_WORLD_SIZE": str(size), "MASTER_ADDR": "localhost",
                     "MASTER_PORT": self._port, **os.environ, **(environment or {})}
        for name in clear:
            del variables[name]
        process = subprocess.Popen([sys.executable, str(program), str(self.folder)], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=variables)
        self._ranks.append(process)
        return process

    def outputs(self, source, size, **options):
        """Of all ranks, which have to succeed."""
        started = [self.start(source, rank, size, **options) for rank in range(size)]
        outputs = [process.communicate(timeout=120)[0] for process in started]
        for process, output in zip(started, outputs, strict=True):
            assert process.returncode == 0, output
        return outputs

    def end(self):
        for process in self._ranks:
            if process.poll() is None:
                process.kill()
            process.communicate()


# What every program of a multi-rank test starts with.
PROLOGUE = """
import numpy as np
import pytest
import horovod_cpp as hvd
hvd.init()
rank, size = hvd.rank(), hvd.size()
"""


def processes_with(text):
    """Process ids whose command line or environment contains `text`, this process excluded."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            seen = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if text.encode() in seen:
            found.append(int(entry.name))
    return found
