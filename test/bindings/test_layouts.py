"""Where the elements of a tensor lie changes no result, and no tensor that learns is a number."""

import functools
import re

import numpy as np
import pytest
from layout_cases import CASES, EXCLUDED
from layouts import (
    LAYOUTS,
    NUMBER_REFUSED,
    Number,
    Values,
    assert_same,
    call,
    contiguous,
    doubles,
    expanded_wholly,
    functions,
    is_collective,
    is_expanded,
    laid_out,
    outcome,
    slope,
    specified,
    total,
    transposed,
    unused_parameters,
)

import horovod_cpp as hvd
from horovod_cpp import nn
from horovod_cpp.nn import functional as F

FUNCTIONS = {name: function for name, function in functions().items()
             if name not in EXCLUDED and not is_collective(function)}


def cases_of(name):
    return CASES.get(name) or CASES.get(name.partition(".")[2]) or []


NUMBERED_CASES = [(f"{name}-{i}", name, one)
                  for name in FUNCTIONS for i, one in enumerate(cases_of(name))]


def layouts_of(one):
    """Each input in each layout, and all of them; again without elements along some axis."""
    tensors = specified(one, Values)
    choices = [[i] for i in range(len(tensors))]
    choices += [list(range(len(tensors)))] if len(tensors) > 1 else []
    extents = dict.fromkeys(n for v in tensors for n in v.shape if n > 1)
    for layout in LAYOUTS:
        for which in choices:
            # What a layout does not change would be compared with itself.
            if any(differs(layout, tensors[i].shape) for i in which):
                yield layout, which, None
        for extent in extents if layout in (transposed, expanded_wholly) else ():
            if any(differs(layout, v.shape) for v in tensors):
                yield layout, choices[-1], extent


@functools.cache
def differs(layout, shape):
    tensor = layout(np.zeros(shape, np.float32))
    return layout.__name__ == "offset" or not tensor.is_contiguous()


def number_cases():
    for title, name, one in NUMBERED_CASES:
        for which in range(len(specified(one, Number))):
            for shape in ((), (1,)):
                yield pytest.param(name, one, which, shape, id=f"{title}-{which}-{len(shape)}d")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_its_inputs_in_the_table(name):
    cases = cases_of(name)
    short = name.partition(".")[2]
    assert cases, (f"{name} takes a tensor and has no inputs: add an entry \"{short}\" to CASES in "
                   f"test/support/layout_cases.py, or \"{name}\" with a reason to EXCLUDED there")
    missing = list(unused_parameters(name, cases))
    assert not missing, (f"{name}: none of its cases in test/support/layout_cases.py gives a "
                         f"tensor or number(...) for {'; '.join(missing)}")


def test_all_entries_of_the_table_are_used():
    found = functions()
    names = {name for full in found for name in (full, full.partition(".")[2])}
    assert not set(CASES) - names
    assert not set(EXCLUDED) - set(found)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(), (4,), (3, 4), (2, 3, 4), (0, 3)])
def test_a_layout_holds_its_values_elsewhere(layout, shape):
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    tensor = layout(values)
    assert tensor.shape == shape
    if "expanded" in layout.__name__:
        assert is_expanded(tensor) == (values.size > 0 and values.ndim > 0)
    else:
        assert tensor.tolist() == values.tolist()
    if len(shape) > 1 and values.size:
        assert tensor.is_contiguous() == (layout.__name__ == "offset")


@pytest.mark.parametrize("name, one", [
    pytest.param(name, one, id=title) for title, name, one in NUMBERED_CASES])
def test_a_layout_changes_no_result(name, one):
    found = []
    for layout, which, extent in layouts_of(one):
        try:
            compare(name, one, layout, which, extent)
        except Exception as error:  # all of them are shown
            without = "" if extent is None else f", extents {extent} are 0"
            found.append(f"inputs {which} {layout.__name__}{without}: {error!r}")
    assert not found, f"{len(found)} layouts of {name}:\n" + "\n".join(found)


