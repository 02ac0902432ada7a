"""Our own tensors on GPUs: made, moved, computed with, printed, reduced and trained there."""


TENSORS = """
x = hvd.tensor([[1.0, 2.0], [3.0, 4.0]], device="cuda:0")
assert x.device == "cuda:0" and x.is_cuda and not x.cpu().is_cuda
assert x.to("cuda:0").is_same(x)
assert x.cuda() is x and x.cuda(1).device == x.to("cuda:1").device == "cuda:1"
assert x.to("cuda", "float64").dtype == "float64" and hvd.ones(2).to(x).device == "cuda:0"
assert repr(x).endswith("dtype=float32, device='cuda:0')") and "3." in repr(x)
assert "device='cuda:0'" in repr(hvd.zeros(2000, device="cuda"))
assert x.tolist() == [[1, 2], [3, 4]] and x[1, 0].item() == 3 and float(x[0, 1]) == 2
assert hvd.full((2,), 3, dtype="int64", device="cuda").tolist() == [3, 3]
for make in (hvd.zeros, hvd.ones, hvd.empty, hvd.rand, hvd.randn):
    assert make(2, 3, device="cuda:1").device == make((2, 3), device="cuda:1").device == "cuda:1"
assert hvd.ones_like(x).device == "cuda:0" and hvd.bitwise_equal(x, x.cpu())
for make in (lambda **a: hvd.arange(3, **a), lambda **a: hvd.arange(1.0, 2.0, 0.25, **a),
             lambda **a: hvd.linspace(0, 1, 5, **a), lambda **a: hvd.eye(2, 3, **a),
             lambda **a: hvd.randint(0, 9, (4,), generator=hvd.Generator(1), **a),
             lambda **a: hvd.randperm(7, generator=hvd.Generator(1), **a),
             lambda **a: hvd.bernoulli((4,), 0.5, generator=hvd.Generator(1), **a)):
    there = make(device="cuda:1")
    assert there.device == "cuda:1" and hvd.bitwise_equal(there, make()) and make().device == "cpu"
y = (2 * x + 1) / x - hvd.sqrt(x) * hvd.relu(-x)
assert y.is_cuda and hvd.bitwise_equal(y, (2 * x.cpu() + 1) / x.cpu()
                                      - hvd.sqrt(x.cpu()) * hvd.relu(-x.cpu()))
y += 1
y[0] = 7
assert y[0].tolist() == [7, 7] and hvd.cat([x, x]).device == "cuda:0"
w = hvd.ones(2, device="cuda", requires_grad=True)
(w * x).sum().backward()
assert w.grad.device == "cuda:0" and w.grad.tolist() == [4, 6]
for name, call in {"matmul": lambda: x @ x, "numpy": x.numpy, "softmax": lambda: hvd.softmax(x, 1),
                   "gt": lambda: x > 0, "numpy ": lambda: np.asarray(x)}.items():
    with pytest.raises(hvd.UnsupportedError, match=name.strip() + r".*cuda:0.*\\.cpu\\(\\)"):
        call()
with pytest.raises(hvd.UnsupportedError, match="clip_grad_value"):
    hvd.optim.clip_grad_value_([w], 1.0)
assert hvd.optim.clip_grad_norm_([w], 1.0) == 52 ** 0.5 and abs(w.grad.tolist()[1] - 6 / 52 ** 0.5) < 1e-5
with pytest.raises(hvd.UnsupportedError, match="pickle"):
    import copy
    copy.deepcopy(x)
with pytest.raises(hvd.UnsupportedError, match="'cuda:2'.*2"):
    x.cuda(2)
with pytest.raises(MemoryError, match="cuda:0.*4398046511104 bytes"):
    hvd.empty(1 << 40, device="cuda")
with pytest.raises(hvd.UnsupportedError, match="layers"):
    hvd.nn.Linear(2, 2).to("cuda")
assert x.__dlpack_device__() == (2, 0)
"""

