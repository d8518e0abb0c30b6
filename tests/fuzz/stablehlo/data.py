"""Operations that move data."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tests.fuzz.stablehlo.sketch import (
    ANY,
    COMPLEX,
    FLOATS,
    INTS,
    NARROWEST,
    NUMBERS,
    PRED,
    Sketch,
    array,
    family,
    tensor,
)

ELEMENTS = ANY + NARROWEST


@family("broadcast_in_dim")
def broadcast_in_dim(s: Sketch) -> Sequence[str]:
    result, element = s.dims(0, 4), s.element(ELEMENTS)
    along = s.some(len(result))
    if s.chance(0.4):
        s.rng.shuffle(along)
    source = [result[d] if s.chance(0.7) else 1 for d in along]
    x = s.argument(source, element)
    attributes = f"broadcast_dimensions = {array(along)}"
    return s.op("broadcast_in_dim", [x], tensor(result, element), attributes)


@family("broadcast")
def broadcast(s: Sketch) -> Sequence[str]:
    dims, element, more = s.dims(0, 2), s.element(ELEMENTS), s.dims(0, 2)
    x = s.argument(dims, element)
    attributes = f"broadcast_sizes = {array(more)}"
    return s.op("broadcast", [x], tensor(more + dims, element), attributes)


def regrouped(s: Sketch, count: int) -> list[int]:
    """Sizes whose product is this."""
    if count == 0:
        dims = s.dims(1, 3)
        dims[s.whole(0, len(dims) - 1)] = 0
        return dims
    dims = []
    while count > 1:
        factors = [f for f in range(2, count + 1) if count % f == 0]
        dims.append(s.pick(factors))
        count //= dims[-1]
    for _ in range(s.whole(0, 2)):
        dims.insert(s.whole(0, len(dims)), 1)
    return dims


@family("reshape")
def reshape(s: Sketch) -> Sequence[str]:
    dims, element = s.dims(), s.element(ELEMENTS)
    x = s.argument(dims, element)
    return s.op("reshape", [x], tensor(regrouped(s, prod(dims)), element))


@family("transpose")
def transpose(s: Sketch) -> Sequence[str]:
    dims, element = s.dims(0, 5), s.element(ELEMENTS)
    order = s.order(len(dims))
    x = s.argument(dims, element)
    result = tensor([dims[k] for k in order], element)
    return s.op("transpose", [x], result, f"permutation = {array(order)}")


@family("reverse")
def reverse(s: Sketch) -> Sequence[str]:
    dims, element = s.dims(), s.element(ELEMENTS)
    x = s.argument(dims, element)
    along = s.some(len(dims))
    return s.op("reverse", [x], tensor(dims, element), f"dimensions = {array(along)}")


@family("concatenate")
def concatenate(s: Sketch) -> Sequence[str]:
    dims, element = s.dims(1, 3), s.element(ELEMENTS)
    along = s.whole(0, len(dims) - 1)
    parts, total = [], 0
    for _ in range(s.whole(1, 5)):
        part = dims[:]
        part[along] = s.size()
        total += part[along]
        parts.append(s.pick(parts) if parts and s.chance(0.05) else "")
        if parts[-1]:
            total -= part[along]
            total += _sizes(s, parts[-1])[along]
        else:
            parts[-1] = s.argument(part, element)
    dims[along] = total
    return s.op("concatenate", parts, tensor(dims, element), f"dimension = {along} : i64")


def _sizes(s: Sketch, name: str) -> list[int]:
    return [int(d) for d in s.types[name][7:-1].split("x")[:-1] if d.isdigit()]


@family("slice")
def slice_(s: Sketch) -> Sequence[str]:
    """Empty ones, and steps beyond the end, among them."""
    dims, element = s.dims(0, 4), s.element(ELEMENTS)
    starts = [s.whole(0, d) for d in dims]
    limits = [s.pick([d, s.whole(a, d)]) for a, d in zip(starts, dims, strict=True)]
    steps = [s.pick([1, 1, 2, 3, 7, 100]) for _ in dims]
    result = [-(-(b - a) // c) for a, b, c in zip(starts, limits, steps, strict=True)]
    attributes = (
        f"start_indices = {array(starts)}, limit_indices = {array(limits)}, "
        f"strides = {array(steps)}"
    )
    return s.op("slice", [s.argument(dims, element)], tensor(result, element), attributes)


def padding_of(s: Sketch, dims: Sequence[int]) -> tuple[list[list[int]], list[int]]:
    """Rows of low, high, interior, and the sizes that come out, none below 0."""
    rows, result = [], []
    for d in dims:
        while True:
            low, high = s.pick([0, 0, 1, 2, -1, -2, 5]), s.pick([0, 0, 1, 3, -1, -3])
            inside = s.pick([0, 0, 0, 1, 2])
            made = d + low + high + max(d - 1, 0) * inside
            if made >= 0:
                break
        rows.append([low, high, inside])
        result.append(made)
    return rows, result


@family("pad")
def pad(s: Sketch) -> Sequence[str]:
    dims, element = s.dims(0, 3), s.element(ELEMENTS)
    rows, result = padding_of(s, dims)
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    attributes = ", ".join(
        f"{name} = {array([row[k] for row in rows])}" for k, name in enumerate(names)
    )
    parts = [s.argument(dims, element), s.argument([], element)]
    return s.op("pad", parts, tensor(result, element), attributes)


def starts_of(s: Sketch, count: int) -> list[str]:
    """Scalars of one index type."""
    kind = s.pick(["i32", "i64", "ui32", "i8", "ui8", "i16", "ui64"])
    return [s.argument([], kind) for _ in range(count)]


@family("dynamic_slice")
def dynamic_slice(s: Sketch) -> Sequence[str]:
    dims, element = s.dims(0, 4), s.element(ELEMENTS)
    sizes = [s.pick([d, s.whole(0, d)]) for d in dims]
    parts = [s.argument(dims, element), *starts_of(s, len(dims))]
    return s.op("dynamic_slice", parts, tensor(sizes, element), f"slice_sizes = {array(sizes)}")


@family("dynamic_update_slice")
def dynamic_update_slice(s: Sketch) -> Sequence[str]:
    dims, element = s.dims(0, 4), s.element(ELEMENTS)
    sizes = [s.pick([d, s.whole(0, d)]) for d in dims]
    parts = [s.argument(dims, element), s.argument(sizes, element), *starts_of(s, len(dims))]
    return s.op("dynamic_update_slice", parts, tensor(dims, element))


@family("iota")
def iota(s: Sketch) -> Sequence[str]:
    dims, element = s.dims(1, 4), s.element(NUMBERS + COMPLEX)
    return s.op(
        "iota", [], tensor(dims, element), f"iota_dimension = {s.whole(0, len(dims) - 1)} : i64"
    )


@family("gather")
def gather(s: Sketch) -> Sequence[str]:
    element, kind = s.element(ELEMENTS), s.pick(["i32", "i64", "ui32", "i8", "ui64", "i16"])
    dims = [d or 1 for d in s.dims(0, 4)]
    roles = [s.pick(["batch", "map", "map", "keep", "collapse"]) for _ in dims]
    batching = [k for k, r in enumerate(roles) if r == "batch"]
    mapped = [k for k, r in enumerate(roles) if r in ("map", "collapse")]
    mapped = [k for k in mapped if s.chance(0.85)]
    s.rng.shuffle(mapped)
    collapsed = [k for k, r in enumerate(roles) if r == "collapse"]
    sizes = [
        1 if r in ("batch", "collapse") else s.pick([d, s.whole(0, d)])
        for d, r in zip(dims, roles, strict=True)
    ]
    batches = [s.size() for _ in range(s.whole(0, 2))]
    places = s.order(len(batches) + len(batching))
    index_dims = [0] * len(places)
    for k, place in enumerate(places):
        index_dims[place] = dims[batching[k]] if k < len(batching) else batches[k - len(batching)]
    start_batching = places[: len(batching)]
    at = s.whole(0, len(index_dims))
    if len(mapped) == 1 and s.chance(0.4):
        at, full = len(index_dims), index_dims
    else:
        full = [*index_dims[:at], len(mapped), *index_dims[at:]]
        start_batching = [k + (k >= at) for k in start_batching]
    kept = [d for k, d in enumerate(sizes) if roles[k] not in ("batch", "collapse")]
    rank = len(index_dims) + len(kept)
    offsets = sorted(s.rng.sample(range(rank), len(kept)))
    result, left, inner = [], iter(index_dims), iter(kept)
    for k in range(rank):
        result.append(next(inner) if k in offsets else next(left))
    numbers = (
        f"offset_dims = {offsets}, collapsed_slice_dims = {collapsed}, "
        f"operand_batching_dims = {batching}, start_indices_batching_dims = {start_batching}, "
        f"start_index_map = {mapped}, index_vector_dim = {at}"
    )
    attributes = (
        f"dimension_numbers = #stablehlo.gather<{numbers}>, slice_sizes = {array(sizes)}, "
        f"indices_are_sorted = false"
    )
    parts = [s.argument(dims, element), s.argument(full, kind)]
    return s.op("gather", parts, tensor(result, element), attributes)


@family("torch_index_select")
def torch_index_select(s: Sketch) -> Sequence[str]:
    dims, element = [d or 1 for d in s.dims(1, 3)], s.element(ELEMENTS)
    along = s.whole(0, len(dims) - 1)
    batch = s.pick([0, 0, s.whole(0, along)])
    index = dims[:batch] + s.dims(0, 2)
    result = dims[:along] + index[batch:] + dims[along + 1 :]
    parts = [s.argument(dims, element), s.argument(index, s.pick(["i32", "i64"]))]
    attributes = f"dim = {along} : i64, batch_dims = {batch} : i64"
    return s.op("torch_index_select", parts, tensor(result, element), attributes)


@family("tuple")
def tuple_(s: Sketch) -> Sequence[str]:
    dims, element = s.dims(), s.element(ELEMENTS)
    parts = [s.argument(dims, element), s.argument(s.dims(0, 2), s.element(ELEMENTS))]
    inner = f"tuple<{s.types[parts[0]]}, {s.types[parts[1]]}>"
    made = s.op("tuple", parts, inner)
    outer = s.op("tuple", [made[0], parts[0]], f"tuple<{inner}, {s.types[parts[0]]}>")
    first = s.op("get_tuple_element", outer, inner, "index = 0 : i32")
    k = s.whole(0, 1)
    return s.op("get_tuple_element", first, s.types[parts[k]], f"index = {k} : i32")


def number(s: Sketch, element: str) -> str:
    """A constant of a type as MLIR writes it."""
    if element == "i1":
        return s.pick(["true", "false"])
    if element in COMPLEX:
        part = element[8:-1]
        return f"({number(s, part)}, {number(s, part)})"
    if element in INTS:
        bits = int(element.lstrip("ui"))
        low = 0 if element[0] == "u" else -(1 << (bits - 1))
        high = (1 << bits) - 1 if element[0] == "u" else (1 << (bits - 1)) - 1
        return str(s.pick([low, high, 0, 1, s.whole(low, high)]))
    digits = {"bf16": 4, "f16": 4, "f32": 8, "f64": 16}.get(element, 2)
    if element in FLOATS and s.chance(0.3):
        return f"0x{s.rng.getrandbits(4 * digits):0{digits}X}"
    return s.pick(["0.000000e+00", "-0.000000e+00", "1.500000e+00", "-2.5", "1.0e-3", "3.0"])


@family("constant")
def constant(s: Sketch) -> Sequence[str]:
    """Splats, nested lists, hexadecimal digits of all elements."""
    dims, element = s.dims(0, 3), s.element(ANY)
    count = prod(dims)
    if count == 0:
        return [s.constant("", dims, element)]
    if s.chance(0.3):
        return [s.constant(number(s, element), dims, element)]
    bits = 64 if element in COMPLEX else int("".join(c for c in element if c.isdigit())[:2] or 8)
    if element in FLOATS + ["i32", "i64", "ui8", "i8", "ui16"] and s.chance(0.3) and count > 1:
        data = bytes(s.whole(0, 255) for _ in range(count * bits // 8))
        return [s.constant(f'"0x{data.hex().upper()}"', dims, element)]
    words = [number(s, element) for _ in range(count)]
    for d in reversed(dims):
        words = [f"[{', '.join(words[k : k + d])}]" for k in range(0, len(words), d)]
    return [s.constant(words[0], dims, element)]


@family("get_dimension_size")
def get_dimension_size(s: Sketch) -> Sequence[str]:
    dims, element = s.dims(1, 3), s.element(ELEMENTS)
    k = s.whole(0, len(dims) - 1)
    x = s.argument(dims, element)
    return s.op("get_dimension_size", [x], "tensor<i32>", f"dimension = {k} : i64")


@family("set_dimension_size")
def set_dimension_size(s: Sketch) -> Sequence[str]:
    """A vector cut to a size, then summed: what lies beyond must not count."""
    n, element = s.whole(1, 9), s.pick(["f32", "i32", "i64", "f64", "bf16"])
    x, size = s.argument([n], element), s.constant(str(s.whole(0, n)), [], "i32")
    kind = f"tensor<?x{element}, #stablehlo.bounds<{n}>>"
    cut = s.op("set_dimension_size", [x, size], kind, "dimension = 0 : i64")
    cut = s.op(s.pick(["negate", "abs"]), cut, kind)
    zero = s.constant("0" if element[0] == "i" else "0.0", [], element)
    scalar = tensor([], element)
    fold = s.region([scalar, scalar], lambda r: s.op("add", r, scalar))
    total = s.op("reduce", [cut[0], zero], scalar, "dimensions = array<i64: 0>", [fold])
    measured = s.op("get_dimension_size", cut, "tensor<i32>", "dimension = 0 : i64")
    s.is_exact = element[0] == "i"
    return [*total, *measured]


@family("predicates")
def predicates(s: Sketch) -> Sequence[str]:
    """Masks that go through several operations."""
    dims = s.dims(1, 3)
    kind = tensor(dims, PRED[0])
    a, b = s.argument(dims, "i1"), s.argument(dims, "i1")
    made = s.op(s.pick(["and", "or", "xor"]), [a, b], kind)
    made = s.op("not", made, kind)
    to = s.element(NUMBERS)
    return s.op("convert", made, tensor(dims, to))
