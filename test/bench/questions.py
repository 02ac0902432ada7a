"""What programs of the benchmarks have in common that measure when they are asked.

They read lines "NAME TIMES" and answer each with an object on a line; the drivers ask them in turn.
"""

import json
import sys
import time


class Alone:
    """No other rank."""

    def questions(self):
        return sys.stdin

    def answer(self, values):
        print(json.dumps(values), flush=True)


def answer_all(world, make):
    """``make(name)``: a function of how often, which returns the answer; made once for each name."""
    made = {}
    for line in world.questions():
        name, times = line.split()
        if name not in made:
            made[name] = make(name)
        world.answer(made[name](int(times)))


def timed(step, times, begin=lambda: None):
    """Milliseconds of each: CPU time and the wall's clock; and what the last one gave."""
    cpu, walls, last = [], [], None
    for _ in range(times):
        begin()
        cpu_begin, wall_begin = time.process_time(), time.perf_counter()
        last = step()
        walls.append((time.perf_counter() - wall_begin) * 1e3)
        cpu.append((time.process_time() - cpu_begin) * 1e3)
    return cpu, walls, last
