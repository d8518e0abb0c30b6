"""Instances of reductions, orders, gathers and scatters."""

from __future__ import annotations

from hloom.interp.draw import ANY, COMPLEX, DRAW, FLOATS, INTEGERS, NUMBERS, Sketch
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.values.window import Window, WindowDimension
from hloom.types import limits
from hloom.types.dtype import S32, DType
from hloom.types.shape import Shape, shape, tuple_shape

_FOLDED = f"{NUMBERS} {COMPLEX} pred"


@DRAW.of("map")
def map_(s: Sketch) -> Instruction:
    x = s.array(NUMBERS, smallest=0)
    y = s.like(x)
    element = shape(x.shape.dtype)
    body = s.computation("mapped", element, element)
    product = body.add("multiply", *body.parameters, shape=element)
    body.root = body.add("subtract", product, body.parameters[0], shape=element)
    return s.add("map", x, y, called=(body,), dimensions=tuple(range(x.shape.rank)))


def _pair_combiner(s: Sketch, first: DType, second: DType) -> Computation:
    """(value, key) pairs: the smaller value wins, of equals the smaller key (as argmin does)."""
    a, b = shape(first), shape(second)
    combiner = s.computation("smaller", a, b, a, b)
    x, i, y, j = combiner.parameters
    less = combiner.add("compare", x, y, direction="LT")
    same = combiner.add("compare", x, y, direction="EQ")
    before = combiner.add("compare", i, j, direction="LE")
    tie = combiner.add("and", same, before)
    first_wins = combiner.add("or", less, tie)
    value = combiner.add("select", first_wins, x, y)
    key = combiner.add("select", first_wins, i, j)
    combiner.root = combiner.add("tuple", value, key)
    return combiner


@DRAW.of("reduce")
def reduce(s: Sketch) -> Instruction:
    if s.chance(0.3):
        x = s.array(f"{FLOATS} {INTEGERS}")
        index = s.like(x, S32)
        starts = [s.constant(limits.max_value(t), shape(t)) for t in (x.shape.dtype, S32)]
        body = _pair_combiner(s, x.shape.dtype, S32)
        return s.add("reduce", x, index, *starts, called=(body,), dimensions=s.some_axes(x))
    x = s.array(_FOLDED, smallest=0)
    body = s.combiner(x.shape.dtype)
    return s.add("reduce", x, s.identity(body), called=(body,), dimensions=s.some_axes(x))


