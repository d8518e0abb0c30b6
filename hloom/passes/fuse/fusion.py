"""Put producers into the kernels of their readers, and kernels that read the same into one."""

from __future__ import annotations

from collections import Counter

from hloom.base.faults import blamed
from hloom.device.costs import Costs, Rates
from hloom.ir.computation import Computation
from hloom.ir.module import Module
from hloom.passes.expand.dot_decomposer import canonical_dots
from hloom.passes.expand.dynamic_padder import static_shapes
from hloom.passes.fuse.build import apply_plan, group_kind
from hloom.passes.fuse.fusion_plan import FusionPlan, is_loop_body, is_sequential, planned
from hloom.passes.fuse.group import COSTS, Limits
from hloom.passes.fuse.merge import merged
from hloom.passes.layout.layout_normalization import row_major_inside
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, register
from hloom.rewrite.driver import Trace

MERGE = "merge"


@register
class Fusion(Pass):
    """Fuse producers into consumers, and consumers that share what they read."""

    name = "fusion"
    needs = (canonical_dots, row_major_inside, static_shapes)

    max_operands: int = 60
    max_instructions: int = 200
    anchors: bool = True
    """Whether dots and convolutions take operands and readers in."""
    multi_output: bool = True
    sequence_elements: int = 1024
    """Up to this size results of different shapes share a kernel in a loop's body; 0: never."""

    row_bytes: int = 1 << 19
    """A row that is read twice has at most so many, at 8 an element."""
    cached_bytes: int = 1 << 16
    """More than this is not taken for granted in the nearest caches."""
    least_rows: int = 8
    """Fewer long rows are too few for threads to share."""
    operation_ns: float = COSTS.operation_ns
    byte_ns: float = COSTS.byte_ns
    kernel_ns: float = COSTS.kernel_ns
    """What computing again costs, and what is saved by it..."""
    inline_ns: float = COSTS.inline_ns
    """... in the body of a loop, by a value that shares a kernel with others."""
    weights: Rates = ()
    """What differs from `WEIGHTS` of the costs, by opcode."""
    row_parallel: int = COSTS.parallel_row
    """A single row of more elements is folded and read in kernels of its own."""
    inner_product_flops: int = COSTS.inner_product_flops
    """Smaller dots may be computed inside loops."""
    product_blocks: float = 4.0
    """How often an operand of a large product is packed at most."""
    tile_types: tuple[tuple[str, str], ...] = ()
    """Types of operands that products multiply by whole tiles, which read them where they stand."""
    vector_floats: int = 16
    """A result of no more elements is computed at once, wherever it is read."""
    copies: int = 4
    """In how many kernels a value may be computed."""
    without: tuple[str, ...] = ()
    """Kinds that are not made: loop, row, column, output, sequence; merge: of several results."""

    def limits(self, in_loop: bool = False) -> Limits:
        """The limits that the options say; `in_loop`: in the body of a loop."""
        return Limits(
            in_loop=in_loop,
            operands=self.max_operands,
            instructions=self.max_instructions,
            anchors=self.anchors,
            sequence_elements=0 if "sequence" in self.without else self.sequence_elements,
            row_bytes=self.row_bytes,
            cached_bytes=self.cached_bytes,
            least_rows=self.least_rows,
            row_parallel=self.row_parallel,
            product_blocks=self.product_blocks,
            tile_types=self.tile_types,
            vector_floats=self.vector_floats,
            costs=Costs(
                operation_ns=self.operation_ns,
                byte_ns=self.byte_ns,
                kernel_ns=self.kernel_ns,
                inline_ns=self.inline_ns,
                weights=self.weights,
                inner_product_flops=self.inner_product_flops,
            ),
            copies=self.copies,
            without=frozenset(self.without),
        )

    def plan(self, c: Computation) -> FusionPlan:
        """What the pass would do to a computation; changes nothing."""
        plan = planned(c, self.limits(is_loop_body(c)))
        if self.multi_output and MERGE not in self.without:
            with blamed("fusion", MERGE):
                merged(plan, is_loop_body(c))
        return plan

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        if module.schedule is not None:
            return PassResult()
        for c in module.computations_in_order():
            if not is_sequential(c) or (threads and c.execution_thread not in threads):
                continue
            plan = self.plan(c)
            if apply_plan(plan, module):
                alive = (g for g in plan.groups if not g.dead and len(g.members) > 1)
                fired.update(group_kind(g) for g in alive)
            if trace is not None:
                for _, _, why in plan.edges:
                    if why is not None:
                        trace.declined[self.name, why] += 1
        return PassResult.of(fired)
