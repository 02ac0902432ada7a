"""Other processes, any of which may end at any moment."""

import contextlib
import os
import signal


def is_running(pid):
    """Neither ended nor a zombie. A process can end between open() and read(), too."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def kill(pid):
    """With SIGKILL; no error if it has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
