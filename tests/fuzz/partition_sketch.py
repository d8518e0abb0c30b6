"""Random programs with random shardings: a kind of step after the other."""

import random
from math import prod

import numpy as np

import hloom
from hloom.ir.values.sharding import Sharding

MESHES = ((2,), (4,), (2, 2), (8,), (4, 2), (2, 2, 2), (3,), (6,), (2, 3), (4, 4), (8, 4), (4, 8))
SIZES = (1, 2, 3, 4, 4, 5, 6, 8, 8, 12, 16)


class Sketch:
    """One random program, of all kinds of steps or of those that are named."""

    def __init__(self, seed: int, kinds: tuple[str, ...] = ()) -> None:
        self.kinds = [k for k in KINDS if not kinds or k.__name__ in kinds]
        self.random = random.Random(seed)
        self.mesh = self.random.choice(MESHES)
        self.count = prod(self.mesh)
        self.b = hloom.Builder(f"partition_{seed}")
        self.values: list = []
        self.density = self.random.choice((0.2, 0.5, 0.9))

    def dims(self, rank: int) -> tuple[int, ...]:
        return tuple(self.random.choice(SIZES) for _ in range(rank))

    def sharding(self, rank: int) -> Sharding:
        r = self.random
        if rank == 0 or r.random() < 0.1:
            return Sharding("replicated")
        axes = list(range(len(self.mesh)))
        r.shuffle(axes)
        used = axes[: r.randint(1, len(axes))]
        lists: list[list[int]] = [[] for _ in range(rank)]
        for a in used:
            r.choice(lists).append(a)
        rest = [a for a in range(len(self.mesh)) if a not in used]
        order = [a for axes in lists for a in axes] + rest
        devices = np.arange(self.count).reshape(self.mesh).transpose(order).reshape(-1)
        if r.random() < 0.05:
            devices = np.array(r.sample(range(self.count), self.count))
        tiles = [prod(self.mesh[a] for a in axes) for axes in lists]
        copies = prod(self.mesh[a] for a in rest)
        types = ("replicated",) if copies > 1 else ()
        return Sharding.tile((*tiles, *([copies] if types else [])), tuple(devices.tolist()), types)

    def annotate(self, x, always: bool = False):
        if x.shape.is_array and (always or self.random.random() < self.density):
            x.sharding = self.sharding(x.shape.rank)
        return x

    def parameter(self, dims, dtype="f32"):
        text = f"{dtype}[{','.join(map(str, dims))}]"
        x = self.annotate(self.b.parameter(text), always=self.random.random() < 0.8)
        self.values.append(x)
        return x

    def pick(self, rank=None, dtype="f32", least=0):
        fits = [
            x
            for x in self.values
            if x.shape.dtype.name == dtype
            and x.shape.rank >= least
            and (rank is None or x.shape.rank == rank)
        ]
        if not fits or self.random.random() < 0.15:
            n = self.random.randint(max(least, 1), 3) if rank is None else rank
            return self.parameter(self.dims(n), dtype)
        return self.random.choice(fits[-6:])

    def fitting(self, dims):
        """A value of exactly these sizes."""
        same = [
            x for x in self.values if x.shape.dims == tuple(dims) and x.shape.dtype.name == "f32"
        ]
        return self.random.choice(same) if same else self.parameter(dims)

    def indices(self, dims, limit):
        """Whole numbers, a few of them outside."""
        x = self.fitting(dims)
        b = self.b
        scaled = b.multiply(b.sine(x), self.full(float(limit) * 1.2, dims))
        return b.convert(b.abs_(scaled), shape=f"s32[{','.join(map(str, dims))}]")

    def full(self, value, dims):
        scalar = self.b.constant(np.float32(value))
        return self.b.broadcast(scalar, dimensions=(), shape=f"f32[{','.join(map(str, dims))}]")

    def step(self) -> None:
        kind = self.random.choice(self.kinds)
        made = kind(self)
        if made is not None:
            self.annotate(made)
            self.values.append(made)

    def module(self):
        for _ in range(self.random.randint(1, 2)):
            self.parameter(self.dims(self.random.randint(1, 3)))
        for _ in range(self.random.randint(2, 9)):
            self.step()
        ends = [x for x in self.values if not x.users] or self.values[-1:]
        root = self.b.tuple(*ends)
        shardings = [x.sharding or Sharding("replicated") for x in ends]
        root.sharding = Sharding.tuple_of(*shardings)
        module = self.b.build(root)
        module.num_partitions = self.count
        module.use_spmd_partitioning = True
        return module


