"""Many operations in one graph, and what TensorFlow makes of them."""


def test_ranks_may_build_independent_operations_in_any_order(on_ranks):
    def reduce_many():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        @tf.function
        def call(x):
            order = range(200) if hvd.rank() == 0 else reversed(range(200))
            sums = {i: hvd.allreduce(x + i, op=hvd.Sum, name=f"x{i}") for i in order}
            return [sums[i] for i in range(200)]

        return [[each.numpy() for each in call(tf.constant(1.0))] for _ in range(3)]

    assert on_ranks(reduce_many) == [[[2 + 2 * i for i in range(200)]] * 3] * 2


def test_a_name_scope_that_begins_as_the_operations_do_keeps_calls_apart(on_ranks):
    def reduce_many():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        @tf.function
        def call(x):
            sums = {}
            for i in range(20) if hvd.rank() == 0 else reversed(range(20)):
                with tf.name_scope(f"HvdAllreduce{i}"):
                    sums[i] = hvd.allreduce(x + i, op=hvd.Sum)
            return [sums[i] for i in range(20)]

        return [each.numpy() for each in call(tf.constant(1.0))]

    assert on_ranks(reduce_many) == [[2 + 2 * i for i in range(20)]] * 2


def test_calls_without_a_name_are_paired_whatever_numbers_their_scopes_have(on_ranks):
    """Keras' layers are scopes, and numbered: other ones on a rank that made more models."""
    def reduce_twice():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        @tf.function
        def call(x):
            with tf.GradientTape() as tape, tf.name_scope(f"layer_{hvd.rank()}"):
                tape.watch(x)
                y = hvd.allreduce(x, op=hvd.Sum) + hvd.allreduce(3 * x, op=hvd.Sum)
            return y, tape.gradient(y, x)

        return [each.numpy() for each in call(tf.constant(1.0))]

    assert on_ranks(reduce_twice) == [[8.0, 8.0]] * 2


def test_calls_of_one_name_in_layers_of_one_class_are_paired_by_their_order(on_ranks):
    def reduce_in_layers():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        @tf.function
        def call(x):
            y = 0
            with tf.GradientTape() as tape:
                tape.watch(x)
                for layer in range(20):
                    with tf.name_scope(f"layer_{layer + hvd.rank()}"):
                        y += 2 ** layer * hvd.allreduce(x, op=hvd.Sum, name="mean")
            return y, tape.gradient(y, x)

        return [each.numpy() for each in call(tf.constant(1.0))]

    assert on_ranks(reduce_in_layers) == [[2 ** 21 - 2, 2 ** 21 - 2]] * 2


def test_nested_loops_of_the_control_flow_of_version_1_are_refused(on_ranks):
    def nest():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        v1 = tf.compat.v1

        def loop(body):
            return v1.while_loop(lambda i, _: i < 2, lambda i, x: (i + 1, body(x)), [0, tf.constant(1.0)])[1]

        v1.disable_control_flow_v2()
        try:
            with tf.Graph().as_default():
                with v1.Session() as session:
                    found = session.run(loop(lambda x: hvd.allreduce(x, op=hvd.Sum))).item()
                loop(lambda x: loop(hvd.allreduce))
        except hvd.UnsupportedError as error:
            return found, str(error)
        finally:
            v1.enable_control_flow_v2()

    for found, text in on_ranks(nest):
        assert found == 4 and "call tf.compat.v1.enable_control_flow_v2()" in text


def test_equal_calls_and_calls_of_constants_are_made_each_time(on_ranks):
    def count():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        @tf.function
        def call():
            return [hvd.allreduce(tf.constant(1.0), op=hvd.Sum) for _ in range(3)]

        def made():
            return hvd.metrics()["by_kind"].get("allreduce", {"tensors": 0})["tensors"]

        before = made()
        for _ in range(4):
            call()
        return made() - before

    assert on_ranks(count) == [12, 12]


def test_a_call_is_made_even_if_one_rank_does_not_use_its_result(on_ranks):
    def use():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        @tf.function
        def call(x):
            total = hvd.allreduce(x, op=hvd.Sum)
            return total if hvd.rank() == 0 else x

        return call(tf.constant(1.0)).numpy()

    assert on_ranks(use) == [2, 1]


