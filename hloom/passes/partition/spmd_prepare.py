"""Sums over what is joined along a cut dimension, written as sums over each part.

Where arrays are joined along a dimension that devices share, each device's part of the whole lies
in another place than its parts of the arrays: elements have to be sent. What is summed over that
dimension does not ask where they lie. So a reduction of joined arrays becomes reductions of each,
put together; a product that contracts two arrays joined at the same places becomes a sum of
products; a scatter of joined updates becomes one scatter after the other.
"""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.ir.values.sharding import Sharding
from hloom.passes.collectives.dot_parts import dot_of_parts
from hloom.passes.collectives.groups import binary_opcode, sole_reader
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.expand.scan_expander import NEUTRAL, identity
from hloom.passes.pass_ import register
from hloom.types.shape import Shape


@register
class SpmdPrepare(Expander):
    """Write sums over arrays that are joined along a cut dimension as sums over each of them."""

    name = "spmd-prepare"
    opcodes = frozenset(["reduce", "dot", "scatter"])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        if i.has_control_edges or not i.shape.is_array or i.shape.is_dynamic:
            return None
        match i.opcode:
            case "reduce":
                return _reduced(b, i)
            case "dot":
                return _multiplied(b, i)
        return _scattered(b, i)


def _reduced(b: Expansion, i: Instruction) -> Instruction | None:
    x, init = i.operands
    opcode = binary_opcode(i.called[0])
    d = _joined_along(x, i)
    if d not in i.attrs.dimensions or opcode not in NEUTRAL:
        return None
    total: Instruction | None = None
    for part in x.operands:
        start = init if total is None else identity(b, opcode, init.shape.dtype)
        one = b.emit("reduce", part, start, dimensions=i.attrs.dimensions, called=i.called)
        total = one if total is None else b.emit(opcode, total, one)
    return total


def _multiplied(b: Expansion, i: Instruction) -> Instruction | None:
    x, y = i.operands
    a = i.attrs
    if x.opcode != "concatenate" or y.opcode != "concatenate" or x is y:
        return None
    (d,), (e,) = x.attrs.dimensions, y.attrs.dimensions
    pairs = list(zip(a.lhs_contracting_dims, a.rhs_contracting_dims))
    is_cut = None not in (_joined_along(x, i), _joined_along(y, i))
    if (d, e) not in pairs or not is_cut or getattr(a, "sparsity", None):
        return None
    sizes = [o.shape.dims[d] for o in x.operands], [o.shape.dims[e] for o in y.operands]
    if sizes[0] != sizes[1]:
        return None
    total: Instruction | None = None
    for parts in zip(x.operands, y.operands):
        one = dot_of_parts(b, i, parts, i.shape.dtype)
        total = one if total is None else b.add(total, one)
    return total


def _scattered(b: Expansion, i: Instruction) -> Instruction | None:
    """In the order of the parts, so that any combination of updates stays what it was."""
    if len(i.operands) != 3:
        return None
    out, indices, updates = i.operands
    a = i.attrs
    d, e = _joined_along(indices, i), _joined_along(updates, i)
    if d is None or e is None or d == a.index_vector_dim or e in a.update_window_dims:
        return None
    counted = [k for k in range(indices.shape.rank) if k != a.index_vector_dim]
    scattered = [k for k in range(updates.shape.rank) if k not in a.update_window_dims]
    sizes = [o.shape.dims[d] for o in indices.operands]
    if counted.index(d) != scattered.index(e) or d in a.scatter_indices_batching_dims:
        return None
    if sizes != [o.shape.dims[e] for o in updates.operands]:
        return None
    named = {f.name: getattr(a, f.name) for f in i.op.fields}
    for at, values in zip(indices.operands, updates.operands):
        out = b.emit("scatter", out, at, values, called=i.called, shape=i.shape, **named)
    return out


def _joined_along(x: Instruction, reader: Instruction) -> int | None:
    """The cut dimension along which arrays are joined for one reader; None where there is none."""
    if x.opcode != "concatenate" or len(x.operands) < 2 or sole_reader(x) is not reader:
        return None
    (d,) = x.attrs.dimensions
    known = [(o.shape, o.sharding) for o in (x, *x.operands)]
    return d if any(_is_cut(of, s, d) for of, s in known) else None


def _is_cut(of: Shape, sharding: Sharding | None, d: int) -> bool:
    tiled = sharding.tiled() if sharding is not None and not sharding.is_tuple else None
    if tiled is None or tiled.kind != "tiled" or of.dims[d] < 2:
        return False
    return tiled.tile_sizes(of.dims)[d] < of.dims[d]
