"""Threads of this package."""

import signal
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["start_engine_thread"]

# What a thread does to itself stays unblocked, for crash handlers.
_SIGNALS = signal.valid_signals() - {
    signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS,
    signal.SIGABRT}


def start_engine_thread(target: Callable[..., Any], *arguments: Any,
                        name: str | None = None) -> threading.Thread:
    """Start a daemon thread that calls ``target(*arguments)`` and takes none of the signals that
    are sent to the process: they are for the program's own threads. A program that blocks SIGTERM
    in these, to look for it once per step, would be killed otherwise."""
    thread = threading.Thread(target=target, args=arguments, name=name, daemon=True)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return thread
