#!/usr/bin/env python3
"""Compares two safetensors files, such as the models of two ranks:

  hvdrun -np 2 python examples/cifar_vgg11.py --synthetic --steps 4 \\
      --checkpoint vgg.safetensors --save-per-rank
  python examples/compare_models.py vgg.rank0.safetensors vgg.rank1.safetensors

Parameters are equal on all ranks. The running statistics of batch normalisation are not, since each
rank sees images of its own, unless the training has --sync-bn. Prints a line for each tensor that
differs and exits with 1 if there is one, with 2 on errors.
"""

import argparse
import sys

import numpy as np

import horovod_cpp as hvd


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("a", help="one file")
    parser.add_argument("b", help="the other file")
    parser.add_argument("--tolerance", type=float, default=0.0,
                        help="largest difference of two elements that does not count")
    return parser.parse_args()


def largest_difference(a, b):
    """NaN and NaN are equal, NaN and a number infinitely different."""
    a, b = (np.atleast_1d(tensor.to("float64").numpy()) for tensor in (a, b))
    differs = (a != b) & ~(np.isnan(a) & np.isnan(b))
    return np.nan_to_num(np.abs(a - b)[differs], nan=np.inf).max(initial=0.0)


def difference(a, b, tolerance):
    """How two tensors differ; empty if they do not."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype} {list(a.shape)} against {b.dtype} {list(b.shape)}"
    largest = largest_difference(a, b)
    return f"largest difference {largest:.3g}" if largest > tolerance else ""


def compare(options):
    """Returns how many tensors differ."""
    a, b = hvd.load(options.a), hvd.load(options.b)
    differ = 0
    for name in [*a, *(name for name in b if name not in a)]:
        if name not in b:
            how = f"missing in {options.b}"
        elif name not in a:
            how = f"missing in {options.a}"
        else:
            how = difference(a[name], b[name], options.tolerance)
        if how:
            differ += 1
            print(f"{name:40} {how}")
    print(f"{differ} of {len(set(a) | set(b))} tensors differ")
    return differ


if __name__ == "__main__":
    try:
        sys.exit(1 if compare(parse()) else 0)
    except hvd.InvalidArgumentError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
