"""Instances of control flow, async halves, calls out, transfers and collectives.

Collectives are drawn for one device or for several: `replica_count` and `num_partitions` of the
module say which, and `evaluate_lockstep` runs them.
"""

from __future__ import annotations

from hloom.interp.draw import ANY, DRAW, FLOATS, INTEGERS, NUMBERS, Sketch
from hloom.ir.instruction import Instruction
from hloom.ir.values.domain import Domain
from hloom.ir.values.groups import IotaReplicaGroups, ReplicaGroups
from hloom.ir.values.sharding import MANUAL, REPLICATED
from hloom.types.dtype import PRED, S32, U32
from hloom.types.literal import Literal
from hloom.types.shape import TOKEN_SHAPE, Shape, shape, tuple_shape

CONTEXT = shape(U32)


@DRAW.of("call")
def call(s: Sketch) -> Instruction:
    x = s.array(ANY)
    return s.add("call", x, called=(s.mapped(x.shape),))


@DRAW.of("fusion")
def fusion(s: Sketch) -> Instruction:
    x = s.array(NUMBERS)
    y = s.like(x)
    body = s.computation("fused", x.shape, y.shape)
    product = body.add("multiply", *body.parameters)
    body.root = body.add("add", product, body.parameters[1])
    return s.add("fusion", x, y, called=(body,), kind="kLoop")


@DRAW.of("while")
def while_(s: Sketch) -> Instruction:
    """A counted loop over a tuple; sometimes the bound is in the state."""
    x = s.array(NUMBERS)
    count = s.constant(0, shape(S32))
    limit = s.integer(0, 4)
    state = s.add("tuple", count, x)
    body = s.computation("body", state.shape)
    k = body.add("get-tuple-element", body.parameters[0], index=0)
    value = body.add("get-tuple-element", body.parameters[0], index=1)
    one = body.add("constant", shape=shape(S32), literal=_number(1))
    after = body.add("add", k, one)
    body.root = body.add("tuple", after, body.add(s.pick(("add", "maximum")), value, value))
    condition = s.computation("condition", state.shape)
    k = condition.add("get-tuple-element", condition.parameters[0], index=0)
    end = condition.add("constant", shape=shape(S32), literal=_number(limit))
    condition.root = condition.add("compare", k, end, direction="LT")
    return s.add("while", state, called=(condition, body))


def _number(value: int) -> Literal:
    return Literal.of(value, shape(S32))


@DRAW.of("conditional")
def conditional(s: Sketch) -> Instruction:
    x = s.array(NUMBERS)
    count = s.integer(1, 3)
    by_predicate = count == 2 and s.chance()
    selector = s.scalar(PRED if by_predicate else S32)
    branches, inputs = [], []
    for _ in range(count):
        branches.append(s.mapped(x.shape))
        inputs.append(x if s.chance() else s.like(x))
    return s.add("conditional", selector, *inputs, called=tuple(branches))


@DRAW.of("opt-barrier")
def opt_barrier(s: Sketch) -> Instruction:
    return s.add("opt-barrier", s.add("tuple", s.array(ANY), s.array(ANY)))


@DRAW.of("add-dependency")
def add_dependency(s: Sketch) -> Instruction:
    return s.add("add-dependency", s.array(ANY), s.token())


@DRAW.of("after-all")
def after_all(s: Sketch) -> Instruction:
    tokens = [s.token() for _ in range(s.integer(0, 3))]
    return s.add("after-all", *tokens)


@DRAW.of("domain")
def domain(s: Sketch) -> Instruction:
    return s.add("domain", s.array(ANY), domain=Domain(REPLICATED, MANUAL))


@DRAW.of("custom-call")
def custom_call(s: Sketch) -> Instruction:
    """One of the targets every evaluator knows."""
    x = s.array(FLOATS, least=1, most=2)
    target = s.pick(("Sharding", "MoveToHost", "TopK"))
    of = x.shape
    if target == "TopK":
        dims = (*of.dims[:-1], s.integer(1, of.dims[-1]))
        of = tuple_shape((shape(of.dtype, dims), shape(S32, dims)))
    return s.add("custom-call", x, shape=of, custom_call_target=target)


# -- two halves


def _started(s: Sketch) -> Instruction:
    x = s.array(ANY)
    of = tuple_shape((tuple_shape((x.shape,)), x.shape, shape(S32)))
    return s.add("async-start", x, called=(s.mapped(x.shape),), shape=of)


@DRAW.of("async-start", "async-done")
def async_done(s: Sketch) -> Instruction:
    return s.add("async-done", _started(s))


@DRAW.of("async-update")
def async_update(s: Sketch) -> Instruction:
    return s.add("async-done", s.add("async-update", _started(s)))


