"""hvd.run(): a function on several ranks, from a script or a notebook."""

import os
import pathlib
import shlex
import shutil
import socket
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from horovod_cpp import _native
from horovod_cpp.cluster import calls
from horovod_cpp.cluster.hvdrun_job import HvdrunJob
from horovod_cpp.cluster.output import Printer
from horovod_cpp.cluster.pool import Pool

_RANKS = 2  # when nobody says
_ELASTIC = ("min_np", "min_num_proc", "max_np", "max_num_proc", "slots", "reset_limit",
            "cooldown_range", "elastic_timeout", "host_discovery_script")


_Result = TypeVar("_Result")
_Words = str | Iterable[str] | None


def run(fn: Callable[..., _Result], args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None, np: int | None = None, *,
        num_proc: int | None = None, hosts: _Words = None,
        hostfile: str | os.PathLike[str] | None = None, env: Mapping[str, str] | None = None,
        timeout: float | None = None, start_timeout: float | None = None,
        output_filename: str | os.PathLike[str] | None = None, verbose: bool = False,
        use_gloo: bool | None = None, use_mpi: bool | None = None, mpi_args: _Words = None,
        network_interfaces: _Words = None, network_interface: _Words = None,
        ssh_port: int | None = None, ssh_identity_file: str | os.PathLike[str] | None = None,
        executable: str | None = None, disable_cache: bool | None = None,
        **elastic: object) -> list[_Result]:
    """Call ``fn(*args, **kwargs)`` on ``np`` ranks and wait for the results.

    Each rank is a new process of this Python, never a fork; ``fn`` calls ``hvd.init()`` itself.
    Function, arguments and results travel by cloudpickle, so functions of scripts and notebook
    cells work. What the ranks print appears here as it comes, each line with its rank in front.
    Ctrl-C (or a notebook's interrupt) stops all ranks within two seconds, with a KeyboardInterrupt
    in ``fn`` where they are on this machine; when a rank fails, the others have a second to finish.
    Nothing is left running. For more calls than one, ``hvd.Cluster`` starts its ranks once.

    Args:
        fn: the function.
        args, kwargs: its arguments, the same on every rank.
        np: number of ranks, at least 1; also ``num_proc``. Default: 2; with hosts their slots.
        hosts: as hvdrun's ``-H``, "node1:4,node2:4" or a list of such parts; default: this
            machine. Others need Open MPI, ssh without a password, this Python at the same path,
            and a TCP connection to this machine, on which each message is authenticated. The key
            of that travels in Open MPI's launch messages, which are not encrypted (SECURITY.md).
        hostfile: the same from a file with lines such as "node1 slots=4" or "node1:4".
        env: variables that the ranks have besides those of this process. On other machines they
            are set when Python runs already.
        timeout: seconds until the call is interrupted; None: never.
        start_timeout: seconds that starting may take; default: HOROVOD_START_TIMEOUT, or 60.
        output_filename: a folder for what each rank prints, rank.N/stdout and rank.N/stderr.
        verbose: print the command that starts the ranks. Needs, like the next ones, hvdrun.
        use_mpi, use_gloo: start the ranks with mpirun, or without; default: without, unless
            HOROVOD_CONTROLLER is "mpi" or there are ``mpi_args``.
        mpi_args: further words for mpirun.
        network_interfaces: those that MPI and the engine use, "eth0,ib0" or a list; also
            ``network_interface``.
        ssh_port, ssh_identity_file: for the other machines.
        executable: the Python of the ranks; default: this one.
        disable_cache: Horovod's; nothing about hosts is remembered between calls here.
        elastic: Horovod's ``min_np``, ``max_np`` and so on are refused: there are no elastic jobs.

    Returns:
        A list of what the ranks returned, by rank.

    Raises:
        TypeError: ``fn`` is not callable, ``np`` is not an int, a time limit not a number, or ``env``
            not a dict of str.
        InvalidArgumentError: ``np`` is less than 1 or more than the slots of the hosts, a part of
            ``hosts`` is malformed, a time limit is not positive, or this process is itself a rank.
        RankError: a rank raised or died, or returned what cannot be unpickled here; has its number
            and traceback, and the exception as cause.
        TimeoutError: the call took longer than ``timeout``.
        KeyboardInterrupt: Ctrl-C.
        UnsupportedError: MPI or hvdrun is needed and mpirun or hvdrun is not installed; an elastic
            job was asked for.
    """
    calls.check_call("hvd.run", fn, args, kwargs)
    _refuse_elastic(elastic)
    if network_interface is not None:
        if network_interfaces is not None:
            raise _native.InvalidArgumentError(
                "hvd.run takes network_interfaces or network_interface, not both")
        network_interfaces = network_interface
    slots = _slots(hosts, hostfile)
    np = _number_of_ranks(np, num_proc, slots)
    calls.refuse_on_a_rank("hvd.run")
    calls.check_env(env)
    timeout = calls.check_seconds("timeout", timeout)
    limit = calls.start_limit(start_timeout, env)
    remote = not all(_is_local(host) for host in slots)
    if use_mpi is None and not use_gloo:
        use_mpi = bool(mpi_args) or calls.setting("HOROVOD_CONTROLLER", env) == "mpi"
    if use_mpi and shutil.which("mpirun") is None:
        raise _native.UnsupportedError(
            "hvd.run starts ranks that use MPI with Open MPI, and there is no mpirun in PATH: "
            "apt-get install openmpi-bin")
    if use_mpi and use_gloo:
        raise _native.InvalidArgumentError("hvd.run takes use_mpi or use_gloo, not both")
    options = _words_for_hvdrun({
        "-np": np, "-H": [f"{host}:{number}" for host, number in slots.items()],
        "--output-filename": output_filename and os.fspath(output_filename),
        "--mpi-args": mpi_args and (
            mpi_args if isinstance(mpi_args, str) else shlex.join(mpi_args)),
        "--network-interfaces": _names(network_interfaces), "--ssh-port": ssh_port,
        "--ssh-identity-file": ssh_identity_file, "--mpi": bool(use_mpi), "--gloo": bool(use_gloo),
        "--verbose": bool(verbose)})
    data = calls.packed_call(fn, args, kwargs)
    view, display = calls.view_here()
    printer = Printer(view, range(np))
    common: dict[str, Any] = {
        "env": env, "executable": executable, "start_timeout": limit, "display": display}
    job: HvdrunJob | Pool
    if remote or use_mpi or output_filename or verbose:
        job = HvdrunJob(np, printer, options, remote, _names(network_interfaces), **common)
    else:
        job = Pool(np, printer, initialise=False, **common)
    try:
        job.ready()
        outcomes = job.call(("call", data, sys.path), range(np), timeout)
        failure = calls.failure_of(job, outcomes, timeout, alive_after=False)
    finally:
        job.close()
        printer.finish()
    if failure is not None:
        raise failure
    return calls.results_of({rank: outcomes[rank] for rank in range(np)})


