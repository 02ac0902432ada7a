"""Ranks that stay and run one program of a test after the other: starting an interpreter with
PyTorch for each rank takes longer than what most programs do."""

import atexit
import multiprocessing.connection
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

START_LIMIT = 60  # seconds
AFTER_A_FAILURE = 5  # seconds, for the other ranks to end too


class RankPool:
    """`np` ranks that `command`, the words before the interpreter, has started. Each program has a world of
    its own, from hvd.init() to the hvd.shutdown() after its end."""

    def __init__(self, command, np):
        self._folder = tempfile.mkdtemp(prefix="ranks")
        address = os.path.join(self._folder, "socket")
        self._listener = multiprocessing.connection.Listener(address, backlog=np)
        self._listener._listener._socket.settimeout(START_LIMIT)
        script = pathlib.Path(__file__).with_name("pooled_rank.py")
        with open(os.path.join(self._folder, "launcher"), "wb") as log:
            self._launcher = subprocess.Popen([*command, sys.executable, str(script), address],
                                              stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                              cwd=self._folder, start_new_session=True)
        try:
            ranks = [self._listener.accept() for _ in range(np)]
        except TimeoutError:
            os.killpg(self._launcher.pid, signal.SIGKILL)
            raise RuntimeError(f"{command} did not start {np} ranks: {self._said()}") from None
        self._ranks = dict(sorted((connection.recv(), connection) for connection in ranks))

    def _said(self):
        return pathlib.Path(self._folder, "launcher").read_text(errors="replace")

    def run(self, program, timeout):
        """(exit code, what the ranks printed, each line with the rank's label where there are several).
        A pool whose program failed is of no use any more."""
        outputs = [program.with_suffix(f".rank{rank}") for rank in self._ranks]
        for connection, output in zip(self._ranks.values(), outputs, strict=True):
            output.write_bytes(b"")
            try:
                connection.send((str(program), str(output)))
            except OSError:
                time.sleep(1)  # for the launcher to say why
                return -signal.SIGKILL, f"a rank ended between two programs: {self._said()}"
        end = time.monotonic() + timeout
        code = 0
        waiting = list(self._ranks.values())
        while waiting:
            ready = multiprocessing.connection.wait(waiting, max(0, end - time.monotonic()))
            if not ready:
                code = code or -signal.SIGALRM
                break
            for connection in ready:
                waiting.remove(connection)
                try:
                    code = code or connection.recv()
                except (EOFError, OSError):
                    code = code or -signal.SIGKILL  # the rank is gone
            if code != 0:  # the others may wait for a rank that has failed
                end = min(end, time.monotonic() + AFTER_A_FAILURE)
        texts = [output.read_text(errors="replace") for output in outputs]
        if len(texts) == 1:
            return code, texts[0]
        return code, "".join(f"[{rank}] {line}\n" for rank, text in enumerate(texts)
                             for line in text.splitlines())

    def end(self):
        for connection in self._ranks.values():
            connection.close()
        self._listener.close()
        try:
            self._launcher.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(self._launcher.pid, signal.SIGKILL)
            self._launcher.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


_pools = {}


def run_in_pool(command, np, program, timeout):
    """RankPool.run() in this process's pool for this command."""
    key = tuple(command)
    if key not in _pools:
        _pools[key] = RankPool(command, np)
    result = _pools[key].run(program, timeout)
    if result[0] != 0:
        _pools.pop(key).end()
    return result


@atexit.register
def _end_pools():
    while _pools:
        _pools.popitem()[1].end()
