"""Values of a program on one time line, and which of them must share a buffer.

The program is walked in the order in which it runs: a loop's condition and body stand, once, where
the loop stands, a conditional's branches one after the other. Every instruction gets a time, and so
do the moments between (a loop begins, a branch ends). Tuples, elements, bitcasts, calls and what is
handed into and out of loops and branches move no bytes: they stand for values made elsewhere, so a
*value* is born only where something is computed, where a loop begins (its state) and where branches
meet.

A value is alive from each birth to the last use before the next one: the state of a loop is born
when it begins and when it ends, the operand of a branch again when its branch begins.

An *edge* says that the bytes of one value become those of another at some moment. Where both can
live in one buffer nothing happens then; else somebody must insert a copy.
"""

from __future__ import annotations

from collections.abc import Callable

from hloom.analysis.alias import IN_PLACE_OPCODES, InPlacePair, in_place_pairs
from hloom.analysis.alias_spaces import NO_SPACES, EntrySpaces, settle
from hloom.analysis.alias_tree import (
    Arm,
    Branching,
    Edge,
    Index,
    LogicalBuffer,
    Tree,
    at,
    leaves,
    left_alone,
    resolved,
)
from hloom.base.diagnostics import HloError, UnsupportedError
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import opcodes, opcodes_where
from hloom.ir.traits import ASYNC_CHAIN, FORWARDS
from hloom.plan.order import Order
from hloom.types.shape import Shape
from hloom.types.sizes import size_bytes

# A bitcast stands in the memory of its operand, whatever its shape.
_FORWARDS = opcodes(FORWARDS, also=("bitcast",))
_DONES = opcodes_where(lambda op: bool(op.done_of) or op.name == "async-update")
_ASYNC_CHAIN = opcodes(ASYNC_CHAIN)
NEST_LIMIT = 200
PairRule = Callable[[Instruction], tuple[InPlacePair, ...]]


