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


def test_assigning_is_refused():
    counter = tf.Variable(1.0)

    def f(x):
        counter.assign_add(x)
        return x + counter

    with pytest.raises(hloom.HloError, match="assigns to variables"):
        hloom.tensorflow.lower(f, tf.constant(2.0))


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
