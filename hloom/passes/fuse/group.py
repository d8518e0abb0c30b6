"""A group: one kernel in the making; what it holds, and whether a producer may join it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from math import prod

from hloom.analysis.fusible import INDEX_MAPS, POINTWISE, RENAMES
from hloom.analysis.fusion_form import COLUMN, LOOP, OUTPUT, ROW, Form
from hloom.base.faults import Culprit, blame
from hloom.device.costs import Costs
from hloom.ir.instruction import Instruction
from hloom.passes.fuse import cost
from hloom.passes.fuse.cost import Account
from hloom.passes.fuse.overwritten import reads_of_next, updates_several
from hloom.types.sizes import top_bytes

COSTS = Costs()
UNTURNED = frozenset(["pad", "concatenate"])
"""What kernels that turn tiles of a transpose in registers do not compute; others read or write
a line of the caches for each element."""
TURNS = "a transpose is turned in tiles by itself"
SHORT_ROW = 64
"""Rows of up to so many elements are turned, a vector of rows at a time."""
FEW_WIDE = 8
"""Fewer wide elements of a row are as well read one by one."""


@dataclass(frozen=True)
class Limits:
    """What a kernel may be at most, and what may be computed twice."""

    operands: int = 60
    """A concatenate of more keeps its own."""
    instructions: int = 200
    """That compute something; with what renames or repeats values twice as many."""
    row_bytes: int = 1 << 19
    """Of all operands and results, one row: replayed from the second cache."""
    cached_bytes: int = 1 << 16
    """More than this is not taken for granted in the nearest caches."""
    row_parallel: int = 1 << 16
    """A single row longer than this many elements is reduced and read in kernels of their own."""
    least_rows: int = 8
    """Fewer such rows are too few for threads to share."""
    product_blocks: float = 4.0
    """Of rows or columns of a large product: for each the other operand is packed again."""
    tile_types: tuple[tuple[str, str], ...] = ()
    """Types of the operands of products by whole tiles."""
    vector_floats: int = 16
    """A result of no more elements is computed at once, wherever it is read."""
    copies: int = 4
    """In how many kernels one value may be computed."""
    plain_copies: int = 16
    """In how many, if it is cheap and reads no more than it gives."""
    copy_weight: float = 4.0
    """The dearest operation that is computed in several kernels."""
    copies_weight: float = 12.0
    """All of these in one kernel."""
    scalar_copies: int = 4
    """Single numbers that one kernel computes and others compute, too: in a long program of such
    numbers each kernel would compute all that went before."""
    sequence_elements: int = 1024
    """Up to this size results of different shapes share a kernel in a loop's body; 0: never."""
    anchors: bool = True
    """Whether dots and convolutions take operands and readers in."""
    moves: int = 60
    """Operations that move elements, one behind another: each is some calls deeper in the code that
    writes a kernel."""
    without: frozenset[str] = frozenset()
    """Kinds of fusions that are not made."""
    in_loop: bool = False
    """Whether it is the body of a loop, whose small kernels are written in line."""
    costs: Costs = COSTS

    def start_ns(self, p: Instruction) -> float:
        """What it takes to start a kernel of its own for a value."""
        inline = self.in_loop and p.shape.size <= self.sequence_elements
        return self.costs.inline_ns if inline else self.costs.kernel_ns

    def full(self, members: Collection[Instruction], more: int = 0) -> bool:
        """Whether a kernel of these and some more has too many instructions."""
        most = self.instructions - more
        if len(members) <= most:
            return False
        if len(members) > 2 * most:
            return True
        counts = Counter([m.opcode for m in members])  # asked for every value that might join
        return sum([n for opcode, n in counts.items() if self.costs.weight(opcode) > 0]) > most


MOST_BEHIND = 64
"""Instructions behind a product that are looked at, to see whether they all can stay there."""
TURNED = 32
"""A transposed operand of a dot is so much smaller than the other where it is written by itself."""
TOO_DEAR = "it would be computed again and again"
TOO_MANY = "the kernel has as many instructions as it may"
SCALARS = "the kernel computes as many single numbers that others compute, too, as it may"
OPERANDS = "the kernel has as many operands as it may"
OVERWRITTEN = "it reads several places of what the kernel overwrites"
DEEP = "as many moves of elements stand behind it as one kernel can have"
SCATTERED = "every part would be asked, a lane at a time, for each of its elements"
LEFT_OUT = "fusions of this kind are left out"


