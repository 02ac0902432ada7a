"""What docs/tensorflow.md shows, run as it stands there."""

from pages import blocks


def run_page(block):
    import keras
    import tensorflow as tf

    import horovod_cpp

    horovod_cpp.init()
    rank = horovod_cpp.rank()
    keras.utils.set_random_seed(rank)
    names = {"model": keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)]),
             "optimizer": keras.optimizers.SGD(0.1),
             "loss_of": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
    exec(block, names)
    for _ in range(3):
        names["train_step"](tf.random.normal([8, 4]), tf.range(8) % 3)
    return names["model"].get_weights()


def test_the_page_trains_alike_on_all_ranks(on_ranks):
    (_, block), = blocks("docs/tensorflow.md", "python")
    one, other = on_ranks(run_page, block)
    assert all((mine == theirs).all() for mine, theirs in zip(one, other, strict=True))
