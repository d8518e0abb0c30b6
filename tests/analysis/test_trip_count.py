"""Trip counts against counting: the loop is run and its iterations are counted."""

import numpy as np
import pytest

import hloom
from hloom.analysis.trip_count import steps, trip_count

LOOP = """
%body (s: ({t}[], s32[])) -> ({t}[], s32[]) {{
  %s = ({t}[], s32[]) parameter(0)
  %i = {t}[] get-tuple-element(%s), index=0
  %by = {t}[] constant({by})
  %next = {t}[] {step}
  %n = s32[] get-tuple-element(%s), index=1
  %one = s32[] constant(1)
  %more = s32[] add(%n, %one)
  ROOT %state = ({t}[], s32[]) tuple(%next, %more)
}}
%condition (c: ({t}[], s32[])) -> pred[] {{
  %c = ({t}[], s32[]) parameter(0)
  %j = {t}[] get-tuple-element(%c), index=0
  %end = {t}[] constant({end})
  ROOT %go = pred[] compare({sides}), direction={direction}
}}
ENTRY %main (unused: s32[]) -> s32[] {{
  %unused = s32[] parameter(0)
  %from = {t}[] constant({start})
  %none = s32[] constant(0)
  %init = ({t}[], s32[]) tuple(%from, %none)
  %loop = ({t}[], s32[]) while(%init), condition=%condition, body=%body
  ROOT %count = s32[] get-tuple-element(%loop), index=1
}}
"""


def loop(start, end, by, direction, *, step="add(%i, %by)", sides="%j, %end", dtype="s32"):
    text = LOOP.format(
        start=start, end=end, by=by, direction=direction, step=step, sides=sides, t=dtype
    )
    module = hloom.parse("HloModule m\n" + text)
    return module, next(i for i in module.instructions() if i.opcode == "while")


@pytest.mark.parametrize("direction", ["LT", "LE", "GT", "GE", "NE", "EQ"])
@pytest.mark.parametrize(
    ("start", "end", "by"),
    [
        (0, 24, 1),
        (0, 24, 5),
        (24, 0, -1),
        (24, 1, -5),
        (3, 3, 1),
        (5, 3, 1),
        (0, 10, 2),
        (-4, 4, 3),
    ],
)
def test_known_counts_are_those_of_the_run(start, end, by, direction):
    module, found = loop(start, end, by, direction)
    trips = trip_count(found)
    if trips.count is None:
        assert "does not end" in trips.why
        return
    assert trips.count == int(hloom.evaluate(module, np.int32(0)).array)


@pytest.mark.parametrize(
    ("dtype", "start", "end", "by", "direction"),
    [
        ("s8", 0, 120, 100, "LT"),
        ("s8", -100, -120, -100, "GT"),
        ("u8", 9, 0, -3, "GT"),
        ("u8", 10, 3, 255, "GT"),
        ("u8", 0, 250, 7, "LT"),
        ("s4", -8, 7, 5, "LT"),
        ("s16", 0, 30000, 30000, "LT"),
    ],
)
def test_counters_that_wrap_around(dtype, start, end, by, direction):
    if by < 0 and dtype[0] == "u":
        module, found = loop(start, end, -by, direction, step="subtract(%i, %by)", dtype=dtype)
    else:
        module, found = loop(start, end, by, direction, dtype=dtype)
    trips = trip_count(found)
    run = int(hloom.evaluate(module, np.int32(0)).array)
    assert trips.count in (None, run)
    assert int(np.asarray(hloom.compile(module)(np.int32(0)))) == run
    if trips.count is None:
        assert "wraps around" in trips.why or "does not end" in trips.why


def test_a_counter_that_never_passes_its_bound():
    trips = trip_count(loop(0, 127, 1, "LE", dtype="s8")[1])
    assert trips.count is None and "wraps around" in trips.why


@pytest.mark.parametrize("direction", ["GT", "GE", "NE"])
def test_sides_may_be_swapped(direction):
    _, found = loop(0, 24, 2, direction, sides="%end, %j")
    assert trip_count(found).count == {"GT": 12, "GE": 13, "NE": 12}[direction]


def test_steps_may_be_subtracted_and_turned_around():
    assert trip_count(loop(9, 0, 3, "GT", step="subtract(%i, %by)")[1]).count == 3
    assert trip_count(loop(0, 9, 3, "LT", step="add(%by, %i)")[1]).count == 3
    assert trip_count(loop(0, 9, 3, "LT", step="subtract(%by, %i)")[1]).count is None


@pytest.mark.parametrize(
    ("step", "why"),
    [("multiply(%i, %by)", "stepped by a constant"), ("add(%i, %i)", "stepped by a constant")],
)
def test_the_reason_is_stated(step, why):
    trips = trip_count(loop(1, 24, 2, "LT", step=step)[1])
    assert trips.count is None and why in trips.why


def test_bound_in_the_state():
    module = hloom.parse(
        """HloModule m
%body (s: (s32[], s32[])) -> (s32[], s32[]) {
  %s = (s32[], s32[]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %end = s32[] get-tuple-element(%s), index=1
  ROOT %state = (s32[], s32[]) tuple(%next, %end)
}
%condition (c: (s32[], s32[])) -> pred[] {
  %c = (s32[], s32[]) parameter(0)
  %j = s32[] get-tuple-element(%c), index=0
  %n = s32[] get-tuple-element(%c), index=1
  ROOT %go = pred[] compare(%j, %n), direction=LT
}
ENTRY %main () -> (s32[], s32[]) {
  %from = s32[] constant(2)
  %seven = s32[] constant(7)
  %init = (s32[], s32[]) tuple(%from, %seven)
  ROOT %loop = (s32[], s32[]) while(%init), condition=%condition, body=%body
}
"""
    )
    assert trip_count(module.entry.root).count == 5


def test_a_stated_count_is_taken():
    module = loop(0, 24, 1, "LT")[0]
    text = str(module).replace(
        "body=%body", 'body=%body, backend_config={"known_trip_count":{"n":"7"}}'
    )
    module = hloom.parse(text)
    assert trip_count(next(i for i in module.instructions() if i.opcode == "while")).count == 7


@pytest.mark.parametrize("direction", ["LT", "LE", "GT", "GE", "NE"])
@pytest.mark.parametrize("step", [-3, -1, 1, 2])
def test_steps_against_counting(direction, step):
    compare = {
        "LT": int.__lt__,
        "LE": int.__le__,
        "GT": int.__gt__,
        "GE": int.__ge__,
        "NE": int.__ne__,
    }[direction]
    for start in range(-5, 6):
        for bound in range(-5, 6):
            x, n = start, 0
            while compare(x, bound) and n < 100:
                x, n = x + step, n + 1
            assert steps(start, bound, step, direction) == (n if n < 100 else None)