class FusionGroup:
    """Results, forms (one; several in a sequence) and members; `order` places it among others."""

    __slots__ = ("account", "dead", "forms", "members", "moves", "order", "roots")

    def __init__(self, form: Form, order: int) -> None:
        self.forms = [form]
        self.roots = dict(form.roots)
        self.members = form.members
        self.order = order
        self.account = Account()
        self.dead = False
        self.moves: dict[Instruction, int] = {}
        """How many moves of elements stand between a member and the results, where there are."""

    @property
    def form(self) -> Form:
        return self.forms[0]

    @property
    def is_sequence(self) -> bool:
        return len(self.forms) > 1

    def inputs(self) -> list[Instruction]:
        """What it reads from memory."""
        if len(self.forms) == 1:
            return self.form.inputs()
        read = {x: None for f in self.forms for x in f.inputs() if x not in self.members}
        return list(read)

    def refuses(self, p: Instruction, limits: Limits) -> str | None:
        """Why a producer does not join; None: it may."""
        if self.form.kind in limits.without or self.kind_with(p) in limits.without:
            return LEFT_OUT
        try:
            return self._refusal(p, limits)
        except Exception as error:
            blame(error, Culprit("fusion", self.kind_with(p)))
            raise

    def kind_with(self, p: Instruction) -> str:
        """What the kind may become when a producer joins."""
        return ROW if p.opcode == "reduce" and self.form.kind == LOOP else self.form.kind

    def _refusal(self, p: Instruction, limits: Limits) -> str | None:
        form = self.form
        why = form.refuses(p)
        if why is not None:
            return why
        if p.opcode != "constant" and limits.full(form.members, 1):
            return TOO_MANY
        if p.opcode in INDEX_MAPS and moves_behind(p, self.moves) >= limits.moves:
            return DEEP
        if updates_several(p, self.roots) or reads_of_next(p, self.roots):
            return OVERWRITTEN
        if len(form.accesses) > limits.operands:
            new = sum(x not in form.accesses for x in p.operands) - 1
            most = max(limits.operands, *(len(r.operands) + 8 for r in form.roots))
            if new > 0 and len(form.inputs()) + new > most:
                return OPERANDS
        return self._too_dear(p, limits)

    def _too_dear(self, p: Instruction, limits: Limits) -> str | None:
        form, kind = self.form, self.form.kind
        if p.opcode == "reduce":
            return self._row_refusal(p, limits)
        if p.opcode in ("dot", "convolution"):
            return None if limits.anchors or form._is_inner(p) else "dots stay alone"
        if p.opcode == "transpose" and (why := self._transpose_refusal(p, limits)):
            return why
        if p.opcode == "pad" and self._is_cut_in_rows(p, limits):
            return "a reduce of short rows turns them whole"
        if p.opcode in UNTURNED and self._is_turned(p, limits):
            return TURNS
        w = cost.weight(p, limits.costs) if kind == OUTPUT else cost.read_weight(p, limits.costs)
        if w == 0 or self.reads_components(p) or self._spreads_lanes(p):
            return None
        if kind == OUTPUT and p in form.prologue:
            return self._prologue_refusal(p, w, limits)
        evaluations = sum(form.space.evaluations(m) for m in form.accesses[p])
        saved_ns = limits.start_ns(p) + 2 * limits.costs.byte_ns * top_bytes(p.shape)
        if p.opcode == "concatenate":
            asked = evaluations * len(p.operands) * limits.costs.weight("gather")
            is_dear = asked * limits.costs.operation_ns > saved_ns
            if is_dear and cost.joins_turned(p, SHORT_ROW, limits.cached_bytes):
                return SCATTERED
        again = (evaluations - p.shape.size) * w * cost.lane_share(p)
        if again <= 0:
            return None
        if (self.account.again + again) * limits.costs.operation_ns > saved_ns:
            return TOO_DEAR
        return None

    def _spreads_lanes(self, p: Instruction) -> bool:
        """Whether it pads between neighbours in a vector: its operand is less to keep, and read
        under a mask in as many vectors."""
        if p.opcode != "pad":
            return False
        return any(
            width.interior_padding and self.form.space.is_lanes((expression,))
            for map_ in self.form.accesses[p]
            for expression, width in zip(map_, p.attrs.padding.dimensions)
        )

    def reads_components(self, p: Instruction) -> bool:
        """Whether it is indices that are put together, of which a gather asks for one after the
        other: each is read where it comes from, so that putting them together costs nothing."""
        if p.opcode != "concatenate":
            return False
        d = p.attrs.dimensions[0]
        forms = [form for form in self.forms if p in form.accesses]
        return all(form.space.is_component(m[d]) for form in forms for m in form.accesses[p])

    def _row_refusal(self, p: Instruction, limits: Limits) -> str | None:
        """A row that is replayed fits the cache, and there are rows for every thread."""
        form = self.form
        columns = p.operands[0].shape.size // max(1, p.shape.size if p.shape.is_array else 1)
        spans = form.kind == ROW or (form.kind == LOOP and len(form.members) > 0)
        if form.kind == COLUMN or not spans or p in form.roots:
            return None
        if form.kind == LOOP and form.space.steps and p.shape.size == form.space.steps[-1]:
            return None
        if columns * 8 > limits.row_bytes:
            return "its rows do not fit the cache"
        if columns > limits.row_parallel // 4 and p.shape.size < limits.least_rows:
            return "too few rows for threads"
        return None

    def _transpose_refusal(self, p: Instruction, limits: Limits) -> str | None:
        """One change of the innermost dimension of large arrays in a kernel, none in reduces, and
        none of an operand of a dot that is read again for each of many columns."""
        if not cost.moves_minor(p):
            return None
        if self.form.kind == OUTPUT and p in self.form.prologue:
            assert self.form.anchor is not None
            if p.shape.size * TURNED <= max(x.shape.size for x in self.form.anchor.operands):
                return "a dot reads it again and again"
        if top_bytes(p.shape) <= limits.cached_bytes:
            return None
        if self.form.kind in (ROW, COLUMN):
            return "a reduce reads its rows in order"
        if self.form.kind == OUTPUT:
            anchor = self.form.anchor
            if anchor is not None and self.form.prologue.get(p) == 0 and cost.has_window(anchor):
                return "a window reads its elements again and again"
            if anchor is not None and cost.meets_other_order(p, anchor, self.members):
                return "a dot reads other arrays beside it in their own order"
            return None
        for x in self.form.members:
            if x.opcode == "transpose" and x.attrs != p.attrs and cost.moves_minor(x):
                return "a second transpose"
            if x.opcode in UNTURNED and cost.has_long_rows(p) and self._pays_apart(p, limits):
                return TURNS
        return None

    def _is_turned(self, p: Instruction, limits: Limits) -> bool:
        """Whether a large array is moved behind a transpose that is here."""
        return self._pays_apart(p, limits) and any(
            x.opcode == "transpose" and cost.moves_minor(x) and cost.has_long_rows(x)
            for x in self.form.members
        )

    def _pays_apart(self, p: Instruction, limits: Limits) -> bool:
        """Whether a large array is wanted whole, and its elements are so narrow that a line of the
        caches for each takes longer than to write and read all once more."""
        if top_bytes(p.shape) <= limits.cached_bytes or p.shape.dtype.bits > 32:
            return False
        form = self.form
        return sum(form.space.evaluations(m) for m in form.accesses[p]) >= p.shape.size

    def _is_cut_in_rows(self, p: Instruction, limits: Limits) -> bool:
        """Whether a large array is padded along what is then cut into the short rows of a reduce:
        of those in memory a vector at a time is read and turned, of others one element."""
        form = self.form
        columns = prod(form.columns)
        if form.kind != ROW or columns > SHORT_ROW:
            return False
        if columns < FEW_WIDE and p.shape.dtype.bits > 16:
            return False
        if top_bytes(p.shape) <= limits.cached_bytes:
            return False
        for expressions in form.accesses[p]:
            for expression, width in zip(expressions, p.attrs.padding.dimensions):
                is_padded = width.edge_padding_low or width.edge_padding_high
                sides = {k < form.lead for k, _, _ in expression}
                if (is_padded or width.interior_padding) and len(sides) > 1:
                    return True
        return False

    def _prologue_refusal(self, p: Instruction, w: float, limits: Limits) -> str | None:
        anchor = self.form.anchor
        assert anchor is not None
        if w > 2 and p.shape.size * 2 <= min(x.shape.size for x in anchor.operands):
            return TOO_DEAR
        if w >= 1 and p.opcode != "convert" and is_epilogue(p):
            return "it goes behind the dot that it reads"
        side = self.form.prologue[p]
        costs = limits.costs
        most = cost.prologue_limit(anchor, side, costs, limits.product_blocks, limits.tile_types)
        left = most - self.account.prologue[side]
        if w > left or (self._widens(p) and not cost.ends_within(p, left, self.members, costs)):
            return "too much to compute for each element a dot reads"
        return None

    def _widens(self, p: Instruction) -> bool:
        """Whether more arrays are read if `p` joins: a bad place to end what is too long."""
        accesses = self.form.accesses
        return sum(x not in accesses for x in cost.large_operands(p)) > 1

    def admit(self, p: Instruction, copies: int, costs: Costs) -> None:
        """Take in a producer that was not refused; `copies`: in how many kernels it will be."""
        try:
            self._admit(p, copies, costs)
        except Exception as error:
            blame(error, Culprit("fusion", self.kind_with(p)))
            raise

    def _admit(self, p: Instruction, copies: int, costs: Costs) -> None:
        form = self.form
        w = cost.weight(p, costs)
        if p.opcode not in ("reduce", "dot", "convolution") and w:
            if form.kind == OUTPUT and p in form.prologue:
                self.account.prologue[form.prologue[p]] += w
            else:
                evaluations = sum(form.space.evaluations(m) for m in form.accesses[p])
                again = (evaluations - p.shape.size) * w * cost.lane_share(p)
                self.account.again += max(0.0, again)
            if copies > 1:
                self.account.copies += w
                self.account.scalar_copies += not p.shape.dims
        why = form.admit(p)
        assert why is None, why
        count_moves(p, self.moves)

    def trim(self) -> None:
        """Leave no-ops on memory outside where what they rename is outside."""
        members = self.members
        for p in list(members):
            if p.opcode in RENAMES and p not in self.roots:
                x: Instruction = p
                while x.opcode in RENAMES and x in members:
                    x = x.operands[0]
                if x not in members and x.opcode not in ("constant", "iota"):
                    members.pop(p, None)


