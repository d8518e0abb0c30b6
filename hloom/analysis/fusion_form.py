"""The form of a fusion: what it runs over, what its values are read at, and what may still join.

A form starts with the results of a fusion and takes in producers one by one, readers first; each
`admit` either takes an instruction in or returns why it cannot. The same code plans fusions and
reads back what a finished one is (`form_of`), so planner and code generator agree by construction.

Kinds:

* `loop`: results of one shape, every value evaluated at indices of it;
* `row`: results over `[rows..., columns...]` or over `[rows...]`, with reduces over exactly the
  columns, innermost in memory;
* `column`: results over what is kept, reduces of one input shape over other than innermost
  dimensions;
* `output`: results over the shape of one dot or convolution, `anchor`; what is read by the anchor
  has a space of its own for each operand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from hloom.analysis.fusible import (
    ALONE,
    ANCHOR,
    FOLD,
    POINT,
    UPDATE,
    dot_flops,
    feeds_reduce,
    fold_pattern,
    reduces_minor,
    role,
    squeezed,
)
from hloom.analysis.fusion_buffers import buffer_key, same_slice
from hloom.analysis.indexing import (
    SCALAR,
    Expression,
    IndexMap,
    Space,
    flat,
    is_in_order,
    is_opaque,
    operand_maps,
    regrouped,
)
from hloom.device.costs import Costs
from hloom.ir.instruction import Instruction

LOOP, ROW, COLUMN, OUTPUT = "loop", "row", "column", "output"
MAX_MAPS = 16
"""At how many different indices one value may be evaluated: filters of 3 by 3 and 4 by 4. Costs say
whether it should be."""
READS_TARGET = "it reads a buffer that it writes in place"
NO_PROLOGUE = "a gather or concatenate is not read by a dot"
EPILOGUE = "what reads a dot stays in its order"


class Roles(dict[Instruction, tuple[str, str]]):
    """What each instruction can be, as far as it was asked; shared by the forms of a plan."""

    inner_flops = Costs().inner_product_flops
    """The most of a dot that is evaluated inside a loop."""


class Form:
    """One fusion in the making."""

    __slots__ = (
        "accesses",
        "anchor",
        "columns",
        "dots",
        "kind",
        "lead",
        "members",
        "outer",
        "pattern",
        "prologue",
        "roles",
        "roots",
        "space",
        "targets",
        "waiting",
    )

    def __init__(self, roots: Sequence[Instruction], roles: Roles | None = None) -> None:
        self.roles = Roles() if roles is None else roles
        self.roots: dict[Instruction, None] = dict.fromkeys(roots)
        self.members: dict[Instruction, None] = {}
        self.accesses: dict[Instruction, dict[IndexMap, None]] = {}
        """Where each value that is read (or is a result) is evaluated; members and inputs."""
        self.kind = LOOP
        widest = max((iteration_dims(r) for r in roots), key=prod)
        self.space = Space(widest)
        self.outer = len(self.space.sizes)
        """How many dimensions the results span."""
        self.lead = self.outer
        """How many of them are rows (row), kept (column); all in a loop."""
        self.columns: tuple[int, ...] = ()
        self.pattern: tuple[tuple[int, ...], tuple[int, ...]] | None = None
        """Input dimensions and reduced dimensions of a column fusion's reduces."""
        self.anchor: Instruction | None = None
        self.dots = 0
        self.prologue: dict[Instruction, int] = {}
        """What the anchor reads, directly or not, and through which of its operands."""
        self.targets: dict[object, Instruction] = {}
        """Buffers written in place, and the update that does it."""
        self.waiting: dict[Instruction, int] = {}
        """Results over rows only, and how many dimensions they take to be rows."""

    # -- results

    def start(self) -> str | None:
        """Give every result its map; why not, when they do not share an iteration space."""
        if any(0 in iteration_dims(r) for r in self.roots):
            return "it has no elements"
        digits = self._digits(self.outer)
        for r in self.roots:
            dims = iteration_dims(r)
            map_ = regrouped(digits, dims)
            if map_ is None:
                for lead in range(self.outer):
                    map_ = regrouped(digits[:lead], dims)
                    if map_ is not None:
                        self.waiting[r] = lead
                        break
                else:
                    return "results of another shape"
            self.accesses.setdefault(r, {})[map_] = None
            if r.opcode == "dynamic-update-slice":
                key = buffer_key(r.operands[0])
                if key in self.targets:
                    return "two updates of one buffer"
                self.targets[key] = r
        return None

    def finish(self) -> str | None:
        """Why the whole is no fusion, when it is none."""
        for lead in self.waiting.values():
            if self.kind != ROW or lead != self.lead:
                return "results of another shape"
        if self.targets:
            return self._hazard()
        return None

    def _digits(self, count: int) -> list[tuple[int, int, int]]:
        return [(k, 1, n) for k, n in enumerate(self.space.sizes[:count])]

    # -- members

    def role(self, p: Instruction) -> tuple[str, str]:
        """What `p` can be, and why nothing."""
        known_role = self.roles.get(p)
        if known_role is None:
            known_role = self.roles[p] = role(p)
        return known_role

    def refuses(self, p: Instruction) -> str | None:
        """Why an instruction of which all readers in here are known cannot join; None: it can.

        Changes nothing.
        """
        kind, why = self.role(p)
        if kind == ALONE:
            return why
        maps = self.accesses.get(p)
        if maps is None:
            return "nothing in the fusion reads it"
        if self.targets and (why := self._refuses_reader(p, maps)):
            return why
        if kind == POINT:
            if len(maps) > MAX_MAPS:
                return "read at too many different indices"
            return self._refuses_point(p, maps) if self.kind == OUTPUT else None
        if kind == UPDATE:
            return None if p in self.roots else "an update in place is a result"
        if len(maps) != 1:
            return "read at different indices"
        if kind == FOLD:
            return self._refuses_fold(p, next(iter(maps)))
        return self._refuses_anchor(p, next(iter(maps)))

    def admit(self, p: Instruction) -> str | None:
        """Take an instruction in, or say why not."""
        why = self.refuses(p)
        if why is not None:
            return why
        kind = self.role(p)[0]
        maps = list(self.accesses[p])
        if kind == FOLD:
            self._fold(p, maps[0])
        elif kind == ANCHOR and not self._is_inner(p):
            self._lead_anchor(p)
        elif kind == ANCHOR:
            self._inner_dot(p, maps[0])
        else:
            below = self.prologue.get(p)
            for m in maps:
                for x, read in zip(p.operands, operand_maps(p, m, self.space)):
                    if kind == UPDATE and x is p.operands[0]:
                        continue
                    self.accesses.setdefault(x, {})[read] = None
                    if below is not None:
                        self.prologue[x] = below
        self.members[p] = None
        return None

    def inputs(self) -> list[Instruction]:
        """What is read from memory, targets of updates included."""
        read = [x for x in self.accesses if x not in self.members]
        known = set(read)
        for r in self.targets.values():
            if r.operands[0] not in known:
                read.append(r.operands[0])
        return read

    # -- reduces

    def _refuses_fold(self, p: Instruction, m: IndexMap) -> str | None:
        if self.kind == OUTPUT:
            return "a reduce beside a dot"
        if p.shape.is_tuple and (p not in self.roots or len(self.roots) > 1):
            return "a reduce of several values is a result of its own"
        digits = flat(m)
        outer = tuple(self._digits(self.outer))
        count = len(digits)
        if digits != outer[:count]:
            return "the reduce is not read along the rows"
        minor = reduces_minor(p)
        columns = squeezed([p.operands[0].shape.dims[d] for d in p.attrs.dimensions])
        if self.kind == LOOP:
            if count == self.outer:
                return None
            if not minor:
                return "a reduce over major dimensions is read as a whole"
            if prod(columns) != prod(self.space.sizes[count : self.outer]):
                return "the reduce has rows of another size"
            return None
        if count != self.lead:
            return "the reduce has other rows"
        if (self.kind == ROW) != minor:
            return "reduces over minor and over major dimensions"
        if self.kind == ROW:
            same = prod(columns) == prod(self.columns)
        else:
            same = fold_pattern(p) == self.pattern
            if feeds_reduce(p, self.members):
                return "a reduce over major dimensions that another one needs"
        return None if same else "the reduce is over another size"

    def _fold(self, p: Instruction, m: IndexMap) -> None:
        x = p.operands[0]
        columns = tuple([x.shape.dims[d] for d in p.attrs.dimensions])
        if self.kind == LOOP:
            self.kind = ROW if reduces_minor(p) else COLUMN
            self.lead = len(flat(m))
            if self.lead == self.outer:
                for n in columns:
                    self.space.append(n)
            self.columns = tuple(self.space.sizes[self.lead :])
            if self.kind == COLUMN:
                self.pattern = fold_pattern(p)
        digits = [(k, 1, n) for k, n in enumerate(self.space.sizes)][self.lead :]
        dealt = regrouped(digits, columns)
        if dealt is None:  # rows of the same size in other dimensions
            whole = (tuple(digits),)
            dealt = tuple(
                [self.space.opaque(("column", columns, k), whole, n) for k, n in enumerate(columns)]
            )
        into = dict(zip(p.attrs.dimensions, dealt))
        kept_digits = iter(m)
        read = tuple(
            [into[d] if d in into else next(kept_digits) for d in range(len(x.shape.dims))]
        )
        count = len(p.operands) // 2
        for k, operand in enumerate(p.operands):
            self.accesses.setdefault(operand, {})[read if k < count else SCALAR] = None

    # -- dots and convolutions

    def _is_inner(self, p: Instruction) -> bool:
        """Whether a dot is evaluated inside a loop, as a value like others."""
        return p.opcode == "dot" and dot_flops(p) <= self.roles.inner_flops

    def _refuses_anchor(self, p: Instruction, m: IndexMap) -> str | None:
        if self.kind != LOOP:
            return "a dot beside a reduce or another dot"
        if self._is_inner(p):
            if self.targets and self.space.sizes[: self.outer] != list(squeezed(p.shape.dims)):
                return "the dot is read in part"
            if self.space.evaluations(m) > p.shape.size:
                return "the dot would be evaluated more than once"
            return None
        if self.dots or self.targets:
            return "a dot beside another dot or an update in place"
        if flat(m) != tuple(self._digits(self.outer)):
            return EPILOGUE
        for x in self.members:
            if x.opcode in ("gather", "concatenate", "pad") or not all(
                is_in_order(a) for a in self.accesses[x]
            ):
                return EPILOGUE
        return None

    def _lead_anchor(self, p: Instruction) -> None:
        self.kind, self.anchor = OUTPUT, p
        for side, x in enumerate(p.operands):
            own = tuple([self.space.append(n) for n in x.shape.dims])
            self.accesses.setdefault(x, {})[own] = None
            self.prologue[x] = side

    def _inner_dot(self, p: Instruction, m: IndexMap) -> None:
        self.dots += 1
        a, (left, right) = p.attrs, p.operands
        rest = list(m)
        maps: list[list[Expression | None]] = [[None] * len(x.shape.dims) for x in p.operands]
        for i, j in zip(a.lhs_batch_dims, a.rhs_batch_dims):
            maps[0][i] = maps[1][j] = rest.pop(0)
        for i, j in zip(a.lhs_contracting_dims, a.rhs_contracting_dims):
            maps[0][i] = maps[1][j] = self.space.append(left.shape.dims[i])
        for side, x in enumerate((left, right)):
            read = tuple([rest.pop(0) if e is None else e for e in maps[side]])
            self.accesses.setdefault(x, {})[read] = None

    def _refuses_point(self, p: Instruction, maps: Iterable[IndexMap]) -> str | None:
        """Beside an anchor: on one side of it, in order behind it."""
        before = p in self.prologue
        for m in maps:
            outside = self.space.innermost(m) < self.outer
            if not before and (is_opaque(m) or not is_in_order(m)):
                return EPILOGUE
            if before and outside and m:
                return "read before and behind the dot"
        if before:
            return NO_PROLOGUE if p.opcode in ("gather", "concatenate") else None
        if p.opcode in ("gather", "concatenate", "pad", "dynamic-slice", "slice", "reverse"):
            return EPILOGUE
        return None

    # -- updates in place

    def _refuses_reader(self, p: Instruction, maps: Iterable[IndexMap]) -> str | None:
        """A buffer that is written in place is read by nothing else but the very part written."""
        if p not in self.roots and buffer_key(p) in self.targets:
            return "it is written in place"
        operands = p.operands[1:] if p.opcode == "dynamic-update-slice" else p.operands
        for x in operands:
            target = self.targets.get(buffer_key(x)) if x.shape.dims else None
            if target is None:
                continue
            own = flat(next(iter(self.accesses[target])))
            if not same_slice(p, target) or any(flat(m) != own for m in maps):
                return READS_TARGET
        return None

    def _hazard(self) -> str | None:
        """Why a buffer that is written in place is also read: in another part, or unknown."""
        for x in self.inputs():
            target = self.targets.get(buffer_key(x))
            if target is None or x not in self.accesses:
                continue
            readers = [u for u in x.users if u in self.members and u is not target]
            if target.operands[1] is x or not all(same_slice(u, target) for u in readers):
                return READS_TARGET
            own = next(iter(self.accesses[target]))
            for u in readers:
                if any(flat(m) != flat(own) for m in self.accesses[u]):
                    return READS_TARGET
        for target in self.targets.values():
            if target.operands[0] in self.members:
                return "the buffer that is updated is made in the fusion"
        return None


def iteration_dims(r: Instruction) -> tuple[int, ...]:
    """What a result is computed over: its shape, or that of the update of an update in place."""
    if r.opcode == "dynamic-update-slice":
        return r.operands[1].shape.dims
    return r.shape.elements[0].dims if r.shape.is_tuple else r.shape.dims


def derived(
    roots: Sequence[Instruction], members: Iterable[Instruction], roles: Roles | None = None
) -> Form | str:
    """The form of these members (in order, readers first) with these results, or why none."""
    form = Form(roots, roles)
    why = form.start()
    if why is not None:
        return why
    for p in members:
        if p not in form.accesses:
            continue
        why = form.admit(p)
        if why is not None:
            return why
    return form.finish() or form
