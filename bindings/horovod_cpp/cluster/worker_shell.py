"""Cells and rich output on a rank: an IPython whose displays travel to the caller."""

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config


class _Publisher(DisplayPublisher):
    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **_):
        self.shell.forward("display", data, metadata or {}, transient or {}, update)

    def clear_output(self, wait=False):
        self.shell.forward("clear", wait)


class _Hook(DisplayHook):
    """Of a cell's last expression."""

    def __call__(self, result=None):
        if result is None or self.semicolon_at_end_of_expression(self.shell.cell_source):
            return
        data, metadata = self.compute_format_data(result)
        self.shell.user_ns["_"] = result
        self.shell.forward("display", data, metadata, {}, False, True)


class _Shell(InteractiveShell):
    worker = None
    cell_source = ""
    rendered = ""

    def forward(self, kind, *content):
        self.worker.flush()
        self.worker.send((kind, *content))

    def run(self, source, number):
        """Runs a cell. Returns its exception and how that looks, or None and an empty text."""
        self.cell_source, self.rendered = source, ""
        self.execution_count = number
        result = self.run_cell(source, store_history=False)
        return result.error_before_exec or result.error_in_exec, self.rendered

    def enable_gui(self, gui=None):
        """Ranks have no windows; %matplotlib inline asks for none."""

    def ask_exit(self):
        raise RuntimeError("exit and quit do not end a rank: %hvd stop ends all of them")

    def _showtraceback(self, etype, evalue, stb):
        self.rendered = self.InteractiveTB.stb2text(stb)


def make_shell(worker):
    """The shell of this process; cells run in ``worker.namespace``."""
    config = Config()
    config.HistoryManager.enabled = False
    _Shell.worker = worker
    _Shell.display_pub_class.default_value = _Publisher
    _Shell.displayhook_class.default_value = _Hook
    return _Shell.instance(config=config, user_module=worker._main, user_ns=worker.namespace)
