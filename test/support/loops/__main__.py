"""See loops/__init__.py."""

import argparse
import json
import sys

from loops.check import check_program, failures, told
from loops.generate import FRONTS, program_of
from loops.program import listing
from loops.shrink import shrunk


def main():
    parser = argparse.ArgumentParser(prog="python -m loops")
    parser.add_argument("--front", choices=FRONTS, default="torch")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--number", type=int, help="this program alone")
    parser.add_argument("--program", help="a file with a program instead; -: standard input")
    parser.add_argument("--shrink", type=float, default=60, help="seconds for a failing program")
    parser.add_argument("--print", action="store_true", help="print programs and run nothing")
    given = parser.parse_args()
    if given.program:
        with sys.stdin if given.program == "-" else open(given.program) as file:
            program = json.load(file)
        print(listing(program), flush=True)
        return check_program(program)
    numbers = range(given.first, given.first + given.count)
    if given.number is not None:
        numbers = range(given.number, given.number + 1)
    programs = {number: program_of(given.front, given.ranks, given.seed, number)
                for number in numbers}
    if given.print:
        for number, program in programs.items():
            print(f"# {number}\n{listing(program)}")
        return None
    for number, program, fault in failures(programs):
        if given.shrink:
            program, fault = shrunk(program, fault, given.shrink)
        print(f"-- seed {given.seed}, program {number}: {told(program, fault)}\n", flush=True)
    return None


if __name__ == "__main__":
    main()
