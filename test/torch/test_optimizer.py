"""DistributedOptimizer; each program covers one subject."""

import pytest
from order import ORDER
from ranks import SIZES

MODEL = """
def make_model(seed=3):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 8),
                               torch.nn.Tanh(), torch.nn.Linear(8, 3)).double()

def batches(steps, batch=8, seed=7):
    random = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        yield (torch.randn(batch, 6, generator=random, dtype=torch.float64),
               torch.randint(0, 3, (batch,), generator=random))

def mine(x):
    "This rank's part of a batch."
    return x.chunk(size)[rank]

loss_of = torch.nn.functional.cross_entropy

def train(model, optimizer, steps=50, share=mine, **zero):
    losses = []
    for x, y in batches(steps):
        optimizer.zero_grad(**zero)
        loss = loss_of(model(share(x)), share(y))
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses

def follows(make, tolerance=1e-9, zero={}, **options):
    "Training on halves of the batches is training on the batches."
    alone = make_model()
    losses = train(alone, make(alone.parameters()), share=lambda x: x, **zero)
    model = make_model(seed=rank)
    optimizer = hvd.DistributedOptimizer(make(model.parameters()), model.named_parameters(), **options)
    hvd.broadcast_parameters(dict(make_model().named_parameters()), 0)
    model.load_state_dict(make_model().state_dict())
    mean = hvd.allreduce(torch.tensor(train(model, optimizer, **zero), dtype=torch.float64))
    assert torch.allclose(mean, torch.tensor(losses, dtype=torch.float64), atol=tolerance, rtol=0)
    assert same_everywhere(*model.parameters())
    return model
"""


@SIZES
def test_ranks_with_parts_of_the_batch_follow_one_rank(ranks, np):
    ranks.check(MODEL + """
sgd = lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)
adam = lambda p: torch.optim.Adam(p, lr=0.01)
for make in (sgd, adam):
    first = follows(make)
    packed = follows(make, gradient_as_bucket_view=False)  # no bit changes
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), packed.parameters()))
if size > 2:
    raise SystemExit  # what follows is tested on two ranks
follows(sgd, zero={"set_to_none": True})
follows(sgd, zero={"set_to_none": False})
follows(sgd, tolerance=0.05, compression=hvd.Compression.fp16)  # of float64

class Half(hvd.Compressor):
    @staticmethod
    def compress(tensor):
        return tensor.half(), tensor.dtype
    @staticmethod
    def decompress(tensor, ctx):
        return tensor.to(ctx)

follows(sgd, tolerance=0.05, compression=Half)
""", np=np)


def test_gradients_live_in_shared_memory_from_the_second_step_on(ranks):
    ranks.check("""
weight = torch.nn.Parameter(torch.zeros(1000))
bias = torch.nn.Parameter(torch.zeros(3, 5))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight, bias], lr=1.0),
                                     [("w", weight), ("b", bias)])
def step(value, **zero):
    optimizer.zero_grad(**zero)
    (weight * (value + rank)).sum().backward()
    optimizer.step()

for _ in range(2):
    step(1.0)
place = weight.grad.data_ptr()
assert bias.grad.data_ptr() < place  # one after the other, in reverse order
regions = [line.split() for line in open("/proc/self/maps")]
assert any(int(a, 16) <= place < int(b, 16) and row[1][3] == "s"
           for row in regions for a, b in [row[0].split("-")])
for value, zero in ((2.0, False), (5.0, True), (8.0, False)):
    step(value, set_to_none=zero)
    assert weight.grad.data_ptr() == place and (weight.grad == value + 0.5).all()
    assert (bias.grad == 0).all()  # not used: zeros
weight.grad = torch.full((1000,), 100.0)  # the program's own
optimizer.step()
view = weight.grad
assert view.data_ptr() == place and (view == 100.0).all()
del optimizer
weight.grad = None
(weight * rank).sum().backward()  # without hooks now
assert (weight.grad == rank).all() and not weight._backward_hooks
hvd.shutdown()
view[:] = 3
assert (view == 3).all()
""")


def test_gradients_of_any_layout_and_kind_are_reduced(ranks):
    ranks.check("""
class Own(torch.nn.Parameter):
    pass
class Kind(torch.Tensor):
    pass
def inference(x):
    with torch.inference_mode():
        return x.clone()
def plain(x):
    x = x.detach().to_dense() if x.is_sparse else x.detach().as_subclass(torch.Tensor)
    return x.resolve_conj().resolve_neg()

class Turning(hvd.Compressor):
    "What travels has a lazy bit of its own."
    @staticmethod
    def compress(tensor):
        return tensor.conj() if tensor.is_complex() else tensor, None
    @staticmethod
    def decompress(tensor, ctx):
        return tensor.conj() if tensor.is_complex() else tensor

makes = {  # of twelve numbers
    "conjugate": lambda x: (x * (1 + 2j)).reshape(3, 4).conj(),
    "conjugate, transposed": lambda x: (x * (1 + 2j)).reshape(3, 4).conj().t(),
    "negative": lambda x: (x * (1 + 2j)).conj().imag,
    "complex128": lambda x: (x * (1 + 2j)).to(torch.complex128),
    "transposed": lambda x: x.reshape(3, 4).t(),
    "part of another": lambda x: x[2:5],
    "every third": lambda x: x[::3],
    "one expanded": lambda x: x[:1].expand(4),
    "row expanded": lambda x: x[:4].expand(3, 4),
    "no axes": lambda x: x[0],
    "no elements": lambda x: x[:0].reshape(0, 3),
    "channels last": lambda x: x.reshape(1, 3, 2, 2).to(memory_format=torch.channels_last),
    "half": lambda x: x.half(),
    "bfloat16": lambda x: x.bfloat16(),
    "needs gradients": lambda x: x.clone().requires_grad_(),
    "class of parameters": Own,
    "class of tensors": lambda x: x.as_subclass(Kind),
    "inference": inference,
    "inference, transposed": lambda x: inference(x).reshape(3, 4).t(),
    "sparse": lambda x: x.reshape(3, 4).to_sparse(1),
    "sparse conjugate": lambda x: (x * (1 + 2j)).reshape(3, 4).conj().to_sparse(1),
}
for what, make in makes.items():
    for options in ({}, {"gradient_as_bucket_view": False}, {"compression": "fp16"},
                    {"compression": Turning}):
        numbers = torch.arange(1.0, 13.0)
        parameter = torch.nn.Parameter(torch.zeros_like(plain(make(numbers))))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0),
                                             [("w", parameter)], **options)
        for step in range(5):
            gradient, want = make(numbers * (rank + 1)), plain(make(numbers * 1.5))
            optimizer.zero_grad()
            if step % 2 == 0 or gradient.is_sparse or gradient.is_inference():
                parameter.grad = gradient
            else:
                parameter.backward(gradient)
            optimizer.synchronize()
            given = plain(parameter.grad)
            assert torch.allclose(given, want), (what, options, step, given, want)
            with optimizer.skip_synchronize():
                optimizer.step()
""")


