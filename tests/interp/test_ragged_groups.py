"""ragged-dot whose groups differ by batch and by what stands before the ragged dimension."""

import numpy as np
import pytest

import hloom

CASES = {
    "rows, by batch": (
        (2, 5, 3), (4, 2, 3, 6), (2, 4), "2,5,6",
        "lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2}, "
        "rhs_contracting_dims={2}, lhs_ragged_dims={1}, rhs_group_dims={0}",
    ),
    "rows, by what stands before": (
        (7, 5, 3), (4, 3, 6), (7, 4), "7,5,6",
        "lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_ragged_dims={1}, "
        "rhs_group_dims={0}",
    ),
    "terms, by batch": (
        (2, 5, 9), (2, 9, 6), (2, 4), "4,2,5,6",
        "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
        "rhs_contracting_dims={1}, lhs_ragged_dims={2}",
    ),
    "terms, batch dimensions crosswise": (
        (3, 8, 5, 9), (8, 3, 9, 6), (8, 3, 4), "4,8,3,5,6",
        "lhs_batch_dims={1,0}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, "
        "rhs_contracting_dims={2}, lhs_ragged_dims={3}",
    ),
}  # fmt: skip


def by_hand(name, x, y, sizes):
    """The same by loops over batch and groups."""
    ends = np.cumsum(sizes, -1)
    starts = ends - sizes
    if name.startswith("rows"):
        out = np.zeros((*x.shape[:2], y.shape[-1]), np.float32)
        for a in range(x.shape[0]):
            for g in range(sizes.shape[-1]):
                run = slice(starts[a, g], ends[a, g])
                out[a, run] = x[a, run] @ (y[g, a] if y.ndim == 4 else y[g])
        return out
    if x.ndim == 3:
        x, y, starts, ends = x[None], y[None], starts[None], ends[None]
        batches = [(0, k) for k in range(x.shape[1])]
        out = np.zeros((sizes.shape[-1], 1, x.shape[1], x.shape[2], y.shape[-1]), np.float32)
    else:
        x = x.swapaxes(0, 1)
        batches = [(i, k) for i in range(x.shape[0]) for k in range(x.shape[1])]
        out = np.zeros((sizes.shape[-1], *x.shape[:3], y.shape[-1]), np.float32)
    for i, k in batches:
        for g in range(sizes.shape[-1]):
            run = slice(starts[i, k, g], ends[i, k, g])
            out[g, i, k] = x[i, k][:, run] @ y[i, k][run]
    return out[:, 0] if sizes.ndim == 2 else out


@pytest.mark.parametrize("name", CASES)
def test_groups_of_several_dimensions(name):
    lhs, rhs, sizes, result, attributes = CASES[name]
    types = zip(("f32", "f32", "s64"), (lhs, rhs, sizes))
    shapes = [f"{t}[{','.join(map(str, d))}]" for t, d in types]
    text = "\n".join(f"p{k} = {s} parameter({k})" for k, s in enumerate(shapes))
    module = hloom.parse(
        f"ENTRY e {{ {text} ROOT r = f32[{result}] ragged-dot(p0, p1, p2), {attributes} }}"
    )
    hloom.verify(module)
    draw = np.random.default_rng(3)
    x, y = (draw.integers(-3, 4, d).astype(np.float32) for d in (lhs, rhs))
    counts = draw.integers(0, 3, sizes)
    expected = by_hand(name, x, y, counts)
    assert (hloom.evaluate(module, x, y, counts).array == expected).all()
    assert (np.asarray(hloom.compile(module)(x, y, counts)) == expected).all()


def test_sizes_of_other_dimensions_are_refused():
    text = """ENTRY e { p0 = f32[7,5,3] parameter(0) p1 = f32[4,3,6] parameter(1)
      p2 = s64[5,4] parameter(2) ROOT r = f32[7,5,6] ragged-dot(p0, p1, p2),
      lhs_contracting_dims={2}, rhs_contracting_dims={1},
      lhs_ragged_dims={1}, rhs_group_dims={0} }"""
    with pytest.raises(hloom.HloError, match=r"before it those of lhs .*\[7\]"):
        hloom.verify(hloom.parse(text))


def test_sizes_that_are_floats_are_cut_to_what_integers_hold():
    """XLA's verifier takes them. What is in no group is the zero of the type, or what rounds to."""
    text = (
        "ENTRY e {\n  x = f32[4,1] parameter(0)\n  y = f32[3,1,1] parameter(1)\n"
        "  n = f32[3] parameter(2)\n  ROOT d = TYPE[4,1] ragged-dot(x, y, n), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, "
        "rhs_group_dims={0}\n}\n"
    )
    x, y = np.ones((4, 1), np.float32), np.array([1, 2, 4], np.float32).reshape(3, 1, 1)
    for dtype, none in (("f32", 0.0), ("f8e8m0fnu", np.nan)):
        module = hloom.parse(text.replace("TYPE", dtype))
        for sizes, groups in (
            ([1.9, 2.0, 0.5], [1, 2, 2, none]),
            ([np.nan, 1e30, 0.0], [2, 2, 2, 2]),
        ):
            arguments = x, y, np.array(sizes, np.float32)
            expected = np.array(groups, np.float32)
            for computed in (
                hloom.evaluate(module, *arguments).array,
                hloom.compile(module)(*arguments),
            ):
                computed = np.asarray(computed).astype(np.float32).reshape(-1)
                np.testing.assert_array_equal(computed, expected)
