"""Cells, rich output and widgets on a rank: an IPython whose displays travel to the caller."""

import base64
import importlib
import importlib.util
import json
import sys
import types
from collections.abc import Callable
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config


def _plain(content: list[Any]) -> list[Any]:
    """As a notebook's file has it. What cannot be in one is a mistake of what displays it."""
    plain: list[Any] = json.loads(json.dumps(content, default=_encoded))
    return plain


def _encoded(value: object) -> str:
    if isinstance(value, bytes):  # a picture
        return base64.b64encode(value).decode("ascii")
    raise TypeError(f"display() takes what JSON can say, got {type(value).__name__}")


class Shell(InteractiveShell):  # type: ignore[misc]  # IPython may have no types
    """Runs cells. What they display is forwarded."""

    send: Callable[[tuple[Any, ...]], None]
    cell_source = ""
    rendered = ""

    def forward(self, kind: str, *content: object) -> None:
        self.send((kind, *content))

    def run(self, source: str, number: int) -> tuple[BaseException | None, str]:
        """Runs a cell. Returns its exception and how that looks, or None and an empty text."""
        self.cell_source, self.rendered = source, ""
        self.execution_count = number
        result = self.run_cell(source, store_history=False)
        return result.error_before_exec or result.error_in_exec, self.rendered

    def enable_gui(self, gui: str | None = None) -> None:
        """Ranks have no windows; %matplotlib inline asks for none."""

    def ask_exit(self) -> None:
        raise RuntimeError("exit and quit do not end a rank: %hvd stop ends all of them")

    def _showtraceback(self, etype: object, evalue: object, stb: list[str]) -> None:
        self.rendered = self.InteractiveTB.stb2text(stb)


class _Publisher(DisplayPublisher):  # type: ignore[misc]
    shell: Shell

    def publish(self, data: dict[str, Any], metadata: dict[str, Any] | None = None,
                source: object = None, *, transient: dict[str, Any] | None = None,
                update: bool = False, **_: object) -> None:
        self.shell.forward("display", *_plain([data, metadata or {}, transient or {}]), update)

    def clear_output(self, wait: bool = False) -> None:
        self.shell.forward("clear", wait)


class _Hook(DisplayHook):  # type: ignore[misc]
    """Of a cell's last expression."""

    shell: Shell

    def __call__(self, result: object = None) -> None:
        if result is None or self.semicolon_at_end_of_expression(self.shell.cell_source):
            return
        data, metadata = self.compute_format_data(result)
        self.shell.user_ns["_"] = result
        self.shell.forward("display", *_plain([data, metadata, {}]), False, True)


def _share_widgets(forward: Callable[..., None]) -> None:
    """From now on ``forward("comm", ...)`` gets what widgets, progress bars above all, tell the
    notebook. Nothing comes back: they are for looking at. Does nothing where ipywidgets is not installed."""
    if any(importlib.util.find_spec(name) is None for name in ("comm", "ipywidgets")):
        return
    import comm
    from comm.base_comm import BaseComm

    class RankComm(BaseComm):  # type: ignore[misc]  # of a package without types
        def publish_msg(self, msg_type: str, data: Any = None, metadata: Any = None,
                        buffers: Any = None, **keys: Any) -> None:
            forward("comm", msg_type, self.comm_id, data, metadata, list(map(bytes, buffers or ())),
                    keys)

        def __del__(self) -> None:
            """Not even the end of the rank closes a widget: bars stay as they are."""

    comm.create_comm = RankComm
    if importlib.util.find_spec("tqdm") is not None:
        sys.modules.setdefault("tqdm.autonotebook", _NotebookBars("tqdm.autonotebook"))


class _NotebookBars(types.ModuleType):
    """Where tqdm.auto looks for what fits: it would take a rank for a program in a terminal."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("tqdm.notebook"), name)


def make_shell(main: types.ModuleType, send: Callable[[tuple[Any, ...]], None]) -> Shell:
    """The shell of this process. Cells run in ``main``; ``send`` takes what they display."""
    config = Config()
    config.HistoryManager.enabled = False
    Shell.send = staticmethod(send)
    Shell.display_pub_class.default_value = _Publisher
    Shell.displayhook_class.default_value = _Hook
    shell: Shell = Shell.instance(config=config, user_module=main,
                                  user_ns=vars(main))
    _share_widgets(shell.forward)
    return shell
