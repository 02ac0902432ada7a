"""What interrupts and failures of hvd.run do to a notebook's kernel."""


def test_a_kernel_survives_failing_and_interrupted_ranks(kernel, marked_processes):
    kernel.execute("import horovod_cpp as hvd, os, time, signal")
    reply, _, _ = kernel.execute("hvd.run(lambda: os.kill(os.getpid(), signal.SIGKILL))")
    assert reply["ename"] == "RankError"

    reply, _, _ = kernel.execute(
        "hvd.run(lambda: (print('ready'), time.sleep(600)), np=2)", interrupt_at=2)
    assert reply["ename"] == "KeyboardInterrupt"

    reply, printed, _ = kernel.execute("print(hvd.run(lambda: 1 + 1, np=1))")
    assert reply["status"] == "ok" and "[2]" in printed
