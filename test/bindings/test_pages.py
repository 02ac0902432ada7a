"""What README.md and docs/ show, run as it stands there. test/torch has the blocks with PyTorch."""

import importlib.metadata
import os
import pathlib
import subprocess
import sys

import pytest
from pages import ROOT, blocks, user_pages
from ranks import hvdrun

RECIPES = dict(blocks("docs/recipes.md", "python"))
PARTS = """
import pathlib
hvd.manual_seed(rank)
model = hvd.nn.Linear(4, 3)
sgd = hvd.optim.SGD(model.parameters(), lr=0.1)
batch = lambda: (hvd.randn((2, 4)), hvd.tensor([0, 2]))
loader = [batch() for _ in range(6)]
def make_optimizer():
    return hvd.DistributedOptimizer(sgd, model.named_parameters())
def loss_of(images, labels):
    return hvd.cross_entropy(model(images), labels)
"""
OPTIMIZER = """
optimizer = make_optimizer()
hvd.broadcast_parameters(model.state_dict())
"""
SAME_PARAMETERS = """
assert len({str(parameters) for parameters in hvd.allgather_object(model.weight.tolist())}) == 1
"""
# By the recipe's title: what comes before the block, and after it.
AROUND = {
    "Uneven batches": (OPTIMIZER + "loader += [batch()] * (2 * rank)\n", """
assert last == size - 1
""" + SAME_PARAMETERS),
    "Accumulating gradients": ("hvd.broadcast_parameters(model.state_dict())\n", SAME_PARAMETERS),
    "Sum or mean?": (OPTIMIZER, "schedule.step()\n"),
    "Two optimizers": ("""
maker, judge, model = hvd.nn.Linear(2, 4), hvd.nn.Linear(4, 1), hvd.nn.Linear(1, 1)
making, judging = (hvd.DistributedOptimizer(hvd.optim.SGD(part.parameters(), lr=0.1),
                                            part.named_parameters()) for part in (maker, judge))
for part in (maker, judge):
    hvd.broadcast_parameters(part.state_dict())
noise = lambda: hvd.randn((8, 2))
loader = [hvd.randn((8, 4)) for _ in range(6)]
""", "model = judge\n" + SAME_PARAMETERS + "model = maker\n" + SAME_PARAMETERS),
    "Clipping": (OPTIMIZER + "loss, max_norm = loss_of(*loader[0]), 0.01\n", SAME_PARAMETERS),
    "Checkpoints and evaluation on rank 0": ("", """
assert pathlib.Path("model.safetensors").exists()
"""),
    "Save and resume": (OPTIMIZER + """
epochs = 2
sampler = hvd.data.DistributedSampler(12, size, rank)
passes = []
def train(model, optimizer, loader):
    for images, labels in loader:
        optimizer.zero_grad()
        loss_of(images, labels).backward()
        optimizer.step()
    passes.append(1)
""", "assert len(passes) == 2\n" + SAME_PARAMETERS),
    "The average of a metric over ranks": ("loss = hvd.tensor(2.0 + rank)\n",
                                           "assert mean == 2.5\n"),
    "Some of the ranks": ("values = hvd.full((3,), float(rank))\n", """
assert not evens.included() or mean.tolist() == [0, 0, 0]
hvd.barrier()  # a rank that leaves ends what other ranks have not finished
"""),
}
# Where the Python blocks of a page are run.
RUN_BY = {"README.md": "test/torch/test_pages.py",
          "docs/from-horovod.md": "test/torch/test_pages.py",
          "docs/from-ddp.md": "test/trainers/test_trainers.py",
          "docs/keras.md": "test/keras/test_examples.py",
          "docs/tensorflow.md": "test/tensorflow/test_pages.py",
          "docs/gpu.md": "needs a GPU", "docs/recipes.md": "here", "docs/notebooks.md": "here"}


@pytest.mark.parametrize("title", RECIPES)
def test_the_recipe_does_what_it_says(ranks, title):
    assert title in AROUND, f"say in AROUND what surrounds the recipe '{title}'"
    before, after = AROUND[title]
    ranks.check(PARTS + before + RECIPES[title] + after)


def test_a_run_that_is_resumed_trains_the_rest_of_its_epochs(ranks):
    before, _ = AROUND["Save and resume"]
    program = PARTS + before + RECIPES["Save and resume"]
    ranks.check(program + "assert len(passes) == 2\n")
    ranks.check(program.replace("epochs = 2", "epochs = 3")
                + "assert len(passes) == 1\n" + SAME_PARAMETERS)


def test_the_functions_of_a_script_run_on_ranks(tmp_path):
    (_, block), = blocks("docs/notebooks.md", "python")
    program = tmp_path / "program.py"
    program.write_text("""
import horovod_cpp as hvd

def load_data():
    global data
    data = [1.0, 2.0]

def train(epochs):
    hvd.init()
    return hvd.rank() + epochs

""" + block + "assert losses == [10, 11]\n")
    done = subprocess.run([sys.executable, program], cwd=tmp_path, text=True, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout


def test_the_program_in_cpp_prints_what_the_front_page_says():
    (_, program), = blocks("README.md", "cpp")
    assert program == (ROOT / "examples" / "linear.cc").read_text()
    assert program.count("\n") <= 20
    built = pathlib.Path(os.environ["HVD_BUILD"]) / "examples" / "linear"
    done = subprocess.run([hvdrun(), "-np", "2", built], text=True, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    (_, printed), = blocks("README.md", "text")
    assert sorted(done.stdout.splitlines()) == printed.splitlines()


def test_every_block_of_python_compiles_and_is_run_somewhere():
    for page in user_pages():
        name = page.relative_to(ROOT).as_posix()
        for title, text in blocks(name, "python"):
            compile(text, f"{name}, {title}", "exec")
            assert name in RUN_BY, f"{name}, {title}: no test runs it"


def test_the_package_describes_itself_by_the_front_page():
    described = importlib.metadata.metadata("horovod_cpp")
    assert described["Description-Content-Type"] == "text/markdown"
    assert described.get_payload().startswith("# horovod_cpp\n")
