"""Long programs of single numbers, as robots' joints written out number by number make them."""

import numpy as np
import pytest

import hloom
from hloom.passes.fuse.fusion import Fusion


def joints_text(count):
    """Where the joints of a chain stand: each turns what is behind it, about two axes in turn."""
    jax = pytest.importorskip("jax")
    jnp = jax.numpy

    def ends(q):
        at, r, places = [0.0] * 3, [[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]], []
        for k in range(count):
            c, s = jnp.cos(q[k]), jnp.sin(q[k])
            about_z = [[c, -s, 0], [s, c, 0], [0, 0, 1]]
            about_y = [[c, 0, s], [0, 1, 0], [-s, 0, c]]
            z = about_z if k % 2 else about_y
            r = [[sum(r[i][m] * z[m][j] for m in range(3)) for j in range(3)] for i in range(3)]
            at = [x + row[2] * 0.3 for x, row in zip(at, r)]
            places += at
        return jnp.stack(places)

    return jax.jit(ends).lower(jnp.ones(count, jnp.float32)).as_text(dialect="hlo")


def expected(q):
    at, r, places = np.zeros(3), np.eye(3), []
    for k, x in enumerate(q):
        c, s = np.cos(x), np.sin(x)
        about_z = [[c, -s, 0], [s, c, 0], [0, 0, 1]]
        about_y = [[c, 0, s], [0, 1, 0], [-s, 0, c]]
        r = r @ np.array(about_z if k % 2 else about_y)
        at = at + r[:, 2] * 0.3
        places += [*at]
    return np.array(places)


# At 8 joints, and at 12 with other limits, all readers of two kernels compute their results again:
# merging those two left none, and raised an error.
@pytest.mark.parametrize("count", [3, 8, 12, 17])
def test_joints_are_where_they_are(count):
    q = np.linspace(-2, 3, count)
    exe = hloom.compile(joints_text(count), options={"strict_compilation": True})
    assert not exe.faults
    np.testing.assert_allclose(np.asarray(exe(q.astype(np.float32))), expected(q), atol=2e-6)


def test_numbers_are_computed_again_by_few_kernels():
    # Each of 300 numbers is a result, too: a kernel of all that went before would be long.
    lines = ["HloModule m", "ENTRY e {", "  v0 = f32[] parameter(0)", "  v1 = f32[] cosine(v0)"]
    lines += [f"  v{k} = f32[] subtract(v{k - 1}, v{k - 2})" for k in range(2, 300)]
    names, types = ", ".join([f"v{k}" for k in range(1, 300)]), ", ".join(["f32[]"] * 299)
    module = hloom.parse("\n".join([*lines, f"  ROOT r = ({types}) tuple({names})", "}"]))
    Fusion().run(module)
    inside = sum(len(c.instructions) for c in module.computations if c is not module.entry)
    assert inside < 10 * 300
