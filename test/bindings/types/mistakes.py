"""What mypy --strict has to find: each line with its error code in a comment, and no other."""

import numpy as np

import horovod_cpp as hvd
from horovod_cpp import data, io, models, nn, optim
from horovod_cpp.optim import lr_scheduler

x = hvd.zeros((2, 3))
net = nn.Sequential(nn.Linear(3, 1))
sgd = optim.SGD(net.parameters(), lr=0.1)

hvd.zeros("2, 3")  # arg-type
hvd.tensor([1.0], dype="float32")  # call-arg
x.summ()  # attr-defined
x.reshape("all")  # arg-type
hvd.matmul(x, 3)  # arg-type
hvd.allreduce([1.0, 2.0])  # type-var
hvd.allreduce(x, op=1.5)  # arg-type
hvd.allreduce(x, average=True)  # call-arg
a: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = hvd.allreduce(x)  # arg-type
hvd.gather(x, 0).shape  # union-attr
hvd.broadcast_parameters(net)  # arg-type
hvd.init(process_sets=3)  # arg-type
nn.Linear(3)  # call-arg
nn.Linear(3, 4.5)  # arg-type
nn.Conv2d(3, 8, kernel=3)  # call-arg
nn.Sequential("Linear")  # arg-type
nn.CrossEntropyLoss(reduction=1)  # arg-type
net.no_such_part  # attr-defined
net.weight = x  # attr-defined
nn.functional.relu(0.5)  # arg-type
nn.init.zeros_("weight")  # arg-type
optim.SGD(net, lr=0.1)  # arg-type
optim.SGD(net.parameters(), lr="0.1")  # arg-type
optim.Adam(net.parameters(), beta=(0.9, 0.99))  # call-arg
lr_scheduler.StepLR(0.1, step_size=1)  # arg-type
lr_scheduler.StepLR(sgd)  # call-arg
data.DataLoader(3)  # arg-type
data.DataLoader([1.0], batchsize=2)  # call-arg
data.DataLoader([1.0], sampler=True)  # arg-type
models.resnet18(10)  # call-arg
io.save("file", x)  # arg-type
hvd.ReduceOp.Mean  # attr-defined
hvd.alreduce(x)  # attr-defined
