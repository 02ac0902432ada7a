"""A fuzzer of training loops: random programs over ranks, compared with the same loop in one process.

`program` is the form of a program, `generate` draws one from a seed, `oracle` says in NumPy what
has to come out and refuses programs whose meaning the documentation leaves open, `rank` runs
programs on one rank through a front end, `jobs` starts the ranks, `verdict` compares, `shrink` makes
a failing program small, `check` is what tests call, `corpus` has programs that failed once.

    PYTHONPATH=test/support python -m loops --front torch --ranks 2 --seed 1 --count 300
    PYTHONPATH=test/support python -m loops --front torch --ranks 2 --seed 1 --number 17
    PYTHONPATH=test/support python -m loops --program failed.json
"""
