"""Random training loops on several ranks: run, judged, and made smaller when one is wrong.

    python fuzz.py torch --seed 7 --count 1000 --ranks 2
    python fuzz.py own --program program.json     what a failure has printed
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from program import KINDS, random_program, readable, smaller

FOLDER = pathlib.Path(__file__).parent
KINDS_OF = {"torch": KINDS, "own": ("float32", "float32", "sparse")}
PATIENCE = {"HOROVOD_STALL_CHECK_TIME_SECONDS": "5", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "10",
            "HVD_CHECK_PARAMETERS": "0"}


class Failure(Exception):
    """A program with its verdicts by rank."""


def run(front, programs, ranks):
    """Yields the verdicts of the ranks on each program; jobs end where one is not "equal"."""
    left = list(enumerate(programs))
    with tempfile.TemporaryDirectory() as folder:
        for job in range(len(programs) + 1):
            if not left:
                return
            path, verdicts = f"{folder}/{job}.json", f"{folder}/{job}"
            pathlib.Path(path).write_text(json.dumps(left))
            done = subprocess.run(
                [f"{os.path.dirname(sys.executable)}/hvdrun", "-np", str(ranks), "--gloo",
                 sys.executable, str(FOLDER / "ranks.py"), front, path, verdicts],
                env={**os.environ, **PATIENCE}, capture_output=True, text=True, timeout=600,
                check=False)
            lines = [[json.loads(line) for line in pathlib.Path(f"{verdicts}.{rank}").read_text()
                      .splitlines()] if os.path.exists(f"{verdicts}.{rank}") else []
                     for rank in range(ranks)]
            count = max(1, *map(len, lines))
            for place in range(count):
                said = [line[place][1:] if place < len(line) else ["nothing", -1]
                        for line in lines]
                number = left[place][0]
                yield number, said, done.stderr if place == count - 1 else ""
            left = left[count:]


def is_right(said):
    """Equal to one process on all ranks, or refused by all of them at the same operation."""
    verdicts = [verdict for verdict, _ in said]
    if all(verdict == "equal" for verdict in verdicts):
        return True
    refused = [verdict.startswith("error") and "Stalled" not in verdict and "Aborted" not in verdict
               for verdict in verdicts]
    return all(refused) and len({place for _, place in said}) == 1


def shrunk(front, program, ranks):
    while True:
        candidates = list(smaller(program))
        for number, said, _ in run(front, candidates, ranks):
            if not is_right(said):
                program = candidates[number]
                break
        else:
            return program


def check(front, programs, ranks, shrinks=True):
    """Returns how many programs were refused by all ranks; raises Failure on a wrong one."""
    refused = 0
    for number, said, output in run(front, programs, ranks):
        program = programs[number]
        if is_right(said):
            refused += said[0][0] != "equal"
            continue
        small = shrunk(front, program, ranks) if shrinks else program
        (_, said_now, output), = run(front, [small], ranks)
        told = "\n".join(f"rank {rank}: {verdict} at operation {place}"
                         for rank, (verdict, place) in enumerate(said_now))
        raise Failure(f"{front}, seed {program['seed']}:\n{readable(small)}\n\n{told}\n"
                      f"{output[-2000:]}\nTo run it again: fuzz.py {front} --program FILE with\n"
                      f"{json.dumps(small)}")
    return refused


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("front", choices=KINDS_OF)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--count", type=int, default=20)
    options.add_argument("--ranks", type=int, default=2)
    options.add_argument("--program", type=pathlib.Path)
    options.add_argument("--all", action="store_true", help="go on after a failure, unshrunk")
    given = options.parse_args()
    if given.program:
        program = json.loads(given.program.read_text())
        for _, said, output in run(given.front, [program], program["ranks"]):
            print(readable(program), *said, output, sep="\n")
        return
    programs = [random_program(given.seed + number, given.ranks, KINDS_OF[given.front])
                for number in range(given.count)]
    if given.all:
        wrong = [(programs[number]["seed"], said)
                 for number, said, _ in run(given.front, programs, given.ranks)
                 if not is_right(said)]
        print(*wrong, f"{len(wrong)} of {given.count} are wrong", sep="\n")
    else:
        print(check(given.front, programs, given.ranks), "refused")


if __name__ == "__main__":
    main()
