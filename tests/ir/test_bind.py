"""Parameters that become constants: the same program with fewer arguments."""

import numpy as np
import pytest

import hloom
from hloom.api import Literal, UsageError

TEXT = """HloModule m, input_output_alias={ {0}: (3, {}, may-alias), {1}: (0, {}, may-alias) }, buffer_donor={ (1, {}) }
ENTRY e {
  a = f32[4] parameter(0)
  b = f32[] parameter(1)
  c = f32[4] parameter(2)
  d = f32[4] parameter(3)
  x = f32[4] broadcast(b), dimensions={}
  y = f32[4] multiply(a, x)
  z = f32[4] add(y, c)
  w = f32[4] subtract(z, d)
  ROOT t = (f32[4], f32[4], f32[4]) tuple(w, z, c)
}"""  # noqa: E501


@pytest.mark.parametrize("numbers", [(), (0,), (2,), (1, 3), (0, 2), (0, 1, 2, 3)])
def test_same_results_with_fewer_arguments(numbers):
    module = hloom.parse(TEXT)
    arguments = hloom.random_arguments(module, seed=1)
    smaller = module.with_constants({k: arguments[k] for k in numbers})
    hloom.verify(smaller)
    assert hloom.difference(hloom.parse(hloom.show(smaller, large_constants=True)), smaller) is None
    left = [a for k, a in enumerate(arguments) if k not in numbers]
    assert len(smaller.entry.parameters) == len(left)
    expected, results = hloom.evaluate(module, *arguments), hloom.evaluate(smaller, *left)
    for mine, his in zip(results.elements, expected.elements, strict=True):
        np.testing.assert_array_equal(mine.array, his.array)
    kept = smaller.input_output_alias
    aliases = {(e.output_shape_index, e.parameter_number) for e in kept.entries} if kept else set()
    renumbered = {k: n for n, k in enumerate(k for k in range(4) if k not in numbers)}
    assert aliases == {((o,), renumbered[k]) for o, k in ((0, 3), (1, 0)) if k not in numbers}
    assert hloom.difference(module, hloom.parse(TEXT)) is None


def test_a_parameter_that_is_the_result():
    module = hloom.parse("HloModule m\nENTRY e { ROOT a = f32[2] parameter(0) }")
    value = Literal.of(np.array([1, 2], np.float32))
    assert hloom.evaluate(module.with_constants({0: value})).array.tolist() == [1, 2]


def test_what_does_not_fit_is_refused():
    module = hloom.parse(TEXT)
    with pytest.raises(UsageError, match="has no parameter 4"):
        module.with_constants({4: Literal.of(1.0)})
    with pytest.raises(UsageError, match=r"parameter 0 is f32\[4\], the value for it f32\[\]"):
        module.with_constants({0: Literal.of(1.0)})
