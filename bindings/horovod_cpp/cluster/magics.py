"""%%hvd and %hvd: a cluster in a notebook. ``%load_ext horovod_cpp`` loads them."""

import argparse
from typing import Any, NoReturn

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, magics_class

from horovod_cpp import _native
from horovod_cpp.cluster.cluster import Cluster

_RANKS = 2  # of a cluster that nobody asked for

_HELP = """\
%%hvd                    runs the rest of the cell on all ranks
%%hvd 0,2                on some of them
%hvd start 4             starts four ranks (also -n 4); the first %%hvd starts 2
%hvd status              what the ranks do
%hvd restart             new processes for all ranks, with empty namespaces
%hvd stop                ends the ranks
%hvd push name ...       copies variables of the notebook to all ranks
%hvd pull name [-r 0]    sets it in the notebook: a list by rank, or that of one rank
cluster = %hvd cluster   the hvd.Cluster itself, for cluster.run(function)"""


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
            return self._do(line.split("#")[0].split(), cell)
        except _native.InvalidArgumentError as error:  # the user's own ones are RankErrors
            raise UsageError(str(error)) from None

    def _do(self, words: list[str], cell: str | None) -> Any:
        if cell is not None:
            options = _cell_parser().parse_args(words)
            self._running(options.n).execute(cell, options.ranks)
            return None
        command, *arguments = words or ["help"]
        actions = {"start": self._start, "status": self._status, "restart": self._restart,
                   "stop": self._stop, "push": self._push, "pull": self._pull,
                   "cluster": self._give, "help": self._help}
        if command not in actions:
            raise UsageError(f"%hvd has no {command!r}:\n{_HELP}")
        return actions[command](arguments)

    def stop_cluster(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
        self._cluster = None

    def _running(self, np: int | None = None) -> Cluster:
        """The cluster; starts one where there is none."""
        if self._cluster is None:
            self._cluster = Cluster(_RANKS if np is None else np)
            print(f"started {self._cluster.size} ranks"
                  + (" (%hvd start -n N: another number)" if np is None else ""))
        elif np is not None and np != self._cluster.size:
            raise UsageError(f"{self._cluster.size} ranks are running: %hvd stop ends them")
        return self._cluster

    def _help(self, arguments: list[str]) -> None:
        del arguments
        print(_HELP)

    def _start(self, arguments: list[str]) -> None:
        options = _parser("start", n=True).parse_args(arguments)
        if self._cluster is not None:
            raise UsageError(f"{self._cluster.size} ranks are running: %hvd stop ends them")
        if None not in (options.n, options.number):
            raise UsageError("%hvd start takes one number of ranks")
        given = options.number if options.n is None else options.n
        self._running(_RANKS if given is None else given)

    def _status(self, arguments: list[str]) -> None:
        _parser("status").parse_args(arguments)
        if self._cluster is None:
            print("no ranks are running: %hvd start")
            return
        print("rank  process  state    calls  memory")
        for rank in self._cluster.status():
            print(f"{rank.rank:4}  {rank.process or '':7}  {rank.state:8}{rank.calls:6}  "
                  f"{rank.memory / 2**20:.0f} MiB")

    def _restart(self, arguments: list[str]) -> None:
        _parser("restart").parse_args(arguments)
        if self._cluster is None:
            self._running()
            return
        self._cluster.restart()
        print(f"started {self._cluster.size} ranks, with empty namespaces")

    def _stop(self, arguments: list[str]) -> None:
        _parser("stop").parse_args(arguments)
        self.stop_cluster()

    def _push(self, arguments: list[str]) -> None:
        options = _parser("push", names=True).parse_args(arguments)
        missing = [name for name in options.names if name not in self.shell.user_ns]
        if missing:
            raise UsageError(f"%hvd push: the notebook has no variable {', '.join(missing)}")
        cluster = self._running()
        cluster.push({name: self.shell.user_ns[name] for name in options.names})
        print(f"pushed {', '.join(options.names)} to {cluster.size} ranks")

    def _pull(self, arguments: list[str]) -> None:
        options = _parser("pull", names=True, rank=True).parse_args(arguments)
        for name in options.names:
            values = self._running().pull(name, options.rank)
            self.shell.user_ns[name] = values if options.rank is None else values[0]
            print(f"{name}: " + (f"a list of {len(values)}, by rank" if options.rank is None
                                 else f"that of rank {options.rank}"))

    def _give(self, arguments: list[str]) -> Cluster:
        _parser("cluster").parse_args(arguments)
        return self._running()


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}\n{_HELP}")


def _parser(command: str, n: bool = False, names: bool = False, rank: bool = False) -> _Parser:
    parser = _Parser(prog=f"%hvd {command}", add_help=False)
    if n:
        parser.add_argument("-n", type=int)
        parser.add_argument("number", nargs="?", type=int)
    if names:
        parser.add_argument("names", nargs="+")
    if rank:
        parser.add_argument("-r", dest="rank", type=int)
    return parser


def _cell_parser() -> _Parser:
    parser = _Parser(prog="%%hvd", add_help=False)
    parser.add_argument("ranks", nargs="?", type=_ranks)
    parser.add_argument("-n", type=int)
    return parser


def _ranks(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def load(shell: InteractiveShell) -> None:
    shell.register_magics(HorovodMagics(shell))


def unload(shell: InteractiveShell) -> None:
    shell.magics_manager.registry["HorovodMagics"].stop_cluster()
