"""The contract of passes and pipelines: order, truth, lists, records, dumps."""

from collections import Counter

import pytest

from hloom.base.diagnostics import HloError, UsageError
from hloom.ir.text import parse_module
from hloom.passes import PASSES, FixedPoint, Pass, PassResult, Pipeline, PipelineOptions, pass_named
from hloom.passes.facts import fact, no_dead_code
from hloom.passes.pass_ import Contents
from hloom.passes.pipeline import PassError, module_hash

TEXT = """
HloModule m
ENTRY e {
  p = f32[4] parameter(0)
  a = f32[4] negate(p)
  b = f32[4] exponential(p)
  ROOT t = (f32[4], f32[4]) tuple(a, b)
}
"""


def module():
    return parse_module(TEXT)


class Swap(Pass):
    """Exchanges the two operands of the root, for ever."""

    name = "swap"

    def run(self, module, *, trace=None, threads=frozenset()):
        root = module.entry.root
        root.set_operands(root.operands[::-1])
        return PassResult(True, Counter(swapped=1))


class Silent(Swap):
    """Changes the module and says it did not."""

    name = "silent"

    def run(self, module, *, trace=None, threads=frozenset()):
        super().run(module)
        return PassResult(False)


class Boaster(Pass):
    """Says it changed the module and did not."""

    name = "boaster"

    def run(self, module, *, trace=None, threads=frozenset()):
        return PassResult(True)


class Anew(Pass):
    """Makes another module."""

    name = "anew"

    def run(self, module, *, trace=None, threads=frozenset()):
        return PassResult(True, module=parse_module(TEXT.replace("negate", "cosine")))


class NeedsClean(Pass):
    name = "needs-clean"
    needs = (no_dead_code,)

    def run(self, module, *, trace=None, threads=frozenset()):
        return PassResult()


class MakesDirt(NeedsClean):
    name = "makes-dirt"
    needs = ()
    breaks = (no_dead_code,)


@fact
def is_empty(module):
    """There are no instructions."""
    return module.instruction_count == 0


class Liar(NeedsClean):
    name = "liar"
    needs = ()
    gives = (is_empty,)


def test_an_impossible_order_cannot_be_built():
    dce = pass_named("dce")
    Pipeline("good", (MakesDirt(), dce, NeedsClean()))
    with pytest.raises(ValueError, match="needs-clean needs no_dead_code, but makes-dirt broke it"):
        Pipeline("bad", (dce, MakesDirt(), NeedsClean()))
    with pytest.raises(ValueError, match="nothing before gives it"):
        Pipeline("bad", (NeedsClean(),))


def test_needs_are_followed_into_pipelines_and_fixed_points():
    dce = pass_named("dce")
    with pytest.raises(ValueError, match="inner: needs-clean needs no_dead_code, but nothing"):
        Pipeline("inner", (NeedsClean(),))
    inner = Pipeline("inner", (NeedsClean(), MakesDirt()), assumes=(no_dead_code,))
    assert Pipeline.assuming("inner", (NeedsClean(), MakesDirt())).assumes == (no_dead_code,)
    Pipeline("outer", (dce, inner))
    with pytest.raises(ValueError, match="outer: inner needs no_dead_code, but nothing"):
        Pipeline("outer", (inner,))
    with pytest.raises(ValueError, match="outer: inner needs no_dead_code, but inner broke it"):
        Pipeline("outer", (dce, inner, inner))
    with pytest.raises(ValueError, match="inner: inner needs no_dead_code, but inner broke it"):
        FixedPoint(inner)
    FixedPoint(Pipeline.assuming("inner", (NeedsClean(), MakesDirt(), dce)))


def test_a_pipeline_that_cannot_promise_what_it_should_leave_is_not_built():
    dce = pass_named("dce")
    Pipeline("p", (MakesDirt(), dce), leaves=(no_dead_code,))
    message = "p: whoever comes behind needs no_dead_code, but last broke it"
    with pytest.raises(ValueError, match=message):
        Pipeline("p", (dce, Pipeline("last", (MakesDirt(),))), leaves=(no_dead_code,))