def test_a_step_that_failed_leaves_nothing_for_the_next_gradient(ranks):
    ranks.check("""
parameter = torch.nn.Parameter(torch.zeros(2, 3).t())
optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0), [("w", parameter)])
parameter.backward(torch.arange(6.0).view(3, 2) * (rank + 1))
parameter.grad.add_(0)  # while it is reduced, as a copy
with pytest.raises(ValueError, match="was changed while it was being reduced"):
    optimizer.step()
parameter.data, parameter.grad = torch.zeros(3, 2), None  # contiguous: reduced where it is
parameter.backward(torch.full((3, 2), 100.0 * (rank + 1)))
optimizer.step()
assert parameter.grad.tolist() == [[150.0] * 2] * 3, parameter.grad
""")


def test_a_gradient_that_is_its_view_seen_otherwise(ranks):
    ranks.check("""
for seen in (lambda x: x.conj(), lambda x: x.t(), lambda x: x[:1].expand(3, 3), lambda x: x.detach()):
    parameter = torch.nn.Parameter(torch.zeros(3, 3, dtype=torch.complex64))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0), [("w", parameter)])
    for step in range(3):
        optimizer.zero_grad(set_to_none=False)
        parameter.backward(torch.arange(9.0).reshape(3, 3) * (1 + 2j))
        optimizer.step()
    view = parameter.grad
    want = seen(view).resolve_conj().clone()
    parameter.grad = seen(view)
    optimizer.step()  # which reduces what is there: all ranks have the same
    assert torch.equal(parameter.grad, want), (parameter.grad, want)
""")


def test_a_gradient_that_the_program_keeps_stays_as_it_is(ranks):
    ranks.check("""
weight = torch.nn.Parameter(torch.ones(3, 1))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=0.0), [("w", weight)])
for step in range(3):
    kept, places = [], set()
    for task in (1.0, 4.0, 8.0):
        optimizer.zero_grad(set_to_none=True)
        (weight * task).sum().backward()
        optimizer.synchronize()
        kept.append(weight.grad)
        places.add(weight.grad.data_ptr())
        with optimizer.skip_synchronize():
            optimizer.step()
    assert [gradient.view(-1).tolist() for gradient in kept] == [[1.0] * 3, [4.0] * 3, [8.0] * 3]
    assert step == 0 or len(places) == 1  # in shared memory
""")


@SIZES
def test_accumulation_partial_windows_and_further_passes(ranks, np):
    ranks.check("""
late = (size - 1) / 2  # the mean of the ranks' numbers
def make(**options):
    weight, bias = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(1))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight, bias], lr=1.0),
                                         [("w", weight), ("b", bias)], **options)
    return weight, bias, optimizer

def backward(weight, bias, value):
    (weight.sum() * (value + rank) + bias.sum()).backward()

for views in (True, False):
    for passes, made in ((1, 1), (2, 2), (3, 2), (1, 3), (2, 5)):
        weight, bias, optimizer = make(backward_passes_per_step=passes, gradient_as_bucket_view=views)
        for round in range(3):
            optimizer.zero_grad()
            for number in range(made):
                backward(weight, bias, 2.0)
            optimizer.synchronize()
            assert weight.grad.tolist() == [(2 + late) * made] * 2 and bias.grad.tolist() == [made], (
                passes, made, weight.grad, bias.grad)
            with optimizer.skip_synchronize():
                optimizer.step()
        assert weight.tolist() == [-3 * (2 + late) * made] * 2

    weight, bias, optimizer = make(gradient_as_bucket_view=views)
    for round in range(2):
        optimizer.zero_grad()
        with optimizer.no_sync():
            for number in range(3):
                backward(weight, bias, 1.0)
            assert weight.grad.tolist() == [3.0 * (1 + rank)] * 2
        backward(weight, bias, 1.0)
        optimizer.step()
        assert weight.grad.tolist() == [4 * (1 + late)] * 2 and bias.grad.tolist() == [4.0]
        optimizer.zero_grad()
        with optimizer.no_sync():  # and step() at once
            backward(weight, bias, 1.0)
        optimizer.step()
        assert weight.grad.tolist() == [1 + late] * 2

    weight, bias, optimizer = make(gradient_as_bucket_view=views)
    optimizer.set_backward_passes_per_step(2)
    backward(weight, bias, 1.0)
    optimizer.zero_grad()  # nothing is in flight, and what was accumulated does not count
    backward(weight, bias, 1.0)
    optimizer.step()
    assert weight.grad.tolist() == [1 + late] * 2
    with pytest.raises(ValueError, match="backward_passes_per_step"):
        optimizer.set_backward_passes_per_step(0)
""", np=np)


def test_a_hundred_rounds_of_init_and_shutdown(ranks):
    ranks.check("""
hvd.shutdown()
for number in range(100):
    hvd.init()
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("w", weight)])
    (weight.sum() * 2 * rank).backward()
    optimizer.step()
    assert weight.tolist() == [-1.0, -1.0]
    hvd.shutdown()
""")


