"""Weights by the model's own names: files with the right tensors, one error for each other."""

import ctypes
import json
import shutil
import struct
import subprocess

import ml_dtypes
import numpy as np
import pytest
from typer.testing import CliRunner

import hloom
import hloom.jax
from hloom.aot.tensors import NamedWeights
from hloom.base.guarding import GUARDING
from hloom.tools.main import app

jax = pytest.importorskip("jax")
pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler"),
    pytest.mark.skipif(GUARDING, reason="kernels ask the runtime for guarded memory"),
]

NET = """HloModule net
ENTRY e { w = f32[4,3] parameter(0)
  x = f32[2,4] parameter(1)
  b = bf16[3] parameter(2)
  d = f32[2,3] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[3] convert(b)
  bb = f32[2,3] broadcast(c), dimensions={1}
  ROOT y = f32[2,3] add(d, bb) }"""
W = np.arange(12, dtype=np.float32).reshape(4, 3)
B = np.array([1, 2, 3], ml_dtypes.bfloat16)
ODD = 'l\u00e4yer\U0001f642.w"ei\\ght?'
X = np.arange(8, dtype=np.float32).reshape(2, 4)


def tensors_file(path, tensors, **more):
    """A safetensors file, by its definition alone: {name: (type, dimensions, bytes)}."""
    head, data = dict(more), b""
    for name, (dtype, dims, content) in tensors.items():
        place = [len(data), len(data) + len(content)]
        head[name] = {"dtype": dtype, "shape": dims, "data_offsets": place}
        data += content
    text = json.dumps(head).encode()  # which writes what is not ASCII as escapes
    text = text.ljust(-(-len(text) // 8) * 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    folder = tmp_path_factory.mktemp("net")
    named = NamedWeights({"": {0: ODD, 2: "bias"}}, {ODD: W, "bias": B})
    file = folder / "net.safetensors"
    library = hloom.export_c(
        NET, folder / "libnet.so", folder / "net.h", weights=file, named_weights=named
    )
    assert library.inputs == ("x",)
    return folder


def test_weights_are_no_inputs_and_may_be_changed(net, tmp_path):
    function = hloom.load_library(net / "libnet.so", weights=net / "net.safetensors")
    np.testing.assert_array_equal(function(x=X)["y"], X @ W + B.astype(np.float32))
    good = {ODD: ("F32", [4, 3], (2 * W).tobytes()), "bias": ("BF16", [3], B.tobytes())}
    other = tensors_file(tmp_path / "b.safetensors", good, __metadata__={"a": [1, {"b": None}]})
    function = hloom.load_library(net / "libnet.so", weights=other)
    np.testing.assert_array_equal(function(x=X)["y"], X @ (2 * W) + B.astype(np.float32))
    text = (net / "net.h").read_text()
    assert "bias  bf16[3]" in text and "#define NET_WEIGHTS_BYTES 54" in text
    symbols = subprocess.run(["nm", "-D", net / "libnet.so"], capture_output=True, text=True)
    defined = {line.split()[-1] for line in symbols.stdout.splitlines() if " T " in line}
    words = ("load_weights", "set_weights", "unload_weights", "weights_problem")
    assert defined == {"net", *[f"net_{w}" for w in words]}


GOOD = {ODD: ("F32", [4, 3], W.tobytes()), "bias": ("BF16", [3], B.tobytes())}
WRONG = {
    "missing": ({ODD: GOOD[ODD]}, "the tensor bias is missing in the file"),
    "extra": ({**GOOD, "more": ("U8", [1], b"1")}, "the tensor more of the file is none of"),
    "shape": (
        {**GOOD, ODD: ("F32", [3, 4], W.tobytes())},
        r"is F32\[3,4\] in the file, and the library takes F32\[4,3\]",
    ),
    "rank": ({**GOOD, "bias": ("BF16", [3, 1], B.tobytes())}, r"is BF16\[3,1\] in the file"),
    "type": ({**GOOD, "bias": ("F16", [3], B.tobytes())}, r"is F16\[3\] in the file"),
    "bytes": ({**GOOD, "bias": ("BF16", [3], b"1234")}, "the tensor bias is not all in the file"),
    "alignment": (
        {"bias": ("BF16", [3], B.tobytes()), ODD: GOOD[ODD]},
        "is not aligned in the file",
    ),
    "nothing": ({}, "the tensor bias is missing"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_file_that_does_not_fit_is_named(net, tmp_path, case):
    tensors, words = WRONG[case]
    file = tensors_file(tmp_path / "w.safetensors", tensors)
    with pytest.raises(hloom.HloError, match=words):
        hloom.load_library(net / "libnet.so", weights=file)


def test_files_that_are_none(net, tmp_path):
    whole = tensors_file(tmp_path / "whole", GOOD).read_bytes()
    heads = [b"{", b"[]", b"{}x", b'{"a":', b'{"a":{}}', b'{"bias":{"dtype":"F32"}}', b'{"\\u12"}']
    heads += [b'{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}', b"{" * 99, b'{"a":1e}']
    files = [b"", b"1234567", struct.pack("<q", -1) + b"{}", struct.pack("<Q", 99) + b"{}"]
    files += [struct.pack("<Q", len(head)) + head for head in heads]
    library = ctypes.CDLL(str(net / "libnet.so"))
    library.net_weights_problem.restype = ctypes.c_char_p
    for k, data in enumerate(files):
        (tmp_path / "bad").write_bytes(data)
        assert library.net_load_weights(str(tmp_path / "bad").encode()) == 7, (k, data)
        assert library.net_weights_problem().startswith(b"the file is no safetensors: ")
    assert library.net_load_weights(str(tmp_path / "nowhere").encode()) == 6
    assert library.net_load_weights(str(tmp_path).encode()) == 6
    # Whatever is done to one byte of the head: refused, or the same tensors.
    random = np.random.default_rng(0)
    for _ in range(200):
        data = bytearray(whole)
        data[random.integers(len(whole) - 54)] = random.integers(256)
        (tmp_path / "bad").write_bytes(data)
        assert library.net_load_weights(str(tmp_path / "bad").encode()) in (0, 6, 7, 9)
    library.net_unload_weights()


def test_functions_of_jax_share_them(tmp_path):
    params = {"params": {"d": {"kernel": W, "bias": np.ones(3, np.float32)}}}

    def f(p, x):
        return x @ p["params"]["d"]["kernel"] + p["params"]["d"]["bias"]

    file = tmp_path / "m.safetensors"
    library = hloom.jax.export_c(
        {"a": (f, params, X), "b": (lambda x, p: f(p, x) * 2, X[:1], params)},
        path=tmp_path / "libm.so",
        header_path=tmp_path / "m.h",
        weights=file,
        weight_argnums={"a": 0, "b": 1},
    )
    assert [e.inputs for e in library.entries] == [("x",), ("x",)]
    b = hloom.load_library(library.path, name="m_b", weights=file)
    np.testing.assert_allclose(b(x=X[:1]).popitem()[1], 2 * f(params, X[:1]), rtol=1e-6)
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), params)
    sized = hloom.jax.export_c(
        f,
        shapes,
        jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch, 4"), "float32"),
        path=tmp_path / "libs.so",
        header_path=tmp_path / "s.h",
        weights=tmp_path / "unwritten.safetensors",
        weight_argnums=0,
        buckets={"batch": (1, 8)},
    )
    assert sized.buckets is not None and sized.buckets.why_exact == ""
    assert not (tmp_path / "unwritten.safetensors").exists()
    many = np.concatenate([X, X, X[:1]])
    function = hloom.load_library(sized.path, weights=file)
    np.testing.assert_allclose(function(many).popitem()[1], f(params, many), rtol=1e-6)


def test_parameters_of_a_file_are_matched_by_name(tmp_path):
    def command(*words):
        return CliRunner().invoke(app, ["compile", str(tmp_path / "net.hlo"), *map(str, words)])

    (tmp_path / "net.hlo").write_text(NET.replace("parameter(2)", (
        "parameter(2), metadata={op_name=\"p['out'][0].value\"}"
    )))  # fmt: skip
    out = ("-o", tmp_path / "libnet.so", "--header", tmp_path / "net.h")
    good = {"w": GOOD[ODD], "out.0": GOOD["bias"]}
    file = tensors_file(tmp_path / "w.safetensors", good)
    done = command(*out, "--named-weights", file)
    assert done.exit_code == 0, done.output
    function = hloom.load_library(tmp_path / "libnet.so", weights=file)
    np.testing.assert_array_equal(function(x=X)["y"], X @ W + B.astype(np.float32))
    for tensors, words in (
        ({**good, "wx": ("U8", [1], b"1")}, "the tensor wx of v.safetensors is no parameter of"),
        ({"w": ("F32", [12], W.tobytes())}, "the tensor w of v.safetensors is F32[12], and net"),
    ):
        other = tensors_file(tmp_path / "v.safetensors", tensors)
        done = command(*out, "--named-weights", other)
        assert done.exit_code != 0 and words in " ".join(done.output.split())
    done = command(*out, "--named-weights", tmp_path / "net.hlo")
    assert done.exit_code != 0 and "is no safetensors file" in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("numbers", "values", "file", "words"),
    [
        ({0: "a"}, {"a": W.T}, "w.safetensors", r"float32\[3, 4\], and the program takes f32"),
        ({0: "a"}, {}, "w.npz", "kept in .safetensors"),
        ({0: "a"}, {"a": W}, None, "weights by name need a file"),
        ({0: ""}, {}, None, "is no name for a weight"),
        ({0: "a", 2: "a"}, {}, None, r"the weight a is f32\[4,3\]\{1,0\} and bf16\[3\]"),
    ],
    ids=["shape", "npz", "no file", "name", "one name twice"],
)
def test_refusals(tmp_path, numbers, values, file, words):
    with pytest.raises(hloom.HloError, match=words):
        hloom.export_c(
            NET,
            tmp_path / "libnet.so",
            weights=None if file is None else tmp_path / file,
            named_weights=NamedWeights({"": numbers}, values),
        )


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "the weight w is donated"), (2, "the weight w is input 2, and the program has 2")],
)
def test_weights_that_cannot_be(tmp_path, number, words):
    text = """HloModule m, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY e { w = f32[64] parameter(0)
  x = f32[64] parameter(1)
  ROOT y = f32[64] add(w, x) }"""
    with pytest.raises(hloom.HloError, match=words):
        hloom.export_c(text, tmp_path / "libm.so", named_weights=NamedWeights({"": {number: "w"}}))


