"""The notebook, executed by a real kernel; and what interrupts and failures do to a kernel."""

import threading
import time

import nbformat
from nbclient import NotebookClient


def test_first_steps_trains_on_two_ranks_and_plots(kernel, examples):
    notebook = nbformat.read(examples / "notebooks" / "first_steps.ipynb", as_version=4)
    NotebookClient(notebook, km=kernel.manager, timeout=180).execute(cleanup_kc=False)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    text = "".join(output.get("text", "") for output in outputs)
    assert float(text.rsplit("test accuracy ", 1)[1]) >= 0.9
    assert "[0] epoch 0: loss" in text
    assert any("image/png" in output.get("data", {}) for output in outputs)


def test_a_kernel_survives_failing_and_interrupted_ranks(kernel, marked_processes):
    kernel.execute("import horovod_cpp as hvd, os, time, signal")
    reply, _, _ = kernel.execute("hvd.run(lambda: os.kill(os.getpid(), signal.SIGKILL))")
    assert reply["ename"] == "RankError"

    threading.Timer(3.0, kernel.manager.interrupt_kernel).start()
    start = time.monotonic()
    reply, _, _ = kernel.execute("hvd.run(lambda: time.sleep(600))")
    assert reply["ename"] == "KeyboardInterrupt"
    assert time.monotonic() - start < 3.0 + 2.0

    reply, printed, _ = kernel.execute("print(hvd.run(lambda: 1 + 1, np=1))")
    assert reply["status"] == "ok" and "[2]" in printed
