"""Libraries for several sizes: every size right, nothing written past, what may not be padded."""

import shutil
import subprocess

import numpy as np
import pytest

import hloom
from hloom.aot.loading import SizedLibraryFunction
from hloom.api import HloError, Machine, UsageError
from hloom.base.guarding import GUARDING

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler"),
    pytest.mark.skipif(GUARDING, reason="kernels ask the runtime for guarded memory"),
]
ROWS = {"batch": (1, 4, 9)}
PAD = 77.0


def rowwise(batch):
    """Rows of one array and columns of another; a state that is handed on; a scale for all."""
    return f"""HloModule net, input_output_alias={{ {{1}}: (1, {{}}, may-alias) }}
a {{ x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y) }}
ENTRY e {{
  x = f32[{batch},5] parameter(0)
  state = f32[3,{batch},2] parameter(1)
  scale = f32[] parameter(2)
  z = f32[] constant(0)
  sums = f32[{batch}] reduce(x, z), dimensions={{1}}, to_apply=a
  all = f32[{batch},5] broadcast(scale), dimensions={{}}
  y = f32[{batch},5] multiply(x, all)
  wide = f32[3,{batch},2] broadcast(sums), dimensions={{1}}
  next = f32[3,{batch},2] add(state, wide)
  ROOT r = (f32[{batch},5], f32[3,{batch},2], f32[]) tuple(y, next, scale)
}}"""


def expected(x, state, scale):
    return x * scale, state + x.sum(1)[None, :, None], scale


def arrays(batch):
    rng = np.random.default_rng(batch)
    x, state = rng.normal(size=(batch, 5)), rng.normal(size=(3, batch, 2))
    return x.astype(np.float32), state.astype(np.float32), np.float32(1.5)


def made(tmp_path, program, buckets=ROWS, **options):
    library = hloom.export_c(
        program, tmp_path / "libnet.so", tmp_path / "net.h", buckets=buckets, **options
    )
    weights = options.get("weights")
    return library, hloom.load_library(library.path, weights=weights)


def any_size(library):
    assert library.buckets is not None
    return library.buckets


