"""What is wrong with a program, where, and what to do: one message."""

import subprocess
import sys

import pytest

pytest.importorskip("jaxlib", reason="StableHLO is read with jaxlib")

import hloom
from hloom.frontends.stablehlo.read import module_of_bytes, module_of_text

MAIN = (
    "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{\n  {}\n  return %x : tensor<2xf32>\n}}"
)

WRONG = {
    "text": (MAIN.format("%0 = stablehlo.add %x %x"), "mlir", 2, "expected"),
    "verifier": (
        MAIN.format(
            '%0 = "stablehlo.transpose"(%x) {permutation = array<i64: 1>} : '
            "(tensor<2xf32>) -> tensor<2xf32>"
        ),
        "mlir",
        2,
        "permutation",
    ),
    "dialect": (MAIN.format("%0 = frob.nicate %x : tensor<2xf32>"), "mlir", 2, "frob"),
    "operation": (
        MAIN.format("%0 = arith.addf %x, %x : tensor<2xf32>"),
        "mlir-op",
        2,
        "not an operation of StableHLO",
    ),
    "quantised": (
        "func.func @main(%x: tensor<2x!quant.uniform<i8:f64, 0.1>>) { return }",
        "mlir-type",
        1,
        "a quantised type of i8 for f64",
    ),
    "bits of i1": (
        MAIN.format(
            "%c = stablehlo.constant dense<5> : tensor<1xi64>\n"
            "%0 = stablehlo.bitcast_convert %c : (tensor<1xi64>) -> tensor<1x64xi1>"
        ),
        "mlir-type",
        3,
        "a byte in HLO",
    ),
    "recursion": (
        "func.func @main(%x: tensor<f32>) -> tensor<f32> {\n"
        "  %0 = func.call @main(%x) : (tensor<f32>) -> tensor<f32>\n  return %0 : tensor<f32>\n}",
        "recursion",
        2,
        "calls itself",
    ),
    "captured": (
        MAIN.format(
            "%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
            '  %0 = "stablehlo.reduce"(%x, %z) ({\n'
            "    ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
            "      %i = stablehlo.convert %a : (tensor<f32>) -> tensor<i32>\n"
            "      %s = stablehlo.dynamic_slice %x, %i, sizes = [1]"
            " : (tensor<2xf32>, tensor<i32>) -> tensor<1xf32>\n"
            "      %t = stablehlo.reshape %s : (tensor<1xf32>) -> tensor<f32>\n"
            "      %c = stablehlo.add %a, %t : tensor<f32>\n"
            "      stablehlo.return %c : tensor<f32>\n"
            "  }) {dimensions = array<i64: 0>} : (tensor<2xf32>, tensor<f32>) -> tensor<f32>"
        ),
        "captured",
        3,
        "from outside",
    ),
    "slice beyond the end": (
        MAIN.format(
            "%a = stablehlo.constant dense<-1> : tensor<1xi32>\n"
            "  %b = stablehlo.constant dense<1> : tensor<1xi32>\n"
            "  %0 = stablehlo.real_dynamic_slice %x, %a, %b, %b : (tensor<2xf32>, tensor<1xi32>, "
            "tensor<1xi32>, tensor<1xi32>) -> tensor<2xf32>"
        ),
        "shape",
        4,
        "leaves dimension 0",
    ),
    "slice of another size": (
        MAIN.format(
            "%a = stablehlo.constant dense<0> : tensor<1xi32>\n"
            "  %b = stablehlo.constant dense<1> : tensor<1xi32>\n"
            "  %0 = stablehlo.real_dynamic_slice %x, %a, %b, %b : (tensor<2xf32>, tensor<1xi32>, "
            "tensor<1xi32>, tensor<1xi32>) -> tensor<2xf32>"
        ),
        "shape",
        4,
        "not f32[2]",
    ),
    "blocks": (
        "func.func @main(%x: tensor<f32>) -> tensor<f32> {\n  cf.br ^a\n^a:\n"
        "  return %x : tensor<f32>\n}",
        "mlir-blocks",
        1,
        "several blocks",
    ),
    "type": (
        "func.func @main(%x: tensor<2xindex>) -> tensor<2xindex> {\n"
        "  return %x : tensor<2xindex>\n}",
        "mlir-type",
        1,
        "type that HLO does not have",
    ),
    "sharding": (
        MAIN.format('%0 = stablehlo.add %x, %x {mhlo.sharding = "{devices=}"} : tensor<2xf32>'),
        "sharding",
        2,
        "sharding",
    ),
}