def test_clipping_and_what_may_not_be_done_in_flight(ranks):
    ranks.check("""
weight = torch.nn.Parameter(torch.zeros(4))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("w", weight)])
for round in range(3):
    optimizer.zero_grad()
    (weight.sum() * (rank + 1)).backward()
    with pytest.raises(ValueError, match="'w'"):
        optimizer.zero_grad()
    with optimizer.skip_synchronize():
        with pytest.raises(ValueError, match="synchronize"):
            optimizer.step()
    optimizer.synchronize()
    optimizer.synchronize()  # once is enough
    assert weight.grad.tolist() == [1.5] * 4
    assert torch.nn.utils.clip_grad_norm_([weight], 1.0) == 3.0
    with optimizer.skip_synchronize():
        optimizer.step()
    assert weight.grad.tolist() == pytest.approx([0.5] * 4)
    (weight.sum() * 0).backward()
    optimizer.step()  # and without the context: what was clipped is reduced again
assert weight.tolist() == pytest.approx([-3 * 1.0] * 4, abs=1e-5) and same_everywhere(weight)

# Nor does it step with passes that were made on this rank alone.
with optimizer.no_sync():
    (weight.sum() * 0).backward()
with optimizer.skip_synchronize():
    with pytest.raises(ValueError, match="what backward.. has added to the gradient of 'w' is not reduced"):
        optimizer.step()
optimizer.step()

# What is in flight may not be exchanged: the reduced gradient would be lost.
for replaced in (torch.ones(4), None):
    optimizer.zero_grad()
    (weight.sum() * (rank + 1)).backward()
    weight.grad = replaced
    with pytest.raises(ValueError, match="'w' was replaced"):
        optimizer.step()
table = torch.nn.Embedding(4, 2, sparse=True)
rows = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=1.0), table.named_parameters())
for replaced in (torch.zeros(4, 2).to_sparse(1), None):
    table(torch.tensor([rank])).sum().backward()
    table.weight.grad = replaced
    with pytest.raises(ValueError, match="'weight' was replaced"):
        rows.step()
    rows.zero_grad()

# Nor changed: that is lost on the other ranks, or everywhere.
def give_other_memory(gradient):
    gradient.data = torch.ones(4)
for views in (True, False):
    other = torch.nn.Parameter(torch.zeros(4))
    second = hvd.DistributedOptimizer(torch.optim.SGD([other], lr=0.0), [(f"other{views}", other)],
                                      gradient_as_bucket_view=views)
    for change in (lambda g: torch.nn.utils.clip_grad_norm_([other], 1.0), lambda g: g.mul_(100),
                   lambda g: g.zero_(), lambda g: g[:1].add_(1), give_other_memory):
        for round in range(2):  # the second one is reduced in shared memory
            second.zero_grad()
            (other.sum() * (rank + 1)).backward()
            change(other.grad)
            with pytest.raises(ValueError, match=r"'other.*' was (changed|replaced).*call the optimizer's synchronize"):
                second.step()
            second.zero_grad()
            (other.sum() * (rank + 1)).backward()
            second.step()
            assert other.grad.tolist() == [1.5] * 4

# Gradients that are parts of one tensor of the program.
both = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(2))
flat = torch.zeros(4)
both[0].grad, both[1].grad = flat[:2], flat[2:]
split = hvd.DistributedOptimizer(torch.optim.SGD(both, lr=0.0), groups=2, gradient_as_bucket_view=False)
for round in range(2):
    split.zero_grad(set_to_none=False)
    ((both[0].sum() + both[1].sum()) * (rank + 1)).backward()
    split.step()
    assert flat.tolist() == [1.5] * 4

# A model of another dtype: between two steps only.
layer = torch.nn.Linear(2, 1, bias=False)
third = hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=0.0), [("line", layer.weight)])
for dtype in (torch.float32, torch.float64, torch.float32):
    layer.to(dtype)
    for round in range(2):
        third.zero_grad(set_to_none=False)
        layer(torch.full((1, 2), rank + 1.0, dtype=dtype)).sum().backward()
        third.step()
        assert layer.weight.grad.dtype == dtype and layer.weight.grad.tolist() == [[1.5] * 2]
layer = torch.nn.Linear(2, 2, bias=False)
fourth = hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=0.0), [("layer", layer.weight)])
layer(torch.ones(1, 2)).sum().backward()
layer.double()
with pytest.raises(ValueError, match="was replaced"):
    fourth.step()

# GradScaler's order, by hand: it is for GPUs in PyTorch 1.13.
optimizer.zero_grad()
(weight.sum() * (rank + 1) * 1024.0).backward()
optimizer.synchronize()
weight.grad.mul_(1 / 1024.0)
with optimizer.skip_synchronize():
    optimizer.step()
assert weight.grad.tolist() == [1.5] * 4
""")


