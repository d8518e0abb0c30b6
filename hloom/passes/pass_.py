"""What a pass is: a named, configured step from a module to a better one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, dataclass_transform

import numpy as np

from hloom.base.diagnostics import UsageError
from hloom.base.registry import Registry
from hloom.ir.computation import Computation
from hloom.ir.module import Module
from hloom.ir.order import repair_schedules
from hloom.passes.facts import Claims, Fact
from hloom.rewrite.driver import RuleTable, Trace, apply_rules
from hloom.rewrite.fusion import drop_unread_operands
from hloom.rewrite.rule import Rule

ALL_THREADS: frozenset[str] = frozenset()


@dataclass
class PassResult:
    """What a pass did. `changed` is the truth; `fired` counts what it did by name.

    `module` is another module when the pass made one instead of changing the one it got.
    """

    changed: bool = False
    fired: Counter[str] = field(default_factory=Counter)
    module: Module | None = None

    @staticmethod
    def of(fired: Counter[str]) -> PassResult:
        """Changed exactly when something was counted."""
        return PassResult(bool(fired) and fired.total() > 0, fired)


@dataclass(frozen=True, slots=True)
class Contents:
    """What tells most passes that they have nothing to do in a module."""

    opcodes: AbstractSet[str]
    has_unread: bool
    """Whether an instruction is read by none and is no root."""

    @staticmethod
    def of(module: Module) -> Contents:
        opcodes: set[str] = set()
        has_unread = False
        for c in module.computations:
            root = c._root
            for i in c.instructions:
                opcodes.add(i.opcode)
                if not i.users and i is not root:
                    has_unread = True
        return Contents(opcodes, has_unread)


@dataclass(frozen=True)
class Pass(ABC):
    """Fields are the options of the pass; `run` changes the module and says what it did.

    An option of the wrong type is a `UsageError`: the text "false" would count as true, and a
    name for a set of names would be searched for parts of it.
    """

    name: ClassVar[str]
    kind: ClassVar[str] = "pass"
    """`pipeline` and `fixed-point` are run by other rules: asked of each step, so that it is a word
    and no test of classes, which took a fifth of the time of small programs' passes."""
    needs: ClassVar[tuple[Fact, ...]] = ()
    gives: ClassVar[tuple[Fact, ...]] = ()
    breaks: ClassVar[tuple[Fact, ...]] = ()
    opcodes: ClassVar[AbstractSet[str] | None] = None
    """A module without instructions of any of these stays as it is; None: the pass is to be run."""

    def __post_init__(self) -> None:
        for option in fields(self):
            value = getattr(self, option.name)
            if value is not option.default and option.default is not MISSING:
                checked = checked_option(option.name, value, option.default)
                object.__setattr__(self, option.name, checked)

    def claims(self) -> Claims:
        """What it needs, gives and breaks with these options."""
        return Claims(self.needs, self.gives, self.breaks)

    def is_for(self, contents: Contents) -> bool:
        """Whether there is anything for it to do in such a module, as far as that tells: a small
        program goes through ninety passes, most of them for what it does not have."""
        return self.opcodes is None or not self.opcodes.isdisjoint(contents.opcodes)

    @abstractmethod
    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        """Change the module; only computations on `threads` (empty: all) may be touched."""

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return (type(self).__doc__ or "").strip().split("\n")[0]


def checked_option(name: str, value: Any, default: Any) -> Any:
    """The value of an option whose default is of its type; None stands for no function."""
    if isinstance(default, bool | int):
        if isinstance(value, bool | np.bool_) == isinstance(default, bool):
            if isinstance(value, bool | np.bool_ | int | np.integer):
                return type(default)(value)
        expected = "True or False" if isinstance(default, bool) else "a whole number"
    elif isinstance(default, frozenset):
        names = [value] if isinstance(value, str) else value
        if isinstance(names, Collection) and all(isinstance(x, str) for x in names):
            return frozenset(names)
        expected = "names"
    elif default is None:
        if value is None or callable(value):
            return value
        expected = "a function"
    else:
        return value
    raise UsageError(f"{name} is {expected}, not {value!r}", rule="pass-option")


def on_threads(module: Module, threads: frozenset[str]) -> Iterator[Computation]:
    """The computations of some threads (empty: all), callees before callers."""
    for c in module.computations_in_order():
        if not threads or c.execution_thread in threads:
            yield c


@dataclass(frozen=True)
class RewritePass(Pass):
    """A pass that is nothing but a set of rules."""

    rules: ClassVar[tuple[Rule, ...]] = ()
    into_fusions: ClassVar[bool] = True

    def active_rules(self) -> tuple[Rule, ...]:
        """The rules in use; a pass with options may choose among them."""
        return self.rules

    def is_for(self, contents: Contents) -> bool:
        return contents.has_unread or not contents.opcodes.isdisjoint(_table_of(self).by_opcode)

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        changed = False
        rules = _table_of(self)
        for c in on_threads(module, threads):
            if (c.is_fusion and not self.into_fusions) or not _is_of_use(rules, c):
                continue
            count = len(c.instructions)
            fired += apply_rules(c, rules, trace=trace)
            if c.is_fusion:
                drop_unread_operands(c)
            changed |= len(c.instructions) != count
        if changed or fired:
            repair_schedules(module)
        return PassResult(changed or fired.total() > 0, fired)


@cache
def _table_of(p: RewritePass) -> RuleTable:
    """The rules of a pass by opcode: as long as the class and the options are the same."""
    return RuleTable(p.active_rules())


def _is_of_use(rules: RuleTable, c: Computation) -> bool:
    """Whether a rule is for an instruction of the computation, or one is unread and would go."""
    root, opcodes = c.root, rules.by_opcode
    return any(i.opcode in opcodes or (not i.users and i is not root) for i in c.instructions)


ROOMS = "simplify control normalize expand fuse layout sharding collectives partition"
PASSES: Registry[str, type[Pass]] = Registry(
    "pass", tuple([f"hloom.passes.{room}" for room in ROOMS.split()])
)
"""All there are: most programs are compiled without importing most of them."""


@dataclass_transform(frozen_default=True)
def register(cls: type[Pass]) -> type[Pass]:
    """Make the pass known to the pipelines, the tools and the tests by its name."""
    return PASSES.add(cls.name, dataclass(frozen=True)(cls))
