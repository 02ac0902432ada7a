"""hvd.run(): a function on several ranks, from a script or a notebook."""

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from horovod_cpp import _native
from horovod_cpp.cluster import calls
from horovod_cpp.cluster.hosts import Hosts, Words, names_in, number_of_ranks, slots_of
from horovod_cpp.cluster.output import Printer
from horovod_cpp.cluster.pool import Pool

_ELASTIC = ("min_np", "min_num_proc", "max_np", "max_num_proc", "slots", "reset_limit",
            "cooldown_range", "elastic_timeout", "host_discovery_script")


_AFTER_FAILURE = 1.0  # seconds that ranks have to end

_Result = TypeVar("_Result")


def run(fn: Callable[..., _Result], args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None, np: int | None = None, *,
        num_proc: int | None = None, hosts: Words = None,
        hostfile: str | os.PathLike[str] | None = None, env: Mapping[str, str] | None = None,
        timeout: float | None = None, start_timeout: float | None = None,
        output_filename: str | os.PathLike[str] | None = None, verbose: bool = False,
        use_gloo: bool | None = None, use_mpi: bool | None = None, mpi_args: Words = None,
        network_interfaces: Words = None, network_interface: Words = None,
        ssh_port: int | None = None, ssh_identity_file: str | os.PathLike[str] | None = None,
        launcher: str | None = None, executable: str | None = None, disable_cache: bool | None = None,
        **elastic: object) -> list[_Result]:
    """Call ``fn(*args, **kwargs)`` on ``np`` ranks and wait for the results.

    Each rank is a new process of this Python, never a fork; ``fn`` calls ``hvd.init()`` itself.
    Function, arguments and results travel by cloudpickle, so functions of scripts and notebook
    cells work. What the ranks print appears here as it comes, each line with its rank in front.
    Ctrl-C (or a notebook's interrupt) stops all ranks within two seconds, with a KeyboardInterrupt
    in ``fn``; when a rank fails, the others have a second to finish.
    When it has returned on all, their threads and exit handlers are waited for, as Python does.
    Nothing is left running. For more than one call, ``hvd.Cluster`` starts its ranks once.

    Args:
        fn: the function.
        args, kwargs: its arguments, the same on every rank.
        np: number of ranks, at least 1; also ``num_proc``. Default: 2; with hosts their slots.
        hosts: as hvdrun's ``-H``, "node1:4,node2:4" or a list of such parts; default: this
            machine. Others need ssh without a password, this Python at the same path, and a TCP
            connection to this machine, on which each message is authenticated. Its key
            travels to hvdrun's agents over connections that are not encrypted (SECURITY.md).
        hostfile: the same from a file with lines such as "node1 slots=4" or "node1:4".
        env: variables that the ranks have in addition to those of this process.
        timeout: seconds until the call is interrupted, and that ranks then have to end; None: any.
        start_timeout: seconds that starting may take; default: HOROVOD_START_TIMEOUT, or 60.
        output_filename: a folder for what each rank prints, rank.N/stdout and rank.N/stderr.
        verbose: print the command that starts the ranks, and what that prints itself.
        use_mpi, use_gloo: start the ranks with mpirun, or without; default: without, unless
            HOROVOD_CONTROLLER is "mpi" or there are ``mpi_args``.
        mpi_args: further arguments for mpirun.
        network_interfaces: those that MPI and the engine use, "eth0,ib0" or a list; also
            ``network_interface``.
        ssh_port, ssh_identity_file: for the other machines.
        launcher: how hvdrun starts its agents there: "ssh" (default), "slurm" or "exec:CMD", which is
            run as ``CMD HOST PROGRAM...``.
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
        UnsupportedError: hvdrun or mpirun is needed and not installed; an elastic job was asked for.
    """
    calls.check_call("hvd.run", fn, args, kwargs)
    _refuse_elastic(elastic)
    if network_interface is not None:
        if network_interfaces is not None:
            raise _native.InvalidArgumentError(
                "hvd.run takes network_interfaces or network_interface, not both")
        network_interfaces = network_interface
    if np is not None and num_proc is not None and np != num_proc:
        raise _native.InvalidArgumentError(f"hvd.run: np is {np} and num_proc is {num_proc}")
    slots = slots_of("hvd.run", hosts, hostfile)
    np = number_of_ranks("hvd.run", num_proc if np is None else np, slots)
    calls.refuse_on_a_rank("hvd.run")
    calls.check_env(env)
    timeout = calls.check_seconds("timeout", timeout)
    limit = calls.start_limit(start_timeout, env)
    if use_mpi is None and not use_gloo:
        use_mpi = bool(mpi_args) or calls.setting("HOROVOD_CONTROLLER", env) == "mpi"
    if use_mpi and shutil.which("mpirun") is None:
        raise _native.UnsupportedError(
            "hvd.run starts ranks that use MPI with Open MPI, and there is no mpirun in PATH: "
            "apt-get install openmpi-bin")
    if use_mpi and use_gloo:
        raise _native.InvalidArgumentError("hvd.run takes use_mpi or use_gloo, not both")
    interfaces = names_in(network_interfaces)
    options = _words_for_hvdrun({
        "--ssh-port": ssh_port,
        "--ssh-identity-file": ssh_identity_file and os.fspath(ssh_identity_file),
        "--output-filename": output_filename and os.fspath(output_filename),
        "--mpi-args": mpi_args and (mpi_args if isinstance(mpi_args, str) else shlex.join(mpi_args)),
        "--verbose": bool(verbose)})
    placed = Hosts(np, slots, launcher, interfaces, bool(use_mpi), options)
    data = calls.packed_call(fn, args, kwargs)
    view, display = calls.view_here()
    printer = Printer(view, range(np))
    job = Pool(placed, printer, env, executable, limit, initialise=False, display=display)
    patience: float | None = _AFTER_FAILURE
    try:
        job.ready()
        outcomes = job.call(("call", data, sys.path), range(np), timeout)
        failure = calls.failure_of(job, outcomes, timeout, alive_after=False)
        if failure is None:
            patience = timeout
    finally:
        job.close(patience)
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


def _words_for_hvdrun(options: Mapping[str, object]) -> list[str]:
    """Of those that are set; True has no value."""
    words: list[str] = []
    for name, value in options.items():
        if value:
            words.append(name)
        if value and value is not True:
            words.append(str(value))
    return words