def test_options_that_do_not_fit_are_errors(world):
    import torch

    hvd = world
    layer = torch.nn.Linear(2, 2)

    def make(named=None, **options):
        sgd = torch.optim.SGD(layer.parameters(), lr=1.0)
        return hvd.DistributedOptimizer(sgd, named or layer.named_parameters(), **options)

    def refuses(match, *args, **options):
        with pytest.raises(ValueError, match=match):
            make(*args, **options)

    weight, bias = layer.parameters()
    refuses("twice", [("a", weight), ("a", bias)])
    refuses("not in named_parameters", [("a", weight)])
    refuses("pairs", [weight, bias])
    refuses("backward_passes_per_step", backward_passes_per_step=0)
    for factor in (0.0, -1.0, 1e-31, 1e31, float("inf"), float("nan")):
        refuses("predivide.*between 1e-30 and 1e30", gradient_predivide_factor=factor)
    refuses("predivide", gradient_predivide_factor=2.0, op=hvd.Sum)
    refuses("groups", groups=-1)
    refuses("groups", groups=[weight])
    refuses("exclude", groups=1, num_groups=2)
    refuses("op=9", op=9)
    for given in (layer, torch.nn.Sequential(layer), 7, layer.parameters()):
        with pytest.raises(ValueError, match=r"must be pairs \(name, parameter\), such as "
                           rf"model.named_parameters\(\), not a {type(given).__name__}"):
            hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=1.0), given)
    with pytest.raises(TypeError, match=r"compression=5 has no compress\(\)"):
        make(compression=5)
    for match, option in {"process_set must be a ProcessSet.*got 5": {"process_set": 5},
                          "predivide_factor must be a number.*'x'": {"gradient_predivide_factor": "x"},
                          "passes_per_step must be an int.*1.5": {"backward_passes_per_step": 1.5},
                          "groups must be a number of groups.*'two'": {"groups": "two"}}.items():
        with pytest.raises(TypeError, match=match):
            make(**option)
    with pytest.raises(TypeError, match="Linear"):
        hvd.DistributedOptimizer(layer)
    optimizer = make(gradient_predivide_factor=2.0, groups=2)
    with pytest.raises(ValueError, match="wrapped already"):
        hvd.DistributedOptimizer(optimizer)
    assert isinstance(optimizer, torch.optim.SGD) and type(optimizer).__name__ == "SGD"
    assert optimizer._parameter_names == {weight: "weight", bias: "bias"}  # Horovod's name
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(1))]})
    assert len(optimizer._parameter_names) == 3
    layer(torch.ones(1, 2)).sum().backward()
    optimizer.synchronize()
    with optimizer.skip_synchronize(), optimizer.no_sync():
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    assert weight.grad is None
    optimizer = make(op=hvd.Adasum)
    optimizer.step()


def test_groups_that_do_not_fit_are_errors(ranks):
    ranks.check("""
layer = torch.nn.Linear(2, 2)
weight, bias = layer.parameters()
for groups in ([[weight], [weight]], [[torch.nn.Parameter(torch.ones(1))]]):
    with pytest.raises(ValueError, match="groups"):
        hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=1.0), groups=groups)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=1.0), groups=[[bias, weight]])
layer(torch.full((1, 2), rank + 1.0)).sum().backward()
optimizer.step()
assert weight.grad.tolist() == [[1.5, 1.5]] * 2 and bias.grad.tolist() == [1.0, 1.0]
with pytest.raises(hvd.MismatchError):  # ranks with other parameters
    other = torch.nn.Parameter(torch.zeros(2 + rank))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([other], lr=1.0), [("other", other)])
    other.sum().backward()
    optimizer.step()
assert hvd.allreduce(torch.ones(1), op=hvd.Sum)[0] == 2
""")


@pytest.mark.parametrize("np, windows", [(2, 1), (2, 2), pytest.param(4, 1, marks=pytest.mark.full)])
def test_ranks_that_are_set_up_differently_get_one_error(ranks, np, windows):
    ranks.check(f"windows = {windows}" + """
def differ(match, names=("weight", "bias"), **options):
    layer = torch.nn.Linear(2, 2)
    named = list(zip(names, [layer.weight, layer.bias]))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([parameter for _, parameter in named], lr=1.0), named, **options)
    with pytest.raises(hvd.MismatchError, match=f"{match}.*rank {rank} has"):
        for window in range(windows):  # the second one waits for the first inside backward()
            layer(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum)[0] == size

differ("parameters", names=("weight", f"bias{rank}"), groups=2)
differ("parameters", names=(["x", "y"], ["y", "x"])[rank % 2])
differ("parameters", names=("one", "two")[rank % 2:])
differ("groups", names=("a", "b"), groups=1 + rank % 2)
differ("backward_passes_per_step", names=("c", "d"), backward_passes_per_step=1 + rank)
differ("parameters", names=("e", f"f{rank}"), op=hvd.Adasum)

# The job goes on.
weight = torch.nn.Parameter(torch.zeros(2))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0))
(weight.sum() * (rank + 1)).backward()
optimizer.step()
assert weight.tolist() == [-(size + 1) / 2] * 2
""", np=np)


@SIZES
def test_parameters_that_freeze_thaw_come_later_or_are_not_used(ranks, np):
    ranks.check("""
mean = (size + 1) / 2  # of the ranks' gradients
first, second, third = (torch.nn.Parameter(torch.zeros(2)) for _ in range(3))
second.requires_grad_(False)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD([first, second], lr=1.0),
                                     [("first", first), ("second", second)])
def step(*used):
    optimizer.zero_grad(set_to_none=True)
    if used:
        sum((parameter * (rank + 1)).sum() for parameter in used).backward()
    optimizer.step()

step(first)
assert first.grad.tolist() == [mean] * 2 and second.grad is None
second.requires_grad_(True)
for round in range(2):
    step(first, second)
    assert first.grad.tolist() == second.grad.tolist() == [mean] * 2
first.requires_grad_(False)
for round in range(2):
    step(second)
    assert second.grad.tolist() == [mean] * 2 and first.grad is None
first.requires_grad_(True)
step(*[first, second][: 1 + (rank == 0)])  # rank 0 alone uses both
assert first.grad.tolist() == [mean] * 2 and second.grad.tolist() == [1 / size] * 2
step(*[first] * (rank == 0))  # and now nothing at all
assert first.grad.tolist() == [1 / size] * 2 and second.grad.tolist() == [0.0] * 2
optimizer.add_param_group({"params": [third], "lr": 2.0})
before = third.tolist()
for round in range(2):
    step(first, third)
    assert third.grad.tolist() == [mean] * 2
assert third.tolist() == [-4 * mean] * 2 and same_everywhere(first, second, third)

# A parameter that is used twice, and one in whose gradient another function had a hand.
shared = torch.nn.Parameter(torch.zeros(2))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD([shared], lr=1.0))
for round in range(3):
    optimizer.zero_grad()
    hidden = torch.utils.checkpoint.checkpoint(lambda x: x * shared, torch.full((2,), rank + 1.0, requires_grad=True))
    (hidden.sum() + shared.sum()).backward()
    optimizer.step()
    assert shared.grad.tolist() == [mean + 1] * 2
""".replace("mean =", "import torch.utils.checkpoint\nmean =", 1), np=np)


