"""What a drawn kernel does: one recipe for each sort of op, among which the body of a kernel and
those of its loops are picked."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from hloom.interp.draw_kernel import KernelSketch, Scope
from hloom.ir.elementwise import BINARY, UNARY
from hloom.kernel.attributes import DIRECTIONS
from hloom.kernel.kernel import TileType, Value
from hloom.kernel.verify_ops import ADMITS, CLASS
from hloom.types.dtype import ARRAY_TYPES, PRED, DType

EXACT_OF_FLOATS = frozenset(
    """abs ceil floor negate round-nearest-afz round-nearest-even sign sqrt is-finite real imag add
    subtract multiply divide maximum minimum remainder complex""".split()
)
EXACT_OF_COMPLEX = frozenset("negate real imag add subtract".split())
DEEPEST = 2
"""How deep loops nest."""


def body(s: KernelSketch, count: int, depth: int) -> None:
    """Some ops, then stores of some of what they made."""
    start = len(s.scope.exact), len(s.scope.loose)
    for _ in range(count):
        if depth < DEEPEST and s.chance(0.12):
            s.pick((loop, repeat, branch))(s, depth)
        else:
            s.pick(RECIPES)(s)
    fresh = s.scope.exact[start[0] :] + s.scope.loose[start[1] :]
    for value in fresh[-1:] + [x for x in fresh[:-1] if s.chance(0.3)][:4]:
        s.stored(value)


def slack(dtype: DType, steps: int = 1) -> float:
    """How far two right results may be apart, relative to the largest of a tile."""
    bits = (dtype.component if dtype.is_complex else dtype).mantissa_bits
    return (2 * steps if bits <= 10 else 16 * steps) * 2.0**-bits


def admitted(opcode: str, x: DType) -> bool:
    """Whether an opcode takes a type; parts of complex numbers are f32 or f64."""
    if opcode == "complex":
        return x.name in ("f32", "f64")
    return CLASS[x] in ADMITS[opcode]


def elementwise(s: KernelSketch) -> None:
    opcodes = sorted(UNARY) if s.chance(0.4) else sorted(BINARY)
    opcode = s.pick(opcodes)
    x = s.exact(lambda t: admitted(opcode, t))
    if x is None:
        return
    dtype = x.dtype
    exact = not (dtype.is_floating or dtype.is_complex)
    exact |= opcode in (EXACT_OF_COMPLEX if dtype.is_complex else EXACT_OF_FLOATS)
    if opcode in UNARY:
        result = PRED if opcode == "is-finite" else dtype
        if opcode in ("real", "imag", "abs"):
            result = dtype.component
        result_value = s.b.unary(opcode, x, result)
    else:
        y = s.like(x.type)
        if opcode.startswith("shift") and s.chance(0.5):
            y = s.b.constant(dtype, s.integer(0, min(7, dtype.bits - 1) // 2), x.shape)
        from_parts = {"f32": "c64", "f64": "c128"}
        result = _named(from_parts[dtype.name]) if opcode == "complex" else dtype
        result_value = s.b.binary(opcode, x, y, result)
    s.remembered(result_value, 0.0 if exact else slack(dtype))


def _named(name: str) -> DType:
    return next(t for t in ARRAY_TYPES if t.name == name)


def without_nan(s: KernelSketch, x: Value) -> Value:
    """x with 0 or 1 for NaN, whose bits are nobody's promise."""
    if not (x.dtype.is_floating and x.dtype.has_nan):
        return x
    return s.b.select(s.b.compare("EQ", x, x), x, s.b.constant(x.dtype, 1.0, x.shape))


def compare(s: KernelSketch) -> None:
    x = s.pick(s.scope.exact)
    y = s.like(x.type)
    order = ""
    if x.dtype.is_floating and s.chance(0.3):
        x, y, order = without_nan(s, x), without_nan(s, y), "total"
    direction = s.pick(("EQ", "NE") if x.dtype.is_complex else DIRECTIONS)
    s.remembered(s.b.compare(direction, x, y, order))


def select(s: KernelSketch) -> None:
    x = s.any_tile()
    same = [y for y in [*s.scope.exact, *s.scope.loose] if y.type == x.type]
    y = s.pick(same)
    mask = s.like(TileType(PRED, x.shape))
    s.remembered(s.b.select(mask, x, y), max(s.tolerance.get(v, 0.0) for v in (x, y)))