def test_what_a_pipeline_assumes_is_asked_of_the_module():
    pipeline = Pipeline.assuming("p", (NeedsClean(),))
    pipeline.run(module())
    dirty = parse_module(TEXT.replace("ROOT", "c = f32[4] tanh(p)\n  ROOT"))
    with pytest.raises(UsageError, match="p needs no_dead_code, which does not hold of m: Every"):
        pipeline.run(dirty)


def test_a_silent_change_and_a_change_that_is_none_are_caught():
    with pytest.raises(PassError, match="silent changed the module but says it did not"):
        Pipeline("p", (Silent(),)).run_recorded(
            module(), PipelineOptions(crash_on_silent_change=True)
        )
    with pytest.raises(PassError, match="boaster says it changed the module but did not"):
        Pipeline("p", (Boaster(),)).run_recorded(
            module(), PipelineOptions(crash_on_noop_change=True)
        )
    Pipeline("p", (Silent(), Boaster())).run(module())


def test_claims_are_checked():
    with pytest.raises(PassError, match="liar says it gives is_empty"):
        Pipeline("p", (Liar(),)).run_recorded(module(), PipelineOptions(check_facts=True))


class Dirty(Pass):
    """Leaves dead code and does not say so."""

    name = "dirty"

    def run(self, module, *, trace=None, threads=frozenset()):
        (i,) = [x for x in module.entry.instructions if x.opcode == "negate"]
        module.entry.replace(i, i.operands[0])
        return PassResult(True)


def test_what_a_pass_breaks_it_must_say():
    pipeline = Pipeline("p", (pass_named("dce"), Dirty()))
    with pytest.raises(PassError, match="dirty does not say it breaks no_dead_code"):
        pipeline.run_recorded(module(), PipelineOptions(check_facts=True))


def names(pipeline, **options):
    _, records = pipeline.run_recorded(module(), PipelineOptions(**options))
    return [r.name for r in records]


def test_disabled_and_enabled_passes():
    inner = Pipeline("inner", (Swap(), Boaster()))
    outer = Pipeline("outer", (Silent(), inner))
    assert names(outer) == ["silent", "swap", "boaster"]
    assert names(outer, disable_hlo_passes=frozenset(["swap"])) == ["silent", "boaster"]
    assert names(outer, disable_hlo_passes=frozenset(["inner"])) == ["silent"]
    assert names(outer, enable_hlo_passes_only=frozenset(["swap"])) == ["swap"]
    assert names(outer, enable_hlo_passes_only=frozenset(["inner"])) == ["swap", "boaster"]
    assert names(outer, disable_all_hlo_passes=True) == []
    with pytest.raises(UsageError, match="exclude each other"):
        PipelineOptions(
            disable_hlo_passes=frozenset(["a"]), enable_hlo_passes_only=frozenset(["b"])
        )


def test_a_fixed_point_stops_at_its_limit_and_says_unchanged():
    count = Counter()

    class Counting(Swap):
        name = "counting"

        def run(self, module, *, trace=None, threads=frozenset()):
            count["runs"] += 1
            return super().run(module)

    assert FixedPoint(Counting()).run(module()).changed is False
    assert count["runs"] == 25
    count.clear()
    FixedPoint(Counting(), limit=3).run(module())
    assert count["runs"] == 3
    pipeline = Pipeline("p", (FixedPoint(Swap(), limit=3),))
    result, _ = pipeline.run_recorded(module(), PipelineOptions(crash_on_silent_change=True))
    assert result.changed
    with pytest.raises(PassError, match="still changes the module after 3 iterations"):
        pipeline.run_recorded(module(), PipelineOptions(crash_on_fix_max_iterations=True))


class Waver(Pass):
    """Two rules that undo one another, one a round."""

    name = "waver"

    def run(self, module, *, trace=None, threads=frozenset()):
        (i,) = [x for x in module.entry.instructions if x.opcode in ("negate", "abs")]
        i.opcode = "abs" if i.opcode == "negate" else "negate"
        return PassResult.of(Counter({f"to_{i.opcode}": 1}))