@SIZES
def test_sparse_gradients(ranks, np):
    ranks.check("""
def make(**options):
    torch.manual_seed(1)
    table, layer = torch.nn.Embedding(6, 2, sparse=True), torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.ones_(layer.weight)
    named = [("table", table.weight), ("layer", layer.weight)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p for _, p in named], lr=1.0), named, **options)
    return table, layer, optimizer

for options in ({}, {"sparse_as_dense": True}, {"op": hvd.Sum}, {"groups": 1},
                {"gradient_predivide_factor": 2.0, "groups": 1}, {"backward_passes_per_step": 2}):
    divisor = 1 if "op" in options else size
    table, layer, optimizer = make(**options)
    for round in range(3):
        optimizer.zero_grad()
        for number in range(optimizer._hvd_options["backward_passes_per_step"]):
            rows = torch.tensor([1, 1, 2 + rank])
            layer(table(rows)).sum().backward()
        optimizer.step()
        assert table.weight.grad.is_sparse and not layer.weight.grad.is_sparse
        want = torch.zeros(6, 2)
        want[1], want[2:2 + size] = 2 * size / divisor, 1 / divisor
        if round == 0:
            assert torch.equal(table.weight.grad.to_dense(), want * (number + 1)), (options, table.weight.grad)
        assert same_everywhere(table.weight, layer.weight)

# A rank that never read a row sends none.
for options in ({}, {"sparse_as_dense": True}):
    table, layer, optimizer = make(**options)
    for round in range(2):
        optimizer.zero_grad()
        (layer(table(torch.tensor([4]))).sum() if rank == 0 else layer(torch.ones(1, 2)).sum()).backward()
        optimizer.step()
        assert table.weight.grad.is_sparse and same_everywhere(table.weight, layer.weight)
        if round == 0:
            assert table.weight.grad.to_dense()[4].tolist() == [1 / size] * 2

table = torch.nn.Embedding(6, 2, sparse=True)
hvd.broadcast_parameters(table.state_dict(), 0)
optimizer = hvd.DistributedOptimizer(torch.optim.SparseAdam(table.parameters(), lr=0.1))
for round in range(3):
    optimizer.zero_grad()
    table(torch.tensor([rank, round])).sum().backward()
    optimizer.step()
assert same_everywhere(table.weight)
""", np=np)


def test_an_empty_batch_of_a_sparse_layer_and_a_model_whose_dtype_changes_after_wrapping(ranks):
    ranks.check("""
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Embedding(6, 2, sparse=True), torch.nn.Linear(2, 1))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters())
for step in range(3):
    before = model[0].weight.detach().clone()
    rows = torch.tensor([1, 2]) if rank == 0 or step > 0 else torch.empty(0, dtype=torch.int64)
    optimizer.zero_grad()
    model(rows).sum().backward()
    optimizer.step()
    assert (before != model[0].weight).any(1).tolist() == [False, True, True, False, False, False]

layer = torch.nn.Linear(3, 2)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=1.0), layer.named_parameters())
layer.double()
for step in range(3):
    before = layer.bias.detach().clone()
    optimizer.zero_grad()
    (layer(torch.ones(1, 3, dtype=torch.float64)) * (rank + 1)).sum().backward()
    optimizer.step()
    assert (before - layer.bias).tolist() == [(size + 1) / 2] * 2, layer.bias
""", np=2)


@pytest.mark.parametrize("np", [2, pytest.param(4, marks=pytest.mark.full)])
def test_adasum_combines_what_the_optimizer_changed(ranks, np):
    ranks.check(MODEL + """
start = torch.tensor([1.0, 2.0, 3.0, 4.0])
for compression in (hvd.Compression.none, hvd.Compression.fp16):
    weight = torch.nn.Parameter(start.clone())
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=0.5), op=hvd.Adasum,
                                         compression=compression)
    factors = torch.diag(2 * start)[rank]
    optimizer.zero_grad()
    (weight * factors).sum().backward()
    optimizer.step()
    assert weight.tolist() == [0.0] * size + start.tolist()[size:]  # changes at right angles are added
    optimizer.zero_grad()
    weight.sum().backward()
    optimizer.step()
    assert weight.tolist() == [-0.5] * size + (start - 0.5).tolist()[size:]  # equal ones are averaged
with pytest.raises(ValueError, match="Adasum"):
    with optimizer.skip_synchronize():
        pass
optimizer.synchronize()
model = make_model()
optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters(), lr=0.01),
                                     model.named_parameters(), op=hvd.Adasum)
x, y = next(batches(1))
before = float(loss_of(model(x), y))
for _ in range(30):
    optimizer.zero_grad()
    loss_of(model(mine(x)), mine(y)).backward()
    optimizer.step()
assert float(loss_of(model(x), y)) < before / 2 and same_everywhere(*model.parameters())
""", np=np)


