"""Small programs as files, and a way to run a command on them."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from hloom.tools.main import app

ADD = """HloModule add_module, entry_computation_layout={(f32[3]{0}, f32[3]{0})->f32[3]{0}}

ENTRY %main (x: f32[3], y: f32[3]) -> f32[3] {
  %x = f32[3]{0} parameter(0)
  %y = f32[3]{0} parameter(1)
  %dead = f32[3]{0} multiply(%x, %y)
  ROOT %sum = f32[3]{0} add(%x, %y), metadata={source_file="a/b/model.py" source_line=7}
}
"""

LOOP = """HloModule loop_module

%body (s: (s32[], f32[4])) -> (s32[], f32[4]) {
  %s = (s32[], f32[4]{0}) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %v = f32[4]{0} get-tuple-element(%s), index=1
  %w = f32[4]{0} multiply(%v, %v)
  ROOT %state = (s32[], f32[4]{0}) tuple(%next, %w)
}

%condition (c: (s32[], f32[4])) -> pred[] {
  %c = (s32[], f32[4]{0}) parameter(0)
  %j = s32[] get-tuple-element(%c), index=0
  %n = s32[] constant(24)
  ROOT %less = pred[] compare(%j, %n), direction=LT
}

ENTRY %main (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  %zero = s32[] constant(0)
  %start = (s32[], f32[4]{0}) tuple(%zero, %x)
  %loop = (s32[], f32[4]{0}) while(%start), condition=%condition, body=%body
  ROOT %out = f32[4]{0} get-tuple-element(%loop), index=1
}
"""

RING = """HloModule ring, num_partitions=2

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}

ENTRY %main (x: f32[2]) -> f32[2] {
  %x = f32[2]{0} parameter(0)
  ROOT %all = f32[2]{0} all-reduce(%x), channel_id=1, replica_groups={{0,1}},
    use_global_device_ids=true, to_apply=%add
}
"""


@pytest.fixture
def add(tmp_path) -> Path:
    path = tmp_path / "add.hlo"
    path.write_text(ADD)
    return path


@pytest.fixture
def loop(tmp_path) -> Path:
    path = tmp_path / "loop.hlo"
    path.write_text(LOOP)
    return path


@pytest.fixture
def ring(tmp_path) -> Path:
    path = tmp_path / "ring.hlo"
    path.write_text(RING)
    return path


@pytest.fixture
def run(monkeypatch):
    """Runs the command line; colours and `XLA_FLAGS` of whoever runs the tests do not count."""
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setenv("COLUMNS", "160")

    def call(*words: object, stdin: bytes | None = None) -> Result:
        return CliRunner().invoke(app, [str(w) for w in words], input=stdin)

    return call
