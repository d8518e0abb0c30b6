"""Operations with a region on elements: folds, windows, maps, sorts, scatters."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz.stablehlo.sketch import (
    ANY,
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

ADDED = FLOATS + INTS + ["complex<f32>", "complex<f64>"]
SORTED = FLOATS + INTS + F8 + PRED


def start_of(s: Sketch, element: str, operation: str, anything: bool = True) -> str:
    """What folding with an operation starts at; now and then anything."""
    if anything and s.chance(0.2):
        return s.argument([], element)
    if element == "i1":
        return s.constant("true" if operation in ("and", "minimum") else "false", [], element)
    if operation in ("maximum", "minimum", "and") and not anything:
        return limit_of(s, element, operation)
    value = 1 if operation == "multiply" else 0
    text = f"{value}" if element in INTS else f"{value}.0"
    if element.startswith("complex"):
        text = f"({text}, 0.0)"
    return s.constant(text, [], element)


def limit_of(s: Sketch, element: str, operation: str) -> str:
    """What changes nothing in a maximum, a minimum or an `and`."""
    if element not in INTS:
        sign = "-" if operation == "maximum" else ""
        return s.constant(f"{sign}1.0e4" if element not in F8 else f"{sign}1.0e9", [], element)
    bits = int(element.lstrip("ui"))
    low, high = (
        (0, (1 << bits) - 1) if element[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
    )
    ones = high if element[0] == "u" else -1
    return s.constant(str({"maximum": low, "minimum": high, "and": ones}[operation]), [], element)


def operation_for(s: Sketch, element: str) -> str:
    if element == "i1":
        return s.pick(["and", "or", "xor", "maximum", "minimum"])
    if element.startswith("complex"):
        return s.pick(["add", "multiply"])
    more = ["and", "or", "xor"] if element in INTS else []
    return s.pick(["add", "add", "maximum", "minimum", "multiply", *more])


def fold(s: Sketch, elements: Sequence[str], operations: Sequence[str], outer: str = "") -> str:
    """A region on pairs of scalars; `outer` is a scalar from outside that it also reads."""
    scalars = [tensor([], e) for e in elements]

    def body(r: list[str]) -> list[str]:
        half = len(elements)
        made = [s.op(o, [r[k], r[half + k]], scalars[k])[0] for k, o in enumerate(operations)]
        if outer:
            made[0] = s.op("maximum", [made[0], outer], scalars[0])[0]
        return made

    return s.region([*scalars, *scalars], body)


@family("reduce")
def reduce(s: Sketch) -> Sequence[str]:
    dims, count = s.dims(0, 4), s.pick([1, 1, 1, 2, 3])
    elements = [s.element(ADDED + PRED + (F8 if count == 1 else [])) for _ in range(count)]
    operations = [operation_for(s, e) for e in elements]
    s.is_exact = all(
        e in INTS + PRED or o in ("maximum", "minimum")
        for e, o in zip(elements, operations, strict=True)
    )
    along = s.some(len(dims))
    values = [s.argument(dims, e) for e in elements]
    # Where nothing is folded XLA hands on the elements, and we fold each with the start.
    starts = [start_of(s, e, o, bool(along)) for e, o in zip(elements, operations, strict=True)]
    outer = ""
    if s.chance(0.15) and along and elements[0] in INTS + FLOATS:
        outer = s.argument([], elements[0])
    kept = [d for k, d in enumerate(dims) if k not in along]
    return s.op(
        "reduce",
        values + starts,
        [tensor(kept, e) for e in elements],
        f"dimensions = {array(along)}",
        [fold(s, elements, operations, outer)],
    )


def window_of(s: Sketch, dims: Sequence[int], dilated: bool = True):
    """Sizes, steps, dilations, padding, and how many windows there are."""
    rank = len(dims)
    sizes, steps, base, dilation, pads, result = [], [], [], [], [], []
    for k in range(rank):
        while True:
            size, step = s.pick([1, 1, 2, 3, 5]), s.pick([1, 1, 2, 3])
            b = s.pick([1, 1, 1, 2, 3]) if dilated else 1
            w = s.pick([1, 1, 1, 2, 3]) if dilated else 1
            pad = [s.pick([0, 0, 1, 2, -1]), s.pick([0, 0, 1, 2, -1])]
            if not dilated:
                pad = [max(p, 0) for p in pad]
            wide = (0 if dims[k] == 0 else (dims[k] - 1) * b + 1) + sum(pad)
            reach = (size - 1) * w + 1
            if wide >= 0:
                break
        sizes.append(size)
        steps.append(step)
        base.append(b)
        dilation.append(w)
        pads.append(pad)
        result.append(0 if wide < reach or wide == 0 else (wide - reach) // step + 1)
    return sizes, steps, base, dilation, pads, result


@family("reduce_window")
def reduce_window(s: Sketch) -> Sequence[str]:
    dims, count = s.dims(0, 4), s.pick([1, 1, 1, 2])
    elements = [s.element(FLOATS + INTS + PRED) for _ in range(count)]
    operations = [operation_for(s, e) for e in elements]
    s.is_exact = all(
        e in INTS + PRED or o in ("maximum", "minimum")
        for e, o in zip(elements, operations, strict=True)
    )
    sizes, steps, base, dilation, pads, result = window_of(s, dims)
    values = [s.argument(dims, e) for e in elements]
    starts = [start_of(s, e, o) for e, o in zip(elements, operations, strict=True)]
    outer = ""
    if s.chance(0.1) and elements[0] in INTS + FLOATS:
        outer = s.argument([], elements[0])
    attributes = (
        f"window_dimensions = {array(sizes)}, window_strides = {array(steps)}, "
        f"base_dilations = {array(base)}, window_dilations = {array(dilation)}, "
        f"padding = {pairs(pads)}"
    )
    return s.op(
        "reduce_window",
        values + starts,
        [tensor(result, e) for e in elements],
        attributes,
        [fold(s, elements, operations, outer)],
    )


@family("select_and_scatter")
def select_and_scatter(s: Sketch) -> Sequence[str]:
    dims = [d or 1 for d in s.dims(0, 3)]
    element = s.element(FLOATS + ["i32", "i64", "i8", "ui8"])
    while True:
        sizes, steps, _, _, pads, result = window_of(s, dims, dilated=False)
        if all(result) or s.chance(0.02):
            break
    scalar = tensor([], element)
    direction = s.pick(["GE", "GT", "LE"])
    select = s.region(
        [scalar, scalar],
        lambda r: s.op(
            "compare",
            r,
            "tensor<i1>",
            f"comparison_direction = #stablehlo<comparison_direction {direction}>",
        ),
    )
    scatter = s.region([scalar, scalar], lambda r: s.op("add", r, scalar))
    parts = [s.argument(dims, element), s.argument(result, element), start_of(s, element, "add")]
    s.is_exact = element in INTS
    attributes = (
        f"window_dimensions = {array(sizes)}, window_strides = {array(steps)}, "
        f"padding = {pairs(pads)}"
    )
    return s.op("select_and_scatter", parts, tensor(dims, element), attributes, [select, scatter])


@family("map")
def map_(s: Sketch) -> Sequence[str]:
    dims, element = s.dims(0, 3), s.element(FLOATS + INTS)
    count = s.whole(1, 3)
    scalar = tensor([], element)
    outer = s.argument([], element) if s.chance(0.3) else ""

    def body(r: list[str]) -> list[str]:
        made = r[0]
        for x in r[1:] + ([outer] if outer else []):
            made = s.op(s.pick(["add", "maximum", "subtract"]), [made, x], scalar)[0]
        return [made]

    inside = s.region([scalar] * count, body)
    s.is_exact = element in INTS
    parts = [s.argument(dims, element) for _ in range(count)]
    attributes = f"dimensions = {array(range(len(dims)))}"
    return s.op("map", parts, tensor(dims, element), attributes, [inside])


def compared(s: Sketch, a: str, b: str, element: str, direction: str) -> str:
    kind = ", compare_type = #stablehlo<comparison_type TOTALORDER>"
    more = kind if element in FLOATS + F8 and s.chance(0.7) else ""
    return s.op(
        "compare",
        [a, b],
        "tensor<i1>",
        f"comparison_direction = #stablehlo<comparison_direction {direction}>{more}",
    )[0]


@family("sort")
def sort(s: Sketch) -> Sequence[str]:
    """One or several keys, rising or falling, stable so that there is one right answer."""
    dims, count = s.dims(1, 3), s.pick([1, 1, 2, 3])
    elements = [s.element(SORTED)] + [s.element(ANY) for _ in range(count - 1)]
    scalars = [tensor([], e) for e in elements for _ in range(2)]
    direction = s.pick(["LT", "GT"])
    outer = s.argument([], elements[0]) if s.chance(0.1) and elements[0] in INTS else ""

    def body(r: list[str]) -> list[str]:
        a, b = r[0], r[1]
        if outer:
            a, b = (s.op("subtract", [x, outer], scalars[0])[0] for x in (a, b))
        return [compared(s, a, b, elements[0], direction)]

    along = s.whole(0, len(dims) - 1)
    if s.chance(0.3):
        along -= len(dims)
    return s.op(
        "sort",
        [s.argument(dims, e) for e in elements],
        [tensor(dims, e) for e in elements],
        f"dimension = {along} : i64, is_stable = true",
        [s.region(scalars, body)],
    )


@family("chlo.top_k")
def top_k(s: Sketch) -> Sequence[str]:
    dims, element = s.dims(1, 3), s.element(FLOATS + INTS)
    k = s.whole(0, dims[-1])
    result = [*dims[:-1], k]
    return s.op(
        "chlo.top_k",
        [s.argument(dims, element)],
        [tensor(result, element), tensor(result, "i32")],
        f"k = {k} : i64",
    )


@family("scatter")
def scatter(s: Sketch) -> Sequence[str]:
    """Indices may repeat and lie outside; what is folded does not ask for an order."""
    dims, count = [d or 1 for d in s.dims(0, 4)], s.pick([1, 1, 1, 2])
    elements = [s.element(FLOATS + INTS + PRED) for _ in range(count)]
    operations = [operation_for(s, e) for e in elements]
    s.is_exact = all(
        e in INTS + PRED or o in ("maximum", "minimum")
        for e, o in zip(elements, operations, strict=True)
    )
    kind = s.pick(["i32", "i64", "ui32", "i8"])
    roles = [s.pick(["batch", "map", "window", "both"]) for _ in dims]
    batching = [k for k, r in enumerate(roles) if r == "batch"]
    inserted = [k for k, r in enumerate(roles) if r == "map"]
    mapped = [k for k, r in enumerate(roles) if r in ("map", "both")]
    s.rng.shuffle(mapped)
    window = [
        s.pick([d, s.whole(0, d)])
        for d, r in zip(dims, roles, strict=True)
        if r in ("window", "both")
    ]
    batches = [s.size() for _ in range(s.whole(0, 2))]
    places = s.order(len(batches) + len(batching))
    index_dims = [0] * len(places)
    for k, place in enumerate(places):
        index_dims[place] = dims[batching[k]] if k < len(batching) else batches[k - len(batching)]
    start_batching = places[: len(batching)]
    at = s.whole(0, len(index_dims))
    full = [*index_dims[:at], len(mapped), *index_dims[at:]]
    start_batching = [k + (k >= at) for k in start_batching]
    rank = len(index_dims) + len(window)
    places = sorted(s.rng.sample(range(rank), len(window)))
    updates, left, inner = [], iter(index_dims), iter(window)
    for k in range(rank):
        updates.append(next(inner) if k in places else next(left))
    numbers = (
        f"update_window_dims = {places}, inserted_window_dims = {inserted}, "
        f"input_batching_dims = {batching}, scatter_indices_batching_dims = {start_batching}, "
        f"scatter_dims_to_operand_dims = {mapped}, index_vector_dim = {at}"
    )
    outer = s.argument([], elements[0]) if s.chance(0.1) and elements[0] in INTS else ""
    if outer and operations[0] not in ("maximum",):
        outer = ""
    inputs = [s.argument(dims, e) for e in elements]
    index = s.argument(full, kind)
    given = [s.argument(updates, e) for e in elements]
    return s.op(
        "scatter",
        [*inputs, index, *given],
        [tensor(dims, e) for e in elements],
        f"scatter_dimension_numbers = #stablehlo.scatter<{numbers}>, "
        "indices_are_sorted = false, unique_indices = false",
        [fold(s, elements, operations, outer)],
    )


def _normed(s: Sketch) -> tuple[list[int], str, int, str]:
    dims = s.dims(1, 4)
    # In f16 XLA's intermediate values overflow.
    element, k = s.pick(["f32", "f64", "bf16"]), s.whole(0, len(dims) - 1)
    s.is_exact = False
    return dims, element, k, f"epsilon = 1.0e-3 : f32, feature_index = {k} : i64"


@family("batch_norm_inference")
def batch_norm_inference(s: Sketch) -> Sequence[str]:
    dims, element, k, attributes = _normed(s)
    parts = [s.argument(dims, element), *(s.argument([dims[k]], element) for _ in range(3))]
    positive = s.op("abs", [s.argument([dims[k]], element)], tensor([dims[k]], element))
    return s.op("batch_norm_inference", parts + positive, tensor(dims, element), attributes)


@family("batch_norm_training")
def batch_norm_training(s: Sketch) -> Sequence[str]:
    dims, element, k, attributes = _normed(s)
    parts = [s.argument(dims, element), *(s.argument([dims[k]], element) for _ in range(2))]
    one = tensor([dims[k]], element)
    return s.op("batch_norm_training", parts, [tensor(dims, element), one, one], attributes)


@family("batch_norm_grad")
def batch_norm_grad(s: Sketch) -> Sequence[str]:
    dims, element, k, attributes = _normed(s)
    one = tensor([dims[k]], element)
    parts = [s.argument(dims, element), *(s.argument([dims[k]], element) for _ in range(2))]
    variance = s.op("abs", [s.argument([dims[k]], element)], one)
    parts += [*variance, s.argument(dims, element)]
    return s.op("batch_norm_grad", parts, [tensor(dims, element), one, one], attributes)


@family("chlo.scan")
def scan(s: Sketch) -> Sequence[str]:
    """Sums so far, along one dimension, from either end."""
    dims = [d or 1 for d in s.dims(1, 3)]
    element = s.element(["f32", "f64", "i32", "i64"])
    along = s.whole(0, len(dims) - 1)
    part = tensor([d for k, d in enumerate(dims) if k != along], element)
    carry = s.argument([d for k, d in enumerate(dims) if k != along], element)
    x = s.argument(dims, element)
    s.is_exact = element in INTS

    def body(r: list[str]) -> list[str]:
        made = s.op("add", r, part)
        return [made[0], made[0]]

    inside = s.region([part, part], body)
    attributes = (
        f"dimension = {along} : i64, is_reverse = {s.pick(['true', 'false'])}, "
        f"operandSegmentSizes = {array([1, 1], 'i32')}, "
        f"resultSegmentSizes = {array([1, 1], 'i32')}"
    )
    return s.op("chlo.scan", [x, carry], [tensor(dims, element), part], attributes, [inside])
