"""Python datasets, samplers, transforms and collate functions with the native loader."""

import io
import os
import struct
import subprocess
import sys
import threading
import time
import zlib

import numpy as np
import pytest
import tqdm

import horovod_cpp as hvd
from horovod_cpp import data
from horovod_cpp.data import transforms


class Squares(data.Dataset):
    """Example i is (i * i, i); one may fail."""

    def __init__(self, count, broken=None):
        self.count = count
        self.broken = broken
        self.threads = set()

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        self.threads.add(threading.get_ident())
        if index == self.broken:
            raise LookupError("no such square")
        return np.full(3, index * index, np.float32), index


class Drawing(Squares):
    def __getitem__(self, index):
        return hvd.rand((2,)), index


def values(loader):
    return [[field.tolist() for field in batch] for batch in loader]


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_a_python_dataset_gives_the_same_batches_with_any_number_of_workers(workers):
    dataset = Squares(7)
    loader = data.DataLoader(dataset, 3, shuffle=True, num_workers=workers, seed=2)
    order = data.RandomSampler(7, seed=2).indices()
    batches = list(loader)
    assert len(loader) == len(batches) == 3
    assert [i for _, labels in batches for i in labels.tolist()] == order
    assert batches[0][0].dtype == "float32" and batches[0][1].dtype == "int64"
    assert batches[0][0][1].tolist() == [order[1] ** 2] * 3
    assert (threading.get_ident() in dataset.threads) == (workers == 0)


def test_bases_are_for_natives_and_for_plain_subclasses():
    assert isinstance(Squares(1), data.Dataset)
    assert isinstance(data.Subset(Squares(3), [2]), data.Dataset)
    assert isinstance(data.RandomSampler(3), data.Sampler)
    with pytest.raises(TypeError, match="abstract"):
        data.Dataset()


def test_lists_are_datasets_and_other_things_are_not():
    assert values(data.DataLoader([1, 2, 3], 2)) == [[[1, 2]], [[3]]]
    for wrong in (3, {1, 2}, None):
        with pytest.raises(TypeError, match="dataset"):
            data.DataLoader(wrong)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_exception_of_a_python_dataset_comes_back_with_the_examples_number(workers):
    loader = data.DataLoader(Squares(6, broken=4), 2, num_workers=workers)
    seen = []
    with pytest.raises(LookupError, match="no such square") as raised:
        for _, labels in loader:
            seen.append(labels.tolist())
    assert seen == [[0, 1], [2, 3]]
    assert raised.value.__notes__ == ["DataLoader: example 4 of Squares"]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stop_iteration_is_no_end_of_the_pass(workers):
    class Stream:
        def __init__(self, values):
            self.values = iter(values)

        def __len__(self):
            return 6

        def __getitem__(self, index):
            return next(self.values)

        def __iter__(self):
            return next(self.values)

    def ended(message, dataset, **options):
        with pytest.raises(RuntimeError, match=message) as raised:
            list(data.DataLoader(dataset, num_workers=workers, **options))
        assert isinstance(raised.value.__cause__, StopIteration)

    ended("^DataLoader: example [0-5] of Stream raised StopIteration$", Stream(range(3)))
    ended("batch that begins with example 0 of list raised", [1, 2],
          collate_fn=lambda examples: next(iter([])))
    ended("^DataLoader: the sampler raised StopIteration$", [1, 2], sampler=Stream([]))


@pytest.mark.parametrize("workers", [0, 2])
def test_an_example_that_is_no_tensor_is_a_type_error(workers):
    with pytest.raises(TypeError, match="example 1 of list: expected a Tensor, array or number, or a tuple of them, got str"):
        list(data.DataLoader([1, "two"], num_workers=workers))


@pytest.mark.parametrize("example", [{"image": 1.0}, "text", None])
def test_what_is_no_example_is_named_with_its_dataset(example):
    with pytest.raises(TypeError, match=f"example 0 of list: expected a Tensor.*got {type(example).__name__}"):
        list(data.DataLoader([example], batch_size=1))


@pytest.mark.parametrize("stream", [iter([1.0, 2.0]), {1.0, 2.0}, zip([1.0])])
def test_an_iterable_without_indices_is_refused_with_what_to_do(stream):
    with pytest.raises(TypeError, match=r"__len__ and __getitem__.*pass list\("):
        data.DataLoader(stream)


