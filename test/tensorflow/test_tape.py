"""DistributedGradientTape: two ranks train as one process with the double batch."""

import pytest


def train(in_graph, options, ranks=None):
    """The weights after some steps on a part of the data: this rank's, or all of it."""
    import numpy as np
    import tensorflow as tf

    import horovod_cpp.tensorflow as hvd

    alone = ranks is None
    random = np.random.default_rng(7)
    words = random.integers(0, 9, [6, 8, 3])
    labels = random.standard_normal([6, 8, 1]).astype(np.float32)
    mine = slice(None) if alone else slice(hvd.rank() * 4, hvd.rank() * 4 + 4)
    variables = [tf.Variable(random.standard_normal(shape).astype(np.float32))
                 for shape in ([9, 4], [12, 5], [5], [5, 1])]
    if options.get("groups") == "two":
        options = {**options, "groups": [variables[:2], variables[2:]]}

    def step(words, labels):
        with tf.GradientTape() as tape:
            table, first, bias, second = variables
            x = tf.reshape(tf.nn.embedding_lookup(table, words), [-1, 12])
            x = tf.tanh(x @ first + bias) @ second
            loss = tf.reduce_mean((x - labels) ** 2)
        if not alone:
            tape = hvd.DistributedGradientTape(tape, **options)
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            if isinstance(gradient, tf.IndexedSlices):
                gradient = tf.convert_to_tensor(gradient)
            variable.assign_sub(0.1 * gradient)

    run = tf.function(step) if in_graph else step
    for each in range(6):
        run(tf.constant(words[each, mine]), tf.constant(labels[each, mine]))
    return [variable.numpy() for variable in variables]


@pytest.mark.parametrize("options", [
    {}, {"sparse_as_dense": True, "gradient_predivide_factor": 2.0}, {"num_groups": 2},
    {"groups": "two"}], ids=str)
@pytest.mark.parametrize("in_graph", [False, True])
def test_two_ranks_train_as_one_process_with_the_double_batch(on_ranks, in_graph, options):
    import numpy as np

    alone = train(in_graph, {})
    for weights in on_ranks(train, in_graph, options, 2):
        for mine, expected in zip(weights, alone, strict=True):
            np.testing.assert_allclose(mine, expected, atol=1e-6)


def test_gradients_of_local_variables_and_missing_ones_stay_as_they_are(on_ranks):
    def gradients():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        shared, local, unused = (tf.Variable(1.0) for _ in range(3))
        with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
            loss = (hvd.rank() + 1.0) * (shared + local)
        tape.register_local_source(local)
        found = tape.gradient(loss, {"shared": shared, "local": local, "unused": unused})
        table = tf.Variable([[1.0]])
        with tf.GradientTape() as tape:
            loss = (hvd.rank() + 1.0) * tf.gather(table, [0])
        tape = hvd.DistributedGradientTape(tape)
        tape.register_local_source(table)
        rows = tape.gradient(loss, table).values.numpy().item()
        return found["shared"].numpy(), found["local"].numpy(), found["unused"], rows

    assert on_ranks(gradients) == [(1.5, 0.5, None, 0.5), (1.5, 1.0, None, 1.0)]


def test_options_of_the_tape_that_do_not_fit_are_refused(on_ranks):
    def refuse():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        texts = []
        x = tf.Variable(1.0)
        for tape in (None, hvd.DistributedGradientTape(tf.GradientTape())):
            try:
                hvd.DistributedGradientTape(tape)
            except TypeError as error:
                texts.append(str(error))
        for options in ({"gradient_predivide_factor": 0.0}, {"groups": "ab"}, {"groups": True},
                        {"groups": [x]}, {"process_set": hvd.ProcessSet([0, 1])}, {"process_set": None}):
            try:
                with hvd.DistributedGradientTape(tf.GradientTape(), **options) as tape:
                    y = 2 * x
                tape.gradient(y, x)
            except (hvd.InvalidArgumentError, TypeError) as error:
                texts.append(str(error))
        return texts

    for texts in on_ranks(refuse):
        for text, word in zip(texts, ("plain tf.GradientTape", "plain tf.GradientTape", "predivide", "groups", "groups", "groups",
                                      "not registered",
                                      "process_set must be"), strict=True):
            assert word in text


def test_gradients_of_tensors_are_reduced_too(on_ranks):
    def gradients():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        def of(x, scale):
            with tf.GradientTape() as tape:
                tape.watch([x, scale])
                y = scale * tf.reduce_sum(x * x)
            return hvd.DistributedGradientTape(tape, op=hvd.Sum).gradient(y, [scale, x])

        scale = tf.Variable(1.0)
        in_graph = tf.function(of, input_signature=[tf.TensorSpec([None, 2]), tf.TensorSpec([])])
        found = [[each.numpy().tolist() for each in call(tf.fill([1, 2], hvd.rank() + 1.0), scale)]
                 for call in (of, in_graph)]
        try:
            of(tf.ones([1 + hvd.rank()]), scale)
        except hvd.MismatchError as error:
            return found, str(error)

    for found, text in on_ranks(gradients):
        assert found == [[10, [[6, 6]]]] * 2
        assert "these are the gradients of 'Variable', a tensor" in text


def test_a_tape_leaves_the_gradients_of_local_layers(on_ranks):
    def gradients():
        import keras
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        def ones():
            return keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")

        shared, local = ones(), ones()
        model = keras.Sequential([keras.Input((1,)), shared, local])
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(tf.constant([[hvd.rank() + 1.0]])))
        tape = hvd.PartialDistributedGradientTape(tape, op=hvd.Sum, local_layers=local,
                                                  scale_local_gradients=False)
        of_keras = model.trainable_variables
        found = tape.gradient(loss, [*of_keras, *(each.value for each in of_keras)])
        found = [each.numpy().item() for each in found]
        texts = []
        for wrong in (keras.layers.Dense(1, name="mine"), "layer"):
            try:
                hvd.PartialDistributedGradientTape(tf.GradientTape(), local_layers=[wrong])
            except hvd.InvalidArgumentError as error:
                texts.append(str(error))
        return found, texts

    for rank, (found, texts) in enumerate(on_ranks(gradients)):
        assert found == [3, rank + 1] * 2
        unbuilt, other = texts
        assert "the local layer 'mine' is not built" in unbuilt and "a str, which is not a Keras layer" in other


def test_a_rank_whose_gradients_nobody_else_gets_is_warned(on_ranks):
    def gradient():
        import warnings

        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        first = hvd.add_process_set([0])
        x = tf.Variable(1.0)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            with hvd.DistributedGradientTape(tf.GradientTape(), process_set=first) as tape:
                y = 2 * x
            found = tape.gradient(y, x).numpy().item()
        hvd.remove_process_set(first)
        return found, [str(each.message) for each in told]

    (one, nothing), (other, (text,)) = on_ranks(gradient)
    assert (one, nothing, other) == (2, [], 2)
    assert text.startswith("gradients are not reduced: this rank is not in ProcessSet(")
