#!/usr/bin/env python3
"""Writes the handwritten digits that scikit-learn ships as IDX files (MNIST's format and names).

    python examples/write_digits.py FOLDER

1,797 real 8x8 grey images, split by a fixed seed into 1,437 for training and 360 for testing.
Does nothing when the files are already there.
"""

import argparse
import pathlib

import numpy as np
from sklearn.datasets import load_digits

TRAIN = 1437
SPLIT_SEED = 0


def write_idx(path, array):
    """`array` is uint8; IDX is a big-endian header (type, number of axes, extents) and the bytes."""
    header = bytes([0, 0, 0x08, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes()
    temporary = path.with_suffix(".part")
    temporary.write_bytes(header + np.ascontiguousarray(array, dtype=np.uint8).tobytes())
    temporary.replace(path)


def split_digits():
    """{"train" or "t10k": (images uint8 [n, 8, 8], labels uint8 [n])}, the split of the examples."""
    digits = load_digits()
    images = np.round(digits.images * (255.0 / 16.0)).astype(np.uint8)
    labels = digits.target.astype(np.uint8)
    order = np.random.RandomState(SPLIT_SEED).permutation(len(labels))
    parts = {"train": order[:TRAIN], "t10k": order[TRAIN:]}
    return {part: (images[chosen], labels[chosen]) for part, chosen in parts.items()}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("folder", type=pathlib.Path, help="made if it is not there")
    folder = parser.parse_args().folder
    parts = split_digits()
    files = {}
    for part, (images, labels) in parts.items():
        files[f"{part}-images-idx3-ubyte"] = images
        files[f"{part}-labels-idx1-ubyte"] = labels
    if all((folder / name).is_file() for name in files):
        print(f"the digits are already in {folder}")
        return
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in files.items():
        write_idx(folder / name, array)
    counts = {part: len(labels) for part, (_, labels) in parts.items()}
    print(f"wrote {counts['train']} training and {counts['t10k']} test digits to {folder}")


if __name__ == "__main__":
    main()
