"""What the generators of this folder share: their command line."""

import argparse
import pathlib


def destination(generator):
    """(the file to write, the seed) of `GENERATOR.py [--folder FOLDER] [--seed N]`.

    `generator` is its __file__. Without arguments the stored file beside it is made again, from
    seed 0; other seeds give other random inputs.
    """
    path = pathlib.Path(generator).resolve()
    parser = argparse.ArgumentParser(prog=path.name)
    parser.add_argument("--folder", type=pathlib.Path, default=path.parent)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    return str(options.folder / path.with_suffix(".safetensors").name), options.seed
