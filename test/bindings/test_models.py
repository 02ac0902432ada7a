"""The model zoo from Python."""

import numpy as np
import pytest

import horovod_cpp as hvd
from horovod_cpp import models, nn, optim


def images(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def count(model):
    return sum(int(np.prod(p.shape)) for p in model.parameters())


def test_models_have_torchvisions_parameters():
    assert count(models.alexnet(init_weights=False)) == 61_100_840
    assert count(models.vgg16_bn(init_weights=False)) == 138_365_992
    assert count(models.resnet50(init_weights=False)) == 25_557_032
    assert count(models.googlenet(init_weights=False, aux_logits=False)) == 6_624_904
    assert count(models.inception_v3(init_weights=False)) == 27_161_264
    state = models.resnet18(init_weights=False).state_dict()
    assert list(state)[:3] == ["conv1.weight", "bn1.weight", "bn1.bias"]
    assert state["layer2.0.downsample.1.num_batches_tracked"].dtype == "int64"


def test_parts_have_torchvisions_names():
    vgg = models.vgg11_bn(num_classes=10, cifar_head=True)
    assert len(vgg.features) == 29 and isinstance(vgg.classifier, nn.Linear)
    resnet = models.resnet18(num_classes=10, cifar_stem=True)
    assert resnet.conv1.weight.shape == (64, 3, 3, 3) and isinstance(resnet.maxpool, nn.Identity)
    assert len(resnet.layer4) == 2 and resnet.fc.weight.shape == (10, 512)
    assert len(models.alexnet(init_weights=False).classifier) == 7


def test_a_model_learns_a_batch_by_heart():
    hvd.manual_seed(1)
    model = models.vgg11_bn(num_classes=4, cifar_head=True)
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    x, y = hvd.tensor(images(8, 3, 32, 32)), hvd.tensor(np.arange(8) % 4)
    losses = []
    for _ in range(6):
        optimizer.zero_grad()
        loss = hvd.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.full
def test_auxiliary_classifiers_show_in_training_only():
    model = models.googlenet(num_classes=10)
    x = hvd.tensor(images(2, 3, 32, 32))
    outputs = model(x)
    assert isinstance(outputs, models.GoogLeNetOutputs)
    assert [o.shape for o in outputs] == [(2, 10)] * 3
    seen = []
    model.register_forward_hook(lambda module, args, output: seen.append(output.shape))
    assert model.eval()(x).shape == (2, 10) and seen == [(2, 10)]
    assert models.googlenet(num_classes=10, aux_logits=False)(x).shape == (2, 10)
    text = r"Inception3: 'AuxLogits' .*\[2, 768, 3, 3\]"
    with pytest.raises(hvd.InvalidArgumentError, match=text):
        models.inception_v3(num_classes=10)(hvd.tensor(images(2, 3, 75, 75)))


def test_an_error_names_model_layer_and_shapes():
    model = models.vgg11(num_classes=10, cifar_head=True)
    with pytest.raises(hvd.InvalidArgumentError, match=r"VGG: 'features.20' .*\[1, 512, 1, 1\]"):
        model(hvd.zeros((1, 3, 16, 16)))


def test_every_name_of_models_is_documented():
    for name in models.__all__:
        assert (getattr(models, name).__doc__ or "").strip(), name
