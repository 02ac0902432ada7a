import gzip
import threading

import numpy as np
import pytest

import horovod_cpp as hvd
from horovod_cpp import data


def numbers(count):
    return data.TensorDataset(np.arange(count, dtype=np.float32).reshape(count, 1),
                              np.arange(count))


def visited(loader):
    return [label for _, labels in loader for label in labels.tolist()]


def write_idx(path, array):
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    path.write_bytes(header + array.astype(np.uint8).tobytes())


def test_tensor_dataset_gives_tuples_and_knows_its_bounds():
    dataset = numbers(3)
    value, label = dataset[-1]
    assert len(dataset) == 3 and value.tolist() == [2.0] and label.item() == 2
    with pytest.raises(IndexError):
        dataset[3]
    with pytest.raises(hvd.InvalidArgumentError):
        data.TensorDataset(np.zeros(2), np.zeros(3))
    with pytest.raises(TypeError):
        data.TensorDataset([1, 2])


def test_loader_batches_in_order_and_drops_the_last_if_asked():
    loader = data.DataLoader(numbers(5), batch_size=2)
    assert [len(labels) for _, labels in loader] == [2, 2, 1]
    assert visited(loader) == [0, 1, 2, 3, 4]
    assert len(data.DataLoader(numbers(5), batch_size=2, drop_last=True)) == 2


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_keep_the_order_and_let_arrays_go_on_this_thread(workers):
    dropped = []

    class Array(np.ndarray):
        def __del__(self):
            dropped.append(threading.current_thread())

    array = np.arange(64).view(Array)
    dataset = data.TensorDataset(array)
    del array
    loader = data.DataLoader(dataset, batch_size=4, num_workers=workers)
    assert [v for (batch,) in loader for v in batch.tolist()] == list(range(64))
    dropped.clear()
    del dataset, loader
    assert dropped == [threading.main_thread()]


def test_shuffle_changes_every_pass_and_depends_on_the_seed():
    loader = data.DataLoader(numbers(50), batch_size=7, shuffle=True, seed=1)
    first, second = visited(loader), visited(loader)
    assert sorted(first) == sorted(second) == list(range(50)) and first != second
    assert visited(data.DataLoader(numbers(50), batch_size=7, shuffle=True, seed=1)) == first


def test_wrong_loader_options_are_errors():
    with pytest.raises(hvd.InvalidArgumentError):
        data.DataLoader(numbers(3), batch_size=0)
    with pytest.raises(hvd.InvalidArgumentError):
        data.DataLoader(numbers(3), shuffle=True, sampler=data.SequentialSampler(3))
    with pytest.raises(TypeError):
        data.DataLoader(3)


def test_distributed_sampler_partitions_one_permutation():
    shares = [data.DistributedSampler(10, 2, rank, seed=5) for rank in range(2)]
    whole = data.DistributedSampler(10, 1, 0, seed=5)
    for epoch in range(3):
        for sampler in [whole, *shares]:
            sampler.set_epoch(epoch)
        order = whole.indices()
        assert [s.indices() for s in shares] == [order[0::2], order[1::2]]
    assert len(data.DistributedSampler(11, 2, 0)) == 6
    assert len(data.DistributedSampler(11, 2, 0, drop_last=True)) == 5
    with pytest.raises(hvd.InvalidArgumentError):
        data.DistributedSampler(10, 2, 2)


def test_mnist_reads_plain_and_gzipped_idx(tmp_path):
    images = np.arange(2 * 3 * 3).reshape(2, 3, 3)
    write_idx(tmp_path / "train-images-idx3-ubyte", images)
    write_idx(tmp_path / "train-labels-idx1-ubyte", np.array([4, 9]))
    labels = tmp_path / "train-labels-idx1-ubyte"
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels.read_bytes()))
    labels.unlink()
    dataset = data.MNIST(str(tmp_path), dtype="uint8")
    image, label = dataset[1]
    np.testing.assert_array_equal(image.numpy(), images[1:2])
    assert label.item() == 9
    assert data.MNIST(str(tmp_path))[1][0].numpy().max() == np.float32(17 / 255)
    assert dataset.images.shape == (2, 1, 3, 3) and dataset.labels.tolist() == [4, 9]


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b"\1" + b[1:], lambda b: b + b"x",
                                    lambda b: b[:4] + b"\xff\xff\xff\xff" + b[8:], lambda b: b""])
def test_a_corrupt_idx_file_is_named(tmp_path, change):
    path = tmp_path / "digits-idx1-ubyte"
    write_idx(path, np.arange(5))
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(hvd.InvalidArgumentError, match="digits-idx1-ubyte"):
        data.read_idx(str(path))


def test_a_missing_data_folder_is_named():
    for dataset in (data.MNIST, data.CIFAR10):
        with pytest.raises(hvd.InvalidArgumentError, match="/nowhere"):
            dataset("/nowhere")


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "float16", "bfloat16", "float32",
                                   "float64"])
def test_a_state_dict_survives_saving_bit_by_bit(tmp_path, dtype):
    state = {"b.weight": hvd.tensor([[1, 2], [3, 4]], dtype=dtype),
             "a": hvd.tensor(5, dtype=dtype), "empty": hvd.zeros((0, 3), dtype=dtype)}
    hvd.save(tmp_path / "state.safetensors", state, metadata={"epoch": "3"})
    loaded = hvd.load(tmp_path / "state.safetensors")
    assert loaded.keys() == state.keys()
    assert all(hvd.bitwise_equal(loaded[name], state[name]) for name in state)
    assert hvd.io.load_metadata(tmp_path / "state.safetensors") == {"epoch": "3"}


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b"\xff" * 8 + b[8:],
                                    lambda b: b[:8] + b"[" + b[9:], lambda b: b""])
def test_a_corrupt_checkpoint_is_named(tmp_path, change):
    path = tmp_path / "broken.safetensors"
    hvd.save(path, {"w": np.ones(4, np.float32)})
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(hvd.InvalidArgumentError, match="broken.safetensors"):
        hvd.load(path)


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "state.safetensors"
    hvd.save(path, {"w": np.ones(4, np.float32)})
    before = path.read_bytes()
    with pytest.raises(hvd.InvalidArgumentError):
        hvd.save(path, [("w", np.ones(1)), ("w", np.ones(1))])
    with pytest.raises(TypeError):
        hvd.save(path, {"w": "text"})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
