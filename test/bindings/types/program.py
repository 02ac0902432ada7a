"""A program that uses every public module: test_types.py runs it, and mypy --strict accepts it."""

import pathlib
import pickle
import sys
from collections.abc import Iterator

import numpy as np
from IPython.core.interactiveshell import InteractiveShell
from matplotlib import pyplot

import horovod_cpp as hvd
import horovod_cpp.data.transforms as T
import horovod_cpp.nn as nn
import horovod_cpp.nn.functional as F
from horovod_cpp import data, io, models, optim, plot
from horovod_cpp.doctor.__main__ import main as doctor
from horovod_cpp.nn import init
from horovod_cpp.optim import lr_scheduler
from horovod_cpp.typing import ArrayLike, DTypeLike


class Net(nn.Module):
    steps: hvd.Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(4, width)
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.scale = nn.Parameter(hvd.ones((width,)))
        self.register_buffer("steps", hvd.zeros((), dtype="int64"), persistent=False)

    def forward(self, x: hvd.Tensor, times: int = 1) -> hvd.Tensor:
        x = F.relu(self.norm(self.first(x)))
        for block in self.blocks:
            x = hvd.tanh(block(x)) * self.scale
        return x.sum(1, keepdim=True) * times


class Squares(data.Dataset):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[np.ndarray[tuple[int], np.dtype[np.float32]], float]:
        return np.full(4, index, np.float32), float(index ** 2)


class Backwards(data.Sampler):
    def __len__(self) -> int:
        return 8

    def __iter__(self) -> Iterator[int]:
        return iter(range(7, -1, -1))


class Descent(optim.Optimizer):
    def __init__(self, params: list[hvd.Tensor], lr: float) -> None:
        super().__init__(params, {"lr": lr})

    def step(self, closure: object = None) -> None:
        with hvd.no_grad():
            for group in self.param_groups:
                for param in group["params"]:
                    if param.grad is not None:
                        self.state[param]["step"] = 1
                        param.add_(param.grad, alpha=-group["lr"])


class Halving(lr_scheduler.LRScheduler):
    def get_lr(self) -> list[float]:
        return [rate * 0.5 ** self.last_epoch for rate in self.base_lrs]


def collectives() -> None:
    x = np.arange(4, dtype=np.float32)
    total: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = hvd.allreduce(x, op=hvd.Sum, name="x")
    tensor: hvd.Tensor = hvd.allreduce(hvd.tensor([1.0, 2.0]), op=hvd.ReduceOp.Average)
    handle = hvd.allreduce_async_(tensor, name="later")
    while not hvd.poll(handle):
        pass
    hvd.synchronize(handle)
    first, second = hvd.grouped_allreduce([tensor, tensor], compression=hvd.Compression.fp16)
    rows, received = hvd.alltoall(tensor, splits=[2])
    gathered = hvd.gather(tensor, 0)
    assert total.shape == (4,) and received == [2] and rows.shape == first.shape == second.shape
    assert gathered is not None and gathered.numel() == 2
    evens = hvd.ProcessSet([0])
    assert hvd.broadcast_object({"ranks": evens.ranks})["ranks"] == [0]
    with hvd.rank_zero_section() as mine:
        assert mine
    assert hvd.metrics()["size"] == hvd.size() and hvd.config()[0]["name"]


def tensors(dtype: DTypeLike = "float32") -> ArrayLike:
    x = hvd.randn((2, 3), dtype=dtype)
    x[0, 1:] = 1.0
    y = (x @ x.t() + 1) / 2 - x[:, :2].mean()
    largest, where = y.max(1)
    assert largest.shape == where.shape == (2,) and y.tolist()
    with hvd.autocast(), hvd.enable_grad():
        y = hvd.exp(y.requires_grad_())
    gradient, = hvd.grad(y.sum(), [y])
    assert gradient is not None
    return y.detach().numpy()


def train(folder: pathlib.Path) -> float:
    model = Net(6)
    init.xavier_uniform_(model.first.weight)
    loader = data.DataLoader(Squares(), batch_size=4, sampler=Backwards(), num_workers=1)
    inner = Descent(model.parameters(), lr=0.01)
    schedule = Halving(inner)
    optimizer = hvd.DistributedOptimizer(inner, model.named_parameters())
    loss = hvd.zeros(())
    for images, labels in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(model(images), labels.unsqueeze(1))
        loss.backward()
        optim.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    schedule.step()
    path = folder / "run.safetensors"
    io.save_checkpoint(path, {"model": model, "optimizer": optimizer, "at": {"epoch": 1}})
    checkpoint = io.load_checkpoint(path)
    keys = pickle.loads(pickle.dumps(model)).load_state_dict(checkpoint.part("model"), strict=False)
    assert keys.missing_keys == [] and io.integers_from(checkpoint.part("at")) == {"epoch": 1}
    return float(loss.item().real)


def zoo() -> None:
    model = models.resnet18(num_classes=10, cifar_stem=True)
    model.fc = nn.Linear(model.fc.in_features, 3)
    augment = T.Compose([T.RandomCrop(32, padding=4), T.Normalize([0.5], [0.5])])
    image = augment(hvd.zeros((3, 32, 32)))
    assert model.eval()(image.unsqueeze(0)).shape == (1, 3)


def place(greeting: str, times: int = 1) -> tuple[str, int]:
    hvd.init()
    return greeting * times, hvd.rank()


def ranks() -> None:
    places: list[tuple[str, int]] = hvd.run(place, args=("here",), kwargs={"times": 2}, np=2)
    assert places == [("herehere", 0), ("herehere", 1)]
    with hvd.Cluster(np=2, start_timeout=60) as cluster:
        first: list[tuple[str, int]] = cluster.run(place, ["there"], ranks=1, timeout=30)
        cluster.push({"base": 5})
        assert first == [("there", 1)] and cluster.pull("base") == [5, 5]
        states: list[str] = [worker.state for worker in cluster.status()]
        assert states == ["idle"] * cluster.size
        try:
            cluster.run(print, kwargs={"sep": 1})
        except hvd.RankError as error:
            assert error.rank is not None and "TypeError" in error.traceback


def pictures(folder: pathlib.Path) -> None:
    pyplot.switch_backend("agg")
    panels = plot.history({"one": {"loss": [2.0, 1.0]}, "two": {"loss": [1.5, 0.5]}}, smooth=0.5)
    assert hvd.plot.scaling({1: 100.0, 2: [180.0, 190.0]}, unit="images/s").get_xlabel()[:5] == "ranks"
    pyplot.savefig(folder / "scaling.png")
    trace = folder / "trace.json"
    hvd.start_timeline(str(trace))
    hvd.allreduce(hvd.ones((4,)), name="drawn")
    hvd.stop_timeline()
    assert len(panels) == 1 and plot.timeline(trace, ranks=[0], title="one rank").get_title()


def notebook() -> None:
    shell = InteractiveShell.instance()
    hvd.load_ipython_extension(shell)
    shell.run_line_magic("hvd", "status")
    hvd.unload_ipython_extension(shell)


if __name__ == "__main__":
    ranks()
    assert doctor(["--only", "memory", "settings"]) == 0
    hvd.init()
    collectives()
    pictures(pathlib.Path(sys.argv[1]))
    tensors()
    zoo()
    print(train(pathlib.Path(sys.argv[1])))
    notebook()  # gives this program another __main__