@DRAW.of("copy-start", "copy-done")
def copy_done(s: Sketch) -> Instruction:
    x = s.array(ANY)
    start = s.add("copy-start", x, shape=tuple_shape((x.shape, x.shape, CONTEXT)))
    return s.add("copy-done", start)


# -- transfers


@DRAW.of("infeed")
def infeed(s: Sketch) -> Instruction:
    """Reads what `EvalOptions.infeed` has to give."""
    data = shape(s.dtype(ANY), s.dims())
    return s.add("infeed", s.token(), shape=tuple_shape((data, TOKEN_SHAPE)))


@DRAW.of("outfeed")
def outfeed(s: Sketch) -> Instruction:
    x = s.array(ANY)
    declared = x.shape.with_default_layouts()
    return s.add("outfeed", x, s.token(), outfeed_shape=declared)


@DRAW.of("send", "send-done", "recv", "recv-done")
def transfer(s: Sketch) -> Instruction:
    """A value sent to the host and back, or to the device itself."""
    x, token = s.array(ANY), s.token()
    host = {"is_host_transfer": s.chance()}
    channel = {"channel_id": s.integer(1, 9)}
    sent = s.add("send-done", s.add("send", x, token, **channel, **host), **channel, **host)
    of = tuple_shape((x.shape, CONTEXT, TOKEN_SHAPE))
    received = s.add("recv", sent, shape=of, **channel, **host)
    done = s.add("recv-done", received, **channel, **host)
    return s.add("get-tuple-element", done, index=0)


# -- collectives


@DRAW.of("partition-id", "replica-id")
def device_id(s: Sketch) -> Instruction:
    s.module.replica_count, s.module.num_partitions = s.integer(1, 2), s.integer(1, 2)
    r = s.add("replica-id", shape=CONTEXT)
    return s.add("tuple", r, s.add("partition-id", shape=CONTEXT))


