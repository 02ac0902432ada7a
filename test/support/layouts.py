"""Calls the functions of the built-in layer with tensors whose elements lie anywhere in memory.

The inputs of the calls are in layout_cases.py. A function's parameters are read from the first
lines of its documentation, where pybind11 writes its signatures.
"""

import ast
import dataclasses
import functools
import inspect
import re
import zlib

import numpy as np

import horovod_cpp as hvd
from horovod_cpp import nn

SPACES = {"hvd": hvd, "Tensor": hvd.Tensor, "F": nn.functional, "init": nn.init}
NUMBER_REFUSED = ("is taken as a number here and would not receive a gradient; "
                  r"use .item\(\) or detach\(\)")


@dataclasses.dataclass(frozen=True)
class Values:
    """A tensor among a case's arguments."""
    shape: tuple
    draw: object  # values from a generator and a shape
    written: bool = False  # by the call; such a tensor does not require grad before
    learns: bool = True


@dataclasses.dataclass(frozen=True)
class Number:
    """A number among a case's arguments, for which a tensor may stand."""
    value: object


@dataclasses.dataclass(frozen=True)
class Case:
    args: tuple
    options: dict
    refused: str | None = None  # what the error says if only contiguous tensors are taken


def case(*args, refused=None, **options):
    return Case(args, options, refused)


def _uniform(low, high):
    return lambda random, shape: random.uniform(low, high, shape).astype(np.float32)


def real(*shape, low=-2.0, high=2.0, learns=True):
    return Values(shape, _uniform(low, high), learns=learns)


def positive(*shape, high=2.0, learns=True):
    return real(*shape, low=0.3, high=high, learns=learns)


def written(*shape):
    return Values(shape, _uniform(0.5, 2.0), written=True)


def whole(*shape, below):
    return Values(shape, lambda random, shape: random.integers(0, below, shape), learns=False)


def truth(*shape):
    return Values(shape, lambda random, shape: random.uniform(size=shape) < 0.5, learns=False)


def number(value):
    return Number(value)


def every(names, *cases):
    """The same cases for several functions."""
    return {name: list(cases) for name in names.split()}


# What functions take.

@dataclasses.dataclass(frozen=True)
class Parameter:
    index: int
    name: str
    type: str

    @property
    def takes_tensor(self):
        return re.search(r"Tensor|Array|IndexLike|^typing\.Any$", self.type) is not None

    @property
    def takes_number(self):
        return re.search("Supports|PairLike|ShapeLike", self.type) is not None


def signatures(function):
    """A list of parameters for each overload."""
    if isinstance(function, property):
        function = function.fget
    if inspect.isfunction(function):
        listed = inspect.signature(function).parameters.values()
        return [[Parameter(i, p.name, str(p.annotation)) for i, p in enumerate(listed)]]
    found = []
    for line in (getattr(function, "__doc__", None) or "").splitlines():
        line = re.sub(r"^\d+\. ", "", line)
        line = re.sub(r"<[^<>]*>", "...", line)  # defaults that are no Python
        if not re.match(r"\w*\(.*\) -> ", line) or line.startswith("_pybind11"):
            continue
        try:
            arguments = ast.parse(f"def f{line[line.index('('):]}: ...").body[0].args
        except SyntaxError:
            continue
        listed = [*arguments.posonlyargs, *arguments.args]
        listed += [arguments.vararg] if arguments.vararg else []
        listed += arguments.kwonlyargs
        found.append([Parameter(i, a.arg, ast.unparse(a.annotation) if a.annotation else "")
                      for i, a in enumerate(listed)])
    return [parameters for parameters in found if [p.name for p in parameters] != ["args"]]


@functools.cache
def functions():
    """What takes a tensor in the modules and the class, by name with the space's."""
    found = {}
    for space, holder in SPACES.items():
        names = dir(holder) if space != "Tensor" else vars(holder)
        for name in sorted(names):
            value = vars(holder)[name] if space == "Tensor" else getattr(holder, name)
            if isinstance(value, type) or re.match("_(?!_)", name):
                continue
            if any(p.takes_tensor for parameters in signatures(value) for p in parameters):
                found[f"{space}.{name}"] = value
    return found


def is_collective(function):
    return any(p.name == "process_set" for parameters in signatures(function) for p in parameters)


def function_named(name):
    space, _, function = name.partition(".")
    if space == "Tensor" and isinstance(vars(hvd.Tensor)[function], property):
        return vars(hvd.Tensor)[function].fget
    return getattr(SPACES[space], function)


def unused_parameters(name, cases):
    """Parameters that take a tensor or a number and get none in the cases."""
    given = {Values: set(), Number: set()}
    for one in cases:
        for place, argument in [*enumerate(one.args), *one.options.items()]:
            for leaf in leaves(argument):
                if isinstance(leaf, (Values, Number)):
                    given[type(leaf)].add(place)
    for parameters in signatures(functions()[name]):
        for p in parameters:
            for taken, kind in ((p.takes_tensor, Values), (p.takes_number, Number)):
                if taken and not {p.index, p.name} & given[kind]:
                    yield f"{p.name}: {p.type}"


# Calls.

def leaves(value):
    if isinstance(value, (tuple, list)):
        return [leaf for inner in value for leaf in leaves(inner)]
    return list(leaves(list(value.values()))) if isinstance(value, dict) else [value]


def replaced(value, by):
    if isinstance(value, (tuple, list)):
        return type(value)(replaced(inner, by) for inner in value)
    if isinstance(value, dict):
        return {key: replaced(inner, by) for key, inner in value.items()}
    return by(value)