KINDS: list = []


def kind(make):
    KINDS.append(make)
    return make


@kind
def unary(s):
    return s.b.emit(s.random.choice(("tanh", "negate", "sine", "abs")), s.pick())


@kind
def pair(s):
    x = s.pick()
    return s.b.emit(
        s.random.choice(("add", "subtract", "multiply", "maximum")), x, s.fitting(x.shape.dims)
    )


@kind
def dot(s):
    x = s.pick(least=1)
    k = s.random.randrange(x.shape.rank)
    others = [d for d in range(x.shape.rank) if d != k]
    batch = others[:1] if others and s.random.random() < 0.4 else []
    dims = [x.shape.dims[d] for d in batch]
    n = s.random.choice(SIZES)
    form = s.random.choice(("kn", "nk", "k"))
    rest = {"kn": [x.shape.dims[k], n], "nk": [n, x.shape.dims[k]], "k": [x.shape.dims[k]]}[form]
    y = s.fitting([*dims, *rest])
    at = len(dims) + rest.index(x.shape.dims[k]) if form != "nk" else len(dims) + 1
    return s.b.dot(
        x,
        y,
        lhs_batch_dims=tuple(batch),
        rhs_batch_dims=tuple(range(len(batch))),
        lhs_contracting_dims=(k,),
        rhs_contracting_dims=(at,),
    )


@kind
def reduce(s):
    x = s.pick(least=1)
    over = tuple(sorted(s.random.sample(range(x.shape.rank), s.random.randint(1, x.shape.rank))))
    op = s.random.choice(("add", "maximum", "minimum"))
    start = {"add": s.random.choice((0.0, 1.5)), "maximum": -9.0, "minimum": 9.0}[op]
    c = s.b.scalar(op, "f32")
    return s.b.reduce(x, s.b.constant(np.float32(start)), dimensions=over, to_apply=c)


@kind
def argmax(s):
    x = s.pick(least=1)
    k = s.random.randrange(x.shape.rank)
    inner = s.b.computation("argmax")
    a, ai = inner.parameter("f32[]"), inner.parameter("s32[]")
    c, ci = inner.parameter("f32[]"), inner.parameter("s32[]")
    less = inner.compare(a, c, direction="GT")
    same = inner.and_(inner.compare(a, c, direction="EQ"), inner.compare(ai, ci, direction="LT"))
    first = inner.or_(less, same)
    f = inner.finish(inner.tuple(inner.select(first, a, c), inner.select(first, ai, ci)))
    i = s.b.iota(iota_dimension=k, shape=f"s32[{','.join(map(str, x.shape.dims))}]")
    start = s.b.constant(np.float32(-np.inf)), s.b.constant(np.int32(2147483647))
    r = s.b.reduce(x, i, *start, dimensions=(k,), to_apply=f)
    at = s.b.get_tuple_element(r, index=1)
    return s.b.convert(at, shape=f"f32[{','.join(map(str, at.shape.dims))}]")


@kind
def transpose(s):
    x = s.pick(least=2)
    order = list(range(x.shape.rank))
    s.random.shuffle(order)
    return s.b.transpose(x, dimensions=tuple(order))


@kind
def reshape(s):
    x = s.pick(least=1)
    left, dims = x.shape.size, []
    while left > 1 and len(dims) < 3:
        divisors = [d for d in range(2, left + 1) if left % d == 0]
        dims.append(s.random.choice(divisors))
        left //= dims[-1]
    if left > 1:
        dims.append(left)
    if s.random.random() < 0.3:
        dims.insert(s.random.randint(0, len(dims)), 1)
    return s.b.reshape(x, shape=f"f32[{','.join(map(str, dims))}]")


