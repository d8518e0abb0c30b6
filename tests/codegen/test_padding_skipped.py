"""Convolutions whose windows see more padding than image: tiles of rows that see none of it."""

from itertools import product

import numpy as np
import pytest

import hloom
from hloom.codegen.product_convolution import convolution_product, share_inside

PROGRAM = """HloModule dilated
ENTRY main {{
  x = f32[{n},{h},{w},{ci}] parameter(0)
  y = f32[3,2,{ci},{co}] parameter(1)
  ROOT c = f32[{n},{oh},{ow},{co}] convolution(x, y), {window}
}}"""


def program(n, h, w, ci, co, s, p, q, d):
    oh, ow = (h + p + q - 2 * d - 1) // s + 1, w + 2 * p - d
    window = f"window={{size=3x2 stride={s}x1 pad={p}_{q}x{p}_{p} rhs_dilate={d}x{d}}}"
    window += ", dim_labels=b01f_01io->b01f"
    return PROGRAM.format(n=n, h=h, w=w, ci=ci, co=co, oh=oh, ow=ow, window=window)


@pytest.mark.parametrize(
    "sizes",
    [
        (1, 9, 7, 600, 40, 1, 8, 8, 8),  # the places of the window in parts of K
        (2, 5, 6, 2048, 65, 1, 6, 5, 4),
        (1, 13, 1, 1030, 64, 2, 7, 9, 6),
        (3, 4, 4, 1500, 16, 1, 9, 1, 3),  # some results see no image at all
        (1, 9, 9, 24, 40, 1, 8, 8, 8),
    ],
)
def test_as_the_interpreter(sizes):
    module = hloom.parse(program(*sizes))
    [convolution] = [i for i in module.entry.instructions if i.opcode == "convolution"]
    operands = set(convolution.operands)
    whole = convolution_product(convolution, operands)
    assert whole is not None and whole.touches is not None
    arguments = hloom.random_arguments(module, seed=1)
    expected = np.asarray(hloom.evaluate(module, *arguments).array)
    for threads in (1, 2):
        got = np.asarray(hloom.compile(module, threads=threads)(*arguments))
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_windows_inside_are_not_asked():
    module = hloom.parse(program(1, 90, 90, 24, 40, 1, 1, 1, 1))
    [convolution] = [i for i in module.entry.instructions if i.opcode == "convolution"]
    whole = convolution_product(convolution, set(convolution.operands))
    assert whole is not None and whole.touches is None


def test_share_inside_is_counted():
    def places(w, size, out):
        inside = 0
        for o, k in product(range(out), range(w.size)):
            at = o * w.stride + k * w.window_dilation - w.padding_low
            inside += 0 <= at <= (size - 1) * w.base_dilation
        return inside / (w.size * out)

    for s, low, high, d, b in product((1, 2), (-1, 0, 5), (0, 4), (1, 3), (1, 2)):
        size, text = 7, f"size=3 stride={s} pad={low}_{high} rhs_dilate={d} lhs_dilate={b}"
        out = ((size - 1) * b + 1 + low + high - 2 * d - 1) // s + 1
        if out < 1:
            continue
        module = hloom.parse(
            f"""HloModule m
ENTRY main {{
  x = f32[1,{size},8] parameter(0)
  y = f32[3,8,8] parameter(1)
  ROOT c = f32[1,{out},8] convolution(x, y), window={{{text}}}, dim_labels=b0f_0io->b0f
}}"""
        )
        w = module.entry.root.attrs.window.dimensions[0]
        assert share_inside([w], [size], [out]) == pytest.approx(places(w, size, out))
