"""Steps of random sharded programs: windows, convolutions, loops, branches, calls."""

import numpy as np

from hloom.ir.values.slices import Slices
from tests.fuzz.partition_sketch import kind


@kind
def reduce_window(s):
    from hloom.ir.values.window import Window, WindowDimension

    x = s.pick(least=1)
    dims = []
    for n in x.shape.dims:
        if s.random.random() < 0.5:
            dims.append(WindowDimension(1))
            continue
        size = s.random.randint(1, min(n, 4))
        dims.append(
            WindowDimension(
                size,
                s.random.choice((1, 1, 2, size)),
                s.random.randint(0, size - 1),
                s.random.randint(0, size - 1),
            )
        )
    c = s.b.scalar("add", "f32")
    return s.b.reduce_window(x, s.b.constant(np.float32(0)), window=Window(tuple(dims)), to_apply=c)


@kind
def select_and_scatter(s):
    from hloom.ir.values.window import Window, WindowDimension

    x = s.pick(least=1)
    dims = []
    for n in x.shape.dims:
        size = s.random.randint(1, min(n, 3))
        low, high = [s.random.choice((0, 0, size - 1)) for _ in range(2)]
        dims.append(WindowDimension(size, s.random.choice((1, 2, size)), low, high))
    source = s.fitting([w.output_size(n) for w, n in zip(dims, x.shape.dims)])
    inner = s.b.computation("select")
    choice = inner.finish(
        inner.compare(inner.parameter("f32[]"), inner.parameter("f32[]"), direction="GE")
    )
    return s.b.select_and_scatter(
        x,
        source,
        s.b.constant(np.float32(0)),
        window=Window(tuple(dims)),
        select=choice,
        scatter=s.b.scalar("add", "f32"),
    )


@kind
def rotation(s):
    x = s.pick(least=1)
    d = s.random.randrange(x.shape.rank)
    n = x.shape.dims[d]
    at = s.random.randint(0, n)
    ends = [(0, k, 1) for k in x.shape.dims]
    tail, head = list(ends), list(ends)
    tail[d], head[d] = (at, n, 1), (0, at, 1)
    parts = [s.b.slice(x, slice=Slices.of(*r)) for r in (tail, head)]
    return s.b.concatenate(*parts, dimensions=(d,))


@kind
def convolution(s):
    from hloom.ir.text.cursor import Cursor
    from hloom.ir.values.conv_dims import parse_conv_dims
    from hloom.ir.values.window import Window, WindowDimension

    r = s.random
    groups = r.choice((1, 1, 2, 4))
    ci, co = r.choice((1, 2, 4)), r.choice((1, 2, 3))
    n, size, k = r.choice((1, 2, 4, 6)), r.choice((4, 5, 8)), r.choice((1, 2, 3))
    batch_groups = 1
    if groups > 1 and r.random() < 0.3:
        batch_groups, groups = groups, 1
    x = s.fitting((n * batch_groups, size, ci * groups))
    w = s.fitting((k, ci, co * groups * batch_groups))
    window = Window(
        (WindowDimension(k, r.choice((1, 2)), r.randint(0, k - 1), r.randint(0, k - 1)),)
    )
    return s.b.convolution(
        x,
        w,
        window=window,
        dim_labels=parse_conv_dims(Cursor("b0f_0io->b0f")),
        feature_group_count=groups,
        batch_group_count=batch_groups,
    )


@kind
def loop(s):
    x, y = s.pick(), s.pick()
    shape = f"(s32[], {x.shape.text_without_layout}, {y.shape.text_without_layout})"
    test = s.b.computation("test")
    t = test.parameter(shape)
    k = test.get_tuple_element(t, index=0)
    condition = test.finish(test.compare(k, test.constant(np.int32(3)), direction="LT"))
    body = s.b.computation("body")
    t = body.parameter(shape)
    k, a, b = [body.get_tuple_element(t, index=n) for n in range(3)]
    changed = s.annotate(body.tanh(a))
    turned = s.annotate(body.sine(b))
    if x.shape.dims == y.shape.dims:
        changed, turned = turned, changed
    end = body.finish(body.tuple(body.add(k, body.constant(np.int32(1))), changed, turned))
    start = s.b.tuple(s.b.constant(np.int32(0)), x, y)
    done = s.b.while_(start, condition=condition, body=end)
    return s.b.get_tuple_element(done, index=s.random.choice((1, 2)))


@kind
def conditional(s):
    x = s.pick()
    shape = x.shape.text_without_layout
    branches = []
    for opcode in ("tanh", "negate"):
        inner = s.b.computation(opcode)
        branches.append(inner.finish(s.annotate(inner.emit(opcode, inner.parameter(shape)))))
    for c in branches:
        c.root.sharding = None
    total = s.b.reduce(
        x,
        s.b.constant(np.float32(0)),
        dimensions=tuple(range(x.shape.rank)),
        to_apply=s.b.scalar("add", "f32"),
    )
    which = s.b.compare(total, s.b.constant(np.float32(0)), direction="GT")
    number = s.b.convert(which, shape="s32[]")
    return s.b.conditional(number, x, x, branch_computations=branches)


@kind
def call(s):
    x = s.pick()
    inner = s.b.computation("callee")
    c = inner.finish(inner.tanh(s.annotate(inner.parameter(x.shape.text_without_layout))))
    once = s.annotate(s.b.call(x, to_apply=c))
    return s.b.call(once, to_apply=c)
