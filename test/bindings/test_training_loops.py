"""Random training loops through the built-in layer; see test/support/loops."""

import pytest
from loops.check import check_program, check_random
from loops.corpus import corpus

_CASES = [(front, name) for front in ("own", "own_ddp") for name in corpus(front)]


@pytest.mark.parametrize("np", [2, 3])
@pytest.mark.parametrize("front", ["own", "own_ddp"])
def test_random_loops_give_what_one_process_gives(front, np):
    check_random(front, np)


@pytest.mark.parametrize("front, name", _CASES)
def test_loop_that_failed_once(front, name):
    check_program(corpus(front)[name])
