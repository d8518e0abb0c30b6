"""Which elements of its operands an instruction reads, as maps over the steps of a kernel.

A kernel runs over an iteration space: a few numbered dimensions. What it reads of a value is one
expression for each dimension of the value, a row of mixed-radix digits: the atom `(k, stride, n)`
is `space[k] // stride % n`. Reshapes regroup digits, transposes permute expressions, broadcasts
drop them; so maps of values that are reached on different ways are equal exactly when they are
seen to read the same elements, and a map is its own memo key. What is no digit (a slice's offset,
a gather's index) becomes an opaque atom: a negative number that stands for "this function of that
map", the same number wherever the same function is met.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from hloom.ir.instruction import Instruction

Atom = tuple[int, int, int]
Expression = tuple[Atom, ...]
IndexMap = tuple[Expression, ...]
SCALAR: IndexMap = ()


class Space:
    """The dimensions a kernel runs over, outermost first, and the opaque atoms met in it."""

    __slots__ = ("_components", "_numbers", "opaques", "sizes", "steps")

    def __init__(self, sizes: Sequence[int] = ()) -> None:
        self.sizes: list[int] = []
        self.steps: list[int] = []
        """`steps[k]`: how many steps the dimensions up to `k` make."""
        self.opaques: list[tuple[int, float]] = []
        """For each opaque atom the innermost dimension it depends on, and the share of steps at
        which it is asked (a concatenation asks each operand for its part)."""
        self._numbers: dict[Hashable, int] = {}
        self._components: set[int] = set()
        for n in sizes:
            self.append(n)

    def append(self, size: int) -> Expression:
        """Add an innermost dimension; return the expression that is its index."""
        if size == 1:
            return ()
        self.steps.append(size * (self.steps[-1] if self.steps else 1))
        self.sizes.append(size)
        return ((len(self.sizes) - 1, 1, size),)

    def opaque(self, function: Hashable, of: IndexMap, size: int, share: float = 1.0) -> Expression:
        """The atom that is `function` of a map, below `size`; one atom for equal questions."""
        if size == 1:
            return ()
        key = (function, of, size)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.opaques)
            self.opaques.append((self.innermost(of), share * self.share(of)))
        return ((~number, 1, size),)

    def component(self, of: IndexMap, size: int) -> Expression:
        """The atom that is every component of an index in turn, each asked for by itself."""
        component = self.opaque("component", of, size)
        self._components.update([~k for k, _, _ in component])
        return component

    def is_component(self, expression: Expression) -> bool:
        """Whether it is such an atom."""
        return len(expression) == 1 and ~expression[0][0] in self._components

    def innermost(self, map_: IndexMap) -> int:
        """The innermost dimension a map depends on; -1 for none."""
        deepest = -1
        for expression in map_:
            for k, _, _ in expression:
                at = k if k >= 0 else self.opaques[~k][0]
                if at > deepest:
                    deepest = at
        return deepest

    def is_lanes(self, map_: IndexMap) -> bool:
        """Whether neighbours along the innermost dimension, which are lanes of one vector, ask for
        different elements: masks leave out what is not asked for, but no work."""
        return self.innermost(map_) == len(self.sizes) - 1

    def share(self, map_: IndexMap) -> float:
        """At which part of the steps a map is asked, at most."""
        least = 1.0
        for expression in map_:
            for k, _, _ in expression:
                if k < 0 and self.opaques[~k][1] < least:
                    least = self.opaques[~k][1]
        return least

    def evaluations(self, map_: IndexMap) -> float:
        """How often a kernel evaluates a value at this map when it hoists out of inner loops what
        they do not change."""
        at = self.innermost(map_)
        return self.steps[at] * self.share(map_) if at >= 0 else 1.0


def flat(map_: IndexMap) -> Expression:
    """The digits of the whole index, neighbours that are one digit together as one."""
    return merged([atom for expression in map_ for atom in expression])


def merged(atoms: Sequence[Atom]) -> Expression:
    """Digits that stand side by side and make one larger digit, as that digit."""
    if len(atoms) < 2:
        return tuple(atoms)
    out = [atoms[0]]
    for atom in atoms[1:]:
        k, stride, n = out[-1]
        if k == atom[0] and stride == atom[1] * atom[2]:
            out[-1] = (k, atom[1], n * atom[2])
        else:
            out.append(atom)
    return tuple(out)


def regrouped(atoms: Sequence[Atom], sizes: Sequence[int]) -> IndexMap | None:
    """The digits dealt out to dimensions of these sizes, row-major; None when a boundary falls
    inside a digit that it does not divide."""
    rest = list(reversed(atoms))
    out: list[Expression] = []
    for need in sizes:
        digits: list[Atom] = []
        while need > 1:
            if not rest:
                return None
            k, stride, n = rest.pop()
            if need % n == 0:
                digits.append((k, stride, n))
                need //= n
            elif n % need == 0:
                below = n // need
                digits.append((k, stride * below, need))
                rest.append((k, stride, below))
                need = 1
            else:
                return None
        out.append(merged(digits))
    return tuple(out) if not rest else None


def is_opaque(map_: IndexMap) -> bool:
    """Whether some part of it is no digit of the space."""
    return any(k < 0 for expression in map_ for k, _, _ in expression)


def is_in_order(map_: IndexMap) -> bool:
    """Whether it takes whole dimensions of the space in their order, some perhaps left out."""
    last = (-1, 0, 0)
    for k, stride, n in flat(map_):
        if k < 0 or k < last[0] or (k == last[0] and stride >= last[1]):
            return False
        last = (k, stride, n)
    return True


def operand_maps(i: Instruction, map_: IndexMap, space: Space) -> Sequence[IndexMap]:
    """For each operand what is read of it when the result is wanted at `map_`.

    For operations that read one element of each operand an element; KeyError for others.
    """
    return _MAPS.get(i.opcode, _elementwise)(i, map_, space)


def _elementwise(i: Instruction, map_: IndexMap, space: Space) -> Sequence[IndexMap]:
    rank = len(map_)
    return [map_ if len(x.shape.dims) == rank else SCALAR for x in i.operands]


def _broadcast(i: Instruction, map_: IndexMap, space: Space) -> Sequence[IndexMap]:
    return (tuple([map_[d] for d in i.attrs.dimensions]),)


def _transpose(i: Instruction, map_: IndexMap, space: Space) -> Sequence[IndexMap]:
    out: list[Expression] = [()] * len(map_)
    for k, d in enumerate(i.attrs.dimensions):
        out[d] = map_[k]
    return (tuple(out),)


def _reshape(i: Instruction, map_: IndexMap, space: Space) -> Sequence[IndexMap]:
    return (reshaped(map_, i.operands[0].shape.dims, space),)


def reshaped(map_: IndexMap, dims: Sequence[int], space: Space) -> IndexMap:
    """The map of a row-major reshape's operand of these dims; opaque where digits do not fit."""
    regrouped_map = regrouped([atom for expression in map_ for atom in expression], dims)
    if regrouped_map is None:
        whole = (flat(map_),)
        regrouped_map = tuple(
            [space.opaque(("reshape", tuple(dims), k), whole, n) for k, n in enumerate(dims)]
        )
    return regrouped_map


