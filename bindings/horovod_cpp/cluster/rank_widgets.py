"""Widgets of ranks in a notebook: the other end of worker_widgets."""

import importlib.util
from collections.abc import Mapping
from typing import Any

from IPython.display import display

from horovod_cpp.cluster.output import WIDGET, widget_in

_comms: dict[str, Any] = {}  # by their numbers, which are those of the widgets
_frames: dict[str, list[Any]] = {}  # what stands around a widget that was displayed: box and label


def tell(kind: str, name: str, data: Any, metadata: Any, buffers: list[bytes],
         keys: Mapping[str, Any]) -> None:
    """Passes on what a widget says: "comm_open", then "comm_msg" again and again, "comm_close"."""
    if any(importlib.util.find_spec(package) is None for package in ("comm", "ipywidgets")):
        return
    import comm

    content = {"data": data, "metadata": metadata, "buffers": buffers}
    if kind == "comm_open":
        _comms[name] = comm.create_comm(comm_id=name, **content, **keys)
    elif kind == "comm_msg" and name in _comms:
        _comms[name].send(**content)
    elif name in _comms:
        _comms.pop(name).close(**content)
        for part in _frames.pop(name, []):
            part.close()


def show(rank: int, data: Mapping[str, Any]) -> bool:
    """Displays a widget with the rank in front of it. Returns False if ``data`` has none that the
    notebook knows."""
    name = widget_in(data)
    if name is None or name not in _comms:
        return False
    import ipywidgets

    label = ipywidgets.Label(f"[{rank}]")
    box = ipywidgets.HBox([label])
    # A child of whose state this kernel knows nothing.
    box.comm.send({"method": "update", "state": {
        "children": [f"IPY_MODEL_{part}" for part in (label.model_id, name)]}})
    _frames[name] = [box, label]
    display({**data, WIDGET: {**data[WIDGET], "model_id": box.model_id},
             "text/plain": f"[{rank}] {data.get('text/plain', '')}"}, raw=True)
    return True
