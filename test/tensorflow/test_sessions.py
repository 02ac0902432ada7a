"""Training in the style of TensorFlow 1."""


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


def test_what_is_for_graphs_says_so_eagerly_and_other_optimizers_are_refused(on_ranks):
    def refuse():
        import keras

        import horovod_cpp.tensorflow as hvd

        texts = []
        for call in (lambda: hvd.broadcast_global_variables(0),
                     lambda: hvd.DistributedOptimizer(keras.optimizers.SGD())):
            try:
                call()
            except hvd.Error as error:
                texts.append(str(error))
        return texts

    for eager, keras in on_ranks(refuse):
        assert "broadcast_variables" in eager and "DistributedGradientTape" in keras
