"""What a traceback shows: the user's line, and one of ours."""

import os
import pathlib
import subprocess
import sys
import traceback

import pytest
import torch

HERE = pathlib.Path(__file__).name


def frames(call):
    """(file, function) of each entry of the traceback."""
    with pytest.raises(Exception) as caught:
        call()
    entries = traceback.extract_tb(caught.value.__traceback__)
    return [(pathlib.Path(entry.filename).name, entry.name) for entry in entries
            if entry.name != "frames"]


def test_mistakes_show_the_users_line_and_the_function_that_was_called(world):
    x = torch.ones(2)
    for call, name in ((lambda: world.allreduce(1.5), "allreduce"),
                       (lambda: world.allreduce(x, op="summ"), "allreduce"),
                       (lambda: world.grouped_allgather([x, "x"]), "grouped_allgather"),
                       (lambda: world.broadcast_(x, 7), "broadcast_"),
                       (lambda: world.alltoall(x, [1.5]), "alltoall"),
                       (lambda: world.broadcast_parameters(7), "broadcast_parameters"),
                       (lambda: world.broadcast_object(lambda: sys, 9), "broadcast_object"),
                       (lambda: world.DistributedOptimizer(5), "DistributedOptimizer")):
        assert frames(call) == [(HERE, "<lambda>"), ("short_traceback.py", name)]
    assert frames(lambda: world.synchronize(5)) == [(HERE, "<lambda>")]  # which is C++
    handle = world.allreduce_async_(x)
    x.data = torch.zeros(2)
    assert frames(lambda: handle.synchronize()) == [
        (HERE, "<lambda>"), ("short_traceback.py", "_finish_in_place")]


def test_errors_of_the_users_own_functions_keep_their_tracebacks(world):
    class Broken(world.Compressor):
        @staticmethod
        def compress(tensor):
            return tensor.nowhere

    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = world.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0))

    def closure():
        raise OSError("no such file")

    def wrong_collective():
        world.allreduce("x")

    assert (HERE, "compress") in frames(lambda: world.allreduce(weight, compression=Broken))
    assert (HERE, "closure") in frames(lambda: optimizer.step(closure))
    assert (HERE, "wrong_collective") in frames(lambda: optimizer.step(wrong_collective))


def test_an_error_that_is_raised_while_another_is_handled_shows_both(world):
    with pytest.raises(TypeError) as caught:
        try:
            raise OSError("first")
        except OSError:
            world.allreduce("x")
    assert isinstance(caught.value.__context__, OSError)
    assert not caught.value.__suppress_context__


def test_with_debug_messages_all_of_it_is_shown(tmp_path):
    program = tmp_path / "mistake.py"
    program.write_text("import horovod_cpp.torch as hvd\nhvd.init()\nhvd.allreduce(1.5)\n")
    lines = {}
    for level in ("warning", "debug"):
        done = subprocess.run([sys.executable, program], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60,
                              env={**os.environ, "HOROVOD_LOG_LEVEL": level})
        assert "TypeError: expected a torch.Tensor, got float" in done.stdout
        lines[level] = done.stdout.count(", line ")
    assert lines["warning"] == 2 and lines["debug"] > 6, lines


@pytest.mark.parametrize("views", [True, False])
def test_steps_and_hooks_are_an_edge_too(ranks, views):
    ranks.check(f"views = {views}" + """
import traceback

def names_of(call):
    with pytest.raises(hvd.Error) as caught:
        call()
    return [entry.name for entry in traceback.extract_tb(caught.value.__traceback__)][1:]

weight = torch.nn.Parameter(torch.zeros(4))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("w", weight)],
                                     gradient_as_bucket_view=views)
for number in range(2):
    optimizer.zero_grad()
    weight.sum().backward()
    weight.grad.mul_(2)
    assert names_of(optimizer.step) == ["step"]
    optimizer.zero_grad()
    weight.sum().backward()
    assert names_of(optimizer.zero_grad) == ["zero_grad"]
    weight.grad.mul_(2)
    assert names_of(optimizer.synchronize) == ["synchronize"]
    optimizer.zero_grad()
    weight.sum().backward()
    optimizer.step()

with pytest.raises(hvd.Error) as caught:  # checked in a method that a dataclass generates
    hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("w", weight)],
                             compression="fp61")
entries = traceback.extract_tb(caught.value.__traceback__)
assert [entry.name for entry in entries][1:] == ["DistributedOptimizer"]

assert names_of(lambda: hvd.allreduce(torch.ones(2 + rank))) == ["<lambda>", "allreduce"]
handle = hvd.allreduce_async(torch.ones(2 + rank))
assert names_of(handle.synchronize) == []  # which is C++
""")
