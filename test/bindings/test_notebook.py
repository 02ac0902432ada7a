"""What interrupts and failures of hvd.run do to a notebook's kernel."""

import threading
import time


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
