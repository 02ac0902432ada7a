"""What tests call: random programs, and programs of the corpus."""

import json
import os

from loops.generate import program_of
from loops.jobs import run_job, run_programs
from loops.program import listing
from loops.shrink import shrunk
from loops.verdict import fault_of

_SHRUNK = 3  # of the programs that fail in one run


def how_many():
    """Programs of one test: HVD_LOOPS_COUNT, else 20, or 1,000 in a long run."""
    return int(os.environ.get("HVD_LOOPS_COUNT")
               or (1000 if os.environ.get("HVD_TEST_LONG") else 20))


def seed():
    return int(os.environ.get("HVD_LOOPS_SEED", 1))


def failures(programs):
    """Yields (name, program, fault) of programs by name, for one front end and number of ranks. What
    failed under load only is not among them."""
    for name, (program, reports) in zip(programs, run_programs(programs.values())):
        if fault_of(program, reports) is None:
            continue
        fault = fault_of(program, run_job([program])[0])
        if fault is not None:
            yield name, program, fault


def check_random(front, ranks):
    used, count, texts = seed(), how_many(), []
    programs = {number: program_of(front, ranks, used, number) for number in range(count)}
    for number, program, fault in failures(programs):
        title = f"HVD_LOOPS_SEED={used}, program {number} of {front} on {ranks} ranks"
        if len(texts) < _SHRUNK:
            program, fault = shrunk(program, fault)
            title += ", shrunk"
        texts.append(f"{title}: {told(program, fault)}")
    assert not texts, f"{len(texts)} of {count} programs failed\n\n" + "\n\n".join(texts)


def check_corpus(programs):
    """Programs of one front end. One has failed if it does so beside the others and then alone."""
    assert programs
    texts = [f"{name}: {told(program, fault)}" for name, program, fault in failures(programs)]
    assert not texts, "\n\n".join(texts)


def check_program(program):
    fault = fault_of(program, run_job([program])[0])
    assert fault is None, told(program, fault)


def told(program, fault):
    """A fault, and the program that has it; the last line replays it."""
    lines = listing(program).splitlines()
    if fault.at is not None and fault.at < len(program["ops"]):
        lines[len(lines) - len(program["ops"]) + fault.at] += f"    # <- {fault.kind}"
    return "\n".join([fault.kind, *(f"    {line}" for line in lines), fault.text,
                      "replay: PYTHONPATH=test/support python -m loops --program - <<< "
                      f"'{json.dumps(program)}'"])
