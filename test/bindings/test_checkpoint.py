import os
import pathlib

import numpy as np
import pytest

import horovod_cpp as hvd
from horovod_cpp import data, io, nn, optim


class Training:
    """A model with dropout, momentum, a schedule and a shuffling sampler."""

    batch, batches = 4, 5

    def __init__(self, seed):
        hvd.manual_seed(seed)
        rng = np.random.default_rng(1)
        self.dataset = data.TensorDataset(
            rng.normal(size=(self.batch * self.batches, 6)).astype(np.float32),
            rng.integers(0, 3, self.batch * self.batches))
        self.model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))
        self.optimizer = optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.schedule = optim.lr_scheduler.ExponentialLR(self.optimizer, 0.95)
        self.steps = 0

    def run(self, until):
        while self.steps < until:
            epoch, done = divmod(self.steps, self.batches)
            sampler = data.RandomSampler(len(self.dataset), seed=3)
            sampler.set_epoch(epoch)
            loader = data.DataLoader(self.dataset, batch_size=self.batch, sampler=sampler)
            for index, (inputs, labels) in enumerate(loader):
                if index < done or self.steps == until:
                    continue
                self.optimizer.zero_grad()
                hvd.cross_entropy(self.model(inputs), labels).backward()
                self.optimizer.step()
                self.schedule.step()
                self.steps += 1

    def save(self, path):
        io.save_checkpoint(path, {
            "model": self.model, "optimizer": self.optimizer, "schedule": self.schedule,
            "sampler": {"steps": self.steps}, "random": {"state": io.get_rng_state()}},
            metadata={"note": "halfway"})

    def load(self, path):
        checkpoint = io.load_checkpoint(path)
        for name in ("model", "optimizer", "schedule"):
            getattr(self, name).load_state_dict(checkpoint.part(name))
        self.steps = io.integers_from(checkpoint.part("sampler"))["steps"]
        io.set_rng_state(checkpoint.parts["random"]["state"])
        return checkpoint


@pytest.mark.parametrize("stop", [5, 8])
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path, stop):
    whole = Training(1)
    whole.run(15)
    expected = whole.model.state_dict()
    first = Training(1)
    first.run(stop)
    first.save(tmp_path / "a")
    second = Training(99)
    assert second.load(tmp_path / "a").metadata == {"note": "halfway"}
    second.run(15)
    for name, tensor in second.model.state_dict().items():
        assert hvd.bitwise_equal(tensor.detach(), expected[name].detach()), name


def test_a_checkpoint_is_a_safetensors_file_of_its_parts(tmp_path):
    io.save_checkpoint(tmp_path / "a", {"model": {"w": np.ones(2)}, "sampler": {"seed": 2 ** 62 + 1}})
    assert list(io.load(tmp_path / "a")) == ["model.w", "sampler.seed"]
    assert io.integers_from(io.load_checkpoint(tmp_path / "a").part("sampler")) == {"seed": 2 ** 62 + 1}
    with pytest.raises(hvd.InvalidArgumentError, match="'seed' of part 'sampler': does not fit into int64"):
        io.save_checkpoint(tmp_path / "a", {"sampler": {"seed": 2 ** 63}})
    with pytest.raises(hvd.InvalidArgumentError, match="'w' is not an int64 scalar"):
        io.integers_from({"w": np.ones(2)})
    with pytest.raises(hvd.InvalidArgumentError, match="no part 'optimizer'; there are: model"):
        io.load_checkpoint(tmp_path / "a").part("optimizer")


def test_an_altered_checkpoint_is_refused_by_name(tmp_path):
    path = tmp_path / "a"
    io.save_checkpoint(path, {"model": {"w": np.ones(2)}})
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    with pytest.raises(hvd.InvalidArgumentError, match=r"a: tensor 'model.w' at data bytes \[0, 16\)"):
        io.load_checkpoint(path)
    with pytest.raises(hvd.InvalidArgumentError, match="part 'a.b'"):
        io.save_checkpoint(path, {"a.b": {}})
    with pytest.raises(TypeError):
        io.save_checkpoint(path, {"model": {"w": 1.5}})


def test_random_numbers_go_on_where_they_were():
    state = io.get_rng_state()
    drawn = hvd.rand([3])
    io.set_rng_state(state)
    assert hvd.bitwise_equal(hvd.rand([3]), drawn)
    with pytest.raises(hvd.InvalidArgumentError, match="expected int64"):
        io.set_rng_state(hvd.zeros([2]))


@pytest.mark.parametrize("part", [3, 0.5, "text", None])
def test_a_part_that_is_no_state_is_named(tmp_path, part):
    with pytest.raises(TypeError, match="part 'epoch' is of type .*expected a state dict"):
        io.save_checkpoint(tmp_path / "run.safetensors", {"epoch": part})


def test_an_entry_that_is_no_tensor_is_named(tmp_path):
    with pytest.raises(TypeError, match="'lr' of part 'a': .*got float"):
        io.save_checkpoint(tmp_path / "run.safetensors", {"a": {"lr": 0.5}})


def test_a_save_follows_links_keeps_modes_and_minds_nothing_that_a_killed_one_left(tmp_path):
    real, link = tmp_path / "run-17.safetensors", tmp_path / "latest.safetensors"
    for count in range(10):  # of a process with our number: in a container they come again
        for path in (real, link):
            pathlib.Path(f"{path}.tmp.{os.getpid()}.{count}").touch()
    hvd.save(str(real), {"x": hvd.zeros(1)})
    real.chmod(0o600)
    link.symlink_to(real.name)
    hvd.save(str(link), {"x": hvd.ones(1)})
    assert link.is_symlink() and hvd.load(str(real))["x"].item() == 1
    assert real.stat().st_mode & 0o777 == 0o600
