"""Twins of hvd.models in PyTorch with torchvision's names and layout, written from the papers and
the published tables of layers: what models.py and the live test of the bindings compare with."""

import torch
import torch.nn.functional as F
from torch import nn


class VGG(nn.Module):
    def __init__(self, num_classes, stages, batch_norm, cifar_head):
        super().__init__()
        layers, channels = [], 3
        for width, count in zip((64, 128, 256, 512, 512), stages):
            for _ in range(count):
                layers.append(nn.Conv2d(channels, width, 3, padding=1))
                layers += [nn.BatchNorm2d(width)] if batch_norm else []
                layers.append(nn.ReLU())
                channels = width
            layers.append(nn.MaxPool2d(2, 2))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1 if cifar_head else 7)
        self.classifier = nn.Linear(512, num_classes) if cifar_head else nn.Sequential(
            nn.Linear(25088, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(),
            nn.Dropout(), nn.Linear(4096, num_classes))

    def forward(self, x):
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


def vgg(stages, batch_norm):
    return lambda num_classes=1000, cifar_head=False: VGG(
        num_classes, stages, batch_norm, cifar_head)


class AlexNet(nn.Module):
    def __init__(self, num_classes=1000):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Conv2d(64, 192, 5, 1, 2),
            nn.ReLU(), nn.MaxPool2d(3, 2), nn.Conv2d(192, 384, 3, 1, 1), nn.ReLU(),
            nn.Conv2d(384, 256, 3, 1, 1), nn.ReLU(), nn.Conv2d(256, 256, 3, 1, 1), nn.ReLU(),
            nn.MaxPool2d(3, 2))
        self.avgpool = nn.AdaptiveAvgPool2d(6)
        self.classifier = nn.Sequential(
            nn.Dropout(), nn.Linear(9216, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096),
            nn.ReLU(), nn.Linear(4096, num_classes))

    def forward(self, x):
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


def conv(channels, width, size, stride=1):
    return nn.Conv2d(channels, width, size, stride, size // 2, bias=False)


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, channels, width, stride):
        super().__init__()
        self.conv1, self.bn1 = conv(channels, width, 3, stride), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv(width, width, 3), nn.BatchNorm2d(width)
        self.downsample = shortcut(channels, width, stride)

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, channels, width, stride):
        super().__init__()
        self.conv1, self.bn1 = conv(channels, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = conv(width, 4 * width, 1), nn.BatchNorm2d(4 * width)
        self.downsample = shortcut(channels, 4 * width, stride)

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(torch.relu(self.bn2(self.conv2(y)))))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


def shortcut(channels, out, stride):
    if stride == 1 and channels == out:
        return None
    return nn.Sequential(conv(channels, out, 1, stride), nn.BatchNorm2d(out))


class ResNet(nn.Module):
    def __init__(self, num_classes, block, stages, cifar_stem):
        super().__init__()
        self.conv1 = conv(3, 64, 3) if cifar_stem else conv(3, 64, 7, 2)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.Identity() if cifar_stem else nn.MaxPool2d(3, 2, 1)
        channels = 64
        for i, count in enumerate(stages):
            width, blocks = 64 << i, []
            for j in range(count):
                blocks.append(block(channels, width, 2 if i > 0 and j == 0 else 1))
                channels = width * block.expansion
            setattr(self, f"layer{i + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(channels, num_classes)

    def forward(self, x):
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def resnet(block, stages):
    return lambda num_classes=1000, cifar_stem=False: ResNet(
        num_classes, block, stages, cifar_stem)


class BasicConv2d(nn.Module):
    def __init__(self, channels, width, size, stride=1, padding=0):
        super().__init__()
        self.conv = nn.Conv2d(channels, width, size, stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(width, eps=0.001)

    def forward(self, x):
        return torch.relu(self.bn(self.conv(x)))


class Inception(nn.Module):
    def __init__(self, channels, one, three_in, three, five_in, five, pooled):
        super().__init__()
        self.branch1 = BasicConv2d(channels, one, 1)
        self.branch2 = nn.Sequential(BasicConv2d(channels, three_in, 1),
                                     BasicConv2d(three_in, three, 3, padding=1))
        self.branch3 = nn.Sequential(BasicConv2d(channels, five_in, 1),
                                     BasicConv2d(five_in, five, 3, padding=1))
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, 1, 1, ceil_mode=True),
                                     BasicConv2d(channels, pooled, 1))

    def forward(self, x):
        return torch.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


class GoogLeNetAux(nn.Module):
    def __init__(self, channels, num_classes):
        super().__init__()
        self.conv = BasicConv2d(channels, 128, 1)
        self.fc1 = nn.Linear(2048, 1024)
        self.fc2 = nn.Linear(1024, num_classes)
        self.dropout = nn.Dropout(0.7)

    def forward(self, x):
        x = torch.flatten(self.conv(F.adaptive_avg_pool2d(x, 4)), 1)
        return self.fc2(self.dropout(torch.relu(self.fc1(x))))