def moves_behind(p: Instruction, moves: dict[Instruction, int]) -> int:
    """How many moves of elements stand between a producer and the results of a group."""
    if len(moves) < len(p.users):
        return max([count for u, count in moves.items() if p in u.operands], default=0)
    return max([moves.get(u, 0) for u in p.users], default=0)


def count_moves(p: Instruction, moves: dict[Instruction, int]) -> int:
    """As `moves_behind`, with the producer itself; noted, where there are any."""
    count = moves_behind(p, moves) + (p.opcode in INDEX_MAPS)
    if count:
        moves[p] = count
    return count


def is_epilogue(p: Instruction) -> bool:
    """Whether it can be computed behind a dot or convolution below it: all that reads the product
    leads to `p`, element by element."""
    above: dict[Instruction, None] = {p: None}
    products: dict[Instruction, None] = {}
    stack = [p]
    while stack:
        for x in stack.pop().operands:
            if x in above or not x.shape.is_array or x.shape.size != p.shape.size:
                continue
            if x.opcode in ("dot", "convolution"):
                products[x] = None
            elif x.operands and (x.opcode in RENAMES or x.opcode in POINTWISE):
                if x.opcode in ("broadcast", "transpose", "reverse"):
                    continue
                if len(above) >= MOST_BEHIND:
                    return False
                above[x] = None
                stack.append(x)
    return any(_leads_to(x, p, above) for x in products)


def _leads_to(x: Instruction, p: Instruction, above: Collection[Instruction]) -> bool:
    """Whether every way from `x` stays in `above` until it comes to `p`."""
    seen, stack = {x}, [x]
    while stack:
        for u in stack.pop().users:
            if u not in above:
                return False
            if u is not p and u not in seen:
                seen.add(u)
                stack.append(u)
    return len(x.users) > 0