@kind
def broadcast(s):
    x = s.pick()
    dims = list(x.shape.dims)
    at = s.random.randint(0, len(dims))
    dims.insert(at, s.random.choice(SIZES))
    if prod(dims) > 4096:
        return None
    kept = tuple(k for k in range(len(dims)) if k != at)
    return s.b.broadcast(x, dimensions=kept, shape=f"f32[{','.join(map(str, dims))}]")


@kind
def iota(s):
    dims = s.dims(s.random.randint(1, 3))
    k = s.random.randrange(len(dims))
    return s.b.iota(iota_dimension=k, shape=f"f32[{','.join(map(str, dims))}]")


@kind
def constant(s):
    dims = s.dims(2)
    return s.b.constant(np.arange(prod(dims), dtype=np.float32).reshape(dims) / 7)


@kind
def slice_(s):
    from hloom.ir.values.slices import Slices

    x = s.pick(least=1)
    ranges = []
    for n in x.shape.dims:
        if s.random.random() < 0.4:
            ranges.append((0, n, 1))
            continue
        a = s.random.randint(0, n - 1)
        ranges.append((a, s.random.randint(a + 1, n), s.random.choice((1, 1, 1, 2, 3))))
    return s.b.slice(x, slice=Slices.of(*ranges))


@kind
def pad(s):
    from hloom.ir.values.padding import Padding

    x = s.pick(least=1)
    dims = []
    for n in x.shape.dims:
        low, high = (s.random.randint(-min(1, n - 1), 4), s.random.randint(0, 4))
        dims.append(
            (0, 0, 0) if s.random.random() < 0.5 else (low, high, s.random.choice((0, 0, 1)))
        )
    return s.b.pad(x, s.b.constant(np.float32(0.5)), padding=Padding.of(*dims))


@kind
def concatenate(s):
    x = s.pick(least=1)
    k = s.random.randrange(x.shape.rank)
    dims = list(x.shape.dims)
    dims[k] = s.random.choice(SIZES)
    parts = [x, s.fitting(dims)] + ([x] if s.random.random() < 0.3 else [])
    return s.b.concatenate(*parts, dimensions=(k,))


@kind
def reverse(s):
    x = s.pick(least=1)
    some = s.random.sample(range(x.shape.rank), s.random.randint(1, x.shape.rank))
    return s.b.reverse(x, dimensions=tuple(sorted(some)))


@kind
def dynamic_slice(s):
    x = s.pick(least=1)
    starts = [s.b.convert(s.pick(rank=0), shape="s32[]") for _ in x.shape.dims]
    sizes = tuple(n if s.random.random() < 0.5 else s.random.randint(1, n) for n in x.shape.dims)
    return s.b.dynamic_slice(x, *starts, dynamic_slice_sizes=sizes)


@kind
def dynamic_update_slice(s):
    x = s.pick(least=1)
    starts = [s.b.convert(s.pick(rank=0), shape="s32[]") for _ in x.shape.dims]
    sizes = [n if s.random.random() < 0.5 else s.random.randint(1, n) for n in x.shape.dims]
    return s.b.dynamic_update_slice(x, s.fitting(sizes), *starts)


@kind
def gather(s):
    x = s.pick(rank=2)
    rows = s.dims(s.random.randint(1, 2))
    i = s.indices(rows, x.shape.dims[0])
    return s.b.gather(
        x,
        i,
        offset_dims=(len(rows),),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
        index_vector_dim=len(rows),
        slice_sizes=(1, x.shape.dims[1]),
    )


@kind
def scatter(s):
    x = s.pick(rank=2)
    rows = s.dims(1)
    i = s.indices(rows, x.shape.dims[0])
    return s.b.scatter(
        x,
        i,
        s.fitting((*rows, x.shape.dims[1])),
        update_window_dims=(1,),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
        to_apply=s.b.scalar(s.random.choice(("add", "maximum")), "f32"),
    )


@kind
def sort(s):
    x = s.pick(least=1)
    inner = s.b.computation("less")
    a, b = inner.parameter("f32[]"), inner.parameter("f32[]")
    less = inner.finish(inner.compare(a, b, direction="LT"))
    k = s.random.randrange(x.shape.rank)
    return s.b.sort(x, dimensions=(k,), to_apply=less)
