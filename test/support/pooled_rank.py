"""One rank of a RankPool: runs programs one after the other, each as if it were a process's own."""

import gc
import multiprocessing.connection
import os
import sys
import traceback
import types
import warnings


def run(program):
    """The program's text in a new __main__; returns its exit code."""
    main = types.ModuleType("__main__")
    main.__file__ = program
    sys.modules["__main__"] = main
    sys.argv = [program]
    try:
        with open(program, encoding="utf-8") as file, warnings.catch_warnings():
            exec(compile(file.read(), program, "exec"), main.__dict__)
        return 0
    except SystemExit as end:
        return 0 if end.code is None else end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return 1


def end_world():
    import horovod_cpp as hvd

    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_initialized():
        distributed.destroy_process_group()
    if hvd.is_initialized():
        hvd.shutdown()
    gc.collect()


def main(address):
    import horovod_cpp as hvd

    hvd.init()
    connection = multiprocessing.connection.Client(address)
    connection.send(hvd.rank())
    hvd.shutdown()
    environment, path = dict(os.environ), list(sys.path)
    own = [os.dup(1), os.dup(2)]
    while True:
        try:
            program, output = connection.recv()
        except EOFError:
            return
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for descriptor in (1, 2):
            os.dup2(file, descriptor)
        os.close(file)
        os.chdir(os.path.dirname(program))
        code = run(program)
        try:
            end_world()
        except Exception:
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, before in zip((1, 2), own, strict=True):
            os.dup2(before, descriptor)
        sys.path[:] = path
        os.environ.clear()
        os.environ.update(environment)
        os.chdir("/")
        connection.send(code)


if __name__ == "__main__":
    main(sys.argv[1])
