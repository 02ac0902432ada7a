"""Rows of model.py's table that are no training steps: optimizers and the DataLoader."""

import json
import os
import pathlib
import subprocess
import tempfile

from report import row

# Repetitions of each loop, and the least seconds of one.
EFFORT = {"smoke": (1, 0.001), "quick": (5, 0.1), "full": (15, 0.3)}


def update_rows(program, plan):
    """An optimizer's update and the loop that bounds it, in turn in one process; CPU time."""
    repetitions, seconds = EFFORT[plan.mode]
    done = subprocess.run(
        [program, "--benchmark_filter=(sgd_momentum|adam)$", "--benchmark_format=json",
         f"--benchmark_repetitions={repetitions}", f"--benchmark_min_time={seconds}",
         "--benchmark_enable_random_interleaving=true"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True, timeout=300)
    # A single repetition has no aggregates: it is its own median.
    times = {each["run_name"]: each["cpu_time"] for each in json.loads(done.stdout)["benchmarks"]
             if repetitions == 1 or each.get("aggregate_name") == "median"}
    return [row(f"{name} update of 25 M floats", "ms", times[key], times[f"floor of {key}"], 1.3,
                "memory-bandwidth floor: a loop that only reads and writes the same arrays", "ratio")
            for name, key in (("SGD-momentum", "sgd_momentum"), ("Adam", "adam"))]


def loader_row(program, plan):
    """Real CIFAR-10 files, if HVD_DATA_DIR has them."""
    folder = pathlib.Path(os.environ.get("HVD_DATA_DIR", ""))
    files = sorted(folder.glob("data_batch_*.bin")) if os.environ.get("HVD_DATA_DIR") else []
    with tempfile.TemporaryDirectory() as scratch:
        found = pathlib.Path(scratch) / "rows.json"
        subprocess.run([program, *([folder] if files else []), "--json", found], check=True,
                       stdout=subprocess.DEVNULL, timeout=300)
        ours = json.loads(found.read_text())[0]["ours"]
    return row("DataLoader, CIFAR with crop, flip, normalize, 2 workers", "images/s", ours, None,
               20000, f"on {len(files)} CIFAR-10 files" if files else "on made-up images", "least")
