"""Where this program shows what ranks print and display: on its streams, or in a notebook."""

import sys
from typing import TYPE_CHECKING

from horovod_cpp.cluster.output import StreamView

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def shell_here() -> "InteractiveShell | None":
    """The IPython that this program runs in; None outside of one."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def view_here() -> tuple[StreamView, bool]:
    """The view for this program, and whether it can show pictures and the like."""
    if getattr(shell_here(), "kernel", None) is None:
        return StreamView(), False
    from horovod_cpp.cluster.notebook_view import NotebookView

    return NotebookView(), True
