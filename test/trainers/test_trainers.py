"""Trainers over PyTorch's DDP: they start under hvdrun as under torchrun, and learn the same bits over
our backend as over gloo."""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
from pages import blocks

_BOTH = """
import hashlib
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset

backend, folder = sys.argv[1:]
if backend == "horovod_cpp":
    import horovod_cpp.torch
torch.set_num_threads(1)
torch.manual_seed(7)
inputs = torch.randn(152, 8)
labels = (inputs[:, 0] > 0).long() + 2 * (inputs[:, 1] > 0).long()

def network():
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(),
                               torch.nn.Linear(16, 4))

def loader():
    return DataLoader(TensorDataset(inputs, labels), batch_size=8, shuffle=True)

def tell(rank, module, *more):
    values = b"".join(each.detach().numpy().tobytes() for each in module.parameters())
    print("result of", rank, hashlib.sha256(values).hexdigest(), *more, flush=True)
"""

LIGHTNING = _BOTH + """
import lightning
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.strategies import DDPStrategy

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = network()

    def step(self, batch, name):
        loss = torch.nn.functional.cross_entropy(self.network(batch[0]), batch[1])
        self.log(name, loss, sync_dist=True)
        return loss

    def training_step(self, batch, index):
        return self.step(batch, "train")

    def validation_step(self, batch, index):
        self.step(batch, "loss")

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.02)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]

def fit(epochs, checkpoint=None):
    model = Model()
    trainer = lightning.Trainer(
        accelerator="cpu", devices=DEVICES, strategy=DDPStrategy(process_group_backend=backend),
        max_epochs=epochs, logger=False, enable_progress_bar=False, enable_model_summary=False,
        accumulate_grad_batches=2, gradient_clip_val=0.5,
        callbacks=[ModelCheckpoint(folder, save_last=True, monitor="loss"), EarlyStopping("loss")])
    trainer.fit(model, loader(), loader(), ckpt_path=checkpoint)
    tell(trainer.global_rank, model, trainer.global_step, trainer.callback_metrics["loss"].item())

lightning.seed_everything(3)
fit(2)
fit(3, folder + "/last.ckpt")
"""

# Each rank is a trainer of its own. {METHOD}: the page's, without which it may not clip.
OPTIMIZER = _BOTH + """
import lightning
from torch.utils.data import DistributedSampler

import horovod_cpp.torch as hvd

hvd.init()

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = network()

    def training_step(self, batch, index):
        return torch.nn.functional.cross_entropy(self.network(batch[0]), batch[1])

    def configure_optimizers(self):
        return hvd.DistributedOptimizer(torch.optim.AdamW(self.parameters(), lr=0.02),
                                        self.named_parameters())

{METHOD}

torch.manual_seed(3)
model = Model()
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
samples = TensorDataset(inputs, labels)
trainer = lightning.Trainer(
    accelerator="cpu", devices=1, max_epochs=2, logger=False, enable_progress_bar=False,
    enable_model_summary=False, enable_checkpointing=False, use_distributed_sampler=False,
    accumulate_grad_batches=2, gradient_clip_val=0.05)
trainer.fit(model, DataLoader(samples, batch_size=8,
                              sampler=DistributedSampler(samples, hvd.size(), hvd.rank())))
tell(hvd.rank(), model, trainer.global_step)
"""

ACCELERATE = _BOTH + """
import accelerate

if backend == "horovod_cpp":
    torch.distributed.init_process_group("horovod_cpp", init_method="hvd://")
accelerate.utils.set_seed(5)
accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
assert torch.distributed.get_backend() == backend
model = network()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.7)
model, optimizer, batches, scheduler = accelerator.prepare(model, optimizer, loader(), scheduler)

def train():
    for features, targets in batches:
        with accelerator.accumulate(model):
            accelerator.backward(torch.nn.functional.cross_entropy(model(features), targets))
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    right = [accelerator.gather_for_metrics(model(features).argmax(1) == targets)
             for features, targets in batches]
    tell(accelerator.process_index, accelerator.unwrap_model(model), sum(map(torch.sum, right)).item())

train()
accelerator.save_state(folder)
train()
accelerator.load_state(folder)
train()
accelerator.end_training()
"""


def results(program, backend, folder, *options, devices=2, **variables):
    """What the ranks tell, sorted, and what hvdrun has ended with."""
    folder.mkdir()
    path = folder / "program.py"
    path.write_text(program.replace("DEVICES", str(devices)), encoding="utf-8")
    done = subprocess.run(
        [pathlib.Path(sys.executable).with_name("hvdrun"), "-np", "2", *options, sys.executable, path,
         backend, folder], cwd=folder, env={**os.environ, **variables}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=150, check=False)
    lines = [line.partition("result of ")[2] for line in done.stdout.splitlines()]
    return sorted(filter(None, lines)), done


@pytest.mark.parametrize("program", [LIGHTNING, ACCELERATE], ids=["lightning", "accelerate"])
def test_a_trainer_learns_the_bits_of_gloo(program, tmp_path):
    with_gloo, done = results(program, "gloo", tmp_path / "gloo")
    assert done.returncode == 0 and len(with_gloo) in (4, 6), done.stdout
    digests = [line.split(maxsplit=1)[1] for line in with_gloo]
    half = len(digests) // 2
    assert sorted(digests[:half]) == sorted(digests[half:]), with_gloo  # of the two ranks
    ours, done = results(program, "horovod_cpp", tmp_path / "ours")
    assert done.returncode == 0 and ours == with_gloo, done.stdout


def test_our_optimizer_in_lightning_clips_what_is_reduced(tmp_path):
    (_, method), = blocks("docs/from-ddp.md", "python")
    told, done = results(OPTIMIZER.replace("{METHOD}", textwrap.indent(method, "    ")), "horovod_cpp",
                         tmp_path / "clips")
    assert done.returncode == 0, done.stdout
    (_, *first), (_, *second) = (line.split() for line in told)
    assert first == second and first[1] == "10", told
    _, done = results(OPTIMIZER.replace("{METHOD}", ""), "horovod_cpp", tmp_path / "refused")
    assert done.returncode != 0 and "call the optimizer's synchronize()" in done.stdout, done.stdout


def test_lightning_takes_hvdruns_ranks_in_a_slurm_job_too(tmp_path):
    slurm = {"SLURM_JOB_ID": "1", "SLURM_JOB_NAME": "train", "SLURM_NTASKS": "2", "SLURM_PROCID": "0",
             "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}
    told, done = results(LIGHTNING, "gloo", tmp_path / "slurm", "-H", "localhost:2", **slurm)
    assert done.returncode == 0 and [line[0] for line in told] == ["0", "0", "1", "1"], done.stdout


def test_lightning_refuses_another_number_of_devices_than_there_are_ranks(tmp_path):
    _, done = results(LIGHTNING, "gloo", tmp_path / "three", devices=3)
    assert done.returncode != 0 and "does not match the world size (2)" in done.stdout, done.stdout