def test_a_result_takes_the_memory_of_what_nobody_else_needs(on_ranks):
    def reduce():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd
        constant, variable = tf.constant([1.0, 2.0]), tf.Variable([3.0, 4.0])

        @tf.function
        def call(x):
            temporary, used = 2 * x, 3 * x
            sums = hvd.grouped_allreduce([temporary, used, x, constant, variable], op=hvd.Sum)
            return [hvd.allreduce(x + 1, op=hvd.Sum), *sums, used, x, constant, variable]

        results = [each.numpy().tolist() for each in call(tf.constant([1.0, 2.0]))]

        def peak():
            with open("/proc/self/status") as status:
                return int(status.read().split("VmHWM:")[1].split()[0]) // 1024

        large = tf.ones([32 << 20])  # 128 MiB

        @tf.function
        def reduce_large(x):
            return hvd.allreduce(x + 1, op=hvd.Sum)

        with open("/proc/self/clear_refs", "w") as reset:
            reset.write("5")
        before = peak()
        for _ in range(4):
            assert reduce_large(large)[-1].numpy() == 4
        return results, peak() - before < 192  # not the sums and the results

    own = [[1, 2], [1, 2], [3, 4]]
    sums = [[4, 6], [4, 8], [6, 12], [2, 4], [2, 4], [6, 8]]
    assert on_ranks(reduce) == [([*sums, [3, 6], *own], True)] * 2


def test_a_call_in_a_loop_and_in_nested_functions(on_ranks):
    def nested():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        inner = tf.function(lambda x: hvd.allreduce(x, op=hvd.Sum))

        @tf.function
        def call(x):
            for _ in tf.range(5):
                x = hvd.allreduce(x) + 1.0
            if x > 0:
                x = inner(x) + inner(2 * x)
            return x

        return call(tf.constant(1.0)).numpy(), inner(tf.constant([1.0])).numpy().tolist()

    assert on_ranks(nested) == [(36, [2])] * 2


def test_iterations_of_a_loop_that_run_beside_each_other(on_ranks):
    def loop():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        @tf.function
        def call(x):
            total = tf.constant(0.0)
            for i in tf.range(40):
                total += hvd.allreduce(x + tf.cast(i, tf.float32), op=hvd.Sum)
            return total

        return [call(tf.constant(1.0)).numpy() for _ in range(3)]

    assert on_ranks(loop) == [[1640] * 3] * 2


def test_gradients(on_ranks):
    def gradients(in_graph):
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        rank = hvd.rank()
        factor = tf.constant(rank + 1.0)  # of this rank's loss
        calls = {
            "allreduce": lambda x: hvd.allreduce(x, op=hvd.Sum, postscale_factor=2.0),
            "average": lambda x: tf.add_n(hvd.grouped_allreduce([x, 3 * x])),
            "allgather": lambda x: hvd.allgather(x[:rank + 1]),
            "broadcast": lambda x: hvd.broadcast(x, root_rank=1),
            "reducescatter": lambda x: hvd.reducescatter(x, op=hvd.Sum),
            "alltoall": lambda x: hvd.alltoall(x, splits=[1, 1])[0] * [[2.0], [5.0]],
        }

        def gradient_of(call, x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = factor * tf.reduce_sum(call(x))
            return tape.gradient(loss, x)

        x = tf.constant([[1.0], [2.0]])
        found = {}
        for name, call in calls.items():
            make = tf.function(gradient_of) if in_graph else gradient_of
            found[name] = make(call, x).numpy().ravel().tolist()
        return found

    for in_graph in (False, True):
        first, second = on_ranks(gradients, in_graph)
        assert first == {"allreduce": [6, 6], "average": [6, 6], "allgather": [1.5, 0],
                         "broadcast": [0, 0], "reducescatter": [2, 4], "alltoall": [2, 4]}
        assert second == {"allreduce": [6, 6], "average": [6, 6], "allgather": [1.5, 1.5],
                          "broadcast": [1.5, 1.5], "reducescatter": [2, 4], "alltoall": [5, 10]}


def test_a_reduction_without_gradient_says_what_to_do(on_ranks):
    def call():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        x = tf.constant(1.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = hvd.allreduce(x, op=hvd.Max)
        try:
            tape.gradient(y, x)
        except hvd.Error as error:
            return str(error)

    assert all("Max has no gradient; give it tf.stop_gradient" in text for text in on_ranks(call))


def test_a_loop_of_compat_v1(on_ranks):
    def session():
        import tensorflow as tf

        import horovod_cpp.tensorflow as hvd

        with tf.Graph().as_default():
            x = tf.compat.v1.placeholder(tf.float32, [2])
            total = hvd.allreduce(x, op=hvd.Sum)
            gradient, = tf.gradients(total, x)
            with tf.compat.v1.Session() as run:
                return [each.tolist() for each in
                        run.run([total, gradient], {x: [1.0, hvd.rank()]})]

    assert on_ranks(session) == [[[2, 1], [2, 2]]] * 2
