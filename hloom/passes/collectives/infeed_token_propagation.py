"""Tokens of infeeds and outfeeds in loops, branches and calls, handed on through the entry.

A feed that nobody waits for and that waits for nobody stands in its place only as long as its
computation is a step of its own: inlined, or beside another loop, nothing says which comes first.
Afterwards every computation that feeds takes a token and gives one, all the way up; the feeds of a
computation wait for one another in the order of the program.

Only the computations on the way from the entry to a feed are changed, and each of them has to have
one caller: two would need the feed's token in two places. Where one has more, what is below stays.
"""

from __future__ import annotations

from collections import Counter

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import OPS
from hloom.ir.values.sharding import REPLICATED, Sharding
from hloom.passes.computation_pass import settle
from hloom.passes.facts import no_dead_code
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, register
from hloom.rewrite.driver import Trace
from hloom.types.shape import TOKEN_SHAPE, Shape, tuple_shape


@register
class InfeedTokenPropagation(Pass):
    """Thread the tokens of infeeds and outfeeds in nested computations up to the entry."""

    name = "infeed-token-propagation"
    breaks = (no_dead_code,)

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        changed = dict[Computation, None]()
        paths = _only_paths(module)
        carriers: dict[Computation, list[Instruction]] = {}
        for c in module.computations_in_order():
            on_thread = not threads or c.execution_thread in threads
            if c in paths and on_thread:
                carriers[c] = [i for i in c.in_order() if _feeds(i, paths)]
        loose = {c for c, of in carriers.items() if any(_is_loose(i) for i in of)}
        for c in list(carriers):  # callees first
            if any(d in loose for i in carriers[c] for d in i.called):
                loose.add(c)
        for c, of in carriers.items():
            called = [i for i in of if any(d in loose for d in i.called)]
            if c not in loose or (c.is_entry and not called):
                continue
            chain = _Chain(c)
            for i in of:
                if i.called and i not in called:
                    continue
                chain.link(i)
            chain.close()
            fired[f"through {'entry' if c.is_entry else 'computations'}"] += 1
            changed[c] = None
            for i in called:
                for d in i.called:
                    changed[d] = None
        settle(module, changed)
        return PassResult.of(fired)


def _only_paths(module: Module) -> set[Computation]:
    """Computations that the entry reaches in one way, through loops, branches and calls."""
    paths = {module.entry}
    for c in reversed(module.computations_in_order()):
        if not _has_one_caller(c):
            continue
        (caller,) = c.callers
        if caller.opcode not in ("while", "conditional", "call") or caller.parent not in paths:
            continue
        is_condition = caller.opcode == "while" and caller.called[0] is c
        if not is_condition and all(_has_one_caller(d) for d in caller.called):
            paths.add(c)
    return paths


def _has_one_caller(c: Computation) -> bool:
    return list(c.callers.values()) == [1]


def _feeds(i: Instruction, paths: set[Computation]) -> bool:
    """Whether an instruction feeds, or runs a computation that may."""
    if i.opcode in ("infeed", "outfeed"):
        return True
    return any(c in paths for c in i.called)


def _is_loose(i: Instruction) -> bool:
    """Whether a feed waits for nothing of its computation, or nothing waits for it."""
    return not i.called and (_begins_anew(i) or not _hands_on(i))


def _token_operand(i: Instruction) -> int:
    return 0 if i.opcode == "infeed" else 1


def _begins_anew(i: Instruction) -> bool:
    before = i.operands[_token_operand(i)]
    return before.opcode == "after-all" and not before.operands


def _hands_on(i: Instruction) -> bool:
    """Whether somebody reads the token of a feed."""
    if i.opcode == "outfeed" or i.is_root:
        return bool(i.users) or i.is_root
    return any(u.opcode != "get-tuple-element" or u.attrs.index == 1 for u in i.users)


