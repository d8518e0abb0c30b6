"""Keras on JAX: an application of keras.applications predicts, trains, and predicts again."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np


def run():
    keras.utils.set_random_seed(0)
    model = keras.applications.MobileNetV2(
        weights=None, input_shape=(32, 32, 3), alpha=0.35, classes=10
    )
    images = np.random.default_rng(0).standard_normal((8, 32, 32, 3)).astype("float32")
    labels = np.arange(8) % 10
    before = model.predict(images, verbose=0)
    model.compile(keras.optimizers.SGD(0.01), "sparse_categorical_crossentropy")
    told = model.fit(images, labels, epochs=1, batch_size=4, verbose=0, shuffle=False)
    return {
        "before": before,
        "losses": np.array(told.history["loss"]),
        "after": model.predict(images, verbose=0),
    }
