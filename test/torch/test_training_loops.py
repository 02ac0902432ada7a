"""Random training loops through PyTorch's front ends; see test/support/loops."""

import pytest
from loops.check import check_corpus, check_random
from loops.corpus import corpus


@pytest.mark.parametrize("front, np", [
    ("torch", 3), ("torch_ddp", 2),
    *(pytest.param(*other, marks=pytest.mark.full) for other in [("torch", 2), ("torch_ddp", 3)])])
def test_random_loops_give_what_one_process_gives(front, np):
    check_random(front, np)


def test_loops_that_failed_once():
    check_corpus(corpus("torch"))