def _devices(s: Sketch) -> tuple[int, dict[str, object]]:
    """How many devices a group has, and the attributes of the group.

    Replicas without a channel, or partitions with one.
    """
    count = s.pick((1, 2, 4))
    size = s.pick([n for n in (1, 2, 4) if count % n == 0])
    attributes: dict[str, object] = {}
    if s.chance():
        s.module.replica_count = count
    else:
        s.module.num_partitions = count
        attributes["channel_id"] = s.integer(1, 5)
    if size < count or s.chance():
        rows = tuple(tuple(range(k, k + size)) for k in range(0, count, size))
        iota = IotaReplicaGroups(count // size, size, (count,))
        attributes["replica_groups"] = iota if s.chance(0.3) else ReplicaGroups(rows)
    return size, attributes


def _reducing(s: Sketch) -> tuple[int, dict[str, object]]:
    """As `_devices` for what also takes global ids: partitions are named by those."""
    size, attributes = _devices(s)
    if "channel_id" in attributes:
        attributes["use_global_device_ids"] = True
        if "replica_groups" not in attributes:
            attributes["replica_groups"] = ReplicaGroups((tuple(range(size)),))
    return size, attributes


def _inputs(s: Sketch, types: str = NUMBERS) -> list[Instruction]:
    x = s.array(types, least=1)
    return [x] if s.chance(0.7) else [x, s.like(x)]


def _bundle(shapes: list[Shape]) -> Shape:
    return shapes[0] if len(shapes) == 1 else tuple_shape(shapes)


def _with_size(x: Shape, axis: int, size: int) -> Shape:
    dims = list(x.dims)
    dims[axis] = size
    return shape(x.dtype, dims)


@DRAW.of("all-reduce")
def all_reduce(s: Sketch) -> Instruction:
    _, attributes = _reducing(s)
    inputs = _inputs(s)
    body = s.combiner(inputs[0].shape.dtype, "add", "maximum", "minimum", "multiply")
    return s.add("all-reduce", *inputs, called=(body,), **attributes)


@DRAW.of("all-reduce-start", "all-reduce-done")
def all_reduce_done(s: Sketch) -> Instruction:
    _, attributes = _reducing(s)
    inputs = _inputs(s)
    body = s.combiner(inputs[0].shape.dtype, "add", "maximum")
    start = s.add("all-reduce-start", *inputs, called=(body,), **attributes)
    return s.add("all-reduce-done", start)


@DRAW.of("reduce-scatter")
def reduce_scatter(s: Sketch) -> Instruction:
    size, attributes = _reducing(s)
    part = shape(s.dtype(f"{FLOATS} {INTEGERS}"), s.dims(1))
    axis = s.integer(0, part.rank - 1)
    x = s.parameter(_with_size(part, axis, part.dims[axis] * size))
    body = s.combiner(part.dtype, "add", "maximum")
    return s.add("reduce-scatter", x, called=(body,), shape=part, dimensions=(axis,), **attributes)


@DRAW.of("all-gather")
def all_gather(s: Sketch) -> Instruction:
    size, attributes = _reducing(s)
    inputs = _inputs(s, ANY)
    axis = s.axis(inputs[0])
    results = [_with_size(x.shape, axis, x.shape.dims[axis] * size) for x in inputs]
    return s.add("all-gather", *inputs, shape=_bundle(results), dimensions=(axis,), **attributes)


@DRAW.of("all-gather-start", "all-gather-done")
def all_gather_done(s: Sketch) -> Instruction:
    size, attributes = _reducing(s)
    inputs = _inputs(s, ANY)
    axis = s.axis(inputs[0])
    results = [_with_size(x.shape, axis, x.shape.dims[axis] * size) for x in inputs]
    of = tuple_shape((_bundle([x.shape for x in inputs]), _bundle(results)))
    start = s.add("all-gather-start", *inputs, shape=of, dimensions=(axis,), **attributes)
    return s.add("all-gather-done", start, shape=of.elements[1])


@DRAW.of("all-to-all")
def all_to_all(s: Sketch) -> Instruction:
    size, attributes = _devices(s)
    x = s.array(ANY, least=1)
    if s.chance():
        inputs = [x, *(s.like(x) for _ in range(size - 1))]
        of = tuple_shape(y.shape for y in inputs)
        return s.add("all-to-all", *inputs, shape=of, **attributes)
    axis = s.axis(x)
    whole = s.parameter(_with_size(x.shape, axis, x.shape.dims[axis] * size))
    return s.add("all-to-all", whole, shape=whole.shape, dimensions=(axis,), **attributes)


@DRAW.of("collective-broadcast")
def collective_broadcast(s: Sketch) -> Instruction:
    _, attributes = _devices(s)
    count = max(s.module.replica_count, s.module.num_partitions)
    attributes.setdefault("replica_groups", ReplicaGroups((tuple(range(count)),)))
    return s.add("collective-broadcast", s.array(ANY), **attributes)


@DRAW.of("collective-reduce")
def collective_reduce(s: Sketch) -> Instruction:
    _, attributes = _reducing(s)
    inputs = _inputs(s)
    body = s.combiner(inputs[0].shape.dtype, "add", "maximum")
    return s.add("collective-reduce", *inputs, called=(body,), **attributes)


def _permuting(s: Sketch) -> dict[str, object]:
    _, attributes = _devices(s)
    attributes.pop("replica_groups", None)
    count = max(s.module.replica_count, s.module.num_partitions)
    order = s.shuffled(range(count))
    pairs = [(k, order[k]) for k in range(count)]
    return {**attributes, "source_target_pairs": s.some(pairs, 1)}


@DRAW.of("collective-permute")
def collective_permute(s: Sketch) -> Instruction:
    attributes = _permuting(s)
    if s.chance(0.7):
        return s.add("collective-permute", *_inputs(s, ANY), **attributes)
    x = s.array(NUMBERS, least=1, most=2)
    out = s.like(x)
    sizes = tuple(s.integer(1, n) for n in x.shape.dims)
    starts = [
        s.add(
            "tuple",
            *[s.constant(s.integer(0, n - m), shape(S32)) for n, m in zip(x.shape.dims, sizes)],
        )
        for _ in range(2)
    ]
    return s.add("collective-permute", x, out, *starts, slice_sizes=(sizes,), **attributes)


@DRAW.of("collective-permute-start", "collective-permute-done")
def collective_permute_done(s: Sketch) -> Instruction:
    attributes = _permuting(s)
    x = s.array(ANY)
    of = tuple_shape((x.shape, x.shape, CONTEXT, CONTEXT))
    start = s.add("collective-permute-start", x, shape=of, **attributes)
    return s.add("collective-permute-done", start)


@DRAW.of("ragged-all-to-all")
def ragged_all_to_all(s: Sketch) -> Instruction:
    """Every device sends one row to each of its group, to the row of its own number."""
    size, attributes = _devices(s)
    rest = s.dims(0, 2)
    dtype = s.dtype(NUMBERS)
    x = s.parameter(shape(dtype, (size + s.integer(0, 2), *rest)))
    out = s.parameter(shape(dtype, (size + s.integer(0, 2), *rest)))
    vector = shape(S32, (size,))
    rows = s.add("iota", shape=vector, iota_dimension=0)
    ones = s.constant([1] * size, vector)
    own = s.add("partition-id" if "channel_id" in attributes else "replica-id", shape=CONTEXT)
    place = s.add("remainder", own, s.constant(size, CONTEXT))
    target = s.add("broadcast", s.add("convert", place, shape=shape(S32)), shape=vector)
    return s.add("ragged-all-to-all", x, out, rows, ones, target, ones, **attributes)
