"""What checks find; and checks and programs that may hang or crash, and must not affect the doctor."""

import contextlib
import dataclasses
import functools
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping
from multiprocessing.connection import Connection
from typing import NoReturn

from horovod_cpp.cluster.relay import describe_end, environment_outside_jobs

LEVELS = ("ok", "warning", "problem")
_GRACE = 3.0  # seconds that a program gets between SIGTERM and SIGKILL
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "HOROVOD_RANK")


@dataclasses.dataclass
class Finding:
    """One line of the report.

    Attributes:
        level: "ok"; "warning": jobs run, but slower or not everywhere; "problem": they do not.
        name: what was looked at.
        text: what was found.
        fix: what to do about it; empty where nothing is wrong.
    """

    level: str
    name: str
    text: str
    fix: str = ""


ok, warning, problem = (functools.partial(Finding, level) for level in LEVELS)


def run_check(check: Callable[[], Iterable[Finding]], seconds: float) -> list[Finding]:
    """Findings of ``check()``, which runs in a process of its own, for at most these seconds."""
    reader, writer = multiprocessing.Pipe(duplex=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # NumPy's threads survive a fork
        process = os.fork()
    if process == 0:
        _child(check, writer)
    writer.close()
    try:
        if not reader.poll(seconds):
            return [problem("check", f"no answer after {seconds} s, stopped", "what it asks hangs; "
                            "a dead network file system or driver is a usual cause")]
        findings: list[Finding] = reader.recv()
        return findings
    except EOFError:
        pass
    finally:
        reader.close()
        status = _end(process)
    end = "does not end" if status is None else describe_end(os.waitstatus_to_exitcode(status))
    return [problem("check", f"crashed: it {end}",
                    "a library that it opens is broken; python -X faulthandler -m "
                    "horovod_cpp.doctor shows where")]


def _child(check: Callable[[], Iterable[Finding]], writer: Connection) -> NoReturn:
    os.setsid()  # no terminal, so that nothing can ask a question; and one group to kill
    devnull = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(devnull, stream)
    try:
        findings = list(check())
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        findings = [problem("check", f"{type(error).__name__}: {error} "
                            f"({os.path.basename(last.filename)}:{last.lineno})",
                            "the doctor did not expect this; please report it")]
    writer.send(findings)
    os._exit(0)


def _end(process: int) -> int | None:
    """Kills the group; the wait status, or None for a process that not even SIGKILL ends."""
    status = None
    for _ in range(100):
        pid, value = os.waitpid(process, os.WNOHANG)
        if pid != 0:
            status = value
            break
        try:
            os.killpg(process, signal.SIGKILL)
        except ProcessLookupError:  # between fork and setsid
            os.kill(process, signal.SIGKILL)
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)  # what it started and left behind
    return status


@dataclasses.dataclass
class Output:
    """Attributes: code: exit code, or None after a time-out; text: what it printed."""

    code: int | None
    text: str

    def last_lines(self, count: int = 3) -> str:
        lines = [line.strip() for line in self.text.splitlines() if line.strip(" -*\t")]
        return " / ".join(lines[-count:]) or "no output"

    def why(self) -> str:
        """For a message: how it ended, and the last lines it printed."""
        how = "no end in sight" if self.code is None else f"exit code {self.code}"
        return f"{how}: {self.last_lines()}"


def capture(command: list[str], seconds: float,
            environment: Mapping[str, str] | None = None) -> Output:
    """Runs a program to its end and returns its Output; standard input is empty."""
    is_rank = any(name in os.environ for name in _RANKS)  # its variables would confuse another job
    own = environment_outside_jobs() if is_rank else os.environ
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", env={**own, **(environment or {})})
    try:
        text, _ = process.communicate(timeout=seconds)
        return Output(process.returncode, text)
    except subprocess.TimeoutExpired:
        process.terminate()
    try:
        text, _ = process.communicate(timeout=_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        text = ""  # another process may hold the pipe: what was printed is not worth a wait
    return Output(None, text)


def rank_program(text: str) -> list[str]:
    """Command line of a rank that runs this program, with our module search path."""
    path = [entry for entry in sys.path if entry]
    return [sys.executable, "-c", f"import sys; sys.path[:] = {path!r}\n{text}"]
