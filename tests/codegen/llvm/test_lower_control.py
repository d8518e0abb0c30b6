"""Loops, choices and grids as machine code against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from hloom.codegen.llvm.lower import lower_kernel
from hloom.kernel.build import KernelBuilder
from hloom.kernel.kernel import PRED, S64, Kernel, Value
from hloom.types.dtype import BY_NAME
from tests.codegen.llvm.lowering import check, drawn, machines

F32, C64, S32 = (BY_NAME[n] for n in ("f32", "c64", "s32"))


def numbers(count: int) -> np.ndarray:
    return np.arange(1, count + 1, dtype=np.float32)


@pytest.mark.parametrize("machine", machines())
@pytest.mark.parametrize("trips", [0, 1, 3, 4, 5, 9])
def test_loop_of_known_length(trips: int, machine: str) -> None:
    b = KernelBuilder("loop", ())
    x, out = b.param("x", F32, 200, "in"), b.param("out", F32, 40, "out")

    def body(i: Value, total: Value, last: Value) -> list[Value]:
        row = b.load(x, i, (5, 4), (4, 1))
        return [b.binary("add", total, row), b.binary("multiply", last, row)]

    start = b.constant(F32, 1.0, (5, 4))
    total, last = b.for_(3, 3 + 2 * trips, 2, [start, start], body)
    b.store(out, b.index(0), total, (4, 1))
    b.store(out, b.index(20), last, (4, 1))
    check(b.finish(), [numbers(200) / 100, np.zeros(40, np.float32)], machine, 1e-6)


@pytest.mark.parametrize("machine", machines())
def test_loops_of_unknown_length_nested(machine: str) -> None:
    b = KernelBuilder("nested", (6,))
    limits, out = b.param("limits", S64, 12, "in"), b.param("out", C64, 18, "out")
    (i,) = b.grid_indices
    low, high = b.load(limits, i), b.load(limits, b.binary("add", i, b.index(6)))

    def outer(j: Value, total: Value) -> list[Value]:
        def inner(k: Value, total: Value) -> list[Value]:
            number = b.convert(b.binary("add", j, k), C64)
            return [b.binary("add", total, b.broadcast(number, (3,)))]

        return list(b.for_(j, high, 3, [total], inner))

    (total,) = b.for_(low, high, 1, [b.constant(C64, 1j, (3,))], outer)
    b.store(out, b.binary("multiply", i, b.index(3)), total, (1,))
    given = np.array([0, 5, 7, 7, 3, 0, 9, 6, 7, 0, 4, 1])
    check(b.finish(), [given, np.zeros(18, np.complex64)], machine)


@pytest.mark.parametrize("machine", machines())
def test_while(machine: str) -> None:
    # Collatz: how many steps to 1, and the largest number on the way.
    b = KernelBuilder("collatz", (30,))
    out = b.param("out", S64, 60, "out")
    (i,) = b.grid_indices

    def going(n: Value, count: Value, most: Value) -> Value:
        return b.compare("GT", n, b.index(1))

    def step(n: Value, count: Value, most: Value) -> list[Value]:
        odd = b.compare("NE", b.binary("and", n, b.index(1)), b.index(0))
        three = b.binary("add", b.binary("multiply", n, b.index(3)), b.index(1))
        half = b.binary("divide", n, b.index(2))
        following = b.select(odd, three, half)
        return [following, b.binary("add", count, b.index(1)), b.binary("maximum", most, n)]

    first = b.binary("add", i, b.index(1))
    _, count, most = b.while_([first, b.index(0), b.index(0)], going, step)
    at = b.binary("multiply", i, b.index(2))
    b.store(out, at, count)
    b.store(out, b.binary("add", at, b.index(1)), most)
    made = check(b.finish(), [np.zeros(60, np.int64)], machine)
    assert made[0][2 * 26 : 2 * 27].tolist() == [111, 9232]


@pytest.mark.parametrize("machine", machines())
def test_if_inside_a_loop(machine: str) -> None:
    b = KernelBuilder("choice", (8,))
    x, out = b.param("x", F32, 64, "in"), b.param("out", F32, 64, "out")
    (i,) = b.grid_indices
    at = b.binary("multiply", i, b.index(8))

    def body(k: Value, tile: Value, mask: Value) -> list[Value]:
        odd = b.compare("EQ", b.binary("and", b.binary("add", i, k), b.index(1)), b.index(1))
        seven = b.constant(F32, 7.0, (8,))

        def then() -> list[Value]:
            # Stored only here; the quotient is computed only here too.
            b.store(out, at, b.binary("divide", tile, seven), (1,))
            return [b.binary("add", tile, seven), b.compare("GT", tile, seven)]

        return list(b.if_(odd, then, lambda: [b.binary("multiply", tile, seven), mask]))

    first = b.load(x, at, (8,), (1,))
    start = b.constant(PRED, False, (8,))
    tile, mask = b.for_(0, b.binary("add", i, b.index(1)), 1, [first, start], body)
    old = b.select(mask, tile, b.constant(F32, -1.0, (8,)))
    b.store(out, at, old, (1,))
    check(b.finish(), [numbers(64), np.zeros(64, np.float32)], machine, 1e-6)


def test_if_of_a_constant_has_no_branch() -> None:
    b = KernelBuilder("known", ())
    out = b.param("out", F32, 2, "out")
    for k, flag in enumerate((True, False)):
        (made,) = b.if_(
            b.constant(PRED, flag),
            lambda: [b.constant(F32, 1.0)],
            lambda: [b.constant(F32, 2.0)],
        )
        b.store(out, b.index(k), made)
    kernel = b.finish()
    assert check(kernel, [np.zeros(2, np.float32)])[0].tolist() == [1.0, 2.0]
    assert lower_kernel(kernel, machines()["host"]).count("br i1") == 1  # the grid's own


def test_division_inside_a_branch_stays_there() -> None:
    b = KernelBuilder("guarded", (4,))
    out = b.param("out", S32, 4, "out")
    (i,) = b.grid_indices
    n = b.convert(i, S32)
    (made,) = b.if_(
        b.compare("NE", n, b.constant(S32, 0)),
        lambda: [b.binary("divide", b.constant(S32, 100), n)],
        lambda: [b.constant(S32, -5)],
    )
    b.store(out, i, made)
    assert check(b.finish(), [np.zeros(4, np.int32)])[0].tolist() == [-5, 100, 50, 33]


def test_what_depends_on_no_index_is_before_the_loops() -> None:
    b = KernelBuilder("invariant", (50, 60))
    x, out = b.param("x", F32, 1, "in"), b.param("out", F32, 3000 * 4, "out")
    i, j = b.grid_indices
    row = b.binary("multiply", i, b.index(60))
    third = b.binary("divide", b.convert(row, F32), b.constant(F32, 3.0))
    scale = b.iota(F32, (4,), 0)
    value = b.binary("multiply", scale, b.broadcast(third, (4,)))
    at = b.binary("multiply", b.binary("add", row, j), b.index(4))
    b.store(out, at, b.binary("add", value, b.broadcast(b.load(x, b.index(0)), (4,))), (1,))
    kernel = b.finish()
    check(kernel, [numbers(1), np.zeros(12000, np.float32)])
    text = lower_kernel(kernel, machines()["host"])
    inner = text[text.rindex("\nloop") :]
    # The product with i is counted up outside of the loop over j, and nothing divides inside.
    assert "fdiv" in text
    assert "fdiv" not in inner
    assert "udiv" not in inner
    assert "load ptr" not in inner


def random_walk(seed: int) -> Kernel:
    """Nested control flow on several carried tiles of different types."""
    rng = np.random.default_rng(seed)
    b = KernelBuilder(f"walk{seed}", (5,))
    x, out = b.param("x", S32, 80, "in"), b.param("out", S32, 80, "inout")
    (i,) = b.grid_indices
    at = b.binary("multiply", i, b.index(16))

    def write(depth: int, tiles: list[Value]) -> list[Value]:
        made = list(tiles)
        for _ in range(3):
            kind = rng.integers(0, 4 if depth < 3 else 1)
            if kind == 0:
                opcode = ("add", "multiply", "xor", "maximum", "subtract")[rng.integers(0, 5)]
                made[0] = b.binary(opcode, made[0], made[1])
                made[1] = b.binary("add", made[1], b.constant(S32, int(rng.integers(1, 9)), (16,)))
            elif kind == 1:
                end = b.binary("add", i, b.index(int(rng.integers(0, 3))))
                made = list(b.for_(0, end, 1, made, lambda _, *t: write(depth + 1, list(t))))
            elif kind == 2:
                test = b.compare("LT", i, b.index(int(rng.integers(0, 5))))
                now = list(made)
                made = list(
                    b.if_(
                        test,
                        lambda t=now: write(depth + 1, t),
                        lambda t=now: [t[1], t[0]],
                    )
                )
            else:
                limit = b.index(int(rng.integers(1, 4)))
                _, *rest = b.while_(
                    [b.index(0), *made],
                    lambda n, *t, m=limit: b.compare("LT", n, m),
                    lambda n, *t: [b.binary("add", n, b.index(1)), *write(depth + 1, list(t))],
                )
                made = rest
        return made

    first = [b.load(p, at, (16,), (1,)) for p in (x, out)]
    final = write(0, first)
    b.store(out, at, b.binary("xor", final[0], final[1]), (1,))
    return b.finish()


@pytest.mark.parametrize("seed", range(12))
def test_control_flow_drawn_at_random(seed: int) -> None:
    check(
        random_walk(seed),
        [drawn(S32, 80, 1), drawn(S32, 80, 2)],
        list(machines())[seed % 3 if len(machines()) == 3 else 0],
    )
