"""Checkpoints of the model zoo to PyTorch and back."""

import pathlib
import sys

import numpy as np
import pytest
import safetensors.torch
import torch

import horovod_cpp as hvd
from horovod_cpp import models, nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support" / "reference"))
from model_twins import MODELS as TWINS  # PyTorch's models of the same names

SMALL_HEAD = {"cifar_head": True}
LIVE = {name: SMALL_HEAD if name.startswith("vgg") else {} for name in models.__all__
        if name[0].islower()}
ALWAYS = {"alexnet", "googlenet", "resnet18", "resnet50", "vgg11_bn"}
EXTENTS = {"alexnet": 63, "inception_v3": 75}


def images(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def assert_equal_outputs(ours, theirs, x):
    with torch.no_grad():
        expected = theirs.eval()(torch.from_numpy(x)).numpy()
    with hvd.no_grad():
        given = ours.eval()(hvd.tensor(x)).numpy()
    assert np.abs(given - expected).max() <= 1e-4 * max(1.0, np.abs(expected).max())


def round_trip(name, options, extent, path):
    """Weights made here give PyTorch's twin the same output, and the other way round."""
    hvd.manual_seed(11)
    torch.manual_seed(11)
    x = images(2, 3, extent, extent)
    ours, theirs = getattr(models, name)(num_classes=10, **options), TWINS[name](10, **options)
    for module in ours.modules():  # statistics that are not those of the start
        if isinstance(module, nn.BatchNorm2d):
            module(hvd.tensor(images(4, module.weight.shape[0], 2, 2, seed=1)))
    hvd.save(path, ours.state_dict())
    theirs.load_state_dict(safetensors.torch.load_file(path))
    assert_equal_outputs(ours, theirs, x)

    theirs = TWINS[name](10, **options)
    for module in theirs.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module(torch.from_numpy(images(4, module.num_features, 2, 2, seed=2)))
    safetensors.torch.save_file(theirs.state_dict(), path)
    ours.load_state_dict(hvd.load(path))
    assert_equal_outputs(ours, theirs, x)


@pytest.mark.parametrize("name", [
    name if name in ALWAYS else pytest.param(name, marks=pytest.mark.full) for name in LIVE])
def test_checkpoints_go_to_pytorch_and_back(name, tmp_path):
    round_trip(name, LIVE[name], EXTENTS.get(name, 32), str(tmp_path / "model.safetensors"))


def test_checkpoints_of_models_for_cifar_go_to_pytorch_and_back(tmp_path):
    round_trip("resnet18", {"cifar_stem": True}, 32, str(tmp_path / "model.safetensors"))
