"""The sums and the time line of memory, on plans whose numbers are known."""

import random

import hloom
from hloom.plan.buffer_assignment import AssignedValue, BufferAssignment
from hloom.plan.usage import MemoryUse
from hloom.program.slice import Allocation, BufferSlice

MODULE = hloom.parse("HloModule m\nENTRY e {\n  ROOT x = f32[9] parameter(0)\n}\n")
X = MODULE.entry.root


def use_of(values, allocations, live=0):
    placed = [AssignedValue(X, (), alive, place, note) for alive, place, note in values]
    return MemoryUse(allocations, lambda: BufferAssignment(allocations, {}, placed, live))


def test_sums():
    allocations = [
        Allocation(0, 100, "parameter", 0, is_donated=True, output_index=(1,)),
        Allocation(1, 30, "parameter", 1),
        Allocation(2, 7, "constant", data=b"1234567"),
        Allocation(3, 50, "output", shape_index=(0,)),
        Allocation(4, 256, "temp"),
    ]
    memory = use_of([], allocations, 192)
    assert memory.as_dict() == {
        "arguments": 130,
        "outputs": 50,
        "aliased": 100,
        "constants": 7,
        "temp": 256,
        "peak": 130 + 50 + 7 + 256,
    }
    assert memory.live == 192
    assert "peak 443 bytes" in str(memory)


def test_time_line():
    temp, output = Allocation(0, 256, "temp"), Allocation(1, 64, "output")
    memory = use_of(
        [
            (((3, 8), (20, 26)), BufferSlice(temp, 0, 64), "two lives"),
            (((6, 20),), BufferSlice(temp, 64, 128), ""),
            (((0, 99),), BufferSlice(output, 0, 64), "not a temporary"),
            (((8, 9),), BufferSlice(temp, 0, 64), "in its place"),
        ],
        [temp, output],
    )
    assert memory.timeline == [(3, 64), (6, 192), (9, 128), (20, 64), (26, 0)]
    assert [v.slice.size_bytes for v in memory.largest(2)] == [128, 64]
    assert [r["bytes"] for r in memory.rows()] == [64, 128, 64, 64]


def test_drawn_time_lines():
    draw = random.Random(3)
    temp = Allocation(0, 1 << 20, "temp")
    for _ in range(30):
        values = []
        for _ in range(draw.randint(1, 20)):
            start = draw.randint(0, 50)
            alive = ((start, start + draw.randint(1, 20)),)
            values.append((alive, BufferSlice(temp, 0, draw.randint(1, 9)), ""))
        memory, at = use_of(values, [temp]), 0
        sizes = dict(memory.timeline)
        for time in range(75):
            at = sizes.get(time, at)
            expected = sum(p.size_bytes for ((s, e),), p, _ in values if s <= time < e)
            assert at == expected
