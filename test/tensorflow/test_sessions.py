"""Training in the style of TensorFlow 1."""

import pytest


def test_a_monitored_session_trains_alike_on_all_ranks(on_ranks):
    def train():
        import numpy as np
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        v1 = tf.compat.v1
        random = np.random.default_rng(hvd.rank())
        with tf.Graph().as_default():
            images = v1.placeholder(tf.float32, [None, 4])
            labels = v1.placeholder(tf.float32, [None, 1])
            weights = v1.get_variable("weights", [4, 1])
            loss = tf.reduce_mean((images @ weights - labels) ** 2)
            step = v1.train.get_or_create_global_step()
            optimizer = hvd.DistributedOptimizer(v1.train.AdagradOptimizer(0.5))
            train_op = optimizer.minimize(loss, global_step=step)
            hooks = [hvd.BroadcastGlobalVariablesHook(0), v1.train.StopAtStepHook(last_step=30)]
            losses = []
            with v1.train.MonitoredTrainingSession(hooks=hooks) as session:
                while not session.should_stop():
                    x = random.standard_normal([8, 4])
                    feed = {images: x, labels: x.sum(1, keepdims=True)}
                    _, found, value = session.run([train_op, weights, loss], feed)
                    losses.append(value)
        return found.ravel().tolist(), losses[0], losses[-1], optimizer.get_slot_names()

    first, second = on_ranks(train)
    assert first[0] == second[0]
    assert first[2] < 0.1 * first[1] and second[2] < 0.1 * second[1]
    assert first[3] == ["accumulator"]


def test_ranks_wait_for_each_other_beside_a_graph(on_ranks):
    def wait():
        import time

        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        hvd.barrier()
        with tf.Graph().as_default():
            if hvd.rank() == 1:
                time.sleep(0.25)
            start = time.monotonic()
            hvd.barrier()
            waited = time.monotonic() - start
            if hvd.rank() == 1:
                time.sleep(0.25)
            return waited > 0.1, hvd.join()

    assert on_ranks(wait) == [(True, 1), (False, 1)]


def test_what_is_for_graphs_says_so_eagerly_and_what_is_no_optimizer_is_refused(on_ranks):
    def refuse():
        import horovod_cpp.tensorflow as hvd

        texts = []
        for call in (lambda: hvd.broadcast_global_variables(0), lambda: hvd.DistributedOptimizer("sgd")):
            try:
                call()
            except (hvd.Error, TypeError) as error:
                texts.append(str(error))
        return texts

    for eager, other in on_ranks(refuse):
        assert "broadcast_variables" in eager and "an optimizer of Keras, got a <class 'str'>" in other


def test_an_optimizer_of_keras_is_wrapped_as_one(on_ranks):
    def step():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd
        from horovod_cpp.keras.version import keras

        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), op=hvd.Sum)
        variable = getattr(keras, "Variable", tf.Variable)([0.0])
        optimizer.apply_gradients([(tf.constant([hvd.rank() + 1.0]), variable)])
        return float(variable[0])

    assert on_ranks(step) == [-3.0, -3.0]


PASSES, STEPS = 3, 4


def train(mode, kind, options):
    """Weights and the global step after every pass of training on this rank's part of each batch."""
    import numpy as np
    import tensorflow as tf

    import horovod_cpp.tensorflow as hvd

    v1 = tf.compat.v1
    random = np.random.default_rng(4)
    data = random.standard_normal([STEPS * PASSES, 8, 4]).astype(np.float32)
    starts = [random.standard_normal(shape).astype(np.float32) for shape in ([4, 3], [3], [2])]
    mine = slice(hvd.rank() * 4, hvd.rank() * 4 + 4)

    def make():
        optimizer = getattr(v1.train, kind)(0.1)
        variables = [v1.Variable(each, use_resource=True) for each in starts]
        step = v1.Variable(0, use_resource=True, trainable=False, dtype=tf.int64)
        return hvd.DistributedOptimizer(optimizer, **options), variables, step

    def loss_of(variables, x):
        return tf.reduce_mean(tf.tanh(x @ variables[0] + variables[1]) ** 2)

    found = []
    if mode == "session":
        with tf.Graph().as_default():
            optimizer, variables, step = make()
            x = v1.placeholder(tf.float32, [None, 4])
            train_op = optimizer.minimize(loss_of(variables, x), step, var_list=variables)
            with v1.Session() as session:
                session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
                for each in data:
                    session.run(train_op, {x: each[mine]})
                    found.append(session.run([*variables, step]))
    else:
        optimizer, variables, step = make()

        def run(x):
            optimizer.minimize(lambda: loss_of(variables, x), step, var_list=variables)

        call = tf.function(run) if mode == "function" else run
        for each in data:
            call(tf.constant(each[mine]))
            found.append([each.numpy() for each in (*variables, step)])
    return found