def test_a_loader_tells_what_it_was_made_of_and_how_long_a_pass_is():
    squares = Squares(10)
    loader = data.DataLoader(squares, batch_size=4, num_workers=2, drop_last=True)
    assert loader.dataset is squares and loader.batch_size == 4
    assert loader.num_workers == 2 and loader.drop_last and len(loader) == 2
    own = data.DataLoader(squares, batch_sampler=[[0, 1], [5]])
    assert own.batch_size is None and len(own) == 2
    with tqdm.tqdm(data.DataLoader(squares, 4), file=io.StringIO()) as bar:
        assert bar.total == 3
        assert sum(1 for _ in bar) == 3


def test_transforms_are_derived_from_or_any_callable():
    class Doubled(data.transforms.Transform):
        def __call__(self, image):
            return image * 2

    image = hvd.ones((1, 2, 2))
    steps = data.transforms.Compose([Doubled(), lambda x: x + 1])
    assert steps(image).tolist() == [[[3.0, 3.0], [3.0, 3.0]]]
    assert isinstance(steps, data.transforms.Transform)
    with pytest.raises(TypeError, match="abstract"):
        data.transforms.Transform()


@pytest.mark.parametrize("workers", [0, 2])
def test_what_a_python_dataset_draws_depends_on_seed_epoch_and_index(workers):
    def drawn(loader):
        return {label: tuple(row) for rows, labels in loader
                for row, label in zip(rows.tolist(), labels.tolist(), strict=True)}

    expected = data.DataLoader(Drawing(8), 1, seed=4)
    loader = data.DataLoader(Drawing(8), 3, shuffle=True, num_workers=workers, seed=4)
    first = drawn(expected)
    assert len(set(first.values())) == 8
    assert drawn(loader) == first
    second = drawn(expected)
    assert drawn(loader) == second and second != first


def test_leaving_a_loop_early_stops_the_workers():
    before = threading.active_count()
    dataset = Squares(10**6)
    for _ in range(3):
        for batch in data.DataLoader(dataset, 2, num_workers=3):
            assert batch[1].tolist() == [0, 1]
            break
    assert threading.active_count() == before
    calls = dataset.threads.copy()
    time.sleep(0.05)
    assert dataset.threads == calls


def test_a_program_may_end_in_the_middle_of_a_pass():
    program = """
import horovod_cpp as hvd
class Slow:
    def __len__(self): return 1000
    def __getitem__(self, index):
        sum(range(100000))
        return index
batches = iter(hvd.data.DataLoader(Slow(), 2, num_workers=4))
print(next(batches)[0].tolist())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[0, 1]\n", "")


def test_a_forked_child_ends_though_the_workers_of_a_pass_are_not_there():
    program = """
import os, sys
import horovod_cpp as hvd
batches = iter(hvd.data.DataLoader(range(100), 2, num_workers=2))
next(batches)
if os.fork() == 0: sys.exit(7)
print(os.waitstatus_to_exitcode(os.wait()[1]), next(batches)[0].tolist())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "7 [2, 3]\n", "")


def test_collate_fn_makes_the_batch():
    def padded(examples):
        longest = max(len(row) for row, in examples)
        return np.stack([np.pad(row.numpy(), (0, longest - len(row))) for row, in examples]), 7

    rows = [(np.arange(n, dtype=np.float32),) for n in (1, 3, 2)]
    for workers in (0, 2):
        loader = data.DataLoader(rows, 2, collate_fn=padded, num_workers=workers)
        assert values(loader) == [[[[0, 0, 0], [0, 1, 2]], 7], [[[0, 1]], 7]]
    with pytest.raises(TypeError, match="collate_fn"):
        data.DataLoader(rows, collate_fn=3)


class Evens:
    """A sampler that shows the epochs it is told."""

    def __init__(self):
        self.epochs = []

    def set_epoch(self, epoch):
        self.epochs.append(epoch)

    def __len__(self):
        return 3

    def __iter__(self):
        return iter([0, 2, 4])


