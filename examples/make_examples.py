"""Writes the examples that JAX makes: `python examples/make_examples.py` (needs jax; `make setup`).

The files are kept in the repository, so reading them needs no JAX. Each shows one thing:

    softmax.hlo                   two lines of mathematics, as JAX hands them to XLA
    softmax_optimized.hlo         the same after XLA's CPU compiler: fusions and a schedule
    collatz.hlo                   a while loop around a conditional
    resnet_step.hlo               a training step of a small residual network: convolutions, their
                                  gradients, normalisation, pooling, labels picked by a gather
    sharded_mlp.hlo               a training step for a 2 x 2 mesh of devices, with shardings
    sharded_mlp_partitioned.hlo   the same, cut by XLA: collectives with replica groups
    resnet50.hlo                  inference of a ResNet-50 on one image of 128 x 128 (`make demo`)
    language_model.hlo            a transformer of 4 layers, for 128 words (`make demo`)
"""

import os
import re
from functools import partial
from pathlib import Path

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from jaxlib import _hlo
from programs import (
    RESNET50_STAGES,
    collatz,
    language_model,
    mlp_step,
    resnet50,
    resnet_step,
    softmax,
)

HERE = Path(__file__).parent


def array(*dims, dtype=jnp.float32, sharding=None):
    return jax.ShapeDtypeStruct(dims, dtype, sharding=sharding)


def resnet_weights(channels=8, blocks=2, classes=10):
    norm = (array(channels), array(channels))
    kernel = array(3, 3, channels, channels)
    block = {"first": kernel, "first_norm": norm, "second": kernel, "second_norm": norm}
    return {
        "stem": array(3, 3, 3, channels),
        "blocks": [block] * blocks,
        "head": array(channels, classes),
    }


def resnet50_weights(classes=1000):
    def block(width, inner, projected):
        made = {
            "reduce": array(1, 1, width, inner),
            "reduce_norm": norm(inner),
            "middle": array(3, 3, inner, inner),
            "middle_norm": norm(inner),
            "expand": array(1, 1, inner, 4 * inner),
            "expand_norm": norm(4 * inner),
        }
        if projected:
            made |= {"shortcut": array(1, 1, width, 4 * inner), "shortcut_norm": norm(4 * inner)}
        return made

    def norm(channels):
        return (array(channels),) * 4

    stages, width = [], 64
    for blocks, inner in RESNET50_STAGES:
        stages.append([block(width if k == 0 else 4 * inner, inner, k == 0) for k in range(blocks)])
        width = 4 * inner
    return {
        "stem": array(7, 7, 3, 64),
        "stem_norm": norm(64),
        "stages": stages,
        "head": array(width, classes),
        "bias": array(classes),
    }


def language_weights(layers=4, width=256, words=1024, length=128):
    square = array(width, width)
    layer = {
        **dict.fromkeys(("query", "key", "value", "out"), square),
        "first_norm": array(width),
        "second_norm": array(width),
        "up": array(width, 4 * width),
        "down": array(4 * width, width),
    }
    return {
        "embedding": array(words, width),
        "places": array(length, width),
        "layers": [layer] * layers,
        "last_norm": array(width),
    }


def write(name, text, about):
    """One file: what it shows in a comment, then the text, without the path to this folder."""
    text = re.sub(r'"/[^"]*?(/examples/|/site-packages/)', lambda m: f'"{m[1][1:]}', text)
    path = HERE / f"{name}.hlo"
    path.write_text(f"// {about}\n// Made by make_examples.py with JAX.\n{text.strip()}\n")
    print(f"{path.name}: {path.stat().st_size:,} bytes")


def before_xla(lowered, metadata=True):
    """The module that JAX hands to XLA, with its metadata."""
    options = _hlo.HloPrintOptions()
    options.print_metadata = metadata
    return lowered.compiler_ir("hlo").as_hlo_module().to_string(options)


def main():
    lowered = jax.jit(softmax).lower(array(4, 8))
    write("softmax", before_xla(lowered), "The softmax of each row, as JAX hands it to XLA.")
    write(
        "softmax_optimized",
        lowered.compile().as_text(),
        "The softmax of each row, after XLA's CPU compiler.",
    )
    write(
        "collatz",
        before_xla(jax.jit(collatz).lower(array(dtype=jnp.int32))),
        "Steps from n to 1 in Collatz's problem: a conditional in a loop.",
    )
    write(
        "resnet_step",
        before_xla(
            jax.jit(resnet_step).lower(
                resnet_weights(), array(4, 16, 16, 3), array(4, dtype=jnp.int32)
            )
        ),
        "One training step of a small residual network on 4 images of 16 x 16.",
    )
    write(
        "resnet50",
        before_xla(jax.jit(resnet50).lower(resnet50_weights(), array(1, 128, 128, 3)), False),
        "ResNet-50 on one image of 128 x 128: the probabilities of 1000 classes.",
    )
    write(
        "language_model",
        before_xla(jax.jit(language_model).lower(language_weights(), array(128, dtype=jnp.int32))),
        "A transformer of 4 layers of width 256: what follows each of 128 words.",
    )
    mesh = jax.make_mesh((2, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    cut = partial(NamedSharding, mesh)
    lowered = jax.jit(mlp_step).lower(
        {
            "up": array(16, 64, sharding=cut(PartitionSpec(None, "model"))),
            "down": array(64, 16, sharding=cut(PartitionSpec("model", None))),
        },
        array(8, 16, sharding=cut(PartitionSpec("data", None))),
        array(8, 16, sharding=cut(PartitionSpec("data", None))),
    )
    write(
        "sharded_mlp",
        before_xla(lowered),
        "A training step for a 2 x 2 mesh (data, model), with shardings, before it is cut.",
    )
    write(
        "sharded_mlp_partitioned",
        lowered.compile().as_text(),
        "What each of the 4 devices of the 2 x 2 mesh does, after XLA's partitioner.",
    )


if __name__ == "__main__":
    main()