def test_closures_schedulers_subclasses_and_saved_states(ranks):
    ranks.check(MODEL + """
import io, warnings
# LBFGS calls its closure as often as it likes.
model, alone = make_model(), make_model()
x, y = next(batches(1, 16))
def run(model, optimizer, x, y):
    def closure():
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        return loss
    for _ in range(4):
        optimizer.step(closure)
lbfgs = lambda m: torch.optim.LBFGS(m.parameters(), lr=0.5, max_iter=5, line_search_fn="strong_wolfe")
run(alone, lbfgs(alone), x, y)
run(model, hvd.DistributedOptimizer(lbfgs(model), model.named_parameters()), mine(x), mine(y))
assert same_everywhere(*model.parameters())
for a, b in zip(model.parameters(), alone.parameters()):
    assert torch.allclose(a, b, atol=1e-6)

class Halving(torch.optim.SGD):
    "Of a constructor of its own, and derived once more below."
    def __init__(self, model, factor):
        super().__init__(model.parameters(), lr=1.0)
        self.factor = factor
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.sub_(parameter.grad, alpha=group["lr"] * self.factor)

class Derived(Halving):
    def step(self, closure=None):
        self.steps = getattr(self, "steps", 0) + 1
        return super().step(closure)

model = make_model()
optimizer = hvd.DistributedOptimizer(Derived(model, 0.5), model.named_parameters())
assert isinstance(optimizer, Halving) and optimizer.factor == 0.5
assert train(model, optimizer, 20)[-1] > 0 and same_everywhere(*model.parameters())
assert optimizer.steps == 20

# A scheduler of the optimizer before it was wrapped, and one of the wrapped.
for before in (True, False):
    model = make_model()
    inner = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.5)
    if before:
        scheduler = torch.optim.lr_scheduler.StepLR(inner, 1, 0.5)
    optimizer = hvd.DistributedOptimizer(inner, model.named_parameters())
    if not before:
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(3):
            train(model, optimizer, 1)
            scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.125 and same_everywhere(*model.parameters())
early = torch.optim.SGD(make_model().parameters(), lr=1.0)
scheduler = torch.optim.lr_scheduler.StepLR(early, 1, 0.5)
early = hvd.DistributedOptimizer(early)
with pytest.warns(UserWarning, match="lr_scheduler.step..` before `optimizer.step"):  # and so it is
    scheduler.step()

saved = io.BytesIO()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, saved)
with warnings.catch_warnings():
    warnings.simplefilter("error")  # hooks are no part of a model
    torch.save(model, io.BytesIO())
saved.seek(0)
other = make_model(seed=11)
fresh = hvd.DistributedOptimizer(torch.optim.SGD(other.parameters(), lr=1.0, momentum=0.5), other.named_parameters())
loaded = torch.load(saved)
other.load_state_dict(loaded["model"])
fresh.load_state_dict(loaded["optimizer"])
assert fresh.param_groups[0]["lr"] == 0.125
train(model, optimizer, 3)
train(other, fresh, 3)
assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters()))
""")


COPIES = """
import copy, io, pickle
def unpickled(x):
    return pickle.loads(pickle.dumps(x))
def saved_and_loaded(x):
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    return torch.load(file, weights_only=False)

class Ours(torch.optim.SGD):
    def __deepcopy__(self, memo):
        other = type(self)(copy.deepcopy(self.param_groups, memo), lr=0.1)
        other.copied = True
        return other

class Half(hvd.Compressor):
    @staticmethod
    def compress(tensor):
        return tensor.half(), tensor.dtype
    @staticmethod
    def decompress(tensor, ctx):
        return tensor.to(ctx)

def make(kind=torch.optim.Adam, groups=None, **options):
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    if groups == "lists":
        groups = [[model[0].weight, model[2].bias], [model[2].weight]]
    return model, hvd.DistributedOptimizer(kind(model.parameters(), lr=0.1),
                                           model.named_parameters(), groups=groups, **options)

def step(model, optimizer, number):
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(10 * number + rank))
    optimizer.zero_grad()
    model(x).square().sum().backward()
    optimizer.step()

def goes_on_alike(original, copied, shared=True):
    for number in (3, 4, 5):
        step(*original, number)
        step(*copied, number)
    (model, optimizer), (other, second) = original, copied
    assert type(second).__name__ == type(optimizer).__name__ and isinstance(second, torch.optim.Optimizer)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters()))
    assert not any(a is b for a, b in zip(model.parameters(), other.parameters()))
    assert not shared or same_everywhere(*other.parameters())
    assert list(second._parameter_names.values()) == list(optimizer._parameter_names.values())
    assert repr(second._hvd_options) == repr(optimizer._hvd_options)
"""


@pytest.mark.parametrize("np", [pytest.param(1, marks=pytest.mark.full), 2])
def test_copied_and_loaded_optimizers_reduce(ranks, np):
    ranks.check(COPIES + """
for copied in (copy.deepcopy, unpickled, saved_and_loaded, lambda x: copy.deepcopy(unpickled(x))):
    for options in ({}, {"kind": torch.optim.SGD, "op": "sum"}, {"op": hvd.Adasum}, {"groups": 2},
                    {"groups": "lists"}, {"compression": "fp16"}, {"compression": Half},
                    {"compression": hvd.Compression.powersgd(1)}, {"overlap_step": True},
                    {"gradient_predivide_factor": 2.0, "sparse_as_dense": True},
                    {"gradient_as_bucket_view": False},
                    {"clip_grad_norm": 0.1, "clip_when": "before"},
                    {"backward_passes_per_step": 2, "average_aggregated_gradients": True}):
        original = make(**options)
        step(*original, 1), step(*original, 2)
        goes_on_alike(original, copied(original))
        # A scheduler has its optimizer with it.
        model, optimizer = original
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        other, another = copied((model, scheduler))
        goes_on_alike(original, (other, another.optimizer))

original = make(kind=Ours)
model, optimizer = copy.deepcopy(original)
assert optimizer.copied
goes_on_alike(original, (model, optimizer))

# Parameters that came later, a step in the middle of a window, and passes that were changed.
model, optimizer = make(backward_passes_per_step=2)
late = torch.nn.Linear(2, 1)
torch.nn.init.ones_(late.weight)
model.append(late)
optimizer.add_param_group({"params": list(late.parameters()), "lr": 0.5})
optimizer.set_backward_passes_per_step(3)
step(model, optimizer, 1)
model(torch.ones(1, 3)).sum().backward()
other, second = copy.deepcopy((model, optimizer))
assert [group["lr"] for group in second.param_groups] == [0.1, 0.5]
optimizer.zero_grad()
goes_on_alike((model, optimizer), (other, second))

# A shallow copy shares everything.
shallow = copy.copy(optimizer)
shallow.zero_grad()
assert shallow.param_groups is optimizer.param_groups and type(shallow) is type(optimizer)
for number in (1, 2):
    step(model, shallow, number)
assert same_everywhere(*model.parameters())

model, optimizer = make()
data = pickle.dumps((model, optimizer))
hvd.shutdown()
with pytest.raises(hvd.InvalidArgumentError, match=r"DistributedOptimizer: .*before init\\(\\)"):
    pickle.loads(data)
hvd.init()
model, optimizer = pickle.loads(data)
step(model, optimizer, 1)
assert same_everywhere(*model.parameters())
""", np=np)


