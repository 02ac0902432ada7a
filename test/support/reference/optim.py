#!/usr/bin/env python3
"""Writes optim.safetensors: what PyTorch's optimizers, schedules and clipping give, and a file as
PyTorch writes it. Needs torch and safetensors (made with torch 1.13, safetensors 0.8):

    optim.py [--folder FOLDER] [--seed N]

LAMB is not in torch: `Lamb` below is the paper's algorithm 2 (You et al., ICLR 2020) in torch.
"""

import math

import torch
from common import destination
from safetensors.torch import save_file
from torch.optim import lr_scheduler

STEPS = 6
OPTIMIZERS = {
    "sgd": (torch.optim.SGD, dict(lr=0.1)),
    "sgd_momentum": (torch.optim.SGD, dict(lr=0.1, momentum=0.9, dampening=0.25, weight_decay=0.01)),
    "sgd_nesterov": (torch.optim.SGD, dict(lr=0.1, momentum=0.9, nesterov=True, maximize=True)),
    "adam": (torch.optim.Adam, dict(lr=0.02, betas=(0.8, 0.95), weight_decay=0.1)),
    "adam_amsgrad": (torch.optim.Adam, dict(lr=0.02, betas=(0.5, 0.6), eps=1e-4, amsgrad=True)),
    "adam_maximize": (torch.optim.Adam, dict(lr=0.02, maximize=True)),
    "adamw": (torch.optim.AdamW, dict(lr=0.02, weight_decay=0.3)),
    "adamw_amsgrad": (torch.optim.AdamW, dict(lr=0.02, betas=(0.5, 0.6), amsgrad=True, maximize=True)),
    "rmsprop": (torch.optim.RMSprop, dict(lr=0.02, alpha=0.9, weight_decay=0.1)),
    "rmsprop_centered": (torch.optim.RMSprop, dict(lr=0.02, centered=True, eps=1e-3)),
    "rmsprop_momentum": (torch.optim.RMSprop, dict(lr=0.02, alpha=0.9, momentum=0.8, centered=True,
                                                   maximize=True)),
    "adagrad": (torch.optim.Adagrad, dict(lr=0.1, lr_decay=0.25, weight_decay=0.1)),
    "adagrad_initial": (torch.optim.Adagrad, dict(lr=0.1, initial_accumulator_value=0.5, eps=1e-3,
                                                  maximize=True)),
    "adadelta": (torch.optim.Adadelta, dict(lr=2.0, rho=0.8, weight_decay=0.1)),
    "adadelta_maximize": (torch.optim.Adadelta, dict(eps=1e-3, maximize=True)),
}


class Lamb(torch.optim.Optimizer):
    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0, maximize=False):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay,
                                      maximize=maximize))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for x in group["params"]:
                state = self.state[x]
                if not state:
                    state.update(t=0, m=torch.zeros_like(x), v=torch.zeros_like(x))
                g = -x.grad if group["maximize"] else x.grad
                b1, b2 = group["betas"]
                state["t"] += 1
                state["m"] = b1 * state["m"] + (1 - b1) * g
                state["v"] = b2 * state["v"] + (1 - b2) * g * g
                m = state["m"] / (1 - b1 ** state["t"])
                v = state["v"] / (1 - b2 ** state["t"])
                r = m / (v.sqrt() + group["eps"]) + group["weight_decay"] * x
                weight_norm, r_norm = x.norm(), r.norm()
                ratio = weight_norm / r_norm if weight_norm > 0 and r_norm > 0 else 1.0
                x -= group["lr"] * ratio * r


OPTIMIZERS["lamb"] = (Lamb, dict(lr=0.02, betas=(0.8, 0.95), weight_decay=0.1))
OPTIMIZERS["lamb_maximize"] = (Lamb, dict(lr=0.02, eps=1e-3, maximize=True))


def optimizers(out, seed):
    generator = torch.Generator().manual_seed(1 + seed)
    initial = torch.randn(21, dtype=torch.float64, generator=generator)
    grads = torch.randn(STEPS, 21, dtype=torch.float64, generator=generator)
    grads[:, 0] = 0  # a parameter that no loss reaches
    out["optim/initial"], out["optim/grads"] = initial, grads
    for case, (make, options) in OPTIMIZERS.items():
        param = initial.clone().requires_grad_()
        optimizer = make([param], **options)
        path = []
        for grad in grads:
            param.grad = grad.clone()
            optimizer.step()
            path.append(param.detach().clone())
        out[f"{case}/params"] = torch.stack(path)


def schedule(make, momentum="momentum", epochs=14):
    """The learning rates and momenta of epochs 0, 1, ... of two groups."""
    params = [torch.zeros(1, requires_grad=True) for _ in range(2)]
    groups = [{"params": [params[0]]}, {"params": [params[1]], "lr": 0.02}]
    if momentum == "betas":
        optimizer = torch.optim.Adam(groups, lr=0.5)
    else:
        optimizer = torch.optim.SGD(groups, lr=0.5, momentum=0.9)
    scheduler = make(optimizer)
    rates, momenta = [], []
    for epoch in range(epochs):
        rates.append([group["lr"] for group in optimizer.param_groups])
        momenta.append([group["betas"][0] if momentum == "betas" else group["momentum"]
                        for group in optimizer.param_groups])
        optimizer.step()
        if epoch + 1 < epochs:
            scheduler.step()
    return torch.tensor(rates, dtype=torch.float64), torch.tensor(momenta, dtype=torch.float64)


