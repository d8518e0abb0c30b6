"""Domains: what is isolated comes back as it was, and what they say is checked."""

import pytest

from hloom import parse, pass_named
from hloom.base.diagnostics import VerifyError
from tests.fuzz import partition_sketch_calls, partition_sketch_ops  # noqa: F401  kinds of steps
from tests.fuzz.partition_sketch import Sketch


@pytest.mark.parametrize("seed", range(12))
def test_a_program_isolated_and_freed_again_is_the_same(seed):
    module = Sketch(seed).module()
    shardings = {(c.name, i.name): i.sharding for c in module.computations for i in c.instructions}
    isolated = pass_named("domain-isolator").run(module)
    assert isolated.changed
    assert not pass_named("domain-isolator").run(module).changed
    pass_named("domain-verifier").run(module)
    removed = pass_named("domain-remover").run(module)
    assert removed.fired["removed"] == isolated.fired["isolated"]
    assert not removed.fired["sharded"]
    after = {(c.name, i.name): i.sharding for c in module.computations for i in c.instructions}
    assert after == shardings


def test_a_domain_that_says_what_is_not_so_is_refused():
    text = """HloModule m
ENTRY e {
  x = f32[4] parameter(0), sharding={maximal device=0}
  in = f32[4] domain(x), domain={kind="sharding", entry={maximal device=1}, exit={maximal device=0}}
  ROOT y = f32[4] negate(in), sharding={maximal device=SIDE}
}"""
    assert not pass_named("domain-verifier").run(parse(text.replace("SIDE", "1"))).changed
    with pytest.raises(VerifyError, match=r"%in says entry=.maximal device=1") as e:
        pass_named("domain-verifier").run(parse(text.replace("SIDE", "2")))
    assert e.value.rule == "domain"
