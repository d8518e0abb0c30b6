"""Temporaries in outputs that are not written yet."""

import numpy as np
import pytest

from hloom.memory import idle_outputs
from hloom.memory.assign import AssignOptions
from hloom.memory.heap.buffer_interval import BufferInterval, live_bytes
from hloom.memory.idle_outputs import in_idle_outputs
from tests.memory.placed import run_both

PRODUCTS = """HloModule m
sum { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y) }
ENTRY e { a = f32[16,16] parameter(0)
  b = f32[16,16] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[16,16] dot(b, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d = f32[16,16] dot(c, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero = f32[] constant(0)
  sums = f32[16] reduce(d, zero), dimensions={1}, to_apply=sum
  ROOT r = f32[16,16,16] broadcast(sums), dimensions={1} }"""


def block(size, *intervals, users=None):
    return BufferInterval(size, intervals, users or {})


def drawn_blocks(rng, count):
    blocks = []
    for _ in range(count):
        times = np.sort(rng.choice(60, 2 * int(rng.integers(1, 4)), replace=False)).tolist()
        blocks.append(block(int(rng.integers(1, 900)), *zip(times[::2], times[1::2])))
    return blocks


@pytest.mark.parametrize("seed", range(30))
def test_no_two_together_share_a_byte_and_the_peak_falls(seed):
    rng = np.random.default_rng(seed)
    blocks, outputs = drawn_blocks(rng, 25), drawn_blocks(rng, 4)
    places = in_idle_outputs(blocks, outputs, 64)
    spans = [(n, 0, o.size_bytes, o) for n, o in enumerate(outputs)]
    spans += [(p.output, p.offset, p.offset + blocks[k].size_bytes, blocks[k])
              for k, p in places.items()]  # fmt: skip
    for at, (n, start, end, x) in enumerate(spans):
        assert end <= outputs[n].size_bytes and start % 64 == 0
        for m, begin, stop, y in spans[:at]:
            if n == m and begin < end and start < stop:
                assert not any(s < f and b < e for s, e in x.intervals for b, f in y.intervals)
    rest = [b for k, b in enumerate(blocks) if k not in places]
    assert live_bytes(rest, 64) <= live_bytes(blocks, 64)


def test_what_is_alive_at_the_peak_goes_first_and_fits():
    outputs = [block(128, (90, 99)), block(256, (50, 99))]
    blocks = [block(256, (0, 40)), block(64, (10, 95)), block(128, (10, 80)), block(64, (97, 98))]
    places = in_idle_outputs(blocks, outputs, 64)
    assert {k: p.output for k, p in places.items()} == {0: 1, 2: 0}


def test_not_where_it_may_run_beside_what_writes_the_output():
    output = block(64, (50, 99), users={"e": (1, 2)})
    temporary = block(64, (0, 9), users={"e": (2, 1)})
    assert in_idle_outputs([temporary], [output], 64) == {}
    assert in_idle_outputs([block(64, (0, 9))], [output], 64)


def test_many_outputs_are_looked_at_so_often_and_not_more(monkeypatch):
    looked = []
    real = idle_outputs._together
    monkeypatch.setattr(idle_outputs, "_together", lambda *a: looked.append(1) or real(*a))
    outputs = [block(64, (0, 2000)) for _ in range(600)]
    temporaries = [block(64, (k, k + 3)) for k in range(1200)]
    assert in_idle_outputs(temporaries, outputs, 64) == {}
    assert 600 < len(looked) <= idle_outputs.TRIES * 1800 + 600


def test_the_peak_is_found_in_long_programs():
    """The times are more than those of which one number is kept."""
    output = block(64 * 5, (9000, 9001))
    long = [block(64, (k, k + 2)) for k in range(4000)]
    peak = [block(64, (2000, 2002)), block(64, (600, 2001)), block(64, (2001, 8000))]
    places = in_idle_outputs([*long, *peak], [output], 64)
    assert {4000, 4001, 4002} <= set(places)
    rest = [b for k, b in enumerate(long) if k not in places]
    assert live_bytes([*long, *peak], 64) == 4 * 64
    assert live_bytes(rest, 64) == 0


def test_a_program_holds_its_temporaries_in_its_output():
    module, assignment, _ = run_both(PRODUCTS)
    for name in "bcd":
        assert assignment.slice(module.entry[name]).allocation.kind == "output"
    assert assignment.temp_bytes <= 64  # the sums, which are read while the output is written


def test_not_where_nothing_is_to_be_shared():
    _, assignment, _ = run_both(PRODUCTS, assign=AssignOptions(share_operands=False))
    assert assignment.temp_bytes >= 2 * 16 * 16 * 4
