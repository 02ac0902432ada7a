"""What README.md and docs/ show with PyTorch, run as it stands there."""

import pytest
from pages import blocks

HOROVOD = dict(blocks("docs/from-horovod.md", "python"))
BEFORE = """
torch.manual_seed(rank)
model = torch.nn.Linear(4, 3)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                     model.named_parameters())
hvd.broadcast_parameters(model.state_dict())
loss = model(torch.randn(2, 4)).square().mean()
scaler = torch.cuda.amp.GradScaler(enabled=False)
"""


def test_the_program_of_the_front_page_prints_what_it_says(ranks):
    (_, program), = blocks("README.md", "python")
    assert program.count("\n") <= 20
    path = ranks.folder / "linear.py"
    path.write_text(program)
    done = ranks.launch([path], 2)
    (_, printed), = blocks("README.md", "text")
    assert sorted(done.stdout.splitlines()) == printed.splitlines()


@pytest.mark.parametrize("title", HOROVOD)
def test_the_block_for_scripts_of_horovod_runs(ranks, title):
    ranks.check(BEFORE + HOROVOD[title] + "assert same_everywhere(*model.parameters())\n")