def compare(name, one, layout, which, extent):
    given, copies = laid_out(name, one, layout, which, extent)
    written = [t for t, v in zip(given, specified(one, Values), strict=True) if v.written]
    before = [t.numpy().copy() for t in given]
    theirs = outcome(name, one, copies, lambda values: contiguous(layout(values).numpy()))
    ours = outcome(name, one, given, layout)
    if isinstance(theirs, Exception):
        assert extent is not None, f"the case itself fails: {theirs!r}"
        assert type(ours) is type(theirs), f"{ours!r} instead of {theirs!r}"
    elif any(map(is_expanded, written)):
        assert isinstance(ours, hvd.InvalidArgumentError) and "is expanded" in str(ours), ours
        for tensor, values in zip(given, before, strict=True):
            np.testing.assert_array_equal(tensor.detach().numpy(), values)
    elif isinstance(ours, Exception):
        assert one.refused and isinstance(ours, hvd.InvalidArgumentError), ours
        assert one.refused in str(ours)
    else:
        for i, (result, expected) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(result, expected, f"result or gradient {i}")


@pytest.mark.parametrize("name, one, which, shape", list(number_cases()))
def test_a_tensor_that_learns_gets_its_gradient_or_is_no_number(name, one, which, shape):
    numbers = [n.value for n in specified(one, Number)]
    value = numbers[which]
    numbers[which] = learner = hvd.tensor(np.full(shape, value, "float64"), requires_grad=True)
    try:
        results = call(name, one, doubles(name, one), numbers)
    except hvd.InvalidArgumentError as error:
        assert re.search(NUMBER_REFUSED, str(error))
        numbers[which] = hvd.tensor(np.full(shape, value))
        results = call(name, one, doubles(name, one), numbers)
        for result, expected in zip(results, call(name, one, doubles(name, one)), strict=True):
            if isinstance(result, hvd.Tensor):
                result, expected = result.numpy(), expected.numpy()
            np.testing.assert_array_equal(result, expected)
        return
    if any(isinstance(r, hvd.Tensor) and r.is_floating_point() for r in results):
        assert total(results).requires_grad, "took the tensor for a number in silence"
        total(results).backward()
        assert learner.grad.shape == shape
        assert learner.grad.item() == pytest.approx(slope(name, one, which), rel=1e-5, abs=1e-7)


# Functions that take a tensor's shape and dtype, or leave the graph as they say.
LEAVE_THE_GRAPH = {"expand_as", "view_as", "full_like", "ones_like", "zeros_like",
                   "detach", "data", "tensor", "from_dlpack"}


@pytest.mark.parametrize("name, one", [
    pytest.param(name, one, id=title) for title, name, one in NUMBERED_CASES])
def test_no_input_that_learns_is_left_out_in_silence(name, one):
    for which, spec in enumerate(specified(one, Values)):
        tensors = doubles(name, one)
        if not tensors[which].is_floating_point() or spec.written:
            continue
        tensors[which].requires_grad_()
        try:
            results = call(name, one, tensors)
        except hvd.InvalidArgumentError as error:
            # The last are those of a product with NumPy's float32.
            assert re.search("not differentiable|not recorded|dtypes .* differ", str(error))
            continue
        results = [r for r in results if isinstance(r, hvd.Tensor) and r.is_floating_point()]
        recorded = not results or any(r.requires_grad for r in results)
        assert recorded or name.partition(".")[2] in LEAVE_THE_GRAPH, f"input {which}"


@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(), nn.NLLLoss()])
def test_a_column_is_one_example_of_a_loss(loss):
    a = hvd.tensor([[-8.0, 9.0], [-1.0, 8.0], [-4.0, 7.0]], requires_grad=True)
    b = hvd.tensor(a.numpy()[:, 0].copy(), requires_grad=True)
    results = [loss(a[:, 0], hvd.tensor(2)), loss(b, hvd.tensor(2))]
    assert results[0].item() == results[1].item()
    for result in results:
        result.backward()
    np.testing.assert_array_equal(a.grad.numpy()[:, 0], b.grad.numpy())
    assert not a.grad.numpy()[:, 1].any()


@pytest.mark.parametrize("pool", [F.max_pool2d, F.avg_pool2d])
@pytest.mark.parametrize("shape", [(1, 1, 0, 3), (1, 1, 3, 0)])
def test_images_without_pixels_have_no_windows(pool, shape):
    with pytest.raises(hvd.InvalidArgumentError, match="no window fits"):
        pool(hvd.ones(shape), 3, 2, 1, True)


@pytest.mark.parametrize("index", [0, -1, slice(0, 1), [0]])
def test_nothing_is_assigned_to_a_part_of_an_expanded_tensor(index):
    t = hvd.zeros(1).expand(3)
    with pytest.raises(hvd.InvalidArgumentError, match="expanded.*clone"):
        t[index] = 1.0
    assert t.tolist() == [0, 0, 0]
