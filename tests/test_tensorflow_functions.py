"""hloom.tensorflow: functions of TensorFlow, through the HLO that its compiler makes."""

import shutil

import numpy as np
import pytest

import hloom
from hloom.aot.tensors_in_file import read_tensors
from hloom.base.guarding import GUARDING

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")


def test_nested_tensors_and_variables():
    weights, shift = tf.Variable([[1.0, 2.0], [3.0, 4.0]]), tf.constant([1.0, -1.0])

    def f(given, n):
        return {"y": tf.tanh(given["x"] @ weights) + shift, "n": n * 2}

    compiled, x, n = hloom.tensorflow.jit(f), tf.ones((3, 2)), tf.constant([1, 2])
    for _ in range(2):
        found, wanted = compiled({"x": x}, n), f({"x": x}, n)
        np.testing.assert_allclose(found["y"], wanted["y"], 1e-5)
        np.testing.assert_array_equal(found["n"], wanted["n"])
        weights.assign(weights / 3)


def with_variables():
    """A function that assigns to variables, some in branches only, and these variables."""
    first, only_written = tf.Variable([1.0, 2.0]), tf.Variable(1.0)
    count, total, scale = tf.Variable(0, dtype=tf.int64), tf.Variable([[3.0]]), tf.Variable(2.0)
    shift = tf.constant([7.0, 8.0])

    def f(x):
        y = (x + first) * scale + shift
        count.assign_add(1)
        total.assign(total * tf.reduce_sum(y))
        only_written.assign(3.0)
        if tf.reduce_sum(x) > 0:
            first.assign_sub(x)
        return y, tf.reduce_sum(total)

    return f, [first, only_written, count, total, scale]


def test_variables_have_what_is_assigned_to_them():
    (f, own), (g, others) = with_variables(), with_variables()
    compiled = hloom.tensorflow.jit(f)
    for k in range(4):
        x = tf.constant([1.0, 2.0]) * (-1.0) ** k
        for found, wanted in zip([*compiled(x), *own], [*g(x), *others], strict=True):
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), 1e-6)
    assert own[2].numpy() == 4

    def nothing_else(x):
        own[0].assign(x)

    assert hloom.tensorflow.jit(nothing_else)(tf.constant([8.0, 9.0])) is None
    np.testing.assert_array_equal(own[0], [8, 9])


def test_what_is_assigned_are_results_of_the_graph_in_place_of_parameters():
    module = hloom.tensorflow.lower(with_variables()[0], tf.constant([1.0, 2.0]))
    aliases = module.input_output_alias.entries
    assert [e.output_shape_index for e in aliases] == [(2,), (3,), (4,), (5,)]
    assert len(module.entry.root.shape.elements) == 6


def test_a_library_has_no_variables_to_assign_to(tmp_path):
    with pytest.raises(hloom.HloError, match=r"assigns to variables .*constants"):
        hloom.tensorflow.export_c(with_variables()[0], tf.ones(2), path=tmp_path / "x.so")


def test_a_training_step():
    """Of a convolution with batch norm and dropout, by Adam, whose state is in variables."""
    losses = []
    for compiled in (hloom.tensorflow.jit, lambda f: tf.function(f, jit_compile=True)):
        keras = tf.keras
        keras.utils.set_random_seed(1)
        layers = keras.layers
        model = keras.Sequential(
            [layers.Conv2D(4, 3), layers.BatchNormalization(), layers.Dropout(0.3)]
            + [layers.Flatten(), layers.Dense(5)]
        )
        model.build((None, 8, 8, 3))
        optimizer = keras.optimizers.Adam()
        optimizer.build(model.trainable_variables)

        def step(x, y, model=model, optimizer=optimizer):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
            variables = model.trainable_variables
            slopes = tape.gradient(loss, [v.value for v in variables])
            optimizer.apply_gradients(zip(slopes, variables, strict=True))
            return loss

        run, rng = compiled(step), np.random.default_rng(0)
        x, y = (tf.constant(rng.standard_normal(s), tf.float32) for s in ((6, 8, 8, 3), (6, 5)))
        losses.append([float(run(x, y)) for _ in range(6)])
    np.testing.assert_allclose(losses[0], losses[1], 1e-4)
    assert losses[0][-1] < losses[0][0]


def test_gradients_of_embeddings_are_slices():
    table = tf.Variable(tf.reshape(tf.range(40.0), (10, 4)))

    def f(index):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, index) ** 2)
        return tape.gradient(loss, table)

    found = hloom.tensorflow.jit(f)(tf.constant([1, 3, 3, 7]))
    assert isinstance(found, tf.IndexedSlices)
    wanted = f(tf.constant([1, 3, 3, 7]))
    np.testing.assert_allclose(tf.convert_to_tensor(found), tf.convert_to_tensor(wanted), 1e-6)


def test_what_xla_cannot_compile_is_refused():
    with pytest.raises(hloom.HloError, match="writes no HLO"):
        hloom.tensorflow.lower(lambda x: tf.numpy_function(np.sin, [x], tf.float32), 2.0)


