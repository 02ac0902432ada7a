"""ResNet-50 (He et al., "Deep residual learning for image recognition", CVPR 2016; the stride is in
the 3x3 convolutions): 161 parameters, 25,557,032 elements."""

import torch
from torch import nn


def _convolution(inputs, outputs, side, stride=1):
    return nn.Conv2d(inputs, outputs, side, stride, side // 2, bias=False)


class Bottleneck(nn.Module):
    """Three convolutions beside the identity, or beside a projection."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            _convolution(inputs, width, 1), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            _convolution(width, width, 3, stride), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            _convolution(width, outputs, 1), nn.BatchNorm2d(outputs))
        self.beside = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.beside = nn.Sequential(_convolution(inputs, outputs, 1, stride),
                                        nn.BatchNorm2d(outputs))

    def forward(self, x):
        """[n, inputs, h, w] -> [n, 4 * width, h / stride, w / stride]."""
        return torch.relu(self.body(x) + self.beside(x))


def resnet50(classes=1000):
    """The model for images [n, 3, 224, 224]."""
    layers = [_convolution(3, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
              nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            layers.append(Bottleneck(inputs, width, 2 if block == 0 and stage > 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(inputs, classes))