HANDED_OVER = """
x = hvd.ones(4, device="cuda:0")
for again in range(2):  # first with a job without collectives of GPUs, then without a job
    stream_log()
    x.__dlpack__(stream=2)
    record, wait = stream_log()[-2:]
    assert record[0] == "record" and wait == ("wait", record[1], 2), (record, wait)
    stream_log()
    x.__dlpack__(stream=2, copy=True)
    assert [line[0] for line in stream_log()][-2:] == ["record", "wait"]
    if not again:
        hvd.shutdown()
"""

COLLECTIVES = """
here = device
x = hvd.full((3, 2), rank + 1, device=here)
total = sum(range(1, size + 1))
y = hvd.allreduce(x, hvd.Sum)
assert y.device == here and (y * 2).tolist() == [[2.0 * total] * 2] * 3
assert hvd.allreduce_(x, hvd.Average) is x and x[0, 0].item() == total / size
assert hvd.broadcast(hvd.full((2,), rank, device=here), size - 1).tolist() == [size - 1] * 2
rows = hvd.allgather(hvd.full((rank + 1,), rank, device=here))
assert rows.device == here and hvd.sum(rows).item() == sum(r * (r + 1) for r in range(size))
assert hvd.allreduce(hvd.ones(2), hvd.Sum).device == "cpu"
"""

TRAINING = """
def trained(name, device, clip):
    kind = device[:4]
    start = hvd.arange(6).to("float32").reshape(3, 2)
    w = hvd.tensor(start + rank, device=device, requires_grad=True)
    b = hvd.zeros(2, device=device, requires_grad=True)
    optimizer = getattr(hvd.optim, name)([w, b], lr=0.125)
    optimizer = hvd.DistributedOptimizer(optimizer, [(kind + ".w", w), (kind + ".b", b)],
                                         clip_grad_norm=clip)
    hvd.broadcast_parameters({kind + ".w": w, kind + ".b": b}, 0)
    for step in range(3):
        optimizer.zero_grad()
        x = hvd.full((3, 2), rank + step + 1, device=device)
        hvd.sum(hvd.relu(w * x + b) * 0.25).backward()
        optimizer.step()
    assert w.device == device and w.grad.device == device
    return hvd.cat([w.detach(), b.detach().reshape(1, 2)])

for name, clip in (("SGD", None), ("Adam", None), ("AdamW", None), ("SGD", 1.0)):
    there, here = trained(name, device, clip), trained(name, "cpu", clip)
    if clip is None:
        assert hvd.bitwise_equal(there, here), name
    else:  # sums of devices have an order of their own
        assert hvd.max(hvd.abs(there.cpu() - here)).item() < 1e-5
    every = hvd.allgather(there.reshape(1, 4, 2))
    assert all(hvd.bitwise_equal(every[r], there) for r in range(size))
"""


def test_tensors_live_on_a_gpu(ranks):
    ranks.check(TENSORS, np=1)


def test_collectives_of_tensors_on_gpus_give_tensors_there(ranks, machine):
    ranks.check(COLLECTIVES, **machine)


def test_parameters_on_gpus_train_as_on_the_cpu(ranks, machine):
    ranks.check(TRAINING, **machine)


def test_a_tensor_is_handed_over_in_order_without_collectives_of_gpus(ranks):
    ranks.check(HANDED_OVER, np=1, operations="none")


def test_results_are_there_for_the_tensors_stream_before_the_gpu_has_them(ranks):
    ranks.check("""
x = hvd.ones(3, device=f"cuda:{own_device()}")
for name in ("one name", "one name"):
    hvd.barrier()
    stream_log()
    with results_stalled():
        handle = hvd.allreduce_async(x, hvd.Sum, name=name)
        y = handle.synchronize()
        assert handle.poll()
        log = stream_log()
    own = next(on for what, _, on in log if what == "record")
    assert waits_past_a_copy(log, own) and (2 * y).tolist() == [2 * size] * 3
""")
