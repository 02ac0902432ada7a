"""The notebook with Keras, executed by a real kernel beside TensorFlow."""

import re

import nbformat
from kernels import managed_kernel
from nbclient import NotebookClient
from pages import ROOT


def test_the_notebook_trains_twice_on_ranks_that_stay():
    folder = ROOT / "examples" / "notebooks"
    notebook = nbformat.read(folder / "keras.ipynb", as_version=4)
    with managed_kernel() as manager:
        NotebookClient(notebook, km=manager, timeout=240,
                       resources={"metadata": {"path": str(folder)}}).execute()
        manager.shutdown_kernel()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    text = "".join(output.get("text", "") for output in outputs)
    first, second = map(float, re.search(r"after 8 epochs (\S+), after 12 (\S+)", text).groups())
    assert first >= 0.9 and second >= 0.93
    assert "4 arrays are equal on both ranks" in text
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 1
