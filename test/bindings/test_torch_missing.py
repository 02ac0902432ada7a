"""The package where PyTorch is not installed."""

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["torch"] = None  # as if it were not there, wherever this test runs
import horovod_cpp
assert not any(name.startswith("horovod_cpp.torch") for name in sys.modules)
try:
    import horovod_cpp.torch
except ImportError as error:
    print(error)
"""


def test_the_package_works_and_its_torch_part_says_what_to_install():
    done = subprocess.run([sys.executable, "-c", PROGRAM], text=True, capture_output=True, check=True)
    assert "pip install torch" in done.stdout
