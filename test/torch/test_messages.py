"""What programs beside PyTorch are told."""

import re


def output_of(ranks, source, **options):
    return ranks.check(source, own_processes=True, **options)


def test_a_gradient_that_is_not_finite_is_named_on_all_ranks_with_its_step(ranks):
    text = output_of(ranks, """
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 1))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                     named_parameters=model.named_parameters())
for step in range(1, 5):
    optimizer.zero_grad()
    x = torch.ones(4, 3)
    if step == 3 and rank == 1:
        x[2, 1] = float("nan")
    model(x).sum().backward()
    try:
        optimizer.step()
        assert step != 3, "nobody noticed"
    except hvd.InvalidArgumentError as error:
        print("step", step, error)
""", flags=["--check-nan"])
    told = re.findall(r"step 3 rank 1's gradient of '[\w.]+' is not finite \(step 3\)", text)
    assert len(told) == 2 and text.count("not finite") == 2, text


def test_gradients_that_are_reduced_together_have_a_name_that_can_be_read(ranks):
    text = output_of(ranks, """
model = torch.nn.Linear(3, 2)
for _ in range(2):
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                         named_parameters=model.named_parameters())
    model(torch.ones(1, 3)).sum().backward()
    if rank == 0:
        print(optimizer._hvd_reducer.call_names)
    optimizer.step()
    del optimizer
print(hvd.summary().count("\\n"))
""")
    assert "['weight and 1 more']" in text, text
    assert "['weight and 1 more (optimizer 2)']" in text, text
    assert text.count("] 5") == 2, text