def test_copied_optimizers_of_a_process_set(ranks):
    ranks.check(COPIES + """
one = hvd.add_process_set([1])
both = hvd.add_process_set([0, 1])
for process_set in (one, both):
    for copied in (copy.deepcopy, unpickled, saved_and_loaded):
        original = make(process_set=process_set)
        step(*original, 1)
        model, optimizer = copied(original)
        assert optimizer._hvd_options["process_set"] is process_set
        goes_on_alike(original, (model, optimizer), shared=process_set is both)
data = pickle.dumps(make(process_set=both))
hvd.shutdown()
hvd.init()
with pytest.raises(hvd.InvalidArgumentError, match=r"ranks \\[0, 1\\].*add_process_set"):
    pickle.loads(data)
hvd.add_process_set([0, 1])
step(*pickle.loads(data), 1)
handle = hvd.allreduce_async(torch.ones(1))
for wrong in (copy.copy, copy.deepcopy, unpickled):
    with pytest.raises(TypeError, match="Handle cannot be copied.*synchronize"):
        wrong(handle)
assert handle.synchronize().item() == 1
""")


TWO_PARAMETERS = """
weight, bias = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(2))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight, bias], lr=1.0), [("w", weight), ("b", bias)])
mean = (size + 1) / 2  # of the ranks' gradients

def backward(fails=False):
    def hook(gradient):
        if fails:
            raise KeyError("of the program")
    hidden = weight * (rank + 1)
    hidden.register_hook(hook)  # bias comes before it
    (hidden.sum() + (bias * (rank + 1)).sum()).backward()
"""


@SIZES
def test_exceptions_in_hooks(ranks, np):
    ranks.check(TWO_PARAMETERS + """
for round in range(3):
    optimizer.zero_grad()
    if round == 1:
        with pytest.raises(KeyError, match="of the program"):
            backward(fails=True)
        optimizer.synchronize()
        assert bias.grad.tolist() == [mean] * 2 and weight.grad.tolist() == [0.0] * 2
        optimizer.zero_grad()
    backward()
    optimizer.step()
    assert weight.grad.tolist() == bias.grad.tolist() == [mean] * 2

# On one rank alone: the others count its gradient as zeros.
optimizer.zero_grad()
if rank == 1:
    with pytest.raises(KeyError, match="of the program"):
        backward(fails=True)
else:
    backward()
optimizer.step()
assert weight.grad.tolist() == [mean - 2 / size] * 2 and bias.grad.tolist() == [mean] * 2

# A closure that raises on every rank, after reductions were started.
optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight, bias], lr=0.0), [("c", weight), ("d", bias)])
for round in range(3):
    def closure():
        optimizer.zero_grad()
        backward()
        if round == 1:
            raise KeyError("of the closure")
    if round == 1:
        with pytest.raises(KeyError, match="of the closure"):
            optimizer.step(closure)
        optimizer.zero_grad()
    else:
        optimizer.step(closure)
        assert weight.grad.tolist() == bias.grad.tolist() == [mean] * 2
""", np=np)


def test_uneven_batches_and_ranks_that_leave(ranks):
    ranks.check(TWO_PARAMETERS + """
# Ranks with other numbers of batches: who has none left joins, be it before its first.
for fresh in (False, True):
    if fresh:
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight, bias], lr=1.0))
    for batches in ((2, 5), (0, 3), (4, 1)) if not fresh else ((0, 2), (3, 1), (2, 2)):
        before, common = weight.tolist(), min(batches)
        for batch in range(batches[rank]):
            optimizer.zero_grad()
            backward()
            optimizer.step()
        last = hvd.join()
        assert batches[0] == batches[1] or last == batches.index(max(batches))
        hvd.broadcast_parameters([weight, bias], root_rank=last)
        further = (max(batches) - common) * (last + 1) / 2  # Horovod divides by all ranks
        assert weight.tolist() == [before[0] - common * 1.5 - further] * 2
        assert same_everywhere(weight, bias)

# A rank that leaves is an error of backward() or step() on the others.
optimizer.zero_grad()
if rank == 1:
    hvd.shutdown()
else:
    with pytest.raises(hvd.HorovodInternalError):
        backward()
        optimizer.step()
""")


def test_passes_that_only_some_ranks_change_are_errors(ranks):
    ranks.check(TWO_PARAMETERS + ORDER + """
def step(passes):
    optimizer.zero_grad()
    for number in range(passes):
        backward()
    optimizer.step()
    assert weight.grad.tolist() == bias.grad.tolist() == [passes * mean] * 2

step(1)
with pytest.raises(hvd.MismatchError, match=f"backward_passes_per_step; rank {rank} has {rank + 2}"):
    optimizer.set_backward_passes_per_step(2 + rank)
step(1)  # as before
optimizer.set_backward_passes_per_step(2)
step(2)
if rank == 0:
    once_asleep(pathlib.Path("asked").touch)
else:
    wait_for("asked")  # what this rank does instead is the younger stall
with pytest.raises(hvd.StalledError, match="DistributedOptimizer.backward_passes_per_step.*rank 1"):
    if rank == 0:
        optimizer.set_backward_passes_per_step(1)
    step(2)
""", environment={"HOROVOD_STALL_CHECK_TIME_SECONDS": "1", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "7"})


CTRL_C = ORDER + """
signal.signal(signal.SIGINT, signal.default_int_handler)
"""