def train_alone(averaged):
    """The steps that PASSES passes at a time make, in one process."""
    import numpy as np
    import tensorflow as tf

    random = np.random.default_rng(4)
    data = random.standard_normal([STEPS * PASSES, 8, 4]).astype(np.float32)
    variables = [tf.Variable(random.standard_normal(shape).astype(np.float32))
                 for shape in ([4, 3], [3])]
    optimizer = tf.compat.v1.train.AdamOptimizer(0.1)
    found = []
    for step in range(STEPS):
        with tf.GradientTape() as tape:
            losses = [tf.reduce_mean(tf.tanh(x @ variables[0] + variables[1]) ** 2)
                      for x in data[step * PASSES:(step + 1) * PASSES]]
            loss = tf.add_n(losses) / (PASSES if averaged else 1)
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        found.append([each.numpy() for each in variables])
    return found


@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("mode", ["session", "function", "eager"])
def test_several_passes_make_one_step_of_all_that_they_saw(on_ranks, mode, averaged):
    import numpy as np

    expected = train_alone(averaged)
    options = {"backward_passes_per_step": PASSES, "average_aggregated_gradients": averaged}
    for found in on_ranks(train, mode, "AdamOptimizer", options):
        for number, (first, second, unused, step) in enumerate(found):
            assert step == number + 1
            if number >= PASSES - 1:
                for mine, theirs in zip((first, second), expected[(number + 1) // PASSES - 1]):
                    np.testing.assert_allclose(mine, theirs, atol=1e-6)
            np.testing.assert_array_equal(unused, found[0][2])
        for place in range(2):
            np.testing.assert_array_equal(found[0][place], found[1][place])


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("mode", ["session", "function", "eager"])
def test_adasum_combines_what_each_rank_has_changed(on_ranks, mode, passes):
    import numpy as np

    options = {"op": "adasum", "backward_passes_per_step": passes}
    ranks = on_ranks(train, mode, "GradientDescentOptimizer", options)
    alone = on_ranks(adasum_by_hand, passes)
    for found, expected in zip(ranks, alone, strict=True):
        for number, weights in enumerate(found):
            assert weights[3] == number + 1
            for mine, theirs in zip(weights[:2], expected[number], strict=True):
                np.testing.assert_allclose(mine, theirs, atol=1e-6)


def adasum_by_hand(passes):
    """The weights after every pass, by the formula of Adasum in NumPy, from this rank's own steps."""
    import numpy as np
    import tensorflow as tf

    import horovod_cpp.tensorflow as hvd

    random = np.random.default_rng(4)
    data = random.standard_normal([STEPS * PASSES, 8, 4]).astype(np.float32)
    weights = [random.standard_normal(shape).astype(np.float32) for shape in ([4, 3], [3])]
    starts, found = weights, []
    ranks = [weights, weights]
    for number, batch in enumerate(data):
        for rank in range(2):
            variables = [tf.Variable(each) for each in ranks[rank]]
            with tf.GradientTape() as tape:
                x = batch[rank * 4:rank * 4 + 4]
                loss = tf.reduce_mean(tf.tanh(x @ variables[0] + variables[1]) ** 2)
            gradients = tape.gradient(loss, variables)
            ranks[rank] = [each - np.float32(0.1) * gradient.numpy()
                           for each, gradient in zip(ranks[rank], gradients)]
        if (number + 1) % passes == 0:
            combined = []
            for start, a, b in zip(starts, *ranks):
                a, b = (each.astype(np.float64) - start for each in (a, b))
                dot = (a * b).sum()
                combined.append((start + a * (1 - dot / (2 * (a * a).sum()))
                                 + b * (1 - dot / (2 * (b * b).sum()))).astype(np.float32))
            starts, ranks = combined, [combined, combined]
        found.append(ranks[hvd.rank()])
    return found


def test_options_of_the_optimizer_that_do_not_fit_are_refused(on_ranks):
    def refuse():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        plain = tf.compat.v1.train.GradientDescentOptimizer(0.1)
        table = tf.Variable(tf.ones([4, 2]))

        def sparse():
            hvd.DistributedOptimizer(plain, backward_passes_per_step=2).minimize(
                lambda: tf.reduce_sum(tf.gather(table, [1, 2])), var_list=[table])

        texts = []
        for call in (lambda: hvd.DistributedOptimizer(plain, backward_passes_per_step=0),
                     lambda: hvd.DistributedOptimizer(plain, op=hvd.Adasum,
                                                      average_aggregated_gradients=True),
                     sparse):
            try:
                call()
            except hvd.InvalidArgumentError as error:
                texts.append(str(error))
        return texts

    for texts in on_ranks(refuse):
        for text, word in zip(texts, ("at least 1", "Adasum", "sparse_as_dense"), strict=True):
            assert word in text


def test_ranks_wait_for_each_other_in_the_last_pass_of_a_step_alone(on_ranks):
    def uneven():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        variable = tf.Variable(0.0)
        optimizer = hvd.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(1.0),
                                             backward_passes_per_step=2)

        def run():
            optimizer.minimize(lambda: (hvd.rank() + 1.0) * variable, var_list=[variable])

        for rank in range(2):  # first passes, one rank after the other
            if hvd.rank() == rank:
                run()
            hvd.barrier()
        run()
        return variable.numpy()

    assert on_ranks(uneven) == [-3, -3]
