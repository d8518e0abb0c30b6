"""Products, convolutions, factorisations, transforms, random bits."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz.stablehlo.sketch import (
    F8,
    FLOATS,
    INTS,
    PRED,
    Sketch,
    array,
    family,
    pairs,
    tensor,
)

FACTORS = FLOATS + INTS + ["complex<f32>", "complex<f64>"]
_ALGORITHMS = [
    ("f16", "f16", "f16", 1, "f16"),
    ("f16", "f16", "f32", 1, "f16"),
    ("bf16", "bf16", "bf16", 1, "bf16"),
    ("bf16", "bf16", "f32", 1, "bf16"),
    ("bf16", "bf16", "f32", 3, "f32"),
    ("bf16", "bf16", "f32", 6, "f32"),
    ("bf16", "bf16", "f32", 9, "f32"),
    ("tf32", "tf32", "f32", 1, "f32"),
    ("tf32", "tf32", "f32", 3, "f32"),
    ("f32", "f32", "f32", 1, "f32"),
    ("f64", "f64", "f64", 1, "f64"),
    ("f8E5M2", "f8E4M3FN", "f32", 1, "f8"),
]
PRECISIONS = ["DEFAULT", "HIGH", "HIGHEST"]


def precision(s: Sketch) -> str:
    if s.chance(0.6):
        return ""
    words = [f"#stablehlo<precision {s.pick(PRECISIONS)}>" for _ in range(2)]
    return f", precision_config = [{', '.join(words)}]"


def result_of(s: Sketch, element: str) -> str:
    """The same type, or a wider one of its kind."""
    wider = {"f16": ["f32"], "bf16": ["f32"], "f32": ["f64"], "i8": ["i32"], "ui8": ["ui32", "i32"]}
    if s.chance(0.25) and element in wider:
        return s.pick(wider[element])
    return element


@family("dot_general")
def dot_general(s: Sketch) -> Sequence[str]:
    left, right, attribute = s.element(FACTORS + F8 + PRED), "", ""
    right = left
    result = result_of(s, left)
    if s.chance(0.25):
        a, b, c, products, stored = s.pick(_ALGORITHMS)
        left = right = stored
        if stored == "f8":
            left, right = s.pick(F8), s.pick(F8)
            a, b = left, right
        result = "f32" if c == "f32" else c
        components = {3: (3, 1), 6: (3, 1), 9: (3, 1)}.get(products, (1, 1))[1]
        attribute = (
            f", algorithm = #stablehlo.dot_algorithm<lhs_precision_type = {a}, "
            f"rhs_precision_type = {b}, accumulation_type = {c}, lhs_component_count = "
            f"{components}, rhs_component_count = {components}, num_primitive_operations = "
            f"{products}, allow_imprecise_accumulation = false>"
        )
    elif left in ("f32", "bf16") and s.chance(0.1):
        right = s.pick(["bf16", "f32"])
        result = "f32"
    batch = [s.size() for _ in range(s.pick([0, 0, 1, 2]))]
    inner = [s.size() for _ in range(s.pick([0, 1, 1, 1, 2]))]
    free = [[s.size() for _ in range(s.pick([0, 1, 1, 2]))] for _ in range(2)]
    sides, numbers = [], []
    for k in range(2):
        own = batch + inner + free[k]
        order = s.order(len(own))
        if s.chance(0.5):  # the free ones as they stand
            order = sorted(order)
        dims = [own[o] for o in order]
        at = [order.index(j) for j in range(len(own))]
        # Free dimensions keep the order they have in the operand.
        free[k] = [dims[j] for j in sorted(at[len(batch) + len(inner) :])]
        sides.append(s.argument(dims, (left, right)[k]))
        numbers.append((at[: len(batch)], at[len(batch) : len(batch) + len(inner)]))
    (lb, lc), (rb, rc) = numbers
    s.is_exact = all(x in INTS + PRED for x in (left, result))
    return s.op(
        "dot_general",
        sides,
        tensor(batch + free[0] + free[1], result),
        "dot_dimension_numbers = #stablehlo.dot<"
        f"lhs_batching_dimensions = {lb}, rhs_batching_dimensions = {rb}, "
        f"lhs_contracting_dimensions = {lc}, rhs_contracting_dimensions = {rc}>"
        f"{precision(s)}{attribute}",
    )


@family("dot")
def dot(s: Sketch) -> Sequence[str]:
    element = s.element(FACTORS)
    k, left, right = s.size(), s.dims(0, 1), s.dims(0, 1)
    s.is_exact = element in INTS
    sides = [s.argument([*left, k], element), s.argument([k, *right], element)]
    return s.op("dot", sides, tensor(left + right, element), precision(s)[2:])


@family("einsum")
def einsum(s: Sketch) -> Sequence[str]:
    element = s.element(["f32", "f64", "i32"])
    sizes = {letter: s.size() for letter in "abcd"}
    left, right = (s.rng.sample("abcd", s.whole(1, 3)) for _ in range(2))
    both = sorted({*left, *right})
    result = s.rng.sample(both, s.whole(0, len(both)))
    s.is_exact = element == "i32"
    sides = [s.argument([sizes[x] for x in side], element) for side in (left, right)]
    text = f"{''.join(left)},{''.join(right)}->{''.join(result)}"
    kind = tensor([sizes[x] for x in result], element)
    return s.op("einsum", sides, kind, f'einsum_config = "{text}"')


@family("chlo.ragged_dot")
def ragged_dot(s: Sketch) -> Sequence[str]:
    element = s.pick(["f32", "f64", "bf16"])
    m, k, n, g = s.size() or 1, s.size() or 1, s.size() or 1, s.whole(1, 4)
    s.is_exact = False
    mode = s.pick(["rows", "rows", "inner"])
    sizes = s.argument([g], s.pick(["i32", "i64"]))
    if mode == "rows":
        parts, result = ([m, k], [g, k, n]), [m, n]
        numbers = "[1], [1], [0], [0]".split(", ")
    else:
        parts, result = ([m, k], [k, n]), [g, m, n]
        numbers = "[1], [0], [1], []".split(", ")
    sides = [s.argument(p, element) for p in parts]
    attributes = (
        "ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [], "
        "rhs_batching_dimensions = [], "
        f"lhs_contracting_dimensions = {numbers[0]}, rhs_contracting_dimensions = {numbers[1]}, "
        f"lhs_ragged_dimensions = {numbers[2]}, rhs_group_dimensions = {numbers[3]}>"
    )
    return s.op("chlo.ragged_dot", [*sides, sizes], tensor(result, element), attributes)


def spatial(s: Sketch, rank: int) -> tuple[list[int], list[int], str, list[int]]:
    """Sizes of the input and of the kernel, attributes, and sizes of the result."""
    sizes, kernel, result = [], [], []
    rows: dict[str, list] = {"steps": [], "pads": [], "lhs": [], "rhs": [], "reversed": []}
    for _ in range(rank):
        while True:
            d, w = s.pick([0, 1, 2, 3, 5, 8, 17]), s.pick([0, 1, 1, 2, 3, 3, 5])
            step, a, b = s.pick([1, 1, 2, 3]), s.pick([1, 1, 1, 2, 3]), s.pick([1, 1, 1, 2, 3])
            pad = [s.pick([0, 0, 1, 2, -1, 5]), s.pick([0, 0, 1, 2, -1])]
            wide = (0 if d == 0 else (d - 1) * a + 1) + sum(pad)
            reach = 0 if w == 0 else (w - 1) * b + 1
            if wide >= 0 and ((d and w) or s.chance(0.05)):
                break
        sizes.append(d)
        kernel.append(w)
        for name, value in zip(rows, (step, pad, a, b, s.chance(0.2)), strict=True):
            rows[name].append(value)
        result.append(0 if wide < reach or wide == 0 else (wide - reach) // step + 1)
    attributes = (
        f"window_strides = {array(rows['steps'])}, padding = {pairs(rows['pads'])}, "
        f"lhs_dilation = {array(rows['lhs'])}, rhs_dilation = {array(rows['rhs'])}, "
        f"window_reversal = {array(rows['reversed'], 'i1')}"
    )
    return sizes, kernel, attributes, result


def labelled(s: Sketch, first: str, second: str, values: Sequence[int]) -> tuple[str, list[int]]:
    """Labels of dimensions in some order, and their sizes."""
    labels = [first, second, *map(str, range(len(values) - 2))]
    order = s.order(len(values)) if s.chance(0.6) else list(range(len(values)))
    return f"[{', '.join(labels[k] for k in order)}]", [values[k] for k in order]


@family("convolution")
def convolution(s: Sketch) -> Sequence[str]:
    element = s.element(FLOATS + INTS + ["complex<f32>"])
    sizes, kernel, attributes, out = spatial(s, s.pick([0, 1, 1, 2, 2, 3]))
    groups, batches = s.pick([(1, 1), (1, 1), (2, 1), (3, 1), (4, 1), (1, 2), (1, 3)])
    batch, channels = s.pick([1, 2, 3, 0, 5]) * batches, s.pick([1, 2, 3, 4])
    features = s.pick([1, 2, 3, 5]) * groups * batches
    left, ldims = labelled(s, "b", "f", [batch, channels * groups, *sizes])
    right, rdims = labelled(s, "i", "o", [channels, features, *kernel])
    made, odims = labelled(s, "b", "f", [batch // batches, features, *out])
    s.is_exact = element in INTS
    sides = [s.argument(ldims, element), s.argument(rdims, element)]
    return s.op(
        "convolution",
        sides,
        tensor(odims, result_of(s, element)),
        f"dimension_numbers = #stablehlo.conv<{left}x{right}->{made}>, {attributes}, "
        f"feature_group_count = {groups} : i64, batch_group_count = {batches} : i64"
        f"{precision(s)}",
    )


@family("cholesky")
def cholesky(s: Sketch) -> Sequence[str]:
    """Of a a^T + n, which is positive."""
    element = s.pick(["f32", "f64", "f32", "f64", "complex<f32>", "complex<f64>"])
    batch, n = s.dims(0, 1), s.pick([0, 1, 2, 3, 5, 8, 17])
    s.is_exact = False
    kind = tensor([*batch, n, n], element)
    a = s.argument([*batch, n, n], element)
    last, along = len(batch) + 1, list(range(len(batch)))
    other = s.op("chlo.conj", [a], kind)[0] if element[0] == "c" else a
    square = s.op(
        "dot_general",
        [a, other],
        kind,
        "dot_dimension_numbers = #stablehlo.dot<"
        f"lhs_batching_dimensions = {along}, rhs_batching_dimensions = {along}, "
        f"lhs_contracting_dimensions = [{last}], rhs_contracting_dimensions = [{last}]>, "
        "precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]",
    )
    rows = s.op("iota", [], tensor([*batch, n, n], "i32"), f"iota_dimension = {last - 1} : i64")
    columns = s.op("iota", [], tensor([*batch, n, n], "i32"), f"iota_dimension = {last} : i64")
    same = s.op(
        "compare",
        rows + columns,
        tensor([*batch, n, n], "i1"),
        "comparison_direction = #stablehlo<comparison_direction EQ>",
    )
    diagonal = s.op("convert", same, kind)
    scaled = diagonal
    for _ in range(3):
        scaled = s.op("add", scaled + scaled, kind)
    positive = s.op("add", square + scaled, kind)
    lower, order = s.pick([("true", "GE"), ("false", "LE")])
    factor = s.op("cholesky", positive, kind, f"lower = {lower}")
    # What lies on the other side of the diagonal is not defined.
    side = s.op(
        "compare",
        rows + columns,
        tensor([*batch, n, n], "i1"),
        f"comparison_direction = #stablehlo<comparison_direction {order}>",
    )
    zero = s.op("subtract", diagonal + diagonal, kind)
    return s.op("select", side + factor + zero, kind)


@family("triangular_solve")
def triangular_solve(s: Sketch) -> Sequence[str]:
    """With a diagonal far from 0."""
    element = s.pick(["f32", "f64", "f32", "f64", "complex<f32>", "complex<f64>"])
    batch, n, m = s.dims(0, 1), s.pick([0, 1, 2, 3, 5, 8]), s.pick([0, 1, 2, 3, 7])
    left = s.chance(0.5)
    s.is_exact = False
    square = [*batch, n, n]
    kind, last = tensor(square, element), len(batch) + 1
    a = s.argument(square, element)
    rows = s.op("iota", [], tensor(square, "i32"), f"iota_dimension = {last - 1} : i64")
    columns = s.op("iota", [], tensor(square, "i32"), f"iota_dimension = {last} : i64")
    same = s.op(
        "compare",
        rows + columns,
        tensor(square, "i1"),
        "comparison_direction = #stablehlo<comparison_direction EQ>",
    )
    diagonal = s.op("convert", same, kind)
    for _ in range(3):
        diagonal = s.op("add", diagonal + diagonal, kind)
    a = s.op("add", [a, *diagonal], kind)[0]
    other = [*batch, n, m] if left else [*batch, m, n]
    transposed = s.pick(["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
    return s.op(
        "triangular_solve",
        [a, s.argument(other, element)],
        tensor(other, element),
        f"left_side = {str(left).lower()}, lower = {s.pick(['true', 'false'])}, "
        f"unit_diagonal = {s.pick(['true', 'false'])}, "
        f"transpose_a = #stablehlo<transpose {transposed}>",
    )


@family("fft")
def fft(s: Sketch) -> Sequence[str]:
    kind, real = s.pick(["FFT", "IFFT", "RFFT", "IRFFT"]), s.pick(["f32", "f64"])
    dims = s.dims(1, 4)
    length = dims[-s.whole(1, min(3, len(dims))) :]
    s.is_exact = False
    whole = f"complex<{real}>"
    half = [*dims[:-1], dims[-1] // 2 + 1 if dims[-1] else 0]
    given, made = {
        "FFT": ((dims, whole), (dims, whole)),
        "IFFT": ((dims, whole), (dims, whole)),
        "RFFT": ((dims, real), (half, whole)),
        "IRFFT": ((half, whole), (dims, real)),
    }[kind]
    x = s.argument(*given)
    return s.op(
        "fft",
        [x],
        tensor(*made),
        f"fft_type = #stablehlo<fft_type {kind}>, fft_length = {array(length)}",
    )


@family("rng_bit_generator")
def rng_bit_generator(s: Sketch) -> Sequence[str]:
    word = s.pick(["THREE_FRY", "PHILOX", "DEFAULT"])
    n = {"THREE_FRY": 2, "PHILOX": s.pick([2, 3]), "DEFAULT": s.pick([2, 3])}[word]
    dims = s.dims(0, 3)
    element = s.pick(["ui8", "ui16", "ui32", "ui64", "i32", "i64", "i8", "f32", "f64", "f16"])
    state = s.argument([n], "ui64")
    return s.op(
        "rng_bit_generator",
        [state],
        [tensor([n], "ui64"), tensor(dims, element)],
        f"rng_algorithm = #stablehlo<rng_algorithm {word}>",
    )
