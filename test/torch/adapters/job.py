"""Trains three parameters on gradients that depend on rank, step and pass, once with each list of options.

    job.py native|torch FOLDER [KEY=VALUE...] / [KEY=VALUE...] / ...

What comes out goes into FOLDER/NUMBER.RANK, or the text of an error into FOLDER/NUMBER.RANK.error.
"""

import contextlib
import itertools
import pathlib
import sys

import numpy as np

if sys.argv[1] == "torch":
    import torch

    import horovod_cpp.torch as hvd

    sgd = torch.optim.SGD

    def parameter(values):
        return torch.nn.Parameter(torch.from_numpy(values))

    constant = torch.from_numpy
else:
    import horovod_cpp as hvd

    sgd, constant = hvd.optim.SGD, hvd.tensor

    def parameter(values):
        return hvd.tensor(values, requires_grad=True)


def options(words, parameters):
    chosen = {}
    for key, value in words.items():
        if key in ("op", "compression", "clip_when"):
            chosen[key] = value
        elif key == "backward_passes_per_step":
            chosen[key] = int(value)
        elif key == "num_groups":
            chosen["groups"] = int(value)
        elif key in ("gradient_predivide_factor", "clip_grad_norm"):
            chosen[key] = float(value)
        elif key in ("average_aggregated_gradients", "overlap_step"):
            chosen[key] = True
        elif key == "packed":
            chosen["gradient_as_bucket_view"] = False
        elif key == "groups":
            chosen[key] = [[parameters[int(number)] for number in group.split(",")] for group in value.split("+")]
        elif key == "ranks":
            chosen["process_set"] = hvd.add_process_set([int(rank) for rank in value.split(",")])
    return chosen


def backward(parameters, step, number):
    loss = 0
    for index, each in enumerate(parameters):
        elements = np.arange(np.prod(each.shape)).reshape(tuple(each.shape))
        factor = (elements * 7 + index * 3 + step * 5 + number * 2 + hvd.rank() * 11) % 13 - 6
        loss = loss + (each * constant(factor.astype(np.float32) / 4)).sum()
    loss.backward()


def train(words):
    parameters = [parameter(np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 8)
                  for shape in ((5, 3), (4,), (2, 6))]
    optimizer = hvd.DistributedOptimizer(sgd(parameters, lr=0.125, momentum=0.5),
                                         list(zip("wbc", parameters)), **options(words, parameters))
    passes = int(words.get("backward_passes_per_step", 1))
    for step in range(4):
        if step == 2 and "change_passes" in words:
            passes = 1 + hvd.rank() if words["change_passes"] == "rank" else int(words["change_passes"])
            optimizer.set_backward_passes_per_step(passes)
        optimizer.zero_grad()
        if "no_sync" in words:
            with optimizer.no_sync():
                backward(parameters, step, 7)
        for number in range(1 if "no_sync" in words else 0, passes):
            backward(parameters, step, number)
        if "synchronize" in words:
            optimizer.synchronize()
        with optimizer.skip_synchronize() if "synchronize" in words else contextlib.nullcontext():
            optimizer.step()
    return np.concatenate([np.ravel(np.asarray(each.detach())) for each in parameters])


hvd.init()
folder, lists = pathlib.Path(sys.argv[2]), [[]]
for word in sys.argv[3:]:
    lists.append([]) if word == "/" else lists[-1].append(word.split("=", 1))
for count, words in zip(itertools.count(), lists):
    try:
        np.savetxt(folder / f"{count}.{hvd.rank()}", train(dict(words)))
    except hvd.Error as error:
        (folder / f"{count}.{hvd.rank()}.error").write_text(str(error))
    hvd.barrier()  # a rank outside a process set is ready at once
