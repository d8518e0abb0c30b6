"""Find the shardings of all values from those that the program gives for some.

How it is decided: `propagate.py`; what is said of dimensions: `factors.py`. Shardings that the
program gives are kept; dimensions that it leaves open (`?`, `unspecified_dims`) and, where the
program allows it, parameters and results are cut further. `explained_shardings` says for each
value where its sharding came from.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hloom.ir.copy import copy_module
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.values.sharding import MANUAL, REPLICATED, Sharding
from hloom.ir.values.sharding_sdy import MESHES
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, register
from hloom.passes.sharding.nodes import Node, Nodes
from hloom.passes.sharding.propagate import LoopOrder, Propagation
from hloom.passes.sharding.shardy_importer import ShardyImporter
from hloom.rewrite.driver import Trace


@register
class ShardingPropagation(Pass):
    """Shard every value from the shardings that some have."""

    name = "sharding-propagation"

    limit: int = 10_000_000
    """Steps after which it stops early, and says so; each looks at one instruction."""

    def run(
        self,
        module: Module,
        *,
        trace: Trace | None = None,
        threads: frozenset[str] = ALL_THREADS,
        known: Propagation | None = None,
    ) -> PassResult:
        """`known`: what is decided about the module as it is, where somebody asked before."""
        fired: Counter[str] = Counter()
        propagation = known or propagated(module, self.limit)
        nodes = propagation.nodes
        for c in nodes.flow.computations:
            if threads and c.execution_thread not in threads:
                continue
            for i in c.instructions:
                sharding = sharding_of(nodes, i)
                if sharding is not None and (i.sharding is None or not sharding.same(i.sharding)):
                    i.sharding = sharding
                    fired["sharded"] += 1
        changed = fired.total() > 0
        if propagation.is_stopped:
            fired["stopped-early"] += 1
        return PassResult(changed, fired)


def propagated(
    module: Module, limit: int = ShardingPropagation.limit, loops: LoopOrder = LoopOrder.LATE
) -> Propagation:
    """What is decided about every value of a module; changes nothing."""
    propagation = Propagation(Nodes(module), limit, loops)
    propagation.run()
    return propagation


def sharding_of(nodes: Nodes, i: Instruction) -> Sharding | None:
    """The sharding of a value; None where nothing is to be said."""
    if not i.shape.leaf_count:
        return None
    leaves = [nodes.of(i, k) for k in range(i.shape.leaf_count)]
    shardings = [
        _of_node(nodes, n) if n.shape.is_array else _stated(i, k) for k, n in enumerate(leaves)
    ]
    if all(s is None for s in shardings):
        return None
    if not i.shape.is_tuple:
        return shardings[0]
    whole = Sharding.tuple_of(*(s or REPLICATED for s in shardings))
    return i.sharding if i.sharding is not None and not any(map(_is_new, leaves)) else whole


def _is_new(node: Node) -> bool:
    return node.shape.is_array and (node.stated is None or bool(node.source))


def _stated(i: Instruction, leaf: int) -> Sharding | None:
    """What the program says of a leaf that has no elements: which device makes a token."""
    s = i.sharding
    if s is None or (s.is_tuple and leaf >= len(s.elements)):
        return None
    return s.for_leaf(leaf)


def _of_node(nodes: Nodes, node: Node) -> Sharding | None:
    if node.stated is not None and not node.source:
        return node.stated
    if node.all_manual:
        return MANUAL
    if node.space is None or not (node.is_cut or node.manual or node.unreduced):
        return None
    return nodes.spaces.spaces[node.space].sharding(node.state())


@dataclass(frozen=True)
class ShardingReason:
    """Of one leaf of a value: its sharding, the instruction it came from, and why."""

    value: Instruction
    leaf: int
    sharding: Sharding | None
    source: str
    why: str


def explained_shardings(module: Module) -> list[ShardingReason]:
    """Where the sharding of every value came from; changes nothing. What is said in Shardy's words
    is read first, in a copy."""
    if MESHES in (module.frontend_attributes or {}):
        module = copy_module(module)
        ShardyImporter().run(module)
    nodes = propagated(module).nodes
    reasons = []
    for c in nodes.flow.computations:
        for i in c.instructions:
            for leaf in range(i.shape.leaf_count):
                node = nodes.of(i, leaf)
                why = "; ".join(node.why) or "nothing that is sharded reaches it"
                reasons.append(ShardingReason(i, leaf, _of_node(nodes, node), node.source, why))
    return reasons
