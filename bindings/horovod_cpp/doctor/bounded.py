"""Checks and programs that may hang or crash, and must not take the doctor along."""

import dataclasses
import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from typing import NoReturn

from horovod_cpp.doctor.finding import Finding, problem

_GRACE = 3.0  # seconds that a program gets between SIGTERM and SIGKILL

# Of a job that this process is a rank of: it would confuse another job.
_FOREIGN = ("OMPI_", "PMIX_", "PMI_", "MPI_LOCAL", "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_",
            "HOROVOD_CROSS_", "HVD_RENDEZVOUS")
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "HOROVOD_RANK")


def run_check(check: Callable[[], list[Finding]], seconds: float) -> list[Finding]:
    """Findings of ``check()``, which runs in a process of its own, for at most so many seconds."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # NumPy's threads survive a fork
        process = os.fork()
    if process == 0:
        _child(check, writer)
    os.close(writer)
    try:
        answer, in_time = _read(reader, time.monotonic() + seconds)
    finally:
        os.close(reader)
        status = _end(process)
    if not in_time:
        return [problem("check", f"no answer after {seconds} s, stopped",
                        "what it asks hangs; a dead network file system or driver is a usual cause")]
    if not answer:
        return [problem("check", f"crashed ({_describe(status)})",
                        "a library that it opens is broken; python -X faulthandler -m "
                        "horovod_cpp.doctor shows where")]
    return [Finding(**each) for each in json.loads(answer)]


def _child(check: Callable[[], list[Finding]], writer: int) -> NoReturn:
    os.setsid()  # no terminal, so that nothing can ask a question; and one group to kill
    devnull = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(devnull, stream)
    try:
        findings = check()
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        findings = [problem("check", f"{type(error).__name__}: {error} "
                            f"({os.path.basename(last.filename)}:{last.lineno})",
                            "the doctor did not expect this; please report it")]
    with os.fdopen(writer, "w") as pipe:
        json.dump([dataclasses.asdict(each) for each in findings], pipe)
    os._exit(0)


def _read(reader: int, deadline: float) -> tuple[bytes, bool]:
    """What comes until the other side closes, and whether it did before the deadline."""
    answer = b""
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([reader], [], [], left)[0]:
            break
        data = os.read(reader, 1 << 16)
        if not data:
            return answer, True
        answer += data
    return answer, False


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
    try:
        os.killpg(process, signal.SIGKILL)  # what it started and left behind
    except ProcessLookupError:
        pass
    return status


def _describe(status: int | None) -> str:
    if status is None:
        return "does not end"
    code = os.waitstatus_to_exitcode(status)
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


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


def _own_environment() -> Mapping[str, str]:
    if not any(name in os.environ for name in _RANKS):
        return os.environ
    return {name: value for name, value in os.environ.items()
            if not name.startswith(_FOREIGN) or name.startswith("OMPI_ALLOW_")}


def capture(command: list[str], seconds: float,
            environment: Mapping[str, str] | None = None) -> Output:
    """Runs a program to its end and returns its Output; standard input is empty."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", env={**_own_environment(), **(environment or {})})
    try:
        text, _ = process.communicate(timeout=seconds)
        return Output(process.returncode, text)
    except subprocess.TimeoutExpired:
        process.terminate()
    try:
        text, _ = process.communicate(timeout=_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        text = ""  # somebody else may hold the pipe: what was printed is not worth a wait
    return Output(None, text)


def rank_program(text: str) -> list[str]:
    """Command line of a rank that runs this program, with our module search path."""
    path = [entry for entry in sys.path if entry]
    return [sys.executable, "-c", f"import sys; sys.path[:] = {path!r}\n{text}"]