class GoogLeNet(nn.Module):
    def __init__(self, num_classes=1000, aux_logits=True):
        super().__init__()
        self.conv1 = BasicConv2d(3, 64, 7, 2, 3)
        self.conv2 = BasicConv2d(64, 64, 1)
        self.conv3 = BasicConv2d(64, 192, 3, padding=1)
        self.inception3a = Inception(192, 64, 96, 128, 16, 32, 32)
        self.inception3b = Inception(256, 128, 128, 192, 32, 96, 64)
        self.inception4a = Inception(480, 192, 96, 208, 16, 48, 64)
        self.inception4b = Inception(512, 160, 112, 224, 24, 64, 64)
        self.inception4c = Inception(512, 128, 128, 256, 24, 64, 64)
        self.inception4d = Inception(512, 112, 144, 288, 32, 64, 64)
        self.inception4e = Inception(528, 256, 160, 320, 32, 128, 128)
        self.inception5a = Inception(832, 256, 160, 320, 32, 128, 128)
        self.inception5b = Inception(832, 384, 192, 384, 48, 128, 128)
        self.aux = aux_logits
        if aux_logits:
            self.aux1 = GoogLeNetAux(512, num_classes)
            self.aux2 = GoogLeNetAux(528, num_classes)
        self.dropout = nn.Dropout(0.2)
        self.fc = nn.Linear(1024, num_classes)

    def forward(self, x):
        halve = nn.MaxPool2d(3, 2, ceil_mode=True)
        x = halve(self.conv3(self.conv2(halve(self.conv1(x)))))
        x = self.inception4a(halve(self.inception3b(self.inception3a(x))))
        aux1 = self.aux1(x) if self.aux and self.training else None
        x = self.inception4d(self.inception4c(self.inception4b(x)))
        aux2 = self.aux2(x) if self.aux and self.training else None
        x = F.max_pool2d(self.inception4e(x), 2, 2, ceil_mode=True)
        x = self.fc(self.dropout(self.inception5b(self.inception5a(x)).mean((2, 3))))
        return x if aux1 is None else (x, aux2, aux1)


class Mixed(nn.Module):
    """Named convolutions (name, in, out, size, padding, stride) and a formula over them."""

    def __init__(self, convolutions, formula):
        super().__init__()
        for name, channels, width, size, padding, stride in convolutions:
            setattr(self, name, BasicConv2d(channels, width, size, stride, padding))
        self.formula = formula

    def forward(self, x):
        return torch.cat(self.formula(self, x), 1)


def mean3(x):
    return F.avg_pool2d(x, 3, 1, 1)


def inception_a(channels, pooled):
    return Mixed(
        [("branch1x1", channels, 64, 1, 0, 1), ("branch5x5_1", channels, 48, 1, 0, 1),
         ("branch5x5_2", 48, 64, 5, 2, 1), ("branch3x3dbl_1", channels, 64, 1, 0, 1),
         ("branch3x3dbl_2", 64, 96, 3, 1, 1), ("branch3x3dbl_3", 96, 96, 3, 1, 1),
         ("branch_pool", channels, pooled, 1, 0, 1)],
        lambda m, x: [m.branch1x1(x), m.branch5x5_2(m.branch5x5_1(x)),
                      m.branch3x3dbl_3(m.branch3x3dbl_2(m.branch3x3dbl_1(x))),
                      m.branch_pool(mean3(x))])


def inception_b(channels):
    return Mixed(
        [("branch3x3", channels, 384, 3, 0, 2), ("branch3x3dbl_1", channels, 64, 1, 0, 1),
         ("branch3x3dbl_2", 64, 96, 3, 1, 1), ("branch3x3dbl_3", 96, 96, 3, 0, 2)],
        lambda m, x: [m.branch3x3(x), m.branch3x3dbl_3(m.branch3x3dbl_2(m.branch3x3dbl_1(x))),
                      F.max_pool2d(x, 3, 2)])


def inception_c(inner):
    row, column = ((1, 7), (0, 3), 1), ((7, 1), (3, 0), 1)
    return Mixed(
        [("branch1x1", 768, 192, 1, 0, 1), ("branch7x7_1", 768, inner, 1, 0, 1),
         ("branch7x7_2", inner, inner, *row), ("branch7x7_3", inner, 192, *column),
         ("branch7x7dbl_1", 768, inner, 1, 0, 1), ("branch7x7dbl_2", inner, inner, *column),
         ("branch7x7dbl_3", inner, inner, *row), ("branch7x7dbl_4", inner, inner, *column),
         ("branch7x7dbl_5", inner, 192, *row), ("branch_pool", 768, 192, 1, 0, 1)],
        lambda m, x: [m.branch1x1(x), m.branch7x7_3(m.branch7x7_2(m.branch7x7_1(x))),
                      m.branch7x7dbl_5(m.branch7x7dbl_4(m.branch7x7dbl_3(
                          m.branch7x7dbl_2(m.branch7x7dbl_1(x))))), m.branch_pool(mean3(x))])


