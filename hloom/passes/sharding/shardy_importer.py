"""Read what JAX writes of Shardy into HLO: attributes `xla.sdy.*` and calls of the same name.

Programs of JAX carry their shardings twice: as HLO has them, and as Shardy's text in frontend
attributes, which says more (dimensions that are open, priorities). Regions that they cut by
themselves (`shard_map`) are functions between `GlobalToLocalShape` and `LocalToGlobalShape`. After
it all of that is said as HLO says it: named shardings, `Sharding`, `SPMDFullToShardShape`,
`SPMDShardToFullShape`, groups `shard_as`. Texts with priorities stay, for `sharding-propagation`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from hloom.base.diagnostics import HloError, ParseError
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.values.mesh import Mesh
from hloom.ir.values.sharding import Sharding
from hloom.ir.values.sharding_sdy import (
    MESHES,
    SHARDING,
    SdySharding,
    in_region,
    outside_region,
    priorities_of,
    read_manual_axes,
    read_meshes,
    read_shardings,
)
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, register
from hloom.rewrite.driver import Trace
from hloom.types.shape import Shape

RESULT = "xla.sdy.FuncResultSharding"
GROUP = "xla.sdy.ShardingGroup"
INTO = "xla.sdy.GlobalToLocalShape"
OUT = "xla.sdy.LocalToGlobalShape"
MANUAL_AXES = "xla.sdy.manual_axes"
IN_SHARDINGS = "xla.sdy.in_shardings"
OUT_SHARDINGS = "xla.sdy.out_shardings"
GROUP_ID = "xla.sdy.sharding_group_id"


@register
class ShardyImporter(Pass):
    """Say in HLO's own words what frontend attributes of Shardy (`xla.sdy.*`) say."""

    name = "shardy-importer"

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        if module.is_scheduled or MESHES not in (module.frontend_attributes or {}):
            return PassResult()
        fired: Counter[str] = Counter()
        run = _Import(module, fired)
        for c in reversed(module.computations_in_order()):  # callers first
            if not threads or c.execution_thread in threads:
                run.computation(c)
        module.frontend_attributes = module.frontend_attributes.without(MESHES)
        fired["meshes"] += 1
        return PassResult.of(+fired)


def meshes_of(module: Module) -> list[Mesh]:
    """The meshes that a module says in Shardy's words."""
    text = (module.frontend_attributes or {}).get(MESHES)
    return [] if text is None else list(read_meshes(text).values())


def has_shardings(module: Module) -> bool:
    """Whether a module says in Shardy's words how a value is cut."""
    if MESHES not in (module.frontend_attributes or {}):
        return False
    return any(SHARDING in (i.frontend_attributes or {}) for i in module.instructions())


def has_regions(module: Module) -> bool:
    """Whether a module says in Shardy's words that it cuts parts of itself."""
    if MESHES not in (module.frontend_attributes or {}):
        return False
    return any(_target(i) == INTO for i in module.instructions())


def _target(i: Instruction) -> str:
    return i.attrs.custom_call_target if i.opcode == "custom-call" else ""


