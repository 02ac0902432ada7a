"""%%hvd and %hvd: a cluster in a notebook. ``%load_ext horovod_cpp`` loads them."""

import argparse
import shlex
from typing import Any, NoReturn

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, magics_class

from horovod_cpp import _native
from horovod_cpp.cluster.cluster import Cluster

_RANKS = 2  # of a cluster that starts by itself

_HELP = """\
%%hvd                    runs the rest of the cell on all ranks
%%hvd 0,2                on some of them
%hvd start 4             starts four ranks (also -n 4); the first %%hvd starts 2
%hvd start --hosts a:2,b:2   starts them on these machines, with ssh; --launcher HOW: otherwise
%hvd status              what the ranks do
%hvd restart             new processes for all ranks, with empty namespaces
%hvd stop                ends the ranks
%hvd push name ...       copies variables of the notebook to all ranks
%hvd pull name [-r 0]    sets it in the notebook: a list by rank, or that of one rank
cluster = %hvd cluster   the hvd.Cluster itself, for cluster.run(function)"""


def _ranks(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


# Of each command, and of a cell.
_ARGUMENTS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "": [("ranks", {"nargs": "?", "type": _ranks}), ("-n", {"type": int})],
    "start": [("-n", {"type": int}), ("number", {"nargs": "?", "type": int}), ("--hosts", {}),
              ("--launcher", {})],
    "status": [], "restart": [], "stop": [], "cluster": [],
    "push": [("names", {"nargs": "+"})],
    "pull": [("names", {"nargs": "+"}), ("-r", {"dest": "rank", "type": int})],
}


@magics_class
class HorovodMagics(Magics):  # type: ignore[misc]  # IPython has no types
    """One cluster, for the notebook's cells."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._cluster: Cluster | None = None

    @line_cell_magic  # type: ignore[untyped-decorator]
    def hvd(self, line: str, cell: str | None = None) -> Any:
        """Runs cells on the ranks of a cluster; see %hvd help."""
        if self._cluster is not None and self._cluster._pool.closed:
            self._cluster = None  # with its close()
        try:
            return self._do(shlex.split(line, comments=True), cell)
        except (_native.InvalidArgumentError, ValueError) as error:  # the user's are RankErrors
            raise UsageError(str(error)) from None

    def _do(self, words: list[str], cell: str | None) -> Any:
        if cell is not None:
            options = _parser("").parse_args(words)
            self._running(options.n).execute(cell, options.ranks)
            return None
        command, *arguments = words or ["help"]
        if command == "help":  # whatever follows
            print(_HELP)
            return None
        if command not in _ARGUMENTS:
            raise UsageError(f"%hvd has no {command!r}:\n{_HELP}")
        return getattr(self, f"do_{command}")(**vars(_parser(command).parse_args(arguments)))

    def _running(self, np: int | None = None, hosts: str | None = None,
                 launcher: str | None = None) -> Cluster:
        """The cluster; starts one where there is none."""
        if self._cluster is None:
            self._cluster = Cluster(np, hosts=hosts, launcher=launcher)
            where = f" on {hosts}" if hosts else ""
            print(f"started {self._cluster.size} ranks{where}"
                  + (" (%hvd start -n N: another number)" if np is None and not hosts else ""))
        elif np is not None and np != self._cluster.size:
            raise UsageError(f"{self._cluster.size} ranks are running: %hvd stop ends them")
        return self._cluster

    def do_start(self, n: int | None, number: int | None, hosts: str | None,
                 launcher: str | None) -> None:
        if self._cluster is not None:
            raise UsageError(f"{self._cluster.size} ranks are running: %hvd stop ends them")
        if None not in (n, number):
            raise UsageError("%hvd start takes one number of ranks")
        given = number if n is None else n
        self._running(_RANKS if given is None and hosts is None else given, hosts, launcher)

    def do_status(self) -> None:
        if self._cluster is None:
            print("no ranks are running: %hvd start")
            return
        print("rank  process  state    calls  memory")
        for rank in self._cluster.status():
            print(f"{rank.rank:4}  {rank.process or '':7}  {rank.state:8}{rank.calls:6}  "
                  f"{rank.memory / 2**20:.0f} MiB{f'  {rank.host}' if rank.host else ''}")

    def do_restart(self) -> None:
        if self._cluster is None:
            self._running()
            return
        self._cluster.restart()
        print(f"started {self._cluster.size} ranks, with empty namespaces")

    def do_stop(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
        self._cluster = None

    def do_push(self, names: list[str]) -> None:
        missing = [name for name in names if name not in self.shell.user_ns]
        if missing:
            raise UsageError(f"%hvd push: the notebook has no variable {', '.join(missing)}")
        cluster = self._running()
        cluster.push({name: self.shell.user_ns[name] for name in names})
        print(f"pushed {', '.join(names)} to {cluster.size} ranks")

    def do_pull(self, names: list[str], rank: int | None) -> None:
        for name in names:
            values = self._running().pull(name, rank)
            self.shell.user_ns[name] = values if rank is None else values[0]
            print(f"{name}: " + (f"a list of {len(values)}, by rank" if rank is None
                                 else f"that of rank {rank}"))

    def do_cluster(self) -> Cluster:
        return self._running()


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}\n{_HELP}")


def _parser(command: str) -> _Parser:
    parser = _Parser(prog=f"%hvd {command}" if command else "%%hvd", add_help=False)
    for names, settings in _ARGUMENTS[command]:
        parser.add_argument(*names.split(), **settings)
    return parser


def load(shell: InteractiveShell) -> None:
    shell.register_magics(HorovodMagics(shell))


def unload(shell: InteractiveShell) -> None:
    shell.magics_manager.registry["HorovodMagics"].do_stop()
