"""Shapes given as operands: constants, or bounded sizes known only at run time."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tests.fuzz.stablehlo.data import padding_of, regrouped
from tests.fuzz.stablehlo.linear import labelled, spatial
from tests.fuzz.stablehlo.sketch import ANY, FLOATS, INTS, NUMBERS, Sketch, array, family, tensor

INDEX = ["i32", "i64"]


def vector(s: Sketch, values: Sequence[int], element: str = "") -> str:
    text = f"[{', '.join(map(str, values))}]" if values else ""
    return s.constant(text, [len(values)], element or s.pick(INDEX))


def open_or(s: Sketch, dims: Sequence[int]) -> list[int | str]:
    """Some of the sizes left open, which a constant then says."""
    return ["?" if s.chance(0.4) else d for d in dims] if s.chance(0.4) else list(dims)


def closed(s: Sketch, made: Sequence[str], dims: Sequence[int], element: str) -> Sequence[str]:
    """Something that reads a value of open sizes, and gives one of known ones."""
    if "?" not in s.types[made[0]]:
        return made
    return s.op("dynamic_reshape", [*made, vector(s, dims)], tensor(dims, element))


@family("dynamic_reshape")
def dynamic_reshape(s: Sketch) -> Sequence[str]:
    dims, element = s.dims(), s.element(ANY)
    result = regrouped(s, prod(dims))
    x = s.argument(dims, element)
    made = s.op("dynamic_reshape", [x, vector(s, result)], tensor(open_or(s, result), element))
    return closed(s, made, result, element)


@family("dynamic_broadcast_in_dim")
def dynamic_broadcast_in_dim(s: Sketch) -> Sequence[str]:
    result, element = s.dims(0, 3), s.element(ANY)
    along = s.some(len(result))
    x = s.argument([result[d] if s.chance(0.7) else 1 for d in along], element)
    attributes = f"broadcast_dimensions = {array(along)}"
    made = s.op(
        "dynamic_broadcast_in_dim",
        [x, vector(s, result)],
        tensor(open_or(s, result), element),
        attributes,
    )
    return closed(s, made, result, element)


@family("dynamic_iota")
def dynamic_iota(s: Sketch) -> Sequence[str]:
    dims, element = s.dims(1, 3), s.element(NUMBERS)
    attributes = f"iota_dimension = {s.whole(0, len(dims) - 1)} : i64"
    kind = tensor(open_or(s, dims), element)
    return closed(s, s.op("dynamic_iota", [vector(s, dims)], kind, attributes), dims, element)


@family("dynamic_pad")
def dynamic_pad(s: Sketch) -> Sequence[str]:
    dims, element, index = s.dims(0, 3), s.element(ANY), s.pick(INDEX)
    rows, result = padding_of(s, dims)
    parts = [s.argument(dims, element), s.argument([], element)]
    parts += [vector(s, [row[k] for row in rows], index) for k in range(3)]
    return closed(
        s, s.op("dynamic_pad", parts, tensor(open_or(s, result), element)), result, element
    )


@family("real_dynamic_slice")
def real_dynamic_slice(s: Sketch) -> Sequence[str]:
    dims, element, index = s.dims(0, 3), s.element(ANY), s.pick(INDEX)
    starts = [s.whole(0, d) for d in dims]
    limits = [s.whole(a, d) for a, d in zip(starts, dims, strict=True)]
    steps = [s.pick([1, 1, 2, 3]) for _ in dims]
    result = [-(-(b - a) // c) for a, b, c in zip(starts, limits, steps, strict=True)]
    parts = [s.argument(dims, element), *(vector(s, v, index) for v in (starts, limits, steps))]
    made = s.op("real_dynamic_slice", parts, tensor(open_or(s, result), element))
    return closed(s, made, result, element)


@family("dynamic_gather")
def dynamic_gather(s: Sketch) -> Sequence[str]:
    n, m, element, index = s.whole(1, 9), s.whole(1, 5), s.element(ANY), s.pick(INDEX)
    size, count = s.whole(1, m), s.size()
    numbers = "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0, 1]"
    parts = [s.argument([n, m], element), s.argument([count, 2], index)]
    parts.append(vector(s, [1, size], index))
    attributes = (
        f"dimension_numbers = #stablehlo.gather<{numbers}, index_vector_dim = 1>, "
        "indices_are_sorted = false"
    )
    return s.op("dynamic_gather", parts, tensor([count, size], element), attributes)


@family("dynamic_conv")
def dynamic_conv(s: Sketch) -> Sequence[str]:
    element = s.pick(FLOATS + ["i32"])
    sizes, kernel, attributes, out = spatial(s, s.pick([1, 2]))
    batch, channels, features = s.whole(1, 3), s.whole(1, 3), s.whole(1, 3)
    left, ldims = labelled(s, "b", "f", [batch, channels, *sizes])
    right, rdims = labelled(s, "i", "o", [channels, features, *kernel])
    made, odims = labelled(s, "b", "f", [batch, features, *out])
    s.is_exact = element in INTS
    rows = attributes.split("padding = ")[1].split(" : ")[0].removeprefix("dense<")[:-1]
    pads = s.constant(rows, [len(sizes), 2], s.pick(INDEX))
    before, after = attributes.split("padding = ")
    attributes = before + after.split("xi64>, ", 1)[1]
    parts = [s.argument(ldims, element), s.argument(rdims, element), pads]
    return s.op(
        "dynamic_conv",
        parts,
        tensor(odims, element),
        f"dimension_numbers = #stablehlo.conv<{left}x{right}->{made}>, {attributes}, "
        "feature_group_count = 1 : i64, batch_group_count = 1 : i64",
    )


@family("computed_shapes")
def computed_shapes(s: Sketch) -> Sequence[str]:
    """Shapes that arithmetic on sizes gives, as programs of open sizes do."""
    dims, element = [d or 1 for d in s.dims(1, 3)], s.element(NUMBERS)
    x = s.argument(dims, element)
    parts = []
    for k in range(len(dims)):
        size = s.op("get_dimension_size", [x], "tensor<i32>", f"dimension = {k} : i64")
        parts += s.op("reshape", size, "tensor<1xi32>")
    if len(parts) > 1:
        kind = f"tensor<{len(dims)}xi32>"
        parts = s.op("concatenate", parts, kind, "dimension = 0 : i64")
    opened = tensor(["?"] * len(dims), element)
    made = s.op(
        "dynamic_broadcast_in_dim",
        [x, *parts],
        opened,
        f"broadcast_dimensions = {array(range(len(dims)))}",
    )
    made = s.op("add", [made[0], made[0]], opened)
    return closed(s, made, dims, element)


@family("bounded")
def bounded(s: Sketch) -> Sequence[str]:
    """Values whose first size is known at run time, through several operations."""
    n, m, element = s.whole(1, 9), s.whole(1, 4), s.pick(["f32", "i32", "f64"])
    s.is_exact = element == "i32"
    x, size = s.argument([n, m], element), s.argument([], "i32")
    low, high = s.constant("0", [], "i32"), s.constant(str(n), [], "i32")
    size = s.op("clamp", [low, size, high], "tensor<i32>")[0]
    bounds = f"#stablehlo.bounds<{n}, ?>"
    kind = f"tensor<?x{m}x{element}, {bounds}>"
    made = s.op("set_dimension_size", [x, size], kind, "dimension = 0 : i64")
    for _ in range(s.whole(0, 3)):
        made = s.op(s.pick(["negate", "abs", "sign"]), made, kind)
    if s.chance(0.4):
        made = s.op("add", [made[0], made[0]], kind)
    if s.chance(0.3):
        turned = f"tensor<{m}x?x{element}, #stablehlo.bounds<?, {n}>>"
        made = s.op("transpose", made, turned, "permutation = array<i64: 1, 0>")
        made = s.op("transpose", made, kind, "permutation = array<i64: 1, 0>")
    scalar = tensor([], element)
    zero = s.constant("0" if element == "i32" else "0.0", [], element)
    fold = s.region([scalar, scalar], lambda r: s.op("add", r, scalar))
    total = s.op(
        "reduce", [*made, zero], tensor([m], element), "dimensions = array<i64: 0>", [fold]
    )
    size = s.op("get_dimension_size", made, "tensor<i32>", "dimension = 0 : i64")
    return [*total, *size]