@dataclass(slots=True)
class _Import:
    """One module; `manual` are the axes by hand in each computation, None where callers differ."""

    module: Module
    fired: Counter[str]
    manual: dict[Computation, tuple[str, ...] | None] = field(default_factory=dict)
    meshes: Mapping[str, Mesh] = field(init=False)

    def __post_init__(self) -> None:
        self.meshes = read_meshes(self.module.frontend_attributes[MESHES])
        self.manual[self.module.entry] = ()

    def computation(self, c: Computation) -> None:
        around = self.manual.get(c, ())
        order = c.in_order()
        regions = {i: self._axes(i) for i in order if _target(i) == INTO}
        bodies = {call for i in regions for call in _readers(i) if call.opcode == "call"}
        inner = {call: (*(around or ()), *regions[_source(call, regions)]) for call in bodies}
        for i in order:
            for called in i.called:
                manual = inner.get(i, around)
                if self.manual.setdefault(called, manual) != manual:
                    self.manual[called] = None
            if i in inner and i.frontend_attributes:
                i.frontend_attributes = i.frontend_attributes.without("inlineable")
        for i in order:
            self._instruction(c, i, around)

    def _instruction(self, c: Computation, i: Instruction, around: tuple[str, ...] | None) -> None:
        target = _target(i)
        if target in (INTO, OUT):
            self._border(c, i, around or (), is_in=target == INTO)
        elif target == GROUP:
            number = _said(i, GROUP_ID).split(":")[0].strip()
            self._replace(
                i, i.operands[0].shape, Sharding("unknown", shard_group=("as", int(number)))
            )
        elif SHARDING in (i.frontend_attributes or {}):
            stated = self._sharding(i, around)
            if target == RESULT:
                self._replace(i, i.shape, stated)
            elif stated is not None:
                i.sharding = stated
            _forget(i)
            self.fired["shardings"] += 1

    def _sharding(self, i: Instruction, around: tuple[str, ...] | None) -> Sharding | None:
        stated = [_in(s, around) for s in self._read(i, SHARDING)]
        if around is None:  # in and outside of a region: what it says cannot be true of both
            i.sharding = None
            return None
        if not i.shape.is_tuple:
            return stated[0] if len(stated) == 1 else i.sharding
        whole = Sharding.tuple_of(*stated)
        return whole if len(stated) == i.shape.leaf_count else i.sharding

    def _border(self, c: Computation, i: Instruction, around: tuple[str, ...], is_in: bool) -> None:
        """Each array by itself: placed as outside, then cut; or taken as inside, then joined."""
        inside = (*around, *self._axes(i))
        shardings = self._read(i, IN_SHARDINGS if is_in else OUT_SHARDINGS)
        if len(shardings) != len(i.operands):
            raise _wrong(i, f"there are {len(shardings)} shardings of {len(i.operands)} values")
        shapes = i.shape.elements if i.shape.is_tuple else (i.shape,)
        parts = []
        for x, stated, shape in zip(i.operands, shardings, shapes, strict=True):
            by_hand = SdySharding(outside_region(stated.named, inside), stated.priorities)
            outer, inner = _in(by_hand, around), in_region(stated.named, inside)
            first, second = (outer, inner) if is_in else (inner, outer)
            placed = _annotated(c, i, x, x.shape, first, "Sharding")
            target = "SPMDFullToShardShape" if is_in else "SPMDShardToFullShape"
            parts.append(_annotated(c, i, placed, shape, second, target))
        result = c.add("tuple", *parts) if i.shape.is_tuple else parts[0]
        _take_place(c, i, result)
        self.fired["borders"] += 1

    def _replace(self, i: Instruction, shape: Shape, sharding: Sharding | None) -> None:
        """An annotation of the operand; what has no value becomes an empty tuple beside it."""
        c = i.parent
        is_note = i.shape.is_tuple
        note = _annotated(c, i, i.operands[0], shape, sharding, "Sharding", has_effect=is_note)
        self.fired["groups" if is_note else "results"] += 1
        if is_note and (i.users or c.root is i):
            note = c.add("tuple")
        _take_place(c, i, note)

    # -- what is written

    def _axes(self, i: Instruction) -> tuple[str, ...]:
        return _parsed(i, MANUAL_AXES, read_manual_axes)

    def _read(self, i: Instruction, key: str) -> list[SdySharding]:
        return _parsed(i, key, lambda text: read_shardings(text, self.meshes))


def _parsed(i: Instruction, key: str, read):
    try:
        return read(_said(i, key))
    except ParseError as error:
        raise _wrong(i, f"{key}: {error.message}") from None


def _said(i: Instruction, key: str) -> str:
    text = (i.frontend_attributes or {}).get(key)
    if text is None:
        raise _wrong(i, f"it says nothing of {key}")
    return text


def _wrong(i: Instruction, message: str) -> HloError:
    hint = "JAX writes these attributes; see docs/partitioning.md"
    return ParseError(
        message, instruction=f"%{i.name} ({_target(i) or i.opcode})", rule="sharding", hint=hint
    )


def _in(stated: SdySharding, around: tuple[str, ...] | None) -> Sharding:
    return in_region(stated.named, around) if around else stated.sharding


def _readers(i: Instruction) -> list[Instruction]:
    """Who reads it, or its elements."""
    readers: list[Instruction] = []
    for y in i.users:
        readers += y.users if y.opcode == "get-tuple-element" and i.shape.is_tuple else [y]
    return readers


def _source(call: Instruction, regions: Mapping[Instruction, object]) -> Instruction:
    operands = [x.operands[0] if x.opcode == "get-tuple-element" else x for x in call.operands]
    return next(x for x in operands if x in regions)


def _annotated(
    c: Computation,
    like: Instruction,
    x: Instruction,
    shape: Shape,
    sharding: Sharding | None,
    target: str,
    has_effect: bool = False,
) -> Instruction:
    y = c.add(
        "custom-call",
        x,
        shape=shape,
        custom_call_target=target,
        custom_call_has_side_effect=has_effect,
    )
    y.metadata, y.sharding = like.metadata, sharding
    kept = (like.frontend_attributes or {}).get(SHARDING)
    if target == "Sharding" and kept and any(map(any, priorities_of(kept))):
        y.frontend_attributes = like.frontend_attributes
    return y


def _take_place(c: Computation, old: Instruction, new: Instruction) -> None:
    c.replace(old, new)
    c.erase(old)


def _forget(i: Instruction) -> None:
    """Drop the text, but where it says more than the sharding does."""
    text = i.frontend_attributes[SHARDING]
    if i.name in i.parent.names and not any(map(any, priorities_of(text))):
        i.frontend_attributes = i.frontend_attributes.without(SHARDING)