def test_a_fixed_point_that_is_not_reached_says_what_went_on():
    _, (record,) = Pipeline("p", (FixedPoint(Waver(), limit=3),)).run_recorded(
        module(), PipelineOptions()
    )
    assert record.stopped == "still changed after 3 rounds: to_abs 1"
    inner = Pipeline("inner", (Waver(), pass_named("dce"), Swap()))
    log = []
    _, records = Pipeline("p", (FixedPoint(inner, limit=2),)).run_recorded(
        module(), PipelineOptions(log=log.append)
    )
    assert records[-1].name == "inner"
    said = "still changed after 2 rounds: waver, swap (to_negate 1, swapped 1)"
    assert records[-1].stopped == said and log[-1] == f"inner {said}"


def test_a_fixed_point_that_is_reached_says_nothing():
    _, (record,) = Pipeline("p", (FixedPoint(pass_named("dce")),)).run_recorded(
        module(), PipelineOptions()
    )
    assert record.stopped == ""


def test_cycles_are_noticed():
    log = []
    pipeline = Pipeline("p", (FixedPoint(Swap(), limit=4),))
    pipeline.run_recorded(module(), PipelineOptions(detect_cycles=True, log=log.append))
    assert any("came back to a module it had before" in line for line in log)


def test_a_new_module_becomes_the_result():
    result = Pipeline("p", (Anew(), Swap())).run(module())
    assert result.changed
    assert "cosine" in str(result.module)


def test_records_dumps_and_log():
    dumps, log = [], []

    def dump(stage, _):
        dumps.append(stage)
        return f"/dumps/{stage}.txt"

    options = PipelineOptions(dump_pass_re="sw", dump=dump, log=log.append)
    _, records = Pipeline("p", (Boaster(), Swap())).run_recorded(module(), options)
    assert dumps == ["0001.p.before_swap", "0002.p.after_swap"]
    assert records[1].dumps == [f"/dumps/{d}.txt" for d in dumps]
    assert [r.changed for r in records] == [True, True]
    assert records[1].instructions_before == records[1].instructions_after == 4
    assert all(r.end_s >= r.start_s for r in records)
    assert [line.split(":")[0] for line in log] == ["boaster", "swap"]
    assert "4 instructions" in log[0]


def test_dot_star_dumps_only_what_changed():
    dumps = []
    options = PipelineOptions(dump_pass_re=".*", dump=lambda s, _: dumps.append(s))
    Pipeline("p", (Silent(), Swap())).run_recorded(module(), options)
    assert dumps == ["0001.p.after_swap"]


def test_invariants_run_first_and_after_changes():
    seen = []
    options = PipelineOptions(invariants=(lambda m: seen.append(m.instruction_count),))
    Pipeline("p", (Swap(), Silent())).run_recorded(module(), options)
    assert len(seen) == 2

    def broken(_):
        raise HloError("no good")

    with pytest.raises(HloError, match="before p: no good"):
        Pipeline("p", (Swap(),)).run_recorded(module(), PipelineOptions(invariants=(broken,)))


def test_unknown_passes_and_options_are_named():
    with pytest.raises(UsageError, match="no pass named 'dec'"):
        pass_named("dec")
    with pytest.raises(UsageError, match="has no option 'speed'"):
        pass_named("dce", speed=1)


def test_a_pass_for_what_a_module_does_not_have_is_not_run():
    class Adds(Pass):
        name = "adds"

        def run(self, module, *, trace=None, threads=frozenset()):
            e = module.entry
            e.root = e.add("tuple", e.add("sine", e.parameters[0]), e.root.operands[1])
            return PassResult(True)

    class OnSines(Boaster):
        name = "on-sines"
        opcodes = frozenset(["sine"])

    pipeline = Pipeline("p", (OnSines(), Adds(), OnSines()))
    _, records = pipeline.run_recorded(module(), PipelineOptions())
    assert [r.changed for r in records] == [False, True, True]


@pytest.mark.parametrize("text", [TEXT, "HloModule m\nENTRY e { ROOT c = s32[] constant(1) }"])
def test_passes_leave_alone_what_they_are_said_not_to_be_for(text):
    for name in sorted(PASSES):
        m = parse_module(text)
        p = pass_named(name)
        if not p.is_for(Contents.of(m)):
            before = module_hash(m)
            result = p.run(m)
            assert not result.changed and module_hash(m) == before, name
