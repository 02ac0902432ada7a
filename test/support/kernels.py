"""Kernels of notebooks."""

import contextlib
import os
import sys
import tempfile

from jupyter_client.manager import KernelManager
from ranks import processes_with

# Ranks have half a minute to react to an interrupt; lines are equal however late one of the ranks prints its own.
PATIENCE = ("from horovod_cpp.cluster import output, pool; "
            "pool._GRACE, output._EQUAL_LINE = 30.0, 60.0; del output, pool")


class Kernel:
    """A notebook's kernel, and what its cells show."""

    def __init__(self, manager, processes):
        self.manager = manager
        self.processes = processes  # a function: the ids of the kernel's and of all that it started
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


@contextlib.contextmanager
def managed_kernel():
    """For a kernel of the Python that runs the tests, whatever kernels are registered; not started."""
    with tempfile.TemporaryDirectory() as sockets:
        # Ports that are free when the manager chooses them may be taken when the kernel binds them.
        manager = KernelManager(transport="ipc", ip=f"{sockets}/kernel")
        manager.kernel_spec.argv = [
            sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}",
            f"--IPKernelApp.exec_lines={PATIENCE}"]
        manager.kernel_spec.env["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
        yield manager


@contextlib.contextmanager
def running_kernel(folder):
    mark = f"HVD_TEST_KERNEL_{os.getpid()}_{os.urandom(4).hex()}"
    with managed_kernel() as manager:
        manager.start_kernel(cwd=str(folder), env={**os.environ, mark: "1"})
        kernel = Kernel(manager, lambda: processes_with(mark))
        yield kernel
        kernel.client.stop_channels()
        manager.shutdown_kernel(now=True)
