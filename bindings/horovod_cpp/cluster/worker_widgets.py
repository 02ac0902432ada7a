"""Widgets on a rank, progress bars above all: the caller's notebook draws them."""

import importlib
import importlib.util
import sys
import types
from collections.abc import Callable
from typing import Any


def share_widgets(forward: Callable[..., None]) -> None:
    """From now on ``forward("comm", ...)`` gets what widgets tell the notebook. Nothing comes back:
    they are for looking at. Does nothing where ipywidgets is not installed."""
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
