"""One rank of hvd.run(): ``python -m horovod_cpp.run_worker ADDRESS``.

Talks to the caller over the Unix socket ADDRESS: gets the pickled call, sends a pickled result or
failure. The caller closes its end to stop this rank.
"""

import os
import pickle
import socket
import sys
import threading
import traceback

import cloudpickle

from horovod_cpp.run_wire import receive, send


def _leave_with_caller(connection):
    """Ends this process when the caller is gone or wants it to stop, whatever it is doing."""
    try:
        connection.recv(1)
    finally:
        os._exit(1)


def _rank_of_launcher():
    return int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["HOROVOD_RANK"])


def _describe(error):
    """The failure as plain values; the exception itself only if it survives pickling."""
    text = "".join(traceback.format_exception(error))
    try:
        pickled = cloudpickle.dumps(error)
        pickle.loads(pickled)
    except Exception:
        pickled = None
    return {"type": type(error).__name__, "message": str(error), "traceback": text,
            "exception": pickled}


def main(address):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    send(connection, _rank_of_launcher())
    search_path, call = receive(connection)
    sys.path[:] = search_path
    threading.Thread(target=_leave_with_caller, args=(connection,), daemon=True).start()
    try:
        function, args, kwargs = pickle.loads(call)
        outcome = ("result", cloudpickle.dumps(function(*args, **kwargs)))
    except BaseException as error:
        outcome = ("failure", _describe(error))
    sys.stdout.flush()
    sys.stderr.flush()
    send(connection, outcome)
    if outcome[0] == "failure":
        # Not through exit handlers: they would say goodbye to ranks that wait for this one's data.
        os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
