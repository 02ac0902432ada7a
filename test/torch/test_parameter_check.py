"""The warning about parameters that were not broadcast; each program covers one subject."""

import pytest
from ranks import SIZES

# step() is the first one of two layers, whose ranks start alike or not.
PROGRAM = """
import warnings
warnings.simplefilter("always")
hvd_warnings = []
warnings.showwarning = lambda message, category, file, line, *_: hvd_warnings.append((str(message), file))

def make(seed, **options):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    return model, hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                           model.named_parameters(), **options)

def step(model, optimizer):
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()

def told():
    "The warnings since the last call, of all ranks."
    mine, hvd_warnings[:] = list(hvd_warnings), []
    assert all(file == __file__ for _, file in mine), mine  # the line of the program
    return hvd.allgather_object([text for text, _ in mine])
"""


@SIZES
def test_a_forgotten_broadcast_is_one_warning_on_the_first_rank(ranks, np):
    ranks.check(PROGRAM + """
for options in ({}, {"op": hvd.Adasum}, {"groups": 1}, {"compression": hvd.Compression.fp16}):
    model, optimizer = make(seed=rank, **options)
    step(model, optimizer)
    (text,), *others = told()
    assert not any(others)
    rest = {2: "rank 1", 3: "ranks 1 and 2"}.get(size, f"ranks 1 to {size - 1}")
    want = (f"parameters differ between rank 0 and {rest} at the first step: '0.weight' and 3 more "
            "of 4.")
    assert want in text, text
    assert "call hvd.broadcast_parameters(model.state_dict(), root_rank=0)" in text
    assert "HVD_CHECK_PARAMETERS=0" in text
    step(model, optimizer)
    assert not any(told())  # once

# Of one tensor on one rank; it is the first step that counts.
model, optimizer = make(seed=0)
with torch.no_grad():
    model[1].bias[0] += rank == size - 1
model[1].bias.requires_grad_(False)  # a frozen one counts too
step(model, optimizer)
(text,), *others = told()
assert f"between rank 0 and rank {size - 1} at the first step: '1.bias'. Each" in text, text
""", np=np)


def test_broadcasts_before_or_after_wrapping_and_steps_that_move_parameters_are_right(ranks):
    ranks.check(PROGRAM + """
model, optimizer = make(seed=rank)  # wrapped, then sent
optimizer.set_backward_passes_per_step(2)  # which the ranks agree on while parameters still differ
optimizer.set_backward_passes_per_step(1)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
for number in range(3):
    step(model, optimizer)

torch.manual_seed(rank)
layer = torch.nn.Linear(3, 2)
hvd.broadcast_parameters(layer.state_dict(), root_rank=1)  # sent, then wrapped
optimizer = hvd.DistributedOptimizer(torch.optim.Adam(layer.parameters()), layer.named_parameters())
with optimizer.no_sync():
    layer(torch.ones(1, 3)).sum().backward()
layer(torch.ones(1, 3)).sum().backward()
with torch.no_grad():
    for parameter in layer.parameters():
        parameter.mul_(2)  # on all ranks; between backward() and step()
optimizer.step()

transposed = torch.nn.Parameter(torch.arange(6.0).view(2, 3))  # equal values that lie differently
if rank == 1:
    transposed = torch.nn.Parameter(torch.arange(6.0).view(2, 3).t().contiguous().t())
optimizer = hvd.DistributedOptimizer(torch.optim.SGD([transposed], lr=1.0))
transposed.sum().backward()
optimizer.step()

embedding = torch.nn.Embedding(5, 2, sparse=True)
hvd.broadcast_parameters(embedding.state_dict())
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(embedding.parameters(), lr=1.0))
embedding(torch.tensor([rank])).sum().backward()
optimizer.step()
assert not any(told())

late = torch.nn.Parameter(torch.full((2,), float(rank)))  # in a group that comes later
optimizer.add_param_group({"params": [late]})
embedding(torch.tensor([rank])).sum().backward()
optimizer.step()
(text,), _ = told()
assert "1.0" in text and "rank 1" in text, text
""")


def test_what_one_rank_changes_later_is_one_warning_also_where_pytorch_does_not_notice(ranks):
    ranks.check(PROGRAM + """
for change in ("gradient", "parameter"):
    for options in ({}, {"overlap_step": True}, {"compression": "fp16"}, {"backward_passes_per_step": 2}):
        model, optimizer = make(seed=1, **options)
        texts = []
        for number in range(1, 10):
            for _ in range(options.get("backward_passes_per_step", 1)):
                model(torch.full((2, 3), float(rank))).sum().backward()
            optimizer.synchronize()
            if number == 3 and rank == 1:
                (model[0].weight.grad if change == "gradient" else model[0].weight).data.mul_(2)
            optimizer.step()
            optimizer.zero_grad()
            texts.append(told())
        warned = [number for number, of_ranks in enumerate(texts, 1) if any(of_ranks)]
        assert warned == [5], (change, options, texts)
        (text,), others = texts[4]
        assert "parameters differ between rank 0 and rank 1 after step 4: '0." in text, text
        assert "Each rank trains another model now" in text and not others
""")