def test_samplers_and_batch_samplers_may_be_iterables():
    evens = Evens()
    loader = data.DataLoader(Squares(6), 2, sampler=evens)
    assert len(loader) == 2
    for _ in range(2):
        assert [labels.tolist() for _, labels in loader] == [[0, 2], [4]]
    assert evens.epochs == [0, 1]
    batches = data.DataLoader(Squares(6), batch_sampler=[[5], [1, 2, 3]])
    assert len(batches) == 2
    assert [labels.tolist() for _, labels in batches] == [[5], [1, 2, 3]]
    native = data.BatchSampler(data.SequentialSampler(5), 2, drop_last=True)
    assert [labels.tolist() for _, labels in data.DataLoader(Squares(6), batch_sampler=native)] \
        == [[0, 1], [2, 3]]
    with pytest.raises(hvd.InvalidArgumentError, match="batch_sampler excludes"):
        data.DataLoader(Squares(6), 2, batch_sampler=native)
    with pytest.raises(TypeError, match="sampler"):
        data.DataLoader(Squares(6), sampler=5)


@pytest.mark.parametrize("make", [
    lambda: {"batch_size": 2, "shuffle": True, "seed": 3},
    lambda: {"batch_size": 2, "sampler": data.DistributedSampler(9, 2, 1, seed=3)},
    lambda: {"batch_size": 2, "sampler": list(range(9))},
    lambda: {"batch_sampler": [[0], [1, 2], [3, 4, 5], [6]]}])
def test_a_loader_goes_on_in_the_middle_of_a_pass(make):
    uninterrupted = data.DataLoader(Drawing(9), **make())
    expected = values(uninterrupted)
    stopped = iter(interrupted := data.DataLoader(Drawing(9), num_workers=2, **make()))
    assert [[f.tolist() for f in next(stopped)] for _ in range(2)] == expected[:2]
    state = interrupted.sampler.state()
    assert sorted(state) == ["epoch", "position", "seed"]
    resumed = data.DataLoader(Drawing(9), num_workers=1, **make())
    resumed.sampler.load_state(state)
    resumed.sampler.set_epoch(state["epoch"])
    assert values(resumed) == expected[2:]
    with pytest.raises(hvd.InvalidArgumentError, match="position"):
        resumed.sampler.load_state({"seed": 0, "epoch": 0})


def test_uneven_shares_are_padded_dropped_or_kept():
    def shares(**options):
        return [data.DistributedSampler(5, 2, r, shuffle=False, **options).indices()
                for r in range(2)]

    assert shares() == shares(uneven="pad") == [[0, 2, 4], [1, 3, 0]]
    assert shares(uneven="drop") == shares(drop_last=True) == [[0, 2], [1, 3]]
    assert shares(uneven="keep") == [[0, 2, 4], [1, 3]]
    for wrong in ({"uneven": "all"}, {"uneven": "keep", "drop_last": True}):
        with pytest.raises(hvd.InvalidArgumentError, match="uneven"):
            shares(**wrong)


def test_concat_and_random_split():
    both = data.ConcatDataset([Squares(2), data.TensorDataset(np.zeros(1), np.array([9]))])
    assert [both[i][1].item() for i in range(3)] == [0, 1, 9]
    parts = data.random_split(Squares(10), [7, 3], seed=1)
    found = [part[i][1].item() for part in parts for i in range(len(part))]
    assert sorted(found) == list(range(10)) and found != sorted(found)
    again = data.random_split(Squares(10), [0.7, 0.3], seed=1)
    assert [p[i][1].item() for p in again for i in range(len(p))] == found
    with pytest.raises(hvd.InvalidArgumentError, match="add up to 9"):
        data.random_split(Squares(10), [7, 2])


def test_native_transforms_and_python_ones_mix():
    image = np.arange(48, dtype=np.uint8).reshape(3, 4, 4)
    both = transforms.Compose([
        transforms.CenterCrop(2), lambda x: x.numpy()[:, :, ::-1],
        transforms.ToTensor(), transforms.Normalize([0.5] * 3, (0.5, 0.5, 0.5)),
        transforms.Lambda(lambda x: x.numpy() + 1)])
    expected = image[:, 1:3, 2:0:-1].astype(np.float32) / 255 * 2
    np.testing.assert_allclose(both(image).numpy(), expected, atol=1e-6)
    dataset = data.TransformDataset([(image, 1)] * 3, both)
    for workers in (0, 2):
        for images, labels in data.DataLoader(dataset, 3, num_workers=workers):
            np.testing.assert_allclose(images.numpy()[2], expected, atol=1e-6)
            assert labels.tolist() == [1, 1, 1]
    with pytest.raises(TypeError, match="transform"):
        transforms.Compose([3])


