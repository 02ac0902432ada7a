"""The notebook, executed by a real kernel; and what interrupts and failures do to a kernel."""

import sys
import threading
import time

import nbformat
import pytest
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient


@pytest.fixture
def kernel(monkeypatch, tmp_path):
    """A kernel of the Python that runs the tests, whatever kernels are registered."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    manager = KernelManager()
    manager.kernel_spec.argv = [sys.executable, "-m", "ipykernel_launcher", "-f",
                                "{connection_file}"]
    manager.start_kernel()
    client = manager.blocking_client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def execute(client, source, timeout=60):
    """The reply of the kernel and all text that the cell printed."""
    printed = []

    def collect(message):
        if message["msg_type"] == "stream":
            printed.append(message["content"]["text"])

    reply = client.execute_interactive(source, timeout=timeout, output_hook=collect)
    return reply["content"], "".join(printed)


def test_first_steps_trains_on_two_ranks_and_plots(kernel, examples):
    manager, _ = kernel
    notebook = nbformat.read(examples / "notebooks" / "first_steps.ipynb", as_version=4)
    NotebookClient(notebook, km=manager, timeout=180).execute(cleanup_kc=False)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    text = "".join(output.get("text", "") for output in outputs)
    assert float(text.rsplit("test accuracy ", 1)[1]) >= 0.9
    assert "[0] epoch 0: loss" in text
    assert any("image/png" in output.get("data", {}) for output in outputs)


def test_a_kernel_survives_failing_and_interrupted_ranks(kernel, marked_processes):
    manager, client = kernel
    execute(client, "import horovod_cpp as hvd, os, time, signal")
    reply, _ = execute(client, "hvd.run(lambda: os.kill(os.getpid(), signal.SIGKILL))")
    assert reply["ename"] == "RankError"

    threading.Timer(3.0, manager.interrupt_kernel).start()
    start = time.monotonic()
    reply, _ = execute(client, "hvd.run(lambda: time.sleep(600))")
    assert reply["ename"] == "KeyboardInterrupt"
    assert time.monotonic() - start < 3.0 + 2.0

    reply, printed = execute(client, "print(hvd.run(lambda: 1 + 1, np=1))")
    assert reply["status"] == "ok" and "[2]" in printed