def test_ctrl_c_while_other_ranks_have_not_asked_for_shared_memory(ranks):
    ranks.check(CTRL_C + """
from horovod_cpp import _native
like = [hvd.memory.source(torch.ones(3))]
if rank == 0:
    views = _native._GradientViews(like, hvd.global_process_set, "w")
    with pytest.raises(KeyboardInterrupt):
        signal_once_asleep(signal.SIGINT)
        views.take()  # without Ctrl-C forever: rank 1 comes after the barrier
hvd.barrier()
if rank == 1:
    views = _native._GradientViews(like, hvd.global_process_set, "w")
assert len(views.take()) == 1
""")


def test_workers_of_a_data_loader_that_fork(ranks):
    ranks.check(MODEL + """
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
data = TensorDataset(*next(batches(1, 64)))
sampler = DistributedSampler(data, size, rank)
model = make_model()
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
for epoch in range(2):
    sampler.set_epoch(epoch)
    for x, y in DataLoader(data, 8, sampler=sampler, num_workers=2, multiprocessing_context="fork"):
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()
assert same_everywhere(*model.parameters())
""")


def test_reports_of_stalls_name_lines_of_the_program_not_of_pytorch():
    import threading
    import time

    from torch.utils.data import DataLoader

    import horovod_cpp.torch  # noqa: F401, from here on
    from horovod_cpp.call_site import where

    gate, begun, seen = threading.Lock(), [], []

    class Gate:
        __getitem__ = staticmethod(gate.acquire)  # called by PyTorch's own code

    class Once:
        def __iter__(self):
            begun.append(True)
            yield True

    def watch():
        while not begun:
            time.sleep(0.01)
        for _ in range(10):
            time.sleep(0.05)
            seen.append(where())
        gate.release()

    gate.acquire()
    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in DataLoader(Gate(), batch_size=None, sampler=Once()):
        pass
    watcher.join()
    assert all(place.startswith("test_optimizer.py:") for place in seen), seen


def test_ctrl_c_in_step_and_then_step_again(ranks):
    ranks.check(MODEL + CTRL_C + """
alone, model = make_model(), make_model()
plain = torch.optim.SGD(alone.parameters(), lr=0.1)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
for place, (x, y) in enumerate(batches(4, 8)):
    interrupted = place in (0, 2)  # the first step agrees on the setup
    if rank == 1 and interrupted:
        hvd.barrier()
    plain.zero_grad()
    optimizer.zero_grad()
    loss_of(alone(x), y).backward()
    loss_of(model(x), y).backward()
    plain.step()
    if rank == 0 and interrupted:
        with pytest.raises(KeyboardInterrupt):
            signal_once_asleep(signal.SIGINT)
            optimizer.step()
        hvd.barrier()  # rank 1 comes late
    optimizer.step()
for one, two in zip(alone.parameters(), model.parameters()):
    assert torch.allclose(one, two, atol=1e-6)
assert same_everywhere(*model.parameters())
""")


@pytest.mark.parametrize("pause", [0, 0.01])
def test_step_does_not_take_gradients_whose_submission_failed(ranks, pause):
    """After a pause before step() all are submitted in backward(), else some by step()."""
    ranks.check(f"pause = {pause}" + MODEL + """
import time

model = make_model()
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
train(model, optimizer, steps=2)
x, y = next(batches(1, 8))
optimizer.zero_grad()
loss_of(model(x), y).backward()
time.sleep(pause)
optimizer.step()
same = "/allreduce." + optimizer._hvd_reducer.call_names[0]
if rank == 0:  # somebody else's call has this name until rank 1 comes
    other = hvd.broadcast_async(torch.ones(1), 0, name=same)
    with pytest.raises(hvd.InvalidArgumentError, match="in flight"):
        try:
            loss_of(model(x), y).backward()
        finally:
            optimizer.step()
    hvd.barrier()
    hvd.synchronize(other)
else:
    hvd.barrier()
    hvd.broadcast(torch.ones(1), 0, name=same)
assert same_everywhere(*model.parameters())
train(model, optimizer, steps=2)
assert same_everywhere(*model.parameters())
""")


def test_ranks_that_have_nothing_new_to_say_send_gradients_alone(ranks):
    ranks.check("""
used, unused = (torch.nn.Parameter(torch.zeros(2)) for _ in range(2))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD([used, unused], lr=1.0), [("used", used), ("unused", unused)])

def calls_of_a_step():
    before = hvd.metrics()["tensors"]
    (used.sum() * (rank + 1)).backward()
    optimizer.step()
    return hvd.metrics()["tensors"] - before

for _ in range(5):  # after 4 steps they compare parameters, and next after 8
    calls_of_a_step()
assert [calls_of_a_step() for _ in range(3)] == [1, 1, 1]
optimizer.param_groups[0]["lr"] = 0.5  # a vote, and another as that may go on
assert [calls_of_a_step() for _ in range(4)] == [2, 2, 1, 1]
""")


def test_two_optimizers_of_equal_names_are_at_work_at_once(ranks):
    ranks.check("""
def layers():
    return torch.nn.ModuleList([torch.nn.Linear(2, 2) for _ in range(2)])

def wrapped(parts, **options):
    groups = [list(part.parameters()) for part in parts]
    return hvd.DistributedOptimizer(torch.optim.SGD(parts.parameters(), lr=0.5), groups=groups, **options)

for options in ({}, {"named": True}, {"gradient_as_bucket_view": False}, {"compression": hvd.Compression.fp16}):
    one, two = layers(), layers()
    for parts in (one, two):
        hvd.broadcast_parameters(parts.state_dict(), 0)
    named = options.pop("named", False)
    first = wrapped(one, **({"named_parameters": one.named_parameters()} if named else {}), **options)
    second = wrapped(two, **({"named_parameters": two.named_parameters()} if named else {}), **options)
    for round in range(3):
        first.zero_grad()
        second.zero_grad()
        x = torch.full((1, 2), rank + 1.0)
        one[rank](two[rank](x)).sum().backward()  # each rank uses other layers
        (second if round % 2 else first).step()
        (first if round % 2 else second).step()
        assert same_everywhere(*one.parameters(), *two.parameters())
        assert one[0].bias.grad.tolist() == one[1].bias.grad.tolist() == [0.5, 0.5]
""")
