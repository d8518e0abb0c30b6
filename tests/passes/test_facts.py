"""What passes say that they need, give and break: it is true, and it refuses impossible orders."""

import random
from pathlib import Path

import pytest

from hloom.base.diagnostics import HloError
from hloom.interp import draw_instance, evaluate, random_arguments
from hloom.interp.draw import DRAW, load_drawers
from hloom.ir.copy import copy_module
from hloom.ir.text import parse_module
from hloom.ir.verify import verify
from hloom.passes import Pipeline, PipelineOptions, pass_named
from hloom.passes.facts import Fact
from hloom.passes.pass_ import PASSES, Pass
from hloom.passes.pipeline import title_of
from hloom.targets.cpu.pipeline import LOWERED, cpu_pipeline
from tests.pass_case import difference, leaves

load_drawers()
EXAMPLES = Path(__file__).parent.parent.parent / "examples"
CHECKED = PipelineOptions(check_facts=True)


def flat(step: Pass) -> list[Pass]:
    """The passes of a pipeline and of those in it; fixed points stay whole."""
    return [x for p in step.passes for x in flat(p)] if isinstance(step, Pipeline) else [step]


PASSES_IN_ORDER = flat(cpu_pipeline())


@pytest.mark.parametrize("opcode", sorted(DRAW))
def test_what_is_said_to_hold_holds_after_every_pass_of_drawn_programs(opcode):
    for seed in range(2):
        module = draw_instance(opcode, seed)
        try:
            cpu_pipeline().run_recorded(module, CHECKED)
        except HloError as error:
            assert error.rule != "pass-facts", error


@pytest.mark.parametrize("name", ["language_model.hlo", "softmax_optimized.hlo"])
def test_what_is_said_to_hold_holds_in_examples(name):
    module = parse_module((EXAMPLES / name).read_text())
    module.schedule = None
    cpu_pipeline().run_recorded(module, CHECKED)
    assert all(fact.holds(module) for fact in LOWERED)


OVERLAPPED = """HloModule m, replica_count=2
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
body { x = f32[8] parameter(0)
  ROOT r = f32[8] all-to-all(x), replica_groups={{0,1}}, dimensions={0} }
ENTRY e {
  x = f32[8] parameter(0)
  s = f32[8] all-reduce-start(x), replica_groups={}, to_apply=sum
  t = ((f32[8]), f32[8]) async-start(x), calls=body
  c = (f32[8], f32[8], u32[]) copy-start(x)
  d = f32[8] all-reduce-done(s)
  u = f32[8] async-done(t)
  v = f32[8] copy-done(c)
  a = f32[8] add(d, u)
  ROOT b = f32[8] add(a, v) }"""


def test_what_is_said_to_hold_holds_on_several_devices():
    module = parse_module(OVERLAPPED)
    cpu_pipeline().run_recorded(module, CHECKED)
    verify(module)
    assert all(fact.holds(module) for fact in LOWERED)


def test_every_fact_has_a_pass_that_gives_it_and_a_reader():
    given = {fact for p in PASSES_IN_ORDER for fact in p.claims().gives}
    read = {fact for name in PASSES for fact in PASSES[name].needs} | set(LOWERED)
    assert given == read
    broken = {fact for name in PASSES for fact in PASSES[name].breaks}
    assert broken <= given
    assert all(fact.law.endswith(".") for fact in given)


def moved(name: str, behind: str | None) -> list[Pass]:
    """The passes of the CPU with all of one name taken out, and put behind another (None: first,
    the empty name: nowhere)."""
    rest = [p for p in PASSES_IN_ORDER if title_of(p) != name]
    if behind == "":
        return rest
    at = 0 if behind is None else max(k for k, p in enumerate(rest) if title_of(p) == behind) + 1
    return [*rest[:at], pass_named(name), *rest[at:]]


@pytest.mark.parametrize(
    ("name", "behind", "why"),
    [
        ("mixed-precision-removal", "", "needs one_precision, but nothing before gives it"),
        ("scan-expander", "", "needs without scan, but nothing before gives it"),
        ("dce", "simplification", "needs no_dead_code, but reshape-to-bitcast broke it"),
        ("transpose-folding", "dot-decomposer", "needs canonical_dots, but transpose-folding"),
        ("dot-decomposer", None, "needs canonical_dots, but .* broke it"),
        ("layout-normalization", None, "needs bitcasts_of_bytes, but nothing before gives it"),
        ("layout-normalization", "attention-fusion", "attention-fusion needs row_major_inside"),
        ("reshape-to-bitcast", "dce", "needs no_dead_code, but reshape-to-bitcast broke it"),
        ("reshape-to-bitcast", "shuffle-expander", "needs row_major_inside, but nothing"),
        ("flatten-call-graph", "fusion", "while-loop-simplifier needs loops_own_bodies"),
        ("dynamic-padder", "fusion", "fusion needs static_shapes, but nothing"),
    ],
)
def test_impossible_orders_are_refused_with_the_reason(name, behind, why):
    with pytest.raises(ValueError, match=why):
        Pipeline("cpu", tuple(moved(name, behind)), leaves=LOWERED)


PROGRAM = """HloModule m
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[4,6]{0,1} parameter(0)
  y = f32[6,4,2] parameter(1)
  zero = f32[] constant(0)
  t = f32[6,4] transpose(x), dimensions={1,0}
  d = f32[2] dot(t, y), lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}
  b = f32[4,6] opt-barrier(x)
  r = f32[4] reduce(b, zero), dimensions={1}, to_apply=sum
  m = f32[4] map(r, r), dimensions={0}, to_apply=sum
  ROOT out = (f32[2], f32[4], f32[4,6]) tuple(d, m, b)
}"""


@pytest.mark.parametrize("seed", range(6))
def test_shuffled_pipelines_are_refused_or_right(seed):
    """Five passes stand at other places: what is built gives what lowering relies on, and means
    the same."""
    draw = random.Random(seed)
    built = 0
    while built < 2:
        order = list(PASSES_IN_ORDER)
        for _ in range(draw.randint(1, 3)):
            order.insert(draw.randrange(len(order)), order.pop(draw.randrange(len(order))))
        try:
            pipeline = Pipeline("shuffled", tuple(order), leaves=LOWERED)
        except ValueError as error:
            assert " needs " in str(error)
            continue
        built += 1
        module = parse_module(PROGRAM)
        before = copy_module(module)
        pipeline.run_recorded(module, CHECKED)
        verify(module)
        assert all(fact.holds(module) for fact in LOWERED)
        arguments = random_arguments(before, seed)
        want, have = (leaves(evaluate(m, *arguments)) for m in (before, module))
        for old, new in zip(want, have, strict=True):
            assert difference(old, new, 1e-4) is None
    Pipeline("cpu", tuple(PASSES_IN_ORDER), leaves=LOWERED)


def test_whole_shuffles_are_refused():
    for seed in range(20):
        order = random.Random(seed).sample(PASSES_IN_ORDER, len(PASSES_IN_ORDER))
        with pytest.raises(ValueError, match=r" needs .*, but .*: "):
            Pipeline("shuffled", tuple(order), leaves=LOWERED)


def test_a_fact_is_itself():
    from hloom.passes.facts import without

    assert without("map") is without("map")
    assert isinstance(without("map"), Fact) and str(without("map")) == "without map"
    assert without("map").law == "No instruction is a map."