def test_no_weights_at_all(tmp_path):
    with pytest.raises(hloom.HloError, match="takes no weights"):
        hloom.export_c(NET, tmp_path / "libm.so", named_weights=NamedWeights({}))


@pytest.mark.parametrize("suffix", [".a", ".o"])
def test_every_kind_of_file(tmp_path, suffix):
    """They are linked into a program, which maps the file itself."""
    named = NamedWeights({"": {0: "w", 2: "b"}}, {"w": W, "b": B})
    file = tmp_path / "w.safetensors"
    library = hloom.export_c(
        NET, tmp_path / f"libnet{suffix}", tmp_path / "net.h", weights=file, named_weights=named
    )
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "net.h"\nint main(int n, char **w) {\n'
        "  float x[8] = {1, 1, 1, 1}, y[6]; net_arrays a = {.x = x, .y = y};\n"
        "  int before = net_call(&a), status = net_load_weights(w[n - 1]);\n"
        '  printf("%s;%s;", net_error(before), status ? net_weights_problem() : "");\n'
        '  return net_call(&a) || printf("%g %g", y[0], y[5]) < 0; }\n'
    )
    words = ["cc", "-Wall", "-Werror", "-I", tmp_path, tmp_path / "main.c", library.path]
    subprocess.run([*words, "-o", tmp_path / "main"], check=True)
    done = subprocess.run([tmp_path / "main", file], capture_output=True, text=True, check=True)
    assert done.stdout == "the weights are not loaded;;19 3"