class _Chain:
    """The feeds of one computation, one behind the other."""

    def __init__(self, c: Computation) -> None:
        self.c = c
        self.last = c.add("after-all") if c.is_entry else _token_parameter(c)
        self.joined = [self.last]
        """Tokens that the next one waits for."""

    def link(self, i: Instruction) -> None:
        """Let a feed, or what runs some, wait for those before it."""
        if i.called:
            self.joined = [_carried(i, self._token())]
            return
        at = _token_operand(i)
        if _begins_anew(i):
            operands = list(i.operands)
            operands[at] = self._token()
            i.set_operands(tuple(operands))
            self.joined = []
        token = i if i.opcode == "outfeed" else self.c.add("get-tuple-element", i, index=1)
        self.joined.append(token)

    def _token(self) -> Instruction:
        if len(self.joined) == 1:
            return self.joined[0]
        return self.c.add("after-all", *self.joined)

    def close(self) -> None:
        """Give the token back with the result."""
        if not self.c.is_entry:
            root = self.c.root
            self.c.root = _tuple(self.c, [*_elements(root), self._token()])
            self.c.root.sharding = _sharding_with_token(root)


def _token_parameter(c: Computation) -> Instruction:
    """The token that a computation is handed: an argument more of a call, else an element more of
    its one argument."""
    (caller,) = c.callers
    if caller.opcode == "call":
        return c.append(
            "parameter", OPS["parameter"].attrs(number=len(c.parameters)), (), TOKEN_SHAPE, "tok"
        )
    return _extended_parameter(c)


def _extended_parameter(c: Computation) -> Instruction:
    """One more element, a token, of the only parameter of a computation."""
    (p,) = c.parameters
    readers, was, is_root = list(p.users), p.shape, p.is_root
    p.sharding, p.shape = _sharding_with_token(p), _with_token(was)
    _read_former(c, p, was, readers, is_root)
    return c.add("get-tuple-element", p, index=len(p.shape.elements) - 1)


def _read_former(
    c: Computation, x: Instruction, was: Shape, readers: list[Instruction], is_root: bool
) -> None:
    """Let those who read a value read what it was before it had a token more."""
    former: Instruction | None = None
    if is_root or not was.is_tuple or any(r.opcode != "get-tuple-element" for r in readers):
        count = len(was.elements) if was.is_tuple else 1
        parts = [c.add("get-tuple-element", x, index=k) for k in range(count)]
        former = _tuple(c, parts) if was.is_tuple else parts[0]
    for r in readers:
        if former is not None and (r.opcode != "get-tuple-element" or not was.is_tuple):
            r.replace_operand(x, former)
    if is_root and former is not None:
        c.root = former


def _carried(i: Instruction, token: Instruction) -> Instruction:
    """Hand a token to a loop, a conditional or a call whose computations take and give one; the
    token that it gives."""
    c, was, readers, is_root = i.parent, i.shape, list(i.users), i.is_root
    if i.opcode == "call":
        i.set_operands((*i.operands, token))
    elif i.opcode == "while":
        i.set_operands((_tuple(c, [*_elements(i.operands[0]), token]),))
        _extended_parameter(i.called[0])
    else:
        branches = [_tuple(c, [*_elements(x), token]) for x in i.operands[1:]]
        i.set_operands((i.operands[0], *branches))
        for b in i.called:
            if not _takes_token(b):
                chain = _Chain(b)
                chain.close()
    i.sharding, i.shape = _sharding_with_token(i), _with_token(was)
    _read_former(c, i, was, readers, is_root)
    return c.add("get-tuple-element", i, index=len(i.shape.elements) - 1)


def _takes_token(c: Computation) -> bool:
    """Whether a branch was given a token already: its result ends with one that the caller's
    result has not."""
    (caller,) = c.callers
    return c.root.shape.compatible(_with_token(caller.shape))


def _elements(x: Instruction) -> list[Instruction]:
    """The elements of a tuple, or the one value that is none."""
    if not x.shape.is_tuple:
        return [x]
    if x.opcode == "tuple":
        return list(x.operands)
    return [x.parent.add("get-tuple-element", x, index=k) for k in range(len(x.shape.elements))]


def _tuple(c: Computation, parts: list[Instruction]) -> Instruction:
    return c.add("tuple", *parts)


def _sharding_with_token(x: Instruction) -> Sharding | None:
    """The sharding of a value to which a token is added."""
    if x.sharding is None:
        return None
    own = [x.sharding.for_leaf(k) for k in range(x.shape.leaf_count)]
    return Sharding.tuple_of(*own, REPLICATED)


def _with_token(s: Shape) -> Shape:
    return tuple_shape([*(s.elements if s.is_tuple else (s,)), TOKEN_SHAPE])
