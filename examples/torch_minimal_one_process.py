"""Trains a small PyTorch network on handwritten digits, which write_digits.py puts into a folder.

    python examples/write_digits.py digits
    python examples/torch_minimal_one_process.py digits    # one process
    hvdrun -np 2 python examples/torch_minimal.py digits   # as many ranks as you like
"""
import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def digits(folder, part):
    """The images and labels of one pair of IDX files."""
    files = (np.fromfile(f"{folder}/{part}-{what}-ubyte", np.uint8)
             for what in ("images-idx3", "labels-idx1"))
    images, labels = (torch.from_numpy(each[skip:]) for each, skip in zip(files, (16, 8)))
    return TensorDataset(images.view(len(labels), 1, 8, 8) / 255.0, labels.long())


parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument("folder", help="what write_digits.py wrote")
folder = parser.parse_args().folder
torch.manual_seed(1)
torch.set_num_threads(1)
train, test = (digits(folder, part) for part in ("train", "t10k"))
model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(32 * 2 * 2, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
sampler = DistributedSampler(train, num_replicas=1, rank=0)
loader = DataLoader(train, batch_size=32, sampler=sampler)

for epoch in range(15):
    sampler.set_epoch(epoch)
    for images, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

with torch.no_grad():
    images, labels = test.tensors
    print(f"test accuracy {(model(images).argmax(1) == labels).float().mean():.4f}")