def _bitcast_convert(i: Instruction, map_: IndexMap, space: Space) -> Sequence[IndexMap]:
    """Parts of an element, or all the parts that make one."""
    x = i.operands[0].shape.dims
    if len(x) <= len(map_):
        return (map_[: len(x)],)
    return ((*map_, space.opaque("parts", (), x[-1])),)


def _slice(i: Instruction, map_: IndexMap, space: Space) -> Sequence[IndexMap]:
    dims = i.operands[0].shape.dims
    out = list(map_)
    for k, cut in enumerate(i.attrs.slice.dimensions):
        if (cut.start, cut.limit, cut.stride) != (0, dims[k], 1):
            part = (map_[k],)
            out[k] = space.opaque(("slice", cut.start, cut.stride), part, dims[k])
    return (tuple(out),)


def _dynamic_slice(i: Instruction, map_: IndexMap, space: Space) -> Sequence[IndexMap]:
    dims, sizes = i.operands[0].shape.dims, i.attrs.dynamic_slice_sizes
    starts = i.operands[1:]
    out = list(map_)
    for k, n in enumerate(sizes):
        if n != dims[k]:
            # One vector holds all starts, or each is a scalar.
            vector = len(starts) == 1 and starts[0].shape.rank == 1
            start = ("start", starts[0].id, k, n) if vector else ("start", starts[k].id, n)
            out[k] = space.opaque(start, (map_[k],), dims[k])
    return (tuple(out), *_starts(starts, space))


