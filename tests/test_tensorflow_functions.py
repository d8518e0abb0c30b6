"""hloom.tensorflow: functions of TensorFlow, through the HLO that its compiler makes."""

import numpy as np
import pytest

import hloom

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
        hloom.tensorflow.lower(tf.strings.as_string, tf.constant(2.0))
