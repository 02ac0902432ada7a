"""Waits for what happens in other processes."""

import time


def wait_for(value, expected):
    """Asserts that `value()` comes to be `expected`; only what never happens takes half a minute."""
    deadline = time.monotonic() + 30
    while (found := value()) != expected and time.monotonic() < deadline:
        time.sleep(0.02)
    assert found == expected, f"{found!r} instead of {expected!r}, for 30 s"