def specified(one, kind):
    return [leaf for leaf in leaves([one.args, one.options]) if isinstance(leaf, kind)]


def drawn(name, one, shape_of=lambda values: values.shape):
    random = np.random.default_rng(zlib.crc32(name.encode()))
    return [np.asarray(v.draw(random, shape_of(v))) for v in specified(one, Values)]


def call(name, one, tensors, numbers=None):
    """What the call gives and has written, as a list of tensors and of Python's values."""
    tensors, given = iter(tensors), iter(numbers or [n.value for n in specified(one, Number)])
    written_to = []

    def argument(spec):
        if isinstance(spec, Values):
            tensor = next(tensors)
            if spec.written:
                written_to.append(tensor)
            return tensor
        return next(given) if isinstance(spec, Number) else spec

    args, options = replaced(one.args, argument), replaced(one.options, argument)
    hvd.manual_seed(7)
    result = function_named(name)(*args, **options)
    if type(result).__name__.endswith("iterator"):
        result = list(result)
    return leaves([result, written_to])


def outcome(name, one, tensors, laid_gradient):
    """Results and gradients, or the error: of tensors the dtype and elements, else values."""
    for tensor, spec in zip(tensors, specified(one, Values), strict=True):
        if spec.learns and not spec.written:
            tensor.requires_grad_()
    try:
        results = call(name, one, tensors)
    except Exception as error:  # compared with that of the other layout
        return error
    random = np.random.default_rng(1)
    for result in results:
        if isinstance(result, hvd.Tensor) and result.requires_grad:
            gradient = random.uniform(0.5, 1.5, result.shape).astype("float32")
            result.backward(laid_gradient(gradient).to(result.dtype), retain_graph=True)
    results += [t.grad for t in tensors]
    return [(r.dtype, r.detach().to("float64").numpy()) if isinstance(r, hvd.Tensor) else r
            for r in results]


# Layouts: of which values a tensor of such values can consist, and such a tensor.

def _junk(values, shape):
    """Memory around a tensor, of values that show wherever they are read."""
    wrong = {"f": np.nan, "i": 1000003, "b": True}[values.dtype.kind]
    return np.full(shape, wrong, values.dtype)


def contiguous(values):
    return hvd.tensor(np.ascontiguousarray(values).reshape(values.shape))


def interleaved(values, axis=-1):
    if values.ndim == 0:
        return offset(values)
    shape = list(values.shape)
    shape[axis] *= 2
    larger, picked = _junk(values, shape), [slice(None)] * values.ndim
    picked[axis] = slice(None, None, 2)
    larger[tuple(picked)] = values
    return contiguous(larger)[tuple(picked)]


def interleaved_rows(values):
    return interleaved(values, 0)


def transposed(values):
    return contiguous(values.T).T


def offset(values):
    larger = _junk(values, values.size + 3)
    larger[3:] = values.ravel()
    return contiguous(larger)[3:].reshape(values.shape)


def expanded(values, axes):
    first = tuple(slice(0, 1) if axis in axes else slice(None) for axis in range(values.ndim))
    return contiguous(values[first]).expand(values.shape)


def expanded_rows(values):
    return expanded(values, [0])


def expanded_columns(values):
    return expanded(values, [values.ndim - 1])


def expanded_wholly(values):
    return expanded(values, range(values.ndim))


LAYOUTS = [interleaved, interleaved_rows, transposed, offset, expanded_rows, expanded_columns,
           expanded_wholly]


def is_expanded(tensor):
    return tensor.numel() > 0 and any(
        stride == 0 and size > 1
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def laid_out(name, one, layout, which, empty=None):
    """The inputs, those in `which` in the layout and the others contiguous, and contiguous copies.

    `empty`: all axes of this extent have the extent 0.
    """
    values = drawn(name, one, lambda v: tuple(0 if n == empty else n for n in v.shape))
    given = [(layout if i in which else contiguous)(v) for i, v in enumerate(values)]
    return [t.detach() for t in given], [contiguous(t.numpy()) for t in given]


def assert_same(ours, theirs, what):
    if isinstance(theirs, tuple):  # a tensor's dtype and elements
        assert ours[0] == theirs[0], what
        ours, theirs = ours[1], theirs[1]
    if isinstance(theirs, np.ndarray):
        assert ours.shape == theirs.shape, what
        if not np.array_equal(ours, theirs):  # much faster than what follows
            np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6, err_msg=what)
    else:
        np.testing.assert_equal(ours, theirs, err_msg=what)


# Numbers.

def doubles(name, one):
    """Contiguous inputs, floats as float64."""
    return [contiguous(v.astype("float64") if v.dtype.kind == "f" else v) for v in drawn(name, one)]


def total(results):
    """All floating results as one number, each element with a weight of its own."""
    weights, found = np.random.default_rng(2), 0.0
    for result in results:
        if isinstance(result, hvd.Tensor) and result.is_floating_point():
            weight = hvd.tensor(weights.uniform(0.5, 1.5, result.shape)).to(result.dtype)
            found = (result * weight).sum() + found
    return found


def slope(name, one, which):
    """The derivative of the total by the number, by differences."""
    step, sums = 1e-6, []
    for sign in (-1, 1):
        numbers = [n.value for n in specified(one, Number)]
        numbers[which] += sign * step
        sums.append(total(call(name, one, doubles(name, one), numbers)).item())
    return (sums[1] - sums[0]) / (2 * step)
