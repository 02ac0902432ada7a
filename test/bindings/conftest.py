"""Fixtures of the Python tests. They see the installed package only."""

import importlib.util
import os
import pathlib
import signal
import sys
import tempfile

import pytest
from jupyter_client.manager import KernelManager
from ranks import Ranks, processes_with

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]

_spec = importlib.util.find_spec("horovod_cpp")
if _spec is None or _spec.origin is None:
    pytest.exit("horovod_cpp is not installed in this Python: pip install .", returncode=2)

# What a shell starts in the background ignores Ctrl-C, and so would the programs of these tests.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def world():
    """A world of one rank."""
    import horovod_cpp as hvd

    hvd.init()
    yield hvd
    hvd.shutdown()


@pytest.fixture(scope="session")
def examples():
    return REPOSITORY / "examples"


@pytest.fixture
def ranks(tmp_path):
    return Ranks(tmp_path)


@pytest.fixture(scope="session")
def ranks_in():
    """For fixtures that live longer than a test: a function of a folder."""
    return Ranks


@pytest.fixture
def marked_processes(monkeypatch):
    """Gives children a mark in their environment; returns a function that lists who still runs."""
    mark = f"HVD_TEST_MARK_{os.getpid()}_{os.urandom(4).hex()}"
    monkeypatch.setenv(mark, "1")
    return lambda: processes_with(mark)


@pytest.fixture
def patience(monkeypatch):
    """Ranks have half a minute to react to an interrupt before they are killed."""
    monkeypatch.setattr("horovod_cpp.cluster.pool._GRACE", 30.0)


# The same in a kernel; and lines are equal however late one of the ranks prints its own.
PATIENCE = ("from horovod_cpp.cluster import output, pool; "
            "pool._GRACE, output._EQUAL_LINE = 30.0, 60.0; del output, pool")


class Kernel:
    """A notebook's kernel, and what its cells show."""

    def __init__(self, manager):
        self.manager = manager
        self.client = manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def execute(self, source, timeout=60, interrupt_at=None):
        """The reply, all text that the cell printed, and what it displayed: in the end, when it
        was updated in place. `interrupt_at`: how many "ready" the kernel is interrupted after."""
        printed, displayed = [], {}

        def collect(message):
            content = message["content"]
            if message["msg_type"] == "stream":
                before = "".join(printed).count("ready")
                printed.append(content["text"])
                if interrupt_at and before < interrupt_at <= "".join(printed).count("ready"):
                    self.manager.interrupt_kernel()
            elif message["msg_type"] in ("display_data", "update_display_data"):
                name = content["transient"].get("display_id", len(displayed))
                displayed[name] = content["data"]

        reply = self.client.execute_interactive(source, timeout=timeout, output_hook=collect)
        return reply["content"], "".join(printed), list(displayed.values())


@pytest.fixture
def kernel_manager(monkeypatch):
    """For a kernel of the Python that runs the tests, whatever kernels are registered."""
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    with tempfile.TemporaryDirectory() as sockets:
        # Ports that are free when the manager chooses them may be taken when the kernel binds them.
        manager = KernelManager(transport="ipc", ip=f"{sockets}/kernel")
        manager.kernel_spec.argv = [
            sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}",
            f"--IPKernelApp.exec_lines={PATIENCE}"]
        yield manager


@pytest.fixture
def kernel(kernel_manager, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    kernel_manager.start_kernel()
    kernel = Kernel(kernel_manager)
    yield kernel
    kernel.client.stop_channels()
    kernel_manager.shutdown_kernel(now=True)
