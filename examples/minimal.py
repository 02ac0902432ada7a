"""Trains a small network on handwritten digits, which write_digits.py puts into a folder.

    python examples/write_digits.py digits
    python examples/minimal_one_process.py digits    # one process
    hvdrun -np 2 python examples/minimal.py digits   # as many ranks as you like
"""
import argparse

import horovod_cpp as hvd
from horovod_cpp import nn

parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument("folder", help="what write_digits.py wrote")
folder = parser.parse_args().folder
hvd.init()
train, test = (hvd.data.MNIST(folder, train=part) for part in (True, False))
hvd.manual_seed(1)
model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(32 * 2 * 2, 10))
optimizer = hvd.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
hvd.broadcast_parameters(model.state_dict())
sampler = hvd.data.DistributedSampler(len(train), hvd.size(), hvd.rank())
loader = hvd.data.DataLoader(train, batch_size=32, sampler=sampler)

for epoch in range(15):
    sampler.set_epoch(epoch)
    for images, labels in loader:
        optimizer.zero_grad()
        loss = hvd.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

with hvd.no_grad():
    hits = [hvd.argmax(model(images), 1).numpy() == labels.numpy()
            for images, labels in hvd.data.DataLoader(test, batch_size=len(test))]
print(f"test accuracy {hits[0].mean():.4f}")
