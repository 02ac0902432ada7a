"""What hvd.run and hvd.Cluster raise when a rank fails."""

from horovod_cpp import _native


class RankError(_native.Error, RuntimeError):
    """A rank of ``hvd.run`` or ``hvd.Cluster`` failed. Its cause is the rank's own exception.

    Args:
        message: what happened.
        rank: see the attributes, and ``traceback``.
        rendered: the traceback as IPython shows it.

    Attributes:
        rank: the rank that failed first; None when the ranks could not be started.
        traceback: that rank's traceback as text; empty when it ended without one.
    """

    def __init__(self, message: str, rank: int | None = None, traceback: str = "",
                 rendered: str = "") -> None:
        super().__init__(message)
        self.rank = rank
        self.traceback = traceback
        self._rendered = rendered or traceback

    def _render_traceback_(self) -> list[str]:
        """For IPython: what happened on the rank, not the way through this package."""
        summary = f"{type(self).__name__}: {str(self).partition(chr(10) * 2)[0]}"
        return [*self._rendered.rstrip().splitlines(), "", *summary.splitlines()]
