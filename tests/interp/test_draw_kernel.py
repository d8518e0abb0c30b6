"""Drawn kernels are valid, stay in their buffers, have no races, and show every opcode."""

from collections import Counter

import numpy as np

from hloom.interp.draw_kernel import draw_kernel
from hloom.interp.kernel import run_kernel
from hloom.kernel.kernel import op_rules
from hloom.kernel.text import parse_kernel, show_kernel
from hloom.kernel.verify import verify_kernel
from hloom.types.dtype import ARRAY_TYPES


def test_drawn_kernels_are_valid():
    changed = loose = 0
    for seed in range(40):
        drawn = draw_kernel(seed)
        kernel = drawn.kernel
        verify_kernel(kernel)
        text = show_kernel(kernel)
        assert show_kernel(parse_kernel(text)) == text
        buffers = [x.copy() for x in drawn.buffers]
        run_kernel(kernel, buffers, races=True)
        outputs = [p.role != "in" for p in kernel.params]
        for before, after, is_output in zip(drawn.buffers, buffers, outputs):
            same = before.tobytes() == after.tobytes()
            assert same or is_output
            changed += not same
        loose += bool(drawn.loose)
    assert changed > 60
    assert loose > 6


def test_every_opcode_and_type_is_drawn():
    seen: Counter[str] = Counter()
    dtypes: Counter[str] = Counter()
    for seed in range(150):
        kernel = draw_kernel(seed).kernel
        seen.update(op.opcode for op in kernel.ops())
        dtypes.update(p.value.dtype.name for p in kernel.params)
    # Of a hundred elementwise opcodes a few are missed by chance.
    assert len(set(op_rules()) - set(seen)) < 5
    assert set(dtypes) == {t.name for t in ARRAY_TYPES}


def test_a_kernel_is_drawn_again_from_its_seed():
    a, b = draw_kernel(7), draw_kernel(np.random.default_rng(7))
    assert show_kernel(a.kernel) == show_kernel(b.kernel)
    assert [x.tobytes() for x in a.buffers] == [x.tobytes() for x in b.buffers]


def test_steps_run_in_any_order():
    for seed in range(6):
        drawn = draw_kernel(seed)
        once, reversed_ = ([x.copy() for x in drawn.buffers] for _ in range(2))
        run_kernel(drawn.kernel, once)
        for step in reversed(range(drawn.kernel.steps)):
            run_kernel(drawn.kernel, reversed_, steps=[step])
        assert [x.tobytes() for x in once] == [x.tobytes() for x in reversed_]