def check_sizes(call, sizes):
    for batch in sizes:
        values = arrays(batch)
        # Memory behind the results: rows that were added must stay in the workspace.
        behind = np.full(batch * 5 + 64, PAD, np.float32)
        y = behind[: batch * 5].reshape(batch, 5)
        results = call.run(dict(zip(call.inputs, values)), {"y": y})
        for got, want in zip(results.values(), expected(*values), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
        assert (behind[batch * 5 :] == PAD).all()


def test_any_size_up_to_the_largest(tmp_path):
    library, call = made(tmp_path, rowwise)
    assert any_size(library).why_exact == ""
    assert any_size(library).input_sizes == ((0, None), (None, 0, None), ())
    assert [e.name for e in library.entries] == ["net_batch1", "net_batch4", "net_batch9"]
    check_sizes(call, range(1, 10))
    for batch in (0, 10):
        with pytest.raises(HloError, match="status 8: the library has no bucket for this size"):
            call(*arrays(batch))


def test_programs_in_a_list_and_sizes_in_any_order(tmp_path):
    sizes = (9, 2)
    _, call = made(tmp_path, [rowwise(n) for n in sizes], {"batch": sizes})
    check_sizes(call, (1, 2, 3, 8, 9))


@pytest.mark.parametrize(
    "options",
    [{"pool": True}, {"threads": 2}, {"versions": ("x86-64-v2", "x86-64-v3")}],
    ids=lambda o: next(iter(o)),
)
def test_beside_other_options(tmp_path, options):
    if "versions" in options and Machine.host().architecture != "x86_64":
        pytest.skip("versions are for x86-64")
    _, call = made(tmp_path, rowwise, {"batch": (2, 5)}, **options)
    check_sizes(call, (1, 2, 3, 5))


def test_weights_in_a_file(tmp_path):
    def program(n):
        row = ", ".join(map(str, range(4)))
        return f"""HloModule w
ENTRY e {{ x = f32[{n},4] parameter(0)
  c = f32[4] constant({{{row}}})
  b = f32[{n},4] broadcast(c), dimensions={{1}}
  ROOT r = f32[{n},4] add(x, b) }}"""

    _, call = made(tmp_path, program, {"n": (2, 6)}, weights=tmp_path / "w.bin")
    x = np.ones((5, 4), np.float32)
    np.testing.assert_array_equal(call(x)["r"], x + np.arange(4))


def test_two_sizes(tmp_path):
    def program(batch, time):
        return f"""HloModule two
ENTRY e {{ x = s16[{batch},3] parameter(0)
  y = s16[{time},{batch},3] parameter(1)
  b = s16[{time},{batch},3] broadcast(x), dimensions={{1,2}}
  t = s16[{time},{batch},3] add(b, y)
  ROOT r = s16[3,{batch},{time}] transpose(t), dimensions={{2,1,0}} }}"""

    library, call = made(tmp_path, program, {"batch": (2, 5), "time": (1, 4)})
    assert len(library.entries) == 4 and any_size(library).output_sizes == ((None, 0, 1),)
    rng = np.random.default_rng(0)
    for batch in range(1, 6):
        for time in range(1, 5):
            x = rng.integers(-99, 99, (batch, 3), np.int16)
            y = rng.integers(-99, 99, (time, batch, 3), np.int16)
            np.testing.assert_array_equal(call(x, y)["r"], (x + y).transpose(2, 1, 0))
    with pytest.raises(UsageError, match=r"y is int16\[2, 3, 3\].* int16\[2, 4, 3\]"):
        call(np.zeros((4, 3), np.int16), np.zeros((2, 3, 3), np.int16))


def centred(batch):
    return f"""HloModule centred
a {{ x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y) }}
ENTRY e {{ x = f32[{batch},3] parameter(0)
  z = f32[] constant(0)
  s = f32[3] reduce(x, z), dimensions={{0}}, to_apply=a
  b = f32[{batch},3] broadcast(s), dimensions={{1}}
  ROOT r = f32[{batch},3] subtract(x, b) }}"""


def test_rows_that_meet_are_not_padded(tmp_path):
    library, call = made(tmp_path, centred, {"batch": (2, 4)})
    assert "all-reduce" in any_size(library).why_exact
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_array_equal(call(x)["r"], x - x.sum(0))
    with pytest.raises(HloError, match="no bucket"):
        call(x[:3])
    assert "Other sizes are refused: rows meet" in (tmp_path / "net.h").read_text()


def test_a_header_for_c(tmp_path):
    made(tmp_path, rowwise)
    (tmp_path / "main.c").write_text("""#include <stdio.h>
#include <stdlib.h>
#include "net.h"
int main(void) {
  float x[3 * 5], state[3 * 3 * 2] = {0}, y[3 * 5], next[3 * 3 * 2], scale = 2, same;
  if (sizeof x != NET_INPUT_x_BYTES(3) || sizeof next != NET_OUTPUT_next_BYTES(3)) return 2;
  for (int k = 0; k < 15; k++) x[k] = k;
  void *workspace = aligned_alloc(64, (NET_WORKSPACE_BYTES + 63) / 64 * 64);
  net_arrays a = {.x = x, .state = state, .scale = &scale, .y = y, .next = next,
                  .scale_out = &same, .workspace = workspace};
  int status = net_call(3, &a);
  const char *more = net_error(net_call(NET_BATCH_MOST + 1, &a));
  printf("%d %g %g %g %s", status, y[14], next[17], same, more);
  return 0;
}
""")
    program = str(tmp_path / "main")
    words = "cc -std=c11 -Wall -Werror main.c libnet.so -Wl,-rpath,$ORIGIN -o main"
    subprocess.run(words.split(), cwd=tmp_path, check=True)
    out = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    assert out == "0 28 60 2 the library has no bucket for this size"


@pytest.mark.parametrize(
    ("buckets", "program", "message"),
    [
        ({"batch": (4,)}, rowwise, "two sizes or more"),
        ({"batch": (0, 4)}, rowwise, "from 1 on"),
        ({"no name": (1, 4)}, rowwise, "cannot be called 'no name'"),
        ({"inputs": (1, 4)}, rowwise, "cannot be called 'inputs'"),
        ({}, rowwise, "need a name and sizes"),
        ({"batch": (1, 4)}, rowwise(4), "a function that gives the program for its sizes"),
        ({"batch": (1, 4)}, [rowwise(4)], "1 programs for 2 buckets: batch1, batch4"),
        ({"batch": (1, 4)}, lambda batch: rowwise(3), "no array of net has a size of batch"),
        ({"batch": (1, 4)}, lambda batch: rowwise(batch + 1), "is 2, 5, no multiple of batch"),
        (
            {"batch": (1, 4)},
            lambda batch: rowwise(batch) if batch > 1 else centred(batch),
            "net_batch1 and net_batch4 take and give arrays of other names or numbers",
        ),
    ],
)
def test_what_is_no_library(tmp_path, buckets, program, message):
    with pytest.raises(UsageError, match=message):
        made(tmp_path, program, buckets)
    assert not list(tmp_path.iterdir())


def test_from_jax_with_symbolic_sizes(tmp_path):
    jax = pytest.importorskip("jax")
    import hloom.jax as door

    shape = jax.export.symbolic_shape("batch, 6")
    library = door.export_c(
        lambda x: jax.nn.softmax(x @ np.eye(6, dtype=np.float32)),
        jax.ShapeDtypeStruct(shape, np.float32),
        path=tmp_path / "libnet.so", header_path=tmp_path / "net.h", buckets={"batch": (1, 8)},
    )  # fmt: skip
    assert any_size(library).why_exact == ""
    x = np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32)
    (y,) = hloom.load_library(library.path)(x).values()
    np.testing.assert_allclose(y, jax.nn.softmax(x), rtol=1e-5)
    with pytest.raises(UsageError, match="an argument has the size batch, and buckets are of n"):
        door.export_c(
            lambda x: x, jax.ShapeDtypeStruct(shape, np.float32),
            path=tmp_path / "libx.so", buckets={"n": (1, 8)},
        )  # fmt: skip


