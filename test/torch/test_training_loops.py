"""Random training loops through PyTorch's front ends; see test/support/loops."""

import pytest
from loops.check import check_program, check_random
from loops.corpus import corpus


@pytest.mark.parametrize("np", [2, 3])
@pytest.mark.parametrize("front", ["torch", "torch_ddp"])
def test_random_loops_give_what_one_process_gives(front, np):
    check_random(front, np)


@pytest.mark.parametrize("name", corpus("torch"))
def test_loop_that_failed_once(name):
    check_program(corpus("torch")[name])
