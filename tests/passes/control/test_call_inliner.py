"""What `allow` answers decides, in whatever form it says it."""

from typing import Any

import numpy as np
import pytest

from hloom.base.diagnostics import UsageError
from hloom.ir.text import parse_module
from hloom.passes import PipelineOptions, pass_named

TEXT = """
f { a = f32[2] parameter(0)
  ROOT b = f32[2] negate(a) }
ENTRY e { x = f32[2] parameter(0)
  ROOT c = f32[2] call(x), to_apply=f }
"""


@pytest.mark.parametrize(
    ("answer", "calls"),
    [(False, 1), (True, 0), ("prohibit", 1), ("allow", 0), ("allow ignoring attributes", 0)],
)
def test_an_answer_is_heard_as_it_is_meant(answer: Any, calls: int):
    module = parse_module(TEXT)
    pass_named("call-inliner", allow=lambda call: answer).run(module)
    assert sum(i.opcode == "call" for i in module.instructions()) == calls


@pytest.mark.parametrize("answer", [None, 0, 1, "", "yes", "Allow", "forbid", [], object()])
def test_what_is_no_answer_is_an_error(answer: Any):
    with pytest.raises(UsageError, match=r"allow answers .* for %c"):
        pass_named("call-inliner", allow=lambda call: answer).run(parse_module(TEXT))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("cse", {"ignore_fusions": "false"}, "ignore_fusions is True or False, not 'false'"),
        ("cse", {"ignore_fusions": 0}, "ignore_fusions is True or False, not 0"),
        ("constant-folding", {"level": True}, "level is a whole number, not True"),
        ("constant-folding", {"level": "2"}, "level is a whole number, not '2'"),
        ("algsimp", {"disabled_rules": 3}, "disabled_rules is names, not 3"),
        ("algsimp", {"disabled_rules": [1]}, "disabled_rules is names"),
        ("call-inliner", {"allow": False}, "allow is a function, not False"),
        ("flatten-call-graph", {"skip": "f"}, "skip is a function, not 'f'"),
    ],
)
def test_an_option_of_another_type_is_an_error(name: str, options: dict[str, Any], message: str):
    with pytest.raises(UsageError, match=message):
        pass_named(name, **options)


def test_one_name_is_a_set_of_it_and_any_collection_will_do():
    for given in ("add.f", ["add.f"], ("add.f",), {"add.f"}):
        inliner: Any = pass_named("call-inliner", composites_to_preserve=given)
        assert inliner.composites_to_preserve == frozenset({"add.f"})
    assert pass_named("cse", ignore_fusions=np.False_) == pass_named("cse", ignore_fusions=False)
    assert not PipelineOptions(disable_hlo_passes="cse-late").runs("cse-late")  # type: ignore[arg-type]
    assert PipelineOptions(disable_hlo_passes="cse-late").runs("cse")  # type: ignore[arg-type]
