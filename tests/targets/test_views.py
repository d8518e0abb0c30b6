"""Kernels that read or write other parts of an array are one kernel."""

import numpy as np
import pytest

import hloom
from hloom.executable import Executable
from hloom.program.thunks.kernel import Kernel

STEPS = 6


def layers(kind: str, rows: int, columns: int, steps: int = STEPS) -> hloom.Module:
    """h = h + x[k], y[k] = h, as programs have it that write their layers out."""
    row, whole = f"{kind}[{rows},{columns}]", f"{kind}[{steps},{rows},{columns}]"
    one = f"{kind}[1,{rows},{columns}]"
    lines = [
        f"x = {whole} parameter(0)",
        f"h0 = {row} parameter(1)",
        f"y0 = {whole} parameter(2)",
        "zero = s32[] constant(0)",
    ]
    for k in range(steps):
        lines += [
            f"slice{k} = {one} slice(x), slice={{[{k}:{k + 1}], [0:{rows}], [0:{columns}]}}",
            f"row{k} = {row} reshape(slice{k})",
            f"sum{k} = {row} add(h{k}, row{k})",
            f"h{k + 1} = {row} tanh(sum{k})",
            f"update{k} = {one} reshape(h{k + 1})",
            f"at{k} = s32[] constant({k})",
            f"y{k + 1} = {whole} dynamic-update-slice(y{k}, update{k}, at{k}, zero, zero)",
        ]
    lines.append(f"ROOT t = ({row}, {whole}) tuple(h{steps}, y{steps})")
    return hloom.parse("HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}")


def symbols(executable: Executable) -> list[str]:
    return [t.symbol for t in executable.thunks if isinstance(t, Kernel)]


def check(module: hloom.Module) -> Executable:
    """Compiled, after its results were compared with the interpreter's."""
    arguments = hloom.random_arguments(module, seed=3)
    executable = hloom.compile(module)
    expected = hloom.evaluate(module, *arguments).elements
    for computed, x in zip(executable(*arguments), expected, strict=True):
        np.testing.assert_allclose(
            np.asarray(computed).astype(np.float64),
            x.array.astype(np.float64),
            rtol=1e-2,
            atol=1e-2,
        )
    return executable


@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_steps_share_their_kernel(kind: str) -> None:
    """Parts at multiples of 64 bytes: two steps and an update, the last of them with h."""
    executable = check(layers(kind, 4, 16, steps=20))
    assert len(symbols(executable)) == 20
    assert len(set(symbols(executable))) <= 3


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 7), (5, 3), (3, 1), (1, 4097)])
def test_parts_at_any_address(rows: int, columns: int) -> None:
    """What is read may begin anywhere; what is written at uneven addresses is an update still."""
    check(layers("f32", rows, columns))


def test_layers_of_products() -> None:
    """x = tanh(x @ w[k] + b[k]): one kernel for all."""
    contracting = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    lines = ["x0 = f32[8,64] parameter(0)"]
    lines += ["w = f32[6,64,64] parameter(1)", "b = f32[6,64] parameter(2)"]
    for k in range(STEPS):
        lines += [
            f"ws{k} = f32[1,64,64] slice(w), slice={{[{k}:{k + 1}], [0:64], [0:64]}}",
            f"wr{k} = f32[64,64] reshape(ws{k})",
            f"bs{k} = f32[1,64] slice(b), slice={{[{k}:{k + 1}], [0:64]}}",
            f"br{k} = f32[64] reshape(bs{k})",
            f"bb{k} = f32[8,64] broadcast(br{k}), dimensions={{1}}",
            f"d{k} = f32[8,64] dot(x{k}, wr{k}), {contracting}",
            f"plus{k} = f32[8,64] add(d{k}, bb{k})",
            f"x{k + 1} = f32[8,64] tanh(plus{k})",
        ]
    lines.append(f"ROOT t = (f32[8,64]) tuple(x{STEPS})")
    executable = check(hloom.parse("HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}"))
    assert len(symbols(executable)) == STEPS
    assert len(set(symbols(executable))) == 1


@pytest.mark.parametrize("at", [-3, 0, 2, 4, 9])
def test_updates_are_clamped(at: int) -> None:
    """The place of an update is moved so that it lies inside, and the rest stays."""
    check(
        hloom.parse(f"""HloModule m
ENTRY e {{
  y = f32[6,4,16] parameter(0)
  x = f32[2,4,16] parameter(1)
  s = f32[2,4,16] sine(x)
  k = s32[] constant({at})
  zero = s32[] constant(0)
  c = f32[6,4,16] copy(y)
  u = f32[6,4,16] dynamic-update-slice(c, s, k, zero, zero)
  ROOT t = (f32[6,4,16], f32[2,4,16]) tuple(u, x)
}}""")
    )


def test_parts_that_overlap_and_parts_in_pieces() -> None:
    """Neighbours of a row, columns, and every second row are read where they stand."""
    check(
        hloom.parse("""HloModule m
ENTRY e {
  x = f32[6,5] parameter(0)
  a = f32[3,5] slice(x), slice={[0:3], [0:5]}
  b = f32[3,5] slice(x), slice={[1:4], [0:5]}
  c = f32[3,5] slice(x), slice={[0:6:2], [0:5]}
  d = f32[6,2] slice(x), slice={[0:6], [1:3]}
  p = f32[3,5] multiply(a, b)
  q = f32[3,5] subtract(p, c)
  r = f32[6,2] cosine(d)
  n = f32[3,5] negate(a)
  ROOT t = (f32[3,5], f32[6,2], f32[3,5]) tuple(q, r, n)
}""")
    )


def test_a_part_is_written_while_another_one_is_read() -> None:
    """y[k + 1] = sin(y[k]): in place, and one kernel; y[k] = sin(y[k]) reads what it writes."""
    for apart in (0, 1):
        lines = [
            "x = f32[7,4,16] parameter(0)",
            "y0 = f32[7,4,16] copy(x)",
            "zero = s32[] constant(0)",
        ]
        for k in range(STEPS):
            lines += [
                f"slice{k} = f32[1,4,16] slice(y{k}), slice={{[{k}:{k + 1}], [0:4], [0:16]}}",
                f"sine{k} = f32[1,4,16] sine(slice{k})",
                f"at{k} = s32[] constant({k + apart})",
                f"y{k + 1} = f32[7,4,16] dynamic-update-slice(y{k}, sine{k}, at{k}, zero, zero)",
            ]
        lines.append(f"ROOT t = (f32[7,4,16]) tuple(y{STEPS})")
        executable = check(hloom.parse("HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}"))
        if apart:
            assert len(set(symbols(executable))) < STEPS
