"""Constants that a dump left out are pointed at wherever their values would matter."""

import pytest

TEXT = """HloModule m
ENTRY e { x = f32[20] parameter(0)
 c = f32[20] constant({...})
 ROOT y = f32[20] add(x, c) }
"""
SAID = "the values of 1 elided constants ({...}) are made up"


@pytest.fixture
def elided(tmp_path):
    path = tmp_path / "elided.hlo"
    path.write_text(TEXT)
    return path


def test_eval_says_that_the_values_are_made_up(run, elided, add):
    assert SAID in run("eval", elided).stderr
    assert SAID not in run("eval", add).stderr


@pytest.mark.parametrize(("out", "warns"), [("o.hlo", False), ("o.txt.gz", False), ("o.pb", True)])
def test_convert_says_so_for_forms_that_hold_values(run, elided, tmp_path, out, warns):
    result = run("convert", elided, tmp_path / out)
    assert result.exit_code == 0
    assert (SAID in result.stderr) == warns
