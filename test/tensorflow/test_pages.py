"""What docs/tensorflow.md shows, run as it stands there."""

import subprocess
import sys

from pages import blocks
from ranks import hvdrun


def test_the_page_trains_alike_on_all_ranks(tmp_path):
    (_, block), = blocks("docs/tensorflow.md", "python")
    (tmp_path / "train.py").write_text(block)
    done = subprocess.run([hvdrun(), "-np", "2", sys.executable, tmp_path / "train.py"], text=True,
                          timeout=240, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert sorted(done.stdout.splitlines()) == [
        f"[{rank}] rank {rank} of 2: weights sum to 3.00" for rank in range(2)], done.stderr