WRONG |= {
    "dialect": (
        MAIN.format('%0 = "tosa.add"(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>'),
        "mlir",
        2,
        "dialect that is not read",
    ),
    "mesh": (
        "func.func @main(%x: tensor<2xf32> {sdy.sharding = #sdy.sharding<@m, [{}]>}) "
        "-> tensor<2xf32> {\n  return %x : tensor<2xf32>\n}",
        "mlir",
        1,
        "unknown mesh",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_one_message_with_a_place(case):
    text, rule, line, words = WRONG[case]
    with pytest.raises(hloom.HloError) as caught:
        module_of_text(text, "model.mlir")
    error = caught.value
    assert error.rule == rule
    assert error.location.file == "model.mlir"
    assert error.location.line == line
    assert error.location.column
    assert words in error.message
    assert "\n" not in error.message
    assert error.location.quoted()


def test_what_is_refused_says_why():
    text = MAIN.format(
        '%0 = "stablehlo.custom_call"(%x) {call_target_name = "hlo.frobnicate"} '
        ": (tensor<2xf32>) -> tensor<2xf32>"
    )
    with pytest.raises(hloom.HloError, match="HLO has no operation frobnicate"):
        module_of_text(text)


def test_a_composite_without_what_it_needs():
    text = """func.func private @f(%x: tensor<2xf32>) -> (tensor<1xf32>, tensor<1xi32>) {
      %0 = stablehlo.constant dense<0.0> : tensor<1xf32>
      %1 = stablehlo.constant dense<0> : tensor<1xi32>
      return %0, %1 : tensor<1xf32>, tensor<1xi32>
    }
    func.func @main(%x: tensor<2xf32>) -> (tensor<1xf32>, tensor<1xi32>) {
      %0:2 = stablehlo.composite "chlo.top_k" %x {composite_attributes = {}, decomposition = @f}
        : (tensor<2xf32>) -> (tensor<1xf32>, tensor<1xi32>)
      return %0#0, %0#1 : tensor<1xf32>, tensor<1xi32>
    }"""
    with pytest.raises(hloom.HloError, match="attribute k is missing"):
        module_of_text(text)


def test_an_alias_of_a_result_that_is_not_there():
    text = (
        "func.func @main(%x: tensor<2xf32> {tf.aliasing_output = 7 : i32}) -> tensor<2xf32> {\n"
        "  return %x : tensor<2xf32>\n}"
    )
    with pytest.raises(hloom.HloError, match="result 7 of one") as caught:
        module_of_text(text, "model.mlir")
    assert caught.value.rule == "aliasing"


def test_a_program_without_an_entry():
    with pytest.raises(hloom.HloError, match="no function main") as caught:
        module_of_text("module {}")
    assert caught.value.rule == "entry"


@pytest.mark.parametrize("data", [b"ML\xefR", b"ML\xefR\x06StableHLO_v1.0.0\0rubbish", b"ML\xefRx"])
def test_broken_bytecode_is_one_message(data):
    with pytest.raises(hloom.HloError) as caught:
        module_of_bytes(data, "model.mlirbc")
    assert caught.value.location.file == "model.mlirbc"


def test_without_jaxlib_there_is_one_clear_error():
    program = (
        "import sys; sys.modules['jaxlib'] = None\n"
        "import hloom\n"
        "try: hloom.parse('module {}')\n"
        "except hloom.HloError as error: print(error.rule, '|', error)\n"
        "print(hloom.parse('ENTRY e { ROOT c = f32[] constant(1) }').name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("jaxlib | StableHLO is read and written with jaxlib")
    assert "pip install 'hloom[stablehlo]'" in done.stdout


@pytest.mark.parametrize("what", ["tuples", "calls", "regions"])
def test_what_is_nested_too_deeply_is_named(what):
    n = 2000
    text = f"func.func @main(%x: {'tuple<' * n}tensor<f32>{'>' * n}) {{ return }}"
    if what == "calls":
        text = "".join(
            f"func.func private @f{k}(%x: tensor<f32>) -> tensor<f32> {{\n"
            f"  %r = func.call @f{k - 1}(%x) : (tensor<f32>) -> tensor<f32>\n"
            "  return %r : tensor<f32>\n}\n"
            for k in range(1, n)
        )
        text += "func.func private @f0(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }"
        text += text.split("}")[0].replace("private @f1", "@main").replace("@f0", f"@f{n - 1}")
        text += "}"
    if what == "regions":
        start, end = '"stablehlo.if"(%p) ({ ', "stablehlo.return }, { stablehlo.return })"
        text = f"{start * n}{(end + ' : (tensor<i1>) -> () ') * n}"
        text = f"func.func @main(%p: tensor<i1>) {{ {text} return }}"
    with pytest.raises(hloom.HloError, match="nested too deeply") as caught:
        module_of_text(text, "deep.mlir")
    assert caught.value.rule == "depth"