def _starts(starts: Sequence[Instruction], space: Space) -> list[IndexMap]:
    """Where scalar starts, or one vector of them, are read."""
    if len(starts) == 1 and starts[0].shape.rank == 1:
        return [(space.component((), starts[0].shape.dims[0]),)]
    return [SCALAR] * len(starts)


def _pad(i: Instruction, map_: IndexMap, space: Space) -> Sequence[IndexMap]:
    dims = i.operands[0].shape.dims
    out = list(map_)
    for k, p in enumerate(i.attrs.padding.dimensions):
        if p.edge_padding_low or p.edge_padding_high or p.interior_padding:
            share = min(1.0, dims[k] / max(1, i.shape.dims[k]))
            if p.interior_padding and space.is_lanes((map_[k],)):
                share = 1.0
            key = ("pad", p.edge_padding_low, p.interior_padding)
            out[k] = space.opaque(key, (map_[k],), dims[k], share)
    return (tuple(out), SCALAR)


def _reverse(i: Instruction, map_: IndexMap, space: Space) -> Sequence[IndexMap]:
    out = list(map_)
    for d in i.attrs.dimensions:
        out[d] = space.opaque("reverse", (map_[d],), i.shape.dims[d])
    return (tuple(out),)


def _concatenate(i: Instruction, map_: IndexMap, space: Space) -> Sequence[IndexMap]:
    d = i.attrs.dimensions[0]
    total = i.shape.dims[d]
    maps, at = [], 0
    everywhere = space.is_component(map_[d])
    for x in i.operands:
        n = x.shape.dims[d]
        out = list(map_)
        out[d] = space.opaque(("part", at), (map_[d],), n, 1.0 if everywhere else n / total)
        if n == 1 and map_[d] and not everywhere:  # asked for at one step of this dimension
            out[d] = space.opaque(("part", at), (map_[d],), 2, 1 / total)
        maps.append(tuple(out))
        at += n
    return maps


def _gather(i: Instruction, map_: IndexMap, space: Space) -> Sequence[IndexMap]:
    x, indices = i.operands[0].shape.dims, i.operands[1].shape.dims
    a = i.attrs
    batch = [e for k, e in enumerate(map_) if k not in a.offset_dims]
    at: list[Expression] = []
    for k, n in enumerate(indices):
        if k == a.index_vector_dim:
            at.append(space.component(tuple(batch), n))
        else:
            at.append(batch.pop(0) if batch else ())
    where = ("gather", i.operands[1].id, a)
    read = tuple([space.opaque((where, k), map_, n) for k, n in enumerate(x)])
    return (read, tuple(at))


def _dynamic_update_slice(i: Instruction, map_: IndexMap, space: Space) -> Sequence[IndexMap]:
    """Of the updated part only: `map_` is that of the update."""
    return (SCALAR, map_, *_starts(i.operands[2:], space))


_MAPS: dict[str, Callable[[Instruction, IndexMap, Space], Sequence[IndexMap]]] = {
    "bitcast": _reshape,
    "bitcast-convert": _bitcast_convert,
    "broadcast": _broadcast,
    "concatenate": _concatenate,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "gather": _gather,
    "pad": _pad,
    "reshape": _reshape,
    "reverse": _reverse,
    "slice": _slice,
    "transpose": _transpose,
}
