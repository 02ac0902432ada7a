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


def test_an_error_in_a_function_of_a_cell_shows_its_line(kernel):
    kernel.execute("import horovod_cpp as hvd\n\ndef work():\n    return 1 / 0  # in a cell")
    _, printed, _ = kernel.execute(
        "print(work.__code__.co_filename)\n"
        "try:\n    hvd.run(work, np=1)\nexcept hvd.RankError as error:\n    print(error.traceback)")
    file = printed.splitlines()[0]
    assert f'File "{file}", line 4, in work\n    return 1 / 0  # in a cell\n' in printed, printed
