"""Pictures of a training with matplotlib: ``history``, ``timeline`` and ``scaling``.

    import horovod_cpp as hvd

    hvd.plot.history({"1 rank": one, "2 ranks": two})
    hvd.plot.timeline("trace.json", window=(1200, 1300))
    hvd.plot.scaling({1: 900, 2: 1750, 4: 3300}, unit="images/s")

Each draws on new axes of pyplot, or on ``ax=``, and returns the axes; ``axes.figure.savefig(path)``
saves the picture. No style is changed and no window is opened: notebooks show figures by
themselves, scripts call ``matplotlib.pyplot.show()``. The colours are those of Okabe and Ito, which
colour-blind people can tell apart; lines differ in dashes and markers too, for print.

matplotlib is imported by the first call; where it is missing the call raises ImportError.
"""

from horovod_cpp.plot._history import history
from horovod_cpp.plot._scaling import scaling
from horovod_cpp.plot._timeline import timeline
from horovod_cpp.plot._trace import load_timeline

__all__ = ["history", "load_timeline", "scaling", "timeline"]
