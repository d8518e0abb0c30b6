"""Convolutions of groups of which some blocks of rows see nothing but padding."""

import numpy as np
import pytest

import hloom
from tests.covering import covering

TEXT = """HloModule m
ENTRY e {{
  x = {t}[2,{rows},{columns},{features}] parameter(0)
  y = {t}[{taps},1,{each},{results}] parameter(1)
  ROOT c = {t}[2,{out},{columns},{results}] convolution(x, y),
    window={{size={taps}x1 pad={low}_{high}x0_0}}, dim_labels=b01f_01io->b01f,
    feature_group_count={groups}
}}"""


@pytest.mark.parametrize(
    ("channels", "rows", "padding", "isa"),
    covering(
        [(2, 2, 2), (16, 2, 1), (8, 8, 1), (66, 2, 2), (3, 3, 2)],
        [1, 2, 5],
        [(5, 0), (0, 6), (9, 3), (20, 20)],
        ["", "AVX2", "SSE4_2"],
    ),
)
def test_of_images_of_few_rows(channels, rows, padding, isa):
    """Memory outside of the image is not read for them; faults are raised in tests."""
    (features, groups, times), (low, high) = channels, padding
    for taps, t in ((1, "f32"), (2, "s32")):
        text = TEXT.format(
            t=t,
            rows=rows,
            columns=3,
            features=features,
            taps=taps,
            each=features // groups,
            results=features * times,
            out=rows + low + high - taps + 1,
            low=low,
            high=high,
            groups=groups,
        )
        module = hloom.parse(text)
        exe = hloom.compile(module, options={"xla_cpu_max_isa": isa} if isa else None)
        arguments = hloom.random_arguments(module, seed=rows)
        expected = hloom.evaluate(module, *arguments).array
        np.testing.assert_allclose(np.asarray(exe(*arguments)), expected, rtol=1e-5, atol=1e-5)