def inception_d(channels):
    return Mixed(
        [("branch3x3_1", channels, 192, 1, 0, 1), ("branch3x3_2", 192, 320, 3, 0, 2),
         ("branch7x7x3_1", channels, 192, 1, 0, 1), ("branch7x7x3_2", 192, 192, (1, 7), (0, 3), 1),
         ("branch7x7x3_3", 192, 192, (7, 1), (3, 0), 1), ("branch7x7x3_4", 192, 192, 3, 0, 2)],
        lambda m, x: [m.branch3x3_2(m.branch3x3_1(x)),
                      m.branch7x7x3_4(m.branch7x7x3_3(m.branch7x7x3_2(m.branch7x7x3_1(x)))),
                      F.max_pool2d(x, 3, 2)])


def inception_e(channels):
    row, column = ((1, 3), (0, 1), 1), ((3, 1), (1, 0), 1)

    def formula(m, x):
        a = m.branch3x3_1(x)
        b = m.branch3x3dbl_2(m.branch3x3dbl_1(x))
        return [m.branch1x1(x), m.branch3x3_2a(a), m.branch3x3_2b(a), m.branch3x3dbl_3a(b),
                m.branch3x3dbl_3b(b), m.branch_pool(mean3(x))]

    return Mixed(
        [("branch1x1", channels, 320, 1, 0, 1), ("branch3x3_1", channels, 384, 1, 0, 1),
         ("branch3x3_2a", 384, 384, *row), ("branch3x3_2b", 384, 384, *column),
         ("branch3x3dbl_1", channels, 448, 1, 0, 1), ("branch3x3dbl_2", 448, 384, 3, 1, 1),
         ("branch3x3dbl_3a", 384, 384, *row), ("branch3x3dbl_3b", 384, 384, *column),
         ("branch_pool", channels, 192, 1, 0, 1)], formula)


class InceptionAux(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.conv0, self.conv1 = BasicConv2d(768, 128, 1), BasicConv2d(128, 768, 5)
        self.fc = nn.Linear(768, num_classes)

    def forward(self, x):
        return self.fc(self.conv1(self.conv0(F.avg_pool2d(x, 5, 3))).mean((2, 3)))


class Inception3(nn.Module):
    def __init__(self, num_classes=1000, aux_logits=True):
        super().__init__()
        self.Conv2d_1a_3x3 = BasicConv2d(3, 32, 3, 2)
        self.Conv2d_2a_3x3 = BasicConv2d(32, 32, 3)
        self.Conv2d_2b_3x3 = BasicConv2d(32, 64, 3, padding=1)
        self.Conv2d_3b_1x1 = BasicConv2d(64, 80, 1)
        self.Conv2d_4a_3x3 = BasicConv2d(80, 192, 3)
        self.Mixed_5b, self.Mixed_5c = inception_a(192, 32), inception_a(256, 64)
        self.Mixed_5d, self.Mixed_6a = inception_a(288, 64), inception_b(288)
        self.Mixed_6b, self.Mixed_6c = inception_c(128), inception_c(160)
        self.Mixed_6d, self.Mixed_6e = inception_c(160), inception_c(192)
        self.aux = aux_logits
        if aux_logits:
            self.AuxLogits = InceptionAux(num_classes)
        self.Mixed_7a, self.Mixed_7b = inception_d(768), inception_e(1280)
        self.Mixed_7c = inception_e(2048)
        self.dropout = nn.Dropout()
        self.fc = nn.Linear(2048, num_classes)

    def forward(self, x):
        x = F.max_pool2d(self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x))), 3, 2)
        x = F.max_pool2d(self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(x)), 3, 2)
        x = self.Mixed_6a(self.Mixed_5d(self.Mixed_5c(self.Mixed_5b(x))))
        x = self.Mixed_6e(self.Mixed_6d(self.Mixed_6c(self.Mixed_6b(x))))
        aux = self.AuxLogits(x) if self.aux and self.training else None
        x = self.Mixed_7c(self.Mixed_7b(self.Mixed_7a(x)))
        x = self.fc(self.dropout(x.mean((2, 3))))
        return x if aux is None else (x, aux)


MODELS = {
    "alexnet": AlexNet,
    "vgg11": vgg((1, 1, 2, 2, 2), False), "vgg11_bn": vgg((1, 1, 2, 2, 2), True),
    "vgg13": vgg((2, 2, 2, 2, 2), False), "vgg13_bn": vgg((2, 2, 2, 2, 2), True),
    "vgg16": vgg((2, 2, 3, 3, 3), False), "vgg16_bn": vgg((2, 2, 3, 3, 3), True),
    "vgg19": vgg((2, 2, 4, 4, 4), False), "vgg19_bn": vgg((2, 2, 4, 4, 4), True),
    "resnet18": resnet(BasicBlock, (2, 2, 2, 2)), "resnet34": resnet(BasicBlock, (3, 4, 6, 3)),
    "resnet50": resnet(Bottleneck, (3, 4, 6, 3)),
    "googlenet": GoogLeNet, "inception_v3": Inception3,
}