def test_layouts_and_states_in_place(tmp_path):
    """Arrays stand as the entry layout says; a state is changed where it is, padded or not."""

    def program(n):
        layouts = f"(f32[{n},5]{{0,1}}, f32[3,{n}]{{1,0}})->(f32[{n},5]{{1,0}}, f32[3,{n}]{{1,0}})"
        return f"""HloModule net, entry_computation_layout={{{layouts}}},
  input_output_alias={{ {{1}}: (1, {{}}, may-alias) }}
ENTRY e {{ x = f32[{n},5] parameter(0)
  s = f32[3,{n}] parameter(1)
  y = f32[{n},5] negate(x)
  o = f32[3,{n}] add(s, s)
  ROOT r = (f32[{n},5], f32[3,{n}]) tuple(y, o) }}"""

    _, call = made(tmp_path, program, {"n": (2, 6)})
    assert isinstance(call, SizedLibraryFunction)
    assert call.inputs["x"].layout == "{0,1}" and call.outputs["y"].layout == "{1,0}"
    assert call.outputs["o"].in_place == "s" and call.inputs["s"].in_place == "o"
    for n in (2, 3, 5, 6):
        x = np.arange(5 * n, dtype=np.float32).reshape(n, 5)
        state = np.ones((3, n), np.float32)
        y = call.run({"x": x, "s": state}, {"o": state})["y"]
        np.testing.assert_array_equal(y, -x)
        assert (state == 2).all()


@pytest.mark.parametrize(
    ("kind", "tail", "op"),
    [("bf16", ",3", "negate"), ("pred", ",5", "not"), ("c64", "", "negate"), ("u8", ",7", "not"),
     ("f64", ",1,1", "negate"), ("f32", ",0", "negate")],
)  # fmt: skip
def test_types_and_arrays_of_nothing(tmp_path, kind, tail, op):
    def program(n):
        shape = f"{kind}[{n}{tail}]"
        return f"HloModule m\nENTRY e {{ x = {shape} parameter(0)\n ROOT r = {shape} {op}(x) }}"

    _, call = made(tmp_path, program, {"n": (2, 6)})
    dims = [3, *[int(n) for n in tail.split(",") if n]]
    x = np.random.default_rng(0).integers(0, 2, dims).astype(call_type(kind))
    np.testing.assert_array_equal(call(x)["r"], ~x if op == "not" else -x)
    with pytest.raises(UsageError, match="takes 1 arrays, 2 were given"):
        call(x, x)


def call_type(kind):
    return hloom.parse(
        f"HloModule m\nENTRY e {{ ROOT x = {kind}[] parameter(0) }}"
    ).entry.root.shape.dtype.numpy