METRICS = [5, 4, 4, 4, 3.9999, 4, 4, 4, 4, 3, 3, math.nan, 3, 3, 3, 3, 3, 2, 2, 2]


def plateau(**options):
    params = [torch.zeros(1, requires_grad=True) for _ in range(2)]
    optimizer = torch.optim.SGD([{"params": [params[0]]}, {"params": [params[1]], "lr": 0.02}], lr=0.5)
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, **options)
    rates = []
    for metric in METRICS:
        scheduler.step(metric)
        rates.append([group["lr"] for group in optimizer.param_groups])
    return torch.tensor(rates, dtype=torch.float64)


def warm_then(optimizer, after, start=3):
    warm = lr_scheduler.LinearLR(optimizer, start_factor=0.25, total_iters=3)
    return lr_scheduler.SequentialLR(optimizer, [warm, after(optimizer)], milestones=[start])


def schedules(out):
    lrs = lr_scheduler
    for case, make in {
        "step": lambda o: lrs.StepLR(o, step_size=3, gamma=0.5),
        "multi_step": lambda o: lrs.MultiStepLR(o, milestones=[2, 5, 11], gamma=0.3),
        "exponential": lambda o: lrs.ExponentialLR(o, gamma=0.9),
        "cosine": lambda o: lrs.CosineAnnealingLR(o, T_max=5, eta_min=0.01),
        "linear": lambda o: lrs.LinearLR(o, start_factor=0.1, end_factor=0.8, total_iters=6),
        "lambda": lambda o: lrs.LambdaLR(o, [lambda e: 1 / (1 + e), lambda e: 0.95 ** e]),
        "sequential_cosine": lambda o: warm_then(o, lambda p: lrs.CosineAnnealingLR(p, T_max=8)),
        "sequential_step": lambda o: warm_then(o, lambda p: lrs.StepLR(p, step_size=4), start=5),
    }.items():
        out[f"schedule_{case}/lr"], _ = schedule(make)
    for case, options in {
        "cos": dict(max_lr=[1.0, 2.0], total_steps=14),
        "linear": dict(max_lr=0.7, total_steps=14, pct_start=0.25, anneal_strategy="linear",
                       div_factor=10, final_div_factor=100),
        "three_phase": dict(max_lr=0.7, total_steps=14, three_phase=True, base_momentum=0.5),
    }.items():
        for momentum in ("momentum", "betas"):
            rates, momenta = schedule(lambda o, k=options: lrs.OneCycleLR(o, **k), momentum)
            out[f"one_cycle_{case}/lr"], out[f"one_cycle_{case}/{momentum}"] = rates, momenta
    out["plateau/metrics"] = torch.tensor(METRICS, dtype=torch.float64)
    out["plateau_min_rel/lr"] = plateau(patience=2, factor=0.5)
    out["plateau_min_abs/lr"] = plateau(patience=1, factor=0.1, threshold=0.5, threshold_mode="abs",
                                        cooldown=2, min_lr=[0.01, 0.005])
    out["plateau_max_rel/lr"] = plateau(mode="max", patience=3, factor=0.5, eps=1e-3)
    out["plateau_max_abs/lr"] = plateau(mode="max", patience=0, factor=0.9, threshold_mode="abs")


def clipping(out, seed):
    generator = torch.Generator().manual_seed(2 + seed)
    grads = [torch.randn(3, 4, generator=generator), torch.randn(5, generator=generator)]
    out["clip/grad_a"], out["clip/grad_b"] = grads
    for case, kind in {"l1": 1.0, "l2": 2.0, "l3": 3.0, "inf": math.inf}.items():
        params = [torch.zeros_like(grad, requires_grad=True) for grad in grads]
        for param, grad in zip(params, grads):
            param.grad = grad.clone()
        out[f"clip_{case}/norm"] = torch.nn.utils.clip_grad_norm_(params, 1.5, norm_type=kind)
        out[f"clip_{case}/a"], out[f"clip_{case}/b"] = params[0].grad, params[1].grad


def model(out, seed):
    """A state dict with torch's names, and what the model gives."""
    torch.manual_seed(3 + seed)
    net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
    x = torch.randn(5, 4)
    out.update({f"mlp/{name}": value.clone() for name, value in net.state_dict().items()})
    out["mlp_run/input"], out["mlp_run/output"] = x, net(x).detach()


def dtypes(out):
    ints = torch.tensor([[-3, 0, 7], [1, 2, 127]])
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64,
                  torch.int32, torch.int16, torch.int8):
        out[f"io/{str(dtype)[6:]}"] = ints.to(dtype)
    out["io/uint8"] = ints.abs().to(torch.uint8)
    out["io/bool"] = ints > 0
    out["io/bool_of_three"] = torch.tensor([True, False, True])  # leaves the rest unaligned
    out["io/scalar"] = torch.tensor(0.1)
    out["io/empty"] = torch.empty(3, 0, 2, dtype=torch.float16)
    out["io/special"] = torch.tensor([math.nan, math.inf, -math.inf, -0.0], dtype=torch.bfloat16)


def main():
    path, seed = destination(__file__)
    out = {}
    optimizers(out, seed)
    schedules(out)
    clipping(out, seed)
    model(out, seed)
    dtypes(out)
    save_file({name: tensor.contiguous() for name, tensor in out.items()}, path,
              metadata={"format": "pt"})


main()