def test_the_comparison_goes_on_after_ctrl_c_and_begins_anew_with_new_parameters(ranks):
    ranks.check(PROGRAM + """
import os, signal, threading, time
model, optimizer = make(seed=1)
gradients = optimizer._hvd_reducer.gradients
give_back = gradients.give_back

def give_back_late(which):
    time.sleep(1)
    give_back(which)

for number in range(1, 6):
    model(torch.ones(2, 3)).sum().backward()
    if number == 5 and rank == 1:
        model[0].bias.data.add_(1)
        gradients.give_back = give_back_late
    if number == 5 and rank == 0:  # while it waits for rank 1's hashes
        threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT]).start()
        try:
            optimizer.step()
            time.sleep(5)
        except KeyboardInterrupt:
            pass
    optimizer.step()
    optimizer.zero_grad()
gradients.give_back = give_back
(text,), others = told()
assert "after step 4: '0.bias'. Each" in text and not others, text

new = [torch.nn.Parameter(torch.full((2,), float(rank * (place == 700)))) for place in range(900)]
optimizer.add_param_group({"params": new})
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
(model(torch.ones(2, 3)).sum() + sum(each.sum() for each in new)).backward()
optimizer.step()
(text,), others = told()
assert "at the first step: 'added.0.weight.1.700'. Each" in text and not others, text
""")


def test_process_sets_compare_among_themselves_and_joined_ranks_do_not_take_part(ranks):
    ranks.check(PROGRAM + """
pairs = [hvd.add_process_set([0, 1]), hvd.add_process_set([2, 3])]
own = pairs[rank // 2]
model, optimizer = make(seed=rank // 2, process_set=own)  # the pairs train different models
step(model, optimizer)
assert not any(told())
model, optimizer = make(seed=rank, process_set=pairs[1])
step(model, optimizer)
texts = told()
assert [len(each) for each in texts] == [0, 0, 1, 0]
assert "between rank 2 and rank 3" in texts[2][0] and "root_rank=2, process_set=process_set" in texts[2][0]

# A rank that joins before its first step compares at that step, with nobody, and then with all.
model, optimizer = make(seed=9)
if rank != 3:
    step(model, optimizer)
hvd.join()
step(model, optimizer)
assert not any(told())
step(model, optimizer)
(text,), *others = told()
assert "between rank 0 and rank 3 after step 2: '0.weight'" in text and not any(others), text
optimizer.set_backward_passes_per_step(2)
step(model, optimizer)
""", np=4)


@pytest.mark.parametrize("where", [(0, 1), (0,)])
def test_the_check_can_be_turned_off_on_all_ranks_or_on_rank_0(ranks, where):
    ranks.check(f"""
import os
if rank in {where}:
    os.environ["HVD_CHECK_PARAMETERS"] = "0"
    print("off")
hvd.shutdown()
hvd.init()
""" + PROGRAM + """
model, optimizer = make(seed=rank)
step(model, optimizer)
assert not any(told())
hvd.barrier()
""")


def test_the_warning_is_a_line_of_the_users_program(ranks):
    text = ranks.check("""
layer = torch.nn.Linear(2, 1)
layer.weight.data.fill_(rank)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=0.1),
                                     layer.named_parameters())
layer(torch.ones(1, 2)).sum().backward()
optimizer.step()  # here
""")
    assert text.count("parameters differ between rank 0 and rank 1") == 1, text
    assert "program.py:" in text and "optimizer.step()  # here" in text


def test_optimizers_that_differ_are_one_warning_or_an_error(ranks):
    ranks.check(PROGRAM + """
model, optimizer = make(seed=0)
schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
for loss in (4, 2, 1):
    step(model, optimizer)
    schedule.step(loss if rank == 0 else 4)  # each rank's own: rank 1 is at a plateau
(text,), others = told()
assert not others
assert "the ranks' optimizers differ: lr of group 0 is 0.01" in text, text
assert "on rank 1, 0.1 on rank 0. " in text and "HVD_CHECK_OPTIONS=0" in text, text
step(model, optimizer)
assert not any(told())  # once
""")
    ranks.check(PROGRAM + """
model, optimizer = make(seed=0)
optimizer.param_groups[0]["momentum"] = 0.5 * rank
with pytest.raises(hvd.MismatchError, match="momentum of group 0 is 0.0 on rank 0, 0.5 on rank 1"):
    step(model, optimizer)
""", environment={"HVD_CHECK_OPTIONS": "error"})