class Dataflow:
    """Values, edges and the time line of a module with a flat call graph, run in an order.

    `trees` gives for each instruction of the entry and of whatever control flow calls the values
    at each place of its shape; `steps` the instruction at each time (None: between two).
    """

    def __init__(
        self,
        module: Module,
        order: Order,
        pairs: PairRule = in_place_pairs,
        spaces: EntrySpaces = NO_SPACES,
    ) -> None:
        self.module = module
        self.order = order
        self.pairs = pairs
        self.trees: dict[Instruction, Tree] = {}
        self.values: list[LogicalBuffer] = []
        self.edges: list[Edge] = []
        self.steps: list[Instruction | None] = []
        self.time_of: dict[Instruction, int] = {}
        self.started: dict[Instruction, int] = {}
        """When a loop begins."""
        self._arm = Arm()
        self._depth = 0
        self._forwarded = False
        self._walk_entry()
        self._finish()
        settle(self, spaces)

    # -- the walk ----------------------------------------------------------------------------

    def _walk_entry(self) -> None:
        entry = self.module.entry
        arguments = [self._new_tree(p, "parameter", 0) for p in entry.parameters]
        root = self._walk(entry, arguments)
        end = self._step(None)
        self._arm.end = end
        self._use(root, end)
        for index, value in leaves(root):
            if value is not None:
                self.edges.append(Edge("output", value, None, end, entry.root, index))

    def _walk(self, c: Computation, arguments: list[Tree]) -> Tree:
        """Walk one computation as it runs; its result."""
        order = self.order.of(c)
        if c.root in self.trees:
            raise HloError(
                f"computation %{c.name} is called from two places",
                rule="flat-call-graph",
                hint="run the pass flatten-call-graph, or hloom.memory.flat.flatten",
            )
        if self._depth >= NEST_LIMIT:
            raise UnsupportedError(f"control flow nests more than {NEST_LIMIT} deep at %{c.name}")
        self._depth += 1
        trees, steps, time_of = self.trees, self.steps, self.time_of
        special = _SPECIAL
        for i in order:
            handler = special.get(i.opcode)
            if handler is not None:
                trees[i] = handler(self, i)
                continue
            if i.opcode == "parameter":
                trees[i] = arguments[i.attrs.number]
                time_of[i] = len(steps)
                steps.append(i)
                continue
            self._compute(i)
        self._depth -= 1
        return trees[c.root]

    def _compute(self, i: Instruction) -> None:
        """Everything that reads its operands and makes values of its own."""
        time = self._step(i)
        trees = self.trees
        for x in i.operands:
            tree = trees[x]
            if type(tree) is LogicalBuffer:
                tree.uses.append(time)
            elif tree is not None:
                self._use(tree, time)
        results = trees[i] = self._new_tree(i, "computed", time)
        if i.opcode in IN_PLACE_OPCODES:
            self._in_place(i, results, time)

    def _in_place(self, i: Instruction, tree: Tree, time: int) -> None:
        for pair in self.pairs(i):
            source = at(self.trees[i.operands[pair.operand]], pair.operand_index)
            target = at(tree, pair.output_index)
            both = leaves(source), leaves(target)
            for (index, x), (_, y) in zip(*both, strict=True):
                if x is not None and y is not None:
                    whole = InPlacePair(
                        pair.operand, pair.operand_index + index, pair.output_index + index
                    )
                    edge = Edge("in-place", x, y, time, i, whole.output_index, whole)
                    self.edges.append(edge)

    def _step(self, i: Instruction | None) -> int:
        time = len(self.steps)
        self.steps.append(i)
        if i is not None:
            self.time_of[i] = time
        return time

    def _new(
        self, i: Instruction, index: Index, shape: Shape, kind: str, time: int
    ) -> LogicalBuffer:
        buffer = LogicalBuffer(len(self.values), i, index, size_bytes(shape), kind)
        buffer.births.append((time, None))
        self.values.append(buffer)
        return buffer

    def _new_tree(self, i: Instruction, kind: str, time: int) -> Tree:
        shape = i.shape
        if shape.is_array:
            return self._new(i, (), shape, kind, time)

        def build(part: Shape, index: Index) -> Tree:
            if part.is_tuple:
                return tuple(build(x, (*index, k)) for k, x in enumerate(part.elements))
            if part.is_array or part.is_buffer:
                return self._new(i, index, part, kind, time)
            return None

        return build(shape, ())

    def _use(self, tree: Tree, time: int) -> None:
        if type(tree) is tuple:
            for part in tree:
                self._use(part, time)
        elif tree is not None:
            tree.uses.append(time)

    # -- what moves no bytes -----------------------------------------------------------------

    def _tuple(self, i: Instruction) -> Tree:
        self._step(i)
        return tuple([self.trees[x] for x in i.operands])

    def _element(self, i: Instruction) -> Tree:
        self._step(i)
        return self.trees[i.operands[0]][i.attrs.index]

    def _forward(self, i: Instruction) -> Tree:
        time = self._step(i)
        tree = self.trees[i.operands[0]]
        if i.opcode in _DONES:
            self._use(tree, time)
            self._keep_started(i.operands[0], time)
        return tree

    def _token(self, i: Instruction) -> Tree:
        self._step(i)
        return None

    def _done(self, i: Instruction) -> Tree:
        """The second half of what was started: the operands were needed until now."""
        time = self._step(i)
        start = i.operands[0]
        tree = self.trees[start]
        # The operands of an async-start are kept below, but for those that it overwrites.
        self._use(tree[1:] if i.opcode in _ASYNC_CHAIN else tree, time)
        self._keep_started(start, time)
        if i.opcode == "async-update":
            return tree
        if i.opcode == "copy-done":
            return tree[0]
        if i.opcode == "send-done":
            return None
        if i.opcode == "recv-done":
            return (tree[0], None)
        return tree[1]

    def _keep_started(self, start: Instruction, time: int) -> None:
        """Operands of a start stay as they are until its end, but for those it overwrites."""
        while start.opcode == "async-update":
            start = start.operands[0]
        self._use(self._left_alone(start), time)

    def _left_alone(self, start: Instruction) -> Tree:
        return left_alone([self.trees[x] for x in start.operands], self.pairs(start))

    def _start(self, i: Instruction) -> Tree:
        """A first half whose result holds its operand."""
        time = self._step(i)
        operand_trees = tuple([self.trees[x] for x in i.operands])
        self._use(operand_trees, time)
        elements = list(self._new_tree(i, "computed", time))
        if i.opcode == "copy-start":
            elements[1] = operand_trees[0]
        else:
            elements[0] = operand_trees if i.shape.elements[0].is_tuple else operand_trees[0]
        self._in_place(i, tuple(elements), time)
        return tuple(elements)

    # -- control flow ------------------------------------------------------------------------

    def _call(self, i: Instruction) -> Tree:
        root = self._walk(i.called[0], [self.trees[x] for x in i.operands])
        self._step(i)
        return root

    def _async_start(self, i: Instruction) -> Tree:
        """The call runs at its start; its operands and its result stay until it is done."""
        if len(i.operands) < len(i.called[0].parameters):
            raise HloError(f"%{i.name} binds operands late: run async-simplifier first")
        operands = tuple([self.trees[x] for x in i.operands])
        root = self._walk(i.called[0], list(operands))
        time = self._step(i)
        self._use((self._left_alone(i), root), time)
        contexts = [self._new_tree(i, "computed", time)] if len(i.shape.elements) > 2 else []
        rest = contexts[0][2:] if contexts else ()
        return (operands, root, *rest)

    def _while(self, i: Instruction) -> Tree:
        condition, body = i.called
        begin = self._step(None)
        self.started[i] = begin
        init = self.trees[i.operands[0]]
        self._use(init, begin)
        state = self._new_tree(i, "state", begin)
        holds = self._walk(condition, [state])
        self._use(holds, self._step(None))
        self._use(state, self._step(None))
        root = self._walk(body, [state])
        turn = self._step(None)
        self._use(root, turn)
        end = self._step(i)
        results: list[LogicalBuffer] = []
        for (index, x), (_, s), (_, r) in zip(leaves(init), leaves(state), leaves(root)):
            if x is None or s is None or r is None:
                continue
            x, r = resolved(x), resolved(r)
            if r is s:
                s.forward = x
                self._forwarded = True
                x.uses.append(end)
                continue
            results.append(s)
            self.edges.append(Edge("carry", r, s, turn, i, index))
            self.edges.append(Edge("init", x, s, begin, i, index))
        for s in results:
            s.births.append((end, None))
        return self._resolve(state) if len(results) != i.shape.leaf_count else state

    def _conditional(self, i: Instruction) -> Tree:
        begin = self._step(None)
        for x in i.operands:
            self._use(self.trees[x], begin)
        outer = self._arm
        branching = Branching(outer)
        roots: list[tuple[int, Tree]] = []
        for k, c in enumerate(i.called):
            argument = self.trees[i.operands[k + 1]]
            start = self._step(None)
            for _, value in leaves(argument):
                if value is not None:
                    value.births.append((start, branching))
            self._arm = Arm(branching)
            root = self._walk(c, [argument])
            turn = self._step(None)
            self._arm.end = turn
            self._use(root, turn)
            roots.append((turn, root))
        self._arm = outer
        time = branching.end = self._step(i)
        return self._merged(i, roots, time)

    def _merged(self, i: Instruction, roots: list[tuple[int, Tree]], time: int) -> Tree:
        """What arrives from branches: a value that all hand on, or a new one."""

        def build(shape: Shape, index: Index, parts: list[Tree]) -> Tree:
            if shape.is_tuple:
                return tuple(
                    build(x, (*index, k), [p[k] for p in parts])
                    for k, x in enumerate(shape.elements)
                )
            if parts[0] is None:
                return None
            if all(p is parts[0] for p in parts):
                parts[0].uses.append(time)
                return parts[0]
            merge = self._new(i, index, shape, "merge", time)
            for k, p in enumerate(parts):
                self.edges.append(Edge("branch", p, merge, roots[k][0], i, index, branch=k))
            return merge

        return build(i.shape, (), [root for _, root in roots])

    # -- afterwards --------------------------------------------------------------------------

    def _finish(self) -> None:
        """Let the values that loops only hand on be one with what they got."""
        if not self._forwarded:
            return
        for v in self.values:
            if v.forward is not None:
                x = resolved(v)
                x.uses += v.uses
                x.births += [b for b in v.births[1:] if b[1] is not None]
        for v in self.values:
            if v.forward is None:
                v.uses.sort()
                v.births.sort(key=lambda b: b[0])
        self.values = [v for v in self.values if v.forward is None]
        for i, tree in self.trees.items():
            if type(tree) is not LogicalBuffer or tree.forward is not None:
                self.trees[i] = self._resolve(tree)
        self.edges = [
            Edge(e.kind, resolved(e.source), e.target and resolved(e.target), e.time, e.site,
                 e.index, e.pair, e.branch)
            for e in self.edges
        ]  # fmt: skip

    def _resolve(self, tree: Tree) -> Tree:
        if type(tree) is tuple:
            return tuple([self._resolve(x) for x in tree])
        return resolved(tree) if tree is not None else None

    def at(self, i: Instruction, index: Index = ()) -> LogicalBuffer:
        """The value at one array of an instruction's result."""
        return at(self.trees[i], index)


# Methods of the walk by opcode; all other instructions compute.
_SPECIAL: dict[str, Callable[[Dataflow, Instruction], Tree]] = {
    **dict.fromkeys(_FORWARDS, Dataflow._forward),
    **dict.fromkeys(_DONES - _FORWARDS, Dataflow._done),
    **dict.fromkeys(
        ["copy-start", "send", "all-gather-start", "collective-permute-start"], Dataflow._start
    ),
    "after-all": Dataflow._token,
    "async-start": Dataflow._async_start,
    "call": Dataflow._call,
    "conditional": Dataflow._conditional,
    "constant": lambda flow, i: flow._new_tree(i, "constant", flow._step(i)),
    "get-tuple-element": Dataflow._element,
    "tuple": Dataflow._tuple,
    "while": Dataflow._while,
}
HANDS_ON = frozenset(_SPECIAL)  # Operations that compute nothing themselves.
