"""Loops, branches, calls, and regions that read values from around them."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz.stablehlo.sketch import FLOATS, INTS, Sketch, array, family, tensor

ELEMENTS = ["f32", "f64", "i32", "i64", "bf16", "ui8", "i8"]
LESS = "comparison_direction = #stablehlo<comparison_direction LT>"


def outer_values(s: Sketch, dims: Sequence[int], element: str) -> list[str]:
    """Values around a region: an argument, something computed of it, a constant."""
    kind = tensor(dims, element)
    x = s.argument(dims, element)
    y = s.op("negate", [x], kind)[0]
    c = s.constant("2" if element in INTS else "2.0", dims, element)
    return s.rng.sample([x, y, c], s.whole(1, 3))


def mixed(s: Sketch, parts: Sequence[str], kind: str) -> str:
    """Some values combined."""
    made = parts[0]
    for x in parts[1:]:
        made = s.op(s.pick(["add", "maximum", "subtract", "minimum"]), [made, x], kind)[0]
    return made


@family("while")
def while_(s: Sketch) -> Sequence[str]:
    """A counter and perhaps values, with captures in condition and body, perhaps nested."""
    dims, element = s.dims(0, 2), s.pick(ELEMENTS)
    kind, counter = tensor(dims, element), "tensor<i32>"
    start = s.constant("0", [], "i32")
    limit = s.op("negate", [s.op("negate", [s.constant("3", [], "i32")], counter)[0]], counter)[0]
    if s.chance(0.5):  # known only at run time
        limit = s.op("clamp", [start, s.argument([], "i32"), limit], counter)[0]
    outer = outer_values(s, dims, element)
    state = [s.argument(dims, element) for _ in range(s.whole(0, 2))]
    kinds = [counter, *[kind] * len(state)]
    s.is_exact = element in INTS

    def condition(r: list[str]) -> list[str]:
        return s.op("compare", [r[0], limit], "tensor<i1>", LESS)

    def body(r: list[str]) -> list[str]:
        one = s.constant("1", [], "i32")
        made = s.op("add", [r[0], one], counter)
        values = [mixed(s, [x, *s.rng.sample(outer, s.whole(0, len(outer)))], kind) for x in r[1:]]
        if values and s.chance(0.3):
            values[0] = branch(s, r[0], [values[0], *outer], kind)
        if len(values) == 2 and s.chance(0.5):
            values.reverse()
        return made + values

    regions = [s.region(kinds, condition), s.region(kinds, body)]
    return s.op("while", [start, *state], kinds, "", regions)


def branch(s: Sketch, index: str, values: Sequence[str], kind: str) -> str:
    """A case whose branches read values from around them."""
    regions = [
        s.region([], lambda r, k=k: [mixed(s, values[: k + 1], kind)])
        for k in range(min(len(values), s.whole(1, 3)))
    ]
    return s.op("case", [index], kind, "", regions)[0]


@family("case")
def case(s: Sketch) -> Sequence[str]:
    """Also with an index outside of the branches, and several results."""
    dims, element = s.dims(0, 2), s.pick(ELEMENTS)
    kind = tensor(dims, element)
    outer = outer_values(s, dims, element)
    index, results = s.argument([], "i32"), s.whole(1, 2)
    regions = [
        s.region(
            [],
            lambda r: [
                mixed(s, s.rng.sample(outer, s.whole(1, len(outer))), kind) for _ in range(results)
            ],
        )
        for _ in range(s.whole(1, 4))
    ]
    return s.op("case", [index], [kind] * results, "", regions)


@family("if")
def if_(s: Sketch) -> Sequence[str]:
    dims, element = s.dims(0, 2), s.pick(ELEMENTS)
    kind = tensor(dims, element)
    outer = outer_values(s, dims, element)
    which = s.argument([], "i1")

    def inner(r: list[str]) -> list[str]:
        deeper = [s.region([], lambda r: [mixed(s, outer, kind)]) for _ in range(2)]
        return s.op("if", [which], kind, "", deeper)

    regions = [s.region([], inner), s.region([], lambda r: [outer[-1]])]
    if s.chance(0.5):
        regions.reverse()
    return s.op("if", [which], kind, "", regions)


@family("captured_loop_in_fold")
def captured_in_fold(s: Sketch) -> Sequence[str]:
    """A region on elements that reads scalars from outside, inside of a loop that captures."""
    element, n = s.pick(["f32", "i32", "i64"]), s.whole(1, 9)
    scalar, kind = tensor([], element), tensor([n], element)
    s.is_exact = element in INTS
    x, bound = s.argument([n], element), s.argument([], element)
    zero = s.constant("0" if element in INTS else "0.0", [], element)
    start, limit = s.constant("0", [], "i32"), s.constant("3", [], "i32")

    def fold(r: list[str]) -> list[str]:
        most = s.op("minimum", [r[1], bound], scalar)
        return s.op("maximum", [r[0], *most], scalar)

    def mapped(r: list[str]) -> list[str]:
        return s.op("maximum", [r[0], bound], scalar)

    def body(r: list[str]) -> list[str]:
        region = s.region([scalar, scalar], fold)
        total = s.op("reduce", [r[1], zero], scalar, "dimensions = array<i64: 0>", [region])
        inner = s.region([scalar], mapped)
        values = s.op("map", [r[1]], kind, "dimensions = array<i64: 0>", [inner])
        whole = s.op("broadcast_in_dim", total, kind, "broadcast_dimensions = array<i64>")
        values = s.op("subtract", values + whole, kind)
        return s.op("add", [r[0], s.constant("1", [], "i32")], "tensor<i32>") + values

    kinds = ["tensor<i32>", kind]
    regions = [
        s.region(kinds, lambda r: s.op("compare", [r[0], limit], "tensor<i1>", LESS)),
        s.region(kinds, body),
    ]
    return s.op("while", [start, x], kinds, "", regions)[1:]


def scalar_of(s: Sketch, values: str, m: int, element: str) -> str:
    """A scalar computed of a vector: its least element, or its last."""
    scalar = tensor([], element)
    if s.chance(0.5):
        zero = s.constant("0" if element in INTS else "0.0", [], element)
        inner = s.region([scalar, scalar], lambda q: s.op("minimum", q, scalar))
        values = s.op("abs", [values], tensor([m], element))[0]
        return s.op("reduce", [values, zero], scalar, "dimensions = array<i64: 0>", [inner])[0]
    attributes = (
        f"start_indices = {array([m - 1])}, limit_indices = {array([m])}, strides = {array([1])}"
    )
    last = s.op("slice", [values], tensor([1], element), attributes)
    return s.op("reshape", last, scalar)[0]


@family("captured_array")
def captured_array(s: Sketch) -> Sequence[str]:
    """A region on elements that reads an array from outside."""
    element, n, m = s.pick(["f32", "i32", "i64", "bf16"]), s.whole(1, 9), s.whole(1, 5)
    scalar, kind = tensor([], element), tensor([n], element)
    s.is_exact = element in INTS
    x, outer = s.argument([n], element), s.argument([m], element)
    zero = s.constant("0" if element in INTS else "0.0", [], element)
    form = s.pick(["reduce", "map", "sort", "scatter", "reduce_window"])
    if form == "map":
        inside = s.region(
            [scalar], lambda r: s.op("add", [r[0], scalar_of(s, outer, m, element)], scalar)
        )
        return s.op("map", [x], kind, "dimensions = array<i64: 0>", [inside])
    if form == "sort":

        def before(r: list[str]) -> list[str]:
            most = s.op("maximum", [r[0], scalar_of(s, outer, m, element)], scalar)
            return s.op("compare", [*most, r[1]], "tensor<i1>", LESS)

        inside = s.region([scalar, scalar], before)
        return s.op("sort", [x], kind, "dimension = 0 : i64, is_stable = true", [inside])

    def fold(r: list[str]) -> list[str]:
        most = s.op("maximum", r, scalar)
        return s.op("minimum", [*most, scalar_of(s, outer, m, element)], scalar)

    inside = s.region([scalar, scalar], fold)
    if form == "reduce":
        return s.op("reduce", [x, zero], scalar, "dimensions = array<i64: 0>", [inside])
    if form == "reduce_window":
        attributes = "window_dimensions = array<i64: 1>"
        return s.op("reduce_window", [x, zero], kind, attributes, [inside])
    numbers = (
        "update_window_dims = [], inserted_window_dims = [0], "
        "scatter_dims_to_operand_dims = [0], index_vector_dim = 1"
    )
    parts = [x, s.argument([3, 1], "i32"), s.argument([3], element)]
    attributes = f"scatter_dimension_numbers = #stablehlo.scatter<{numbers}>"
    return s.op("scatter", parts, kind, attributes, [inside])


def add_function(s: Sketch, name: str, kinds: Sequence[str], body) -> None:
    """A private function of arguments of these types."""
    outside, s.lines = s.lines, []
    names = [s.name("a") for _ in kinds]
    s.types.update(zip(names, kinds, strict=True))
    returned = list(body(names))
    of = ", ".join(s.types[x] for x in returned)
    head = ", ".join(f"{n}: {t}" for n, t in zip(names, kinds, strict=True))
    lines, s.lines = "\n  ".join(s.lines), outside
    s.functions.append(
        f"func.func private @{name}({head}) -> ({of}) {{\n  {lines}\n  return "
        f"{', '.join(returned)} : {of}\n}}"
    )


@family("call")
def call(s: Sketch) -> Sequence[str]:
    """Functions that call others, several times, of none to two results."""
    dims, element = s.dims(0, 2), s.pick(ELEMENTS)
    kind = tensor(dims, element)
    s.is_exact = element in INTS
    add_function(s, "inner", [kind, kind], lambda a: [mixed(s, a, kind)])

    def outer(a: list[str]) -> list[str]:
        x = s.op("func.call", [a[0], a[0]], kind, "callee = @inner")
        return s.op("func.call", [*x, a[0]], kind, "callee = @inner") + [a[0]]

    add_function(s, "outer", [kind], outer)
    x = s.argument(dims, element)
    made = s.op("func.call", [x], [kind, kind], "callee = @outer")
    return s.op("func.call", [made[0]], [kind, kind], "callee = @outer") + made


@family("composite")
def composite(s: Sketch) -> Sequence[str]:
    dims, element = s.dims(0, 2), s.pick(ELEMENTS)
    kind = tensor(dims, element)
    s.is_exact = element in INTS
    add_function(s, "inside", [kind, kind], lambda a: [mixed(s, a, kind)])
    attributes = (
        'name = "my.op", decomposition = @inside, version = 1 : i32, '
        'composite_attributes = {axis = 1 : i64, words = ["a", "b"], nested = {x = 1.5 : f32}}'
    )
    parts = [s.argument(dims, element), s.argument(dims, element)]
    return s.op("composite", parts, kind, attributes)


@family("optimization_barrier")
def optimization_barrier(s: Sketch) -> Sequence[str]:
    count = s.whole(1, 3)
    parts = [s.argument(s.dims(0, 2), s.pick(ELEMENTS)) for _ in range(count)]
    return s.op("optimization_barrier", parts, [s.types[x] for x in parts])


@family("tokens")
def tokens(s: Sketch) -> Sequence[str]:
    """after_all and create_token, through a loop."""
    token = "!stablehlo.token"
    a, b = s.op("create_token", [], token)[0], s.op("after_all", [], token)[0]
    both = s.op("after_all", [a, b], token)[0]
    start, limit = s.constant("0", [], "i32"), s.argument([], "i32")
    three = s.constant("3", [], "i32")
    limit = s.op("minimum", [limit, three], "tensor<i32>")[0]
    kinds = ["tensor<i32>", token]
    condition = s.region(kinds, lambda r: s.op("compare", [r[0], limit], "tensor<i1>", LESS))

    def body(r: list[str]) -> list[str]:
        one = s.constant("1", [], "i32")
        return s.op("add", [r[0], one], "tensor<i32>") + s.op("after_all", [r[1], a], token)

    return s.op("while", [start, both], kinds, "", [condition, s.region(kinds, body)])[:1]


@family("select_and_scatter_captured", "collective_captured")
def captured_elsewhere(s: Sketch, name: str) -> Sequence[str]:
    """Scalars read by regions that have no elements to spare for them."""
    element = s.pick(FLOATS[2:])
    scalar = tensor([], element)
    s.is_exact = False
    outer = s.argument([], element)

    def scaled(r: list[str]) -> list[str]:
        made = s.op("add", r, scalar)
        return s.op("maximum", [*made, outer], scalar)

    fold = s.region([scalar, scalar], scaled)
    x = s.argument([4], element)
    if name == "collective_captured":
        return s.op(
            "all_reduce",
            [x],
            tensor([4], element),
            "replica_groups = dense<0> : tensor<1x1xi64>",
            [fold],
        )
    select = s.region([scalar, scalar], lambda r: s.op("compare", r, "tensor<i1>", LESS))
    parts = [x, s.argument([2], element), s.constant("0.0", [], element)]
    attributes = "window_dimensions = array<i64: 2>, window_strides = array<i64: 2>"
    return s.op("select_and_scatter", parts, tensor([4], element), attributes, [select, fold])