def _refuse_elastic(arguments: Mapping[str, object]) -> None:
    unknown = [name for name in arguments if name not in _ELASTIC]
    if unknown:
        raise TypeError(f"hvd.run() got an unexpected keyword argument {unknown[0]!r}")
    given = [name for name, value in arguments.items() if value is not None]
    if given:
        raise _native.UnsupportedError(
            f"hvd.run: {', '.join(given)} asks for an elastic job, which is not supported yet; "
            "pass np, and save checkpoints to resume from after a failure")


def _number_of_ranks(np: object, num_proc: object, slots: Mapping[str, int]) -> int:
    if np is not None and num_proc is not None and np != num_proc:
        raise _native.InvalidArgumentError(f"hvd.run: np is {np} and num_proc is {num_proc}")
    np = num_proc if np is None else np
    if np is None:
        np = sum(slots.values()) if slots else _RANKS
    number = calls.check_np("hvd.run", np)
    if slots and number > sum(slots.values()):
        raise _native.InvalidArgumentError(
            f"hvd.run: np is {number}, but the hosts have {sum(slots.values())} slots")
    return number


def _slots(hosts: _Words, hostfile: str | os.PathLike[str] | None) -> dict[str, int]:
    """Ranks that each host may have, from what run() was given."""
    if hosts is not None and hostfile is not None:
        raise _native.InvalidArgumentError("hvd.run takes hosts or hostfile, not both")
    slots: dict[str, int] = {}
    if hostfile is not None:
        for line in pathlib.Path(hostfile).read_text(encoding="utf-8").splitlines():
            words = line.partition("#")[0].split()
            if words:
                host, colon, number = words[0].partition(":")
                counts = [word[6:] for word in words[1:] if word.startswith("slots=")]
                if colon:
                    counts.insert(0, number)
                _add_slots(slots, host, (counts or ["1"])[0], f"{hostfile}: {line!r}")
        return slots
    for part in _names(hosts):
        host, _, number = part.partition(":")
        _add_slots(slots, host, number or "1", f"hosts: {part!r}")
    return slots


def _add_slots(slots: dict[str, int], host: str, number: str, origin: str) -> None:
    if (not host or host.startswith("-")  # an option of ssh
            or not number.isdigit() or int(number) < 1 or host in slots):
        raise _native.InvalidArgumentError(
            f"hvd.run, {origin}: expected different names with a number of slots, node1:4")
    slots[host] = int(number)


def _names(names: _Words) -> list[str]:
    """Of a text with commas, or a list."""
    if names is None:
        return []
    return [name.strip() for name in (names.split(",") if isinstance(names, str) else names)]


def _is_local(host: str) -> bool:
    name = socket.gethostname()
    return host in ("localhost", name, name.partition(".")[0]) or host.startswith("127.")


def _words_for_hvdrun(options: Mapping[str, object]) -> list[str]:
    """Of those that are set; True has no value."""
    words: list[str] = []
    for name, value in options.items():
        if value:
            words.append(name)
        if value and value is not True:
            words.append(",".join(value) if isinstance(value, list) else str(value))
    return words