def window(s: Sketch, x: Shape, plain: bool = False) -> Window:
    """A window that fits at least once; without dilation when `plain`."""
    dimensions = []
    for n in x.dims:
        base = 1 if plain or s.chance(0.8) else 2
        spread = 1 if plain or s.chance(0.8) else 2
        low, high = s.integer(0, 1), s.integer(0, 1)
        room = (n - 1) * base + 1 + low + high
        size = s.integer(1, max(1, min(3, (room - 1) // spread + 1)))
        dimensions.append(WindowDimension(size, s.integer(1, 2), low, high, spread, base))
    return Window(tuple(dimensions))


@DRAW.of("reduce-window")
def reduce_window(s: Sketch) -> Instruction:
    x = s.array(NUMBERS)
    body = s.combiner(x.shape.dtype, "add", "maximum", "minimum")
    return s.add("reduce-window", x, s.identity(body), called=(body,), window=window(s, x.shape))


@DRAW.of("select-and-scatter")
def select_and_scatter(s: Sketch) -> Instruction:
    x = s.array(f"{FLOATS} s32", least=1)
    area = window(s, x.shape, plain=True)
    sizes = [d.output_size(n) for d, n in zip(area.dimensions, x.shape.dims)]
    source = s.parameter(shape(x.shape.dtype, sizes))
    element = shape(x.shape.dtype)
    select = s.computation("choose", element, element)
    select.root = select.add("compare", *select.parameters, direction=s.pick(("GE", "LE")))
    scatter = s.combiner(x.shape.dtype, "add")
    return s.add(
        "select-and-scatter", x, source, s.identity(scatter), called=(select, scatter), window=area
    )


@DRAW.of("scan")
def scan(s: Sketch) -> Instruction:
    """A running sum, product or maximum."""
    x = s.array(NUMBERS, least=1)
    axis = s.axis(x)
    rest = shape(x.shape.dtype, [n for d, n in enumerate(x.shape.dims) if d != axis])
    start = s.parameter(rest)
    body = s.computation("step", rest, rest)
    total = body.add(s.pick(("add", "multiply", "maximum")), *body.parameters, shape=rest)
    body.root = body.add("tuple", total, total)
    return s.add(
        "scan",
        x,
        start,
        called=(body,),
        shape=tuple_shape((x.shape, rest)),
        dimensions=(axis,),
        num_carries=1,
        is_reverse=s.chance(),
        is_associative=s.chance(),
    )


@DRAW.of("batch-norm-training")
def batch_norm_training(s: Sketch) -> Instruction:
    x, vector, feature = _features(s)
    parts = [s.parameter(vector) for _ in range(2)]
    return s.add("batch-norm-training", x, *parts, epsilon=0.001, feature_index=feature)


@DRAW.of("batch-norm-inference")
def batch_norm_inference(s: Sketch) -> Instruction:
    x, vector, feature = _features(s)
    parts = [s.parameter(vector) for _ in range(4)]
    return s.add("batch-norm-inference", x, *parts, epsilon=0.001, feature_index=feature)


@DRAW.of("batch-norm-grad")
def batch_norm_grad(s: Sketch) -> Instruction:
    x, vector, feature = _features(s)
    parts = [s.parameter(vector) for _ in range(3)]
    return s.add("batch-norm-grad", x, *parts, s.like(x), epsilon=0.001, feature_index=feature)


def _features(s: Sketch) -> tuple[Instruction, Shape, int]:
    x = s.array("f32 f64", least=2, most=4, smallest=2)
    feature = s.axis(x)
    return x, shape(x.shape.dtype, (x.shape.dims[feature],)), feature


@DRAW.of("sort")
def sort(s: Sketch) -> Instruction:
    keys = s.array(f"{NUMBERS} pred", least=1, largest=6)
    others = [s.like(keys, s.dtype(ANY)) for _ in range(s.integer(0, 2))]
    body = s.comparator(*[x.shape.dtype for x in (keys, *others)])
    # Equal keys of an unstable sort may come in any order, so more than one array is stable.
    return s.add(
        "sort",
        keys,
        *others,
        called=(body,),
        dimensions=(s.axis(keys),),
        is_stable=bool(others) or s.chance(),
    )


@DRAW.of("topk")
def topk(s: Sketch) -> Instruction:
    x = s.array("f32 bf16 s32 u32", least=1, most=2, largest=8)
    k = s.integer(1, x.shape.dims[-1])
    dims = (*x.shape.dims[:-1], k)
    of = tuple_shape((shape(x.shape.dtype, dims), shape(S32, dims)))
    return s.add("topk", x, shape=of, k=k, largest=s.chance(0.7))


def _indexed(s: Sketch, x: Shape, pieces: dict[int, int]):
    """Random dimension numbers for slices of `pieces` sizes (by dimension of x), the batch sizes
    of the indices, and the dimension their vectors lie along."""
    mapped = s.shuffled(s.some(range(x.rank), 1 if x.rank else 0))
    gone = s.some([d for d in sorted(mapped) if pieces[d] == 1])
    batch = s.dims(0, 2)
    if len(mapped) == 1 and s.chance(0.3):
        return mapped, gone, batch, len(batch), list(batch)
    at = s.integer(0, len(batch))
    return mapped, gone, batch, at, [*batch[:at], len(mapped), *batch[at:]]


def _window_dimensions(s: Sketch, windows: int, batch: int) -> tuple[int, ...]:
    """Where the windows' dimensions stand in the result."""
    return s.some(range(windows + batch), windows, windows)


@DRAW.of("gather")
def gather(s: Sketch) -> Instruction:
    x = s.array(ANY, least=1)
    pieces = {d: s.integer(1, n) for d, n in enumerate(x.shape.dims)}
    mapped, gone, batch, vector, sizes = _indexed(s, x.shape, pieces)
    indices = s.parameter(shape(s.dtype("s32 s64 u32"), sizes))
    windows = x.shape.rank - len(gone)
    return s.add(
        "gather",
        x,
        indices,
        offset_dims=_window_dimensions(s, windows, len(batch)),
        collapsed_slice_dims=gone,
        start_index_map=mapped,
        index_vector_dim=vector,
        slice_sizes=tuple(pieces[d] for d in range(x.shape.rank)),
        indices_are_sorted=False,
    )


@DRAW.of("scatter")
def scatter(s: Sketch) -> Instruction:
    """Combines by addition or maximum, which no order of the updates can change for integers."""
    x = s.array(f"{FLOATS} {INTEGERS}", least=1)
    pieces = {d: s.integer(1, n) for d, n in enumerate(x.shape.dims)}
    mapped, gone, batch, vector, sizes = _indexed(s, x.shape, pieces)
    indices = s.parameter(shape(s.dtype("s32 s64 u32"), sizes))
    window_dims = [d for d in range(x.shape.rank) if d not in gone]
    at = _window_dimensions(s, len(window_dims), len(batch))
    rest = iter(batch)
    window_sizes = {place: pieces[d] for place, d in zip(at, window_dims)}
    dims = [
        window_sizes[k] if k in window_sizes else next(rest)
        for k in range(len(window_dims) + len(batch))
    ]
    updates = s.parameter(shape(x.shape.dtype, dims))
    return s.add(
        "scatter",
        x,
        indices,
        updates,
        called=(s.combiner(x.shape.dtype, "add", "maximum"),),
        update_window_dims=at,
        inserted_window_dims=gone,
        scatter_dims_to_operand_dims=mapped,
        index_vector_dim=vector,
    )