REFUSED = {
    "strings": (lambda x: tf.strings.length(x), tf.constant(["a"])),
    "a result of .* strings": (tf.strings.as_string, tf.constant(2.0)),
    "RaggedTensor": (lambda x: x + 1.0, tf.ragged.constant([[1.0], [2.0, 3.0]])),
    "a result of .* RaggedTensor": (
        lambda x: tf.RaggedTensor.from_row_lengths(x, [1, 2]),
        tf.ones(3),
    ),
    "an argument is IndexedSlices": (
        tf.convert_to_tensor,
        tf.IndexedSlices(tf.ones((2, 3)), tf.constant([1, 4]), tf.constant([6, 3])),
    ),
    "SparseTensor": (tf.sparse.reduce_sum, tf.sparse.from_dense([[1.0, 0.0]])),
    "Dimensions must be equal": (lambda x: x @ x, tf.ones((2, 3))),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_no_numbers_is_refused(words):
    function, given = REFUSED[words]
    with pytest.raises(hloom.HloError, match=words) as caught:
        hloom.tensorflow.jit(function)(given)
    assert caught.value.rule == "tensorflow"


def test_control_flow_and_values_that_are_part_of_the_program():
    @tf.function
    def f(x, times, scale):
        y = tf.zeros_like(x)
        for k in tf.range(times):
            y = y - 1.0 if tf.reduce_sum(y) > 10.0 else y + x * tf.cast(k, tf.float32)
        while tf.reduce_max(y) > 2.0:
            y = y / 2.0
        return y * tf.cast(scale, tf.float32)

    compiled, x = hloom.tensorflow.jit(f), tf.constant([1.0, 2.0, 3.0])
    for times, scale in ((3, 2), (7, 2), (3, 5)):
        given = x, tf.constant(times), tf.constant(scale)
        np.testing.assert_allclose(compiled(*given), f(*given), 1e-6)


def test_floats_that_are_part_of_the_program():
    """XLA wants to know how many bins there are, which follows from them."""

    def counts(x, weights=None):
        found = tf.math.bincount(tf.cast(x, tf.int32), minlength=4, maxlength=4)
        return found if weights is None else found * tf.reduce_sum(weights)

    compiled, weights = hloom.tensorflow.jit(counts), tf.constant([1, 2])
    for x in ([1.5, 2.0, 2.5, 3.0], [0.0, 0.5, 3.0, 1.0]):
        given = tf.constant(x)
        np.testing.assert_array_equal(compiled(given), counts(given))
        np.testing.assert_array_equal(compiled(given, weights), counts(given, weights))


def test_keywords_and_what_is_no_tensor():
    def f(x, training=False, name="a", *, shift=1.0):
        return (x if training else x * 2.0) + shift, None

    compiled, x = hloom.tensorflow.jit(f), tf.ones(2)
    for training in (False, True):
        found = compiled(x, training, shift=tf.constant(3.0))
        np.testing.assert_array_equal(found[0], f(x, training, shift=3.0)[0])
        assert found[1] is None


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.skipif(GUARDING, reason="kernels ask the runtime for guarded memory")
def test_a_c_library(tmp_path):
    weights = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    path, names = tmp_path / "liblayer.so", ["x"]
    hloom.tensorflow.export_c(
        lambda x: tf.tanh(x @ weights),
        tf.constant(x),
        path=path,
        header_path=tmp_path / "layer.h",
        argument_names=names,
        result_names=["y"],
    )
    wanted = np.tanh(x @ weights.numpy())
    np.testing.assert_allclose(hloom.load_library(path)(x=x)["y"], wanted, 1e-5)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.skipif(GUARDING, reason="kernels ask the runtime for guarded memory")
def test_weights_by_name_and_sizes_in_buckets(tmp_path):
    w = tf.Variable(np.arange(6, dtype=np.float32).reshape(3, 2), name="layer/kernel")
    b = tf.Variable([1.0, 2.0], name="layer/bias")
    file = tmp_path / "m.safetensors"
    library = hloom.tensorflow.export_c(
        lambda x: tf.tanh(x @ w + b),
        tf.TensorSpec([None, 3], tf.float32),
        path=tmp_path / "libm.so",
        header_path=tmp_path / "m.h",
        argument_names=["x"],
        weights=file,
        buckets={"batch": (1, 8)},
    )
    assert library.buckets is not None and library.buckets.why_exact == ""
    names = {"layer/kernel": ("F32", (3, 2)), "layer/bias": ("F32", (2,))}
    assert read_tensors(file) == names
    function = hloom.load_library(library.path, weights=file)
    for rows in (1, 5, 8):
        x = np.random.default_rng(rows).random((rows, 3), np.float32)
        (y,) = function(x=x).values()
        np.testing.assert_allclose(y, np.tanh(x @ w.numpy() + b.numpy()), 1e-5)


def test_variables_of_one_name_are_no_weights(tmp_path):
    v, w = tf.Variable([1.0], name="v"), tf.Variable([2.0], name="v")
    with pytest.raises(hloom.HloError, match="two variables are called v"):
        hloom.tensorflow.export_c(
            lambda x: x + v * w, tf.constant([1.0]), path=tmp_path / "libm.so",
            weights=tmp_path / "m.safetensors",
        )  # fmt: skip