def test_every_transform_is_there_with_torchvisions_arguments():
    image = np.random.default_rng(0).integers(0, 256, (3, 20, 30), dtype=np.uint8)
    assert transforms.Resize(10)(image).shape == (3, 10, 15)
    assert transforms.Resize((4, 5))(image).shape == (3, 4, 5)
    assert transforms.CenterCrop((2, 3))(image).shape == (3, 2, 3)
    assert transforms.RandomCrop(24, padding=4)(image).shape == (3, 24, 24)
    crop = transforms.RandomResizedCrop(8, scale=(0.5, 1), ratio=(1, 1))
    assert crop(image).shape == (3, 8, 8)
    flipped = transforms.RandomHorizontalFlip(p=1.0)(image)
    np.testing.assert_array_equal(flipped.numpy(), image[:, :, ::-1])
    brighter = transforms.ColorJitter(brightness=(2, 2), contrast=0, saturation=0, hue=0)(image)
    np.testing.assert_array_equal(brighter.numpy(), np.minimum(image.astype(int) * 2, 255))
    with pytest.raises(hvd.InvalidArgumentError, match="Normalize"):
        transforms.Normalize(mean=[0.0], std=[1.0])(image)
    hvd.manual_seed(1)
    jitter = transforms.ColorJitter(0.5, 0.5, 0.5, 0.1)
    once = jitter(image)
    hvd.manual_seed(1)
    assert hvd.bitwise_equal(once, jitter(image)) and not hvd.bitwise_equal(once, jitter(image))


def png_of(gray):
    """The smallest PNG file of one gray pixel."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(
            ">I", zlib.crc32(kind + body))

    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)) + \
        chunk(b"IDAT", zlib.compress(bytes([0, gray]))) + chunk(b"IEND", b"")


def test_image_folders_and_files(tmp_path):
    for name, gray in [("dog/b.png", 7), ("cat/a.PNG", 5), ("dog/a.png", 6)]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(png_of(gray))
    images = data.ImageFolder(tmp_path, transform=lambda image: image.numpy() + 1)
    assert images.classes == ["cat", "dog"] and images.class_to_idx == {"cat": 0, "dog": 1}
    assert [label for _, label in images.samples] == [0, 1, 1]
    assert [(i[0].tolist(), i[1].item()) for i in images] == [
        ([[[gray]]] * 3, label) for gray, label in [(6, 0), (7, 1), (8, 1)]]
    assert data.read_image(tmp_path / "dog/b.png", mode="gray").tolist() == [[[7]]]
    sizes = data.DatasetFolder(str(tmp_path), loader=lambda path: len(path), extensions=[".png"])
    assert sizes[0][0].item() == len(str(tmp_path / "cat/a.PNG"))

    (tmp_path / "dog/b.png").write_bytes(png_of(7)[:40])
    loader = data.DataLoader(images, num_workers=2)
    with pytest.raises(hvd.InvalidArgumentError, match="example 2 of ImageFolder: .*dog/b.png: is a broken PNG"):
        list(loader)
    with pytest.raises(hvd.InvalidArgumentError, match="mode"):
        data.read_image(str(tmp_path / "dog/a.png"), mode="blue")
    (tmp_path / "eel").mkdir()
    with pytest.raises(hvd.InvalidArgumentError, match="eel: a class without files"):
        data.ImageFolder(str(tmp_path))


def test_names_of_files_and_classes_need_not_be_utf_8(tmp_path):
    path = os.path.join(os.fsencode(tmp_path), b"caf\xe9", b"\xff.png")
    os.mkdir(os.path.dirname(path))
    with open(path, "wb") as file:
        file.write(png_of(3))
    images = data.ImageFolder(tmp_path)
    assert images.samples == [(os.fsdecode(path), 0)]
    assert images.classes == [os.fsdecode(b"caf\xe9")] == list(images.class_to_idx)
    read = data.DatasetFolder(tmp_path, data.read_image, [".png"])
    assert read[0][0].tolist() == images[0][0].tolist() == [[[3]]] * 3


def test_cifar100_gives_the_fine_labels(tmp_path):
    (tmp_path / "train.bin").write_bytes(bytes([3, 77]) + bytes(range(256)) * 12)
    image, label = data.CIFAR100(str(tmp_path), dtype="uint8")[0]
    assert label.item() == 77 and image.shape == (3, 32, 32)
