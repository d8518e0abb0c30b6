"""Unoptimized snapshots that XLA itself dumps: we read them, and run to the same result."""

import os
import subprocess
import sys

import numpy as np
import pytest

from hloom.ir import schema
from hloom.ir.proto import Snapshot, load, snapshot_to_bytes
from hloom.ir.proto.snapshot import raw_literal, split_custom

pytest.importorskip("jaxlib")
pytest.importorskip("jax")

PROGRAM = """
import jax, jax.numpy as jnp, numpy as np, ml_dtypes
def f(x, flags, narrow, half, pairs, whole):
    return jnp.where(flags, x, -x), narrow, half * half, pairs + 1, whole
result = jax.jit(f)(
    np.arange(9, dtype=np.float32), np.arange(9) % 3 == 0,
    np.array([[1, -2, 3]], ml_dtypes.int4), np.array([1, 2.5], ml_dtypes.bfloat16),
    np.array([[1 + 2j]], np.complex64), np.array([[1, 2], [3, 4]], np.int8),
)
"""


@pytest.fixture(scope="module")
def dumped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dump")
    flags = f"--xla_dump_to={folder} --xla_dump_hlo_as_proto --xla_dump_hlo_unoptimized_snapshots"
    subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        check=True,
        capture_output=True,
        timeout=120,
    )
    found = sorted(folder.glob("*jit_f.*hlo_unoptimized_snapshot.pb"))
    if not found:
        pytest.skip("this XLA does not dump unoptimized snapshots")
    return found[-1]


def test_the_arguments_are_read(dumped):
    loaded = load(dumped)
    assert loaded.format == "custom-snapshot"
    x, flags, narrow, half, pairs, whole = loaded.arguments
    assert x.array.tolist() == list(range(9))
    assert flags.array.tolist() == [k % 3 == 0 for k in range(9)]
    assert narrow.array.astype(np.int8).tolist() == [[1, -2, 3]]
    assert half.array.astype(np.float32).tolist() == [1, 2.5]
    assert pairs.array.tolist() == [[1 + 2j]]
    assert whole.array.tolist() == [[1, 2], [3, 4]]
    assert [p.shape for p in loaded.module.entry.parameters] == [a.shape for a in loaded.arguments]


def test_the_arguments_are_written_as_xla_writes_them(dumped):
    data = memoryview(dumped.read_bytes())
    _, at = split_custom(data)
    loaded = load(dumped)
    assert b"".join(raw_literal(a) for a in loaded.arguments) == bytes(data[at:])
    written = snapshot_to_bytes(Snapshot(loaded.module, loaded.partitions), "custom-snapshot")
    theirs, ours = split_custom(data)[0], split_custom(memoryview(written))[0]
    assert theirs.partitions == ours.partitions
    assert theirs.hlo_module.name == ours.hlo_module.name
    assert isinstance(ours, schema.HloUnoptimizedSnapshot)


def test_it_runs_to_the_same_result(dumped):
    evaluate = pytest.importorskip("hloom.interp").evaluate
    loaded = load(dumped)
    results = evaluate(loaded.module, *[a.array for a in loaded.arguments])
    results = [getattr(r, "array", r) for r in getattr(results, "elements", results)]
    wanted = [(-1.0 if k % 3 else 1.0) * k for k in range(9)]
    assert np.asarray(results[0]).tolist() == wanted