def clamp(s: KernelSketch) -> None:
    x = s.exact(lambda t: not t.is_complex)
    if x is not None:
        s.remembered(s.b.add("clamp", (s.like(x.type), x, s.like(x.type)), x.type))


def convert(s: KernelSketch) -> None:
    x = s.pick(s.scope.exact)
    dtype = s.pick(s.dtypes) if s.chance(0.5) else s.pick(ARRAY_TYPES)
    s.remembered(s.b.convert(x, dtype))


def bitcast(s: KernelSketch) -> None:
    x = s.exact(lambda t: not t.is_pred)
    if x is None:
        return
    same = [t for t in ARRAY_TYPES if t.bits == x.dtype.bits and not (t.is_pred or t.is_complex)]
    if x.dtype.is_complex or not same:
        return
    dtype = s.pick(same)
    s.remembered(s.b.unary("bitcast-convert", without_nan(s, x), dtype))


def reduce_precision(s: KernelSketch) -> None:
    x = s.exact(lambda t: t.is_floating)
    if x is not None:
        attrs = {"exponent_bits": s.integer(1, 9), "mantissa_bits": s.integer(0, 24)}
        s.remembered(s.b.add("reduce-precision", (x,), x.type, attrs))


def move(s: KernelSketch) -> None:
    """broadcast, reshape, transpose, slice or concatenate."""
    x, b = s.any_tile(), s.b
    shape, rank = x.shape, len(x.shape)
    kind = s.integer(0, 4)
    moved = x
    if kind == 0 and rank:
        axis = s.integer(0, rank - 1)
        thin = b.slice(x, axis, s.integer(0, shape[axis] - 1), 1) if s.chance(0.5) else x
        moved = b.broadcast(thin, shape if thin is not x else (s.integer(1, 3), *shape))
    elif kind == 1:
        parts = [k for k in range(1, prod(shape) + 1) if prod(shape) % k == 0]
        inner = s.pick(parts)
        moved = b.reshape(x, s.pick(((prod(shape) // inner, inner), (prod(shape),))))
    elif kind == 2 and rank:
        moved = b.transpose(x, tuple(int(k) for k in s.rng.permutation(rank)))
    elif kind == 3 and rank:
        axis = s.integer(0, rank - 1)
        start = s.integer(0, shape[axis] - 1)
        moved = b.slice(x, axis, start, s.integer(1, shape[axis] - start))
    elif kind == 4 and rank:
        axis = s.integer(0, rank - 1)
        part = b.slice(x, axis, 0, s.integer(1, shape[axis]))
        moved = b.concatenate([x, part] if s.chance(0.5) else [part, x], axis)
    if prod(moved.shape) <= 256:
        s.remembered(moved, s.tolerance.get(x, 0.0))


def tame(s: KernelSketch, x: Value) -> Value:
    """x between 0.5 and 2, so that sums and products in any order are close to each other."""
    if not x.dtype.is_floating:
        return x
    half, two = (s.b.constant(x.dtype, v, x.shape) for v in (0.5, 2.0))
    return s.b.add("clamp", (half, s.b.unary("abs", x), two), x.type)


def fold(s: KernelSketch) -> None:
    """reduce or scan."""
    kind = s.pick(("add", "multiply", "minimum", "maximum", "and", "or", "xor"))
    x = s.exact(lambda t: CLASS[t] in ADMITS[kind])
    if x is None or not x.shape:
        return
    loose = CLASS[x.dtype] in "fc" and kind in ("add", "multiply")
    if loose and (x.dtype.bits < 16 or (x.dtype.is_complex and kind == "multiply")):
        return
    axis = s.integer(0, len(x.shape) - 1)
    if loose:
        x = tame(s, x)
    folded = s.b.reduce(x, axis, kind) if s.chance(0.6) else s.b.scan(x, axis, kind, s.chance(0.5))
    s.remembered(folded, slack(x.dtype, x.shape[axis]) if loose else 0.0)


def dot(s: KernelSketch) -> None:
    x = s.exact(lambda t: CLASS[t] in "ifc" and t.bits >= 8 and not t.is_fp8)
    if x is None:
        return
    m, k, n = s.integer(1, 5), s.integer(1, 9), s.pick((1, 3, 4, 8, 16, 17))
    kin = [t for t in s.dtypes if CLASS[t] == CLASS[x.dtype] and not t.is_complex]
    a_type, b_type = (s.pick([x.dtype, *kin]) for _ in range(2))
    wide = x.dtype
    a, b = (tame(s, s.like(TileType(t, d))) for t, d in ((a_type, (m, k)), (b_type, (k, n))))
    acc = tame(s, s.like(TileType(wide, (m, n))))
    loose = CLASS[wide] != "i"
    s.remembered(s.b.dot(acc, a, b), slack(wide, k + 2) if loose else 0.0)


def fma(s: KernelSketch) -> None:
    x = s.exact(lambda t: t.is_floating and t.bits >= 16)
    if x is not None:
        x, y, z = (tame(s, v) for v in (x, s.like(x.type), s.like(x.type)))
        s.remembered(s.b.fma(x, y, z), slack(x.dtype))


# -- control


def inside(
    s: KernelSketch, arguments: list[Value], loose: list[Value], index: tuple | None
) -> Scope:
    """Enter a block whose arguments are known in it; the scope to go back to."""
    outer = s.scope
    indices = outer.indices + ([index] if index else [])
    s.scope = Scope([*outer.exact, *arguments], [*outer.loose, *loose], indices)
    return outer


def another(s: KernelSketch, value: Value) -> Value:
    """An exact tile of the same type, computed from the value where that is easy."""
    if CLASS[value.dtype] in ADMITS["add"] and s.chance(0.6):
        return s.b.binary("add", value, s.like(value.type))
    return s.like(value.type)


def loop(s: KernelSketch, depth: int) -> None:
    """A for with static bounds, or an upper one that depends on the step."""
    low, trips, step = s.integer(0, 2), s.integer(0, 3), s.integer(1, 3)
    high: Value = s.b.index(low + trips * step - s.integer(0, step - 1 if trips else 0))
    if s.scope.indices and s.chance(0.3):
        index, extent = s.pick(s.scope.indices)
        high, trips = index, max(0, -(-(extent - 1 - low) // step))
    inits = [s.pick(s.scope.exact) for _ in range(s.integer(0, 2))]

    def write(at: Value, *carried: Value) -> list[Value]:
        b = s.b
        number = b.binary("divide", b.binary("subtract", at, b.index(low)), b.index(step))
        outer = inside(s, [*carried, at], [], (number, max(trips, 1)))
        body(s, s.integer(1, 4), depth + 1)
        results = [another(s, x) for x in carried]
        s.scope = outer
        return results

    for total in s.b.for_(low, high, step, inits, write):
        s.remembered(total)


def repeat(s: KernelSketch, depth: int) -> None:
    """A while that counts to at most three."""
    init = s.pick(s.scope.exact)
    most = s.integer(0, 3)
    start = s.b.index(0)
    limit = s.b.index(most)

    def condition(count: Value, carried: Value) -> Value:
        return s.b.compare("LT", count, limit)

    def write(count: Value, carried: Value) -> list[Value]:
        outer = inside(s, [carried, count], [], (count, max(most, 1)))
        body(s, s.integer(1, 3), depth + 1)
        results = [s.b.binary("add", count, s.b.index(1)), another(s, carried)]
        s.scope = outer
        return results

    for total in s.b.while_([start, init], condition, write):
        s.remembered(total)


def branch(s: KernelSketch, depth: int) -> None:
    """An if on an exact pred."""
    if s.scope.indices and s.chance(0.7):
        index, extent = s.pick(s.scope.indices)
        pred = s.b.compare(s.pick(DIRECTIONS), index, s.b.index(extent // 2))
    else:
        pred = s.like(TileType(PRED))
    like = s.pick(s.scope.exact)

    def write() -> list[Value]:
        outer = inside(s, [], [], None)
        body(s, s.integer(0, 3), depth + 1)
        results = [s.like(like.type)]
        s.scope = outer
        return results

    for chosen in s.b.if_(pred, write, write):
        s.remembered(chosen)


RECIPES: list[Callable[[KernelSketch], None]] = [
    *[elementwise] * 12,
    *[move] * 5,
    *[convert] * 4,
    *[fold] * 4,
    *[compare] * 2,
    *[select] * 2,
    bitcast,
    clamp,
    dot,
    dot,
    fma,
    reduce_precision,
    KernelSketch.gathered,
    KernelSketch.scattered,
    KernelSketch.scratch,
]
