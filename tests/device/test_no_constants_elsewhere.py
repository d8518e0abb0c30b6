"""No number about a machine stands outside `device/`: caches, registers, lanes, cycles, rates.

Numbers are recognised by the words of their names, in every room; and in the rooms that decide how
programs are cut by their size. What is left is on a list with its reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

import hloom
from hloom.device.costs import Costs
from hloom.device.device import Cache, Compute, Device, Engine, MemorySpace

HLOOM = Path(hloom.__file__).parent
WORDS = frozenset(
    "ns us cycles registers register cache caches cached lines line threads cores units vectors"
    " vector lanes bytes flops clock hz bandwidth latency page l1 l2 rate gflops".split()
)
"""In the name of a number, they say that it may be one of a machine."""
DECIDING = ("analysis/", "codegen/", "memory/", "passes/", "plan/", "schedule/")
LEAST = 4096
"""Numbers from here on are asked about in these rooms, whatever they are called."""
FORMS = ("codegen/llvm/math/", "codegen/llvm/convert.py", "codegen/llvm/lower_integer.py")
"""Written in patterns of bits."""

DEFAULTS = "of a pass that runs alone; a target sets it by its device"
EFFORT = "how much is tried or kept by the compiler, wherever it runs"
RATIO = "vectors or elements for each other, on whatever machine"
WIDTH = "the range of a type"
SIZED = "the layout of a file or a structure"
HERE = "the process that compiles or runs, not the device"
NAMED = {
    "aot/archive.py:HEADER_BYTES": SIZED,
    "aot/export.py:MOST_THREADS": "a bound on what is asked for",
    "aot/tensors.py:MOST_NAME_BYTES": SIZED,
    "aot/tensors_in_file.py:MOST_HEAD_BYTES": SIZED,
    "codegen/column_form.py:LEAST_ROW_VECTORS": RATIO,
    "codegen/columns.py:LEAST_VECTORS": RATIO,
    "codegen/crosswise.py:BLOCK_LINES": RATIO,
    "codegen/crosswise.py:WORD_BYTES": WIDTH,
    "codegen/cumulative.py:ACROSS_VECTORS": RATIO,
    "codegen/depthwise.py:LINE_RUN": "terms that are added up in a row: what sums lose",
    "codegen/depthwise_shape.py:MOST_VECTORS": RATIO,
    "codegen/grouped_shape.py:MOST_ALONE_VECTORS": RATIO,
    "codegen/fold.py:ROW_VECTORS": RATIO,
    "codegen/gemm_candidates.py:MOST_VECTORS": EFFORT,
    "codegen/kernel_cost.py:WORD_BYTES": WIDTH,
    "codegen/llvm/c_entry.py:CONTEXT_BYTES": SIZED,
    "codegen/llvm/c_entry.py:MOST_CONSTANT_BYTES": "what fits into a C file",
    "codegen/llvm/c_entry.py:THREADS_AT": SIZED,
    "codegen/llvm/c_processor.py:_SAVES_REGISTERS": SIZED,
    "codegen/llvm/compile.py:ALONE_BYTES": HERE,
    "codegen/llvm/compile.py:BATCH_BYTES": HERE,
    "codegen/llvm/compile.py:INTERRUPTED_BYTES": HERE,
    "codegen/llvm/alternation.py:LEAST_BYTES": EFFORT,
    "codegen/llvm/elf_symbols.py:_HEADER_BYTES": SIZED,
    "codegen/llvm/lower_tiles.py:SUM_BYTES": WIDTH,
    "codegen/llvm/matrix_tiles.py:ROW_BYTES": "a register of an instruction set",
    "codegen/matrix_tiling.py:LONG_ROW_BYTES": WIDTH,
    "codegen/matrix_tiling.py:PACKED_DEPTH_BYTES": WIDTH,
    "codegen/packing.py:TILE_LINES": "a register of an instruction set",
    "codegen/llvm/elf_symbols.py:_SYMBOL_BYTES": SIZED,
    "codegen/llvm/lower_gather.py:LEAST_PIECE_BYTES": WIDTH,
    "codegen/llvm/row_gathers.py:REGISTERS_OF_A_GROUP": RATIO,
    "codegen/llvm/small_tables.py:LEAST_LANES": RATIO,
    "codegen/llvm/thunks/copy.py:INLINE_VECTORS": RATIO,
    "codegen/scatter.py:LANES_OF_WINDOW": RATIO,
    "codegen/short_rows.py:MOST_VECTORS": RATIO,
    "codegen/row_tiles.py:FEW_VECTORS": RATIO,
    "codegen/row_tiles.py:MOST_VECTORS": RATIO,
    "targets/cpu/lower/carried_rows.py:ROW_VECTORS": RATIO,
    "targets/cpu/lower/element_loop.py:CARRIED_VECTORS": RATIO,
    "targets/cpu/lower/element_loop.py:MOST_VECTORS": RATIO,
    "codegen/walk.py:REGISTERS_PER_SUM": RATIO,
    "interp/step_list.py:HOISTED_BYTES": HERE,
    "ir/text/html.py:MOST_LINES": "lines of text",
    "ir/text/html.py:OPEN_LINES": "lines of text",
    "passes/collectives/all_reduce_decomposer.py:most_bytes": DEFAULTS,
    "passes/collectives/collective_backend_assigner.py:threshold_in_bytes": DEFAULTS,
    "passes/collectives/collective_kernel_strategy_annotator.py:one_shot_bytes": DEFAULTS,
    "passes/collectives/collective_kernel_strategy_annotator.py:two_shot_bytes": DEFAULTS,
    "passes/collectives/combining.py:combine_threshold_in_bytes": DEFAULTS,
    "passes/collectives/while_loop_all_reduce_code_motion.py:max_stacked_size_bytes": DEFAULTS,
    "passes/expand/async_simplifier.py:long_ns": DEFAULTS,
    "passes/expand/split_k_rewriter.py:MOST_VECTORS": "rows of a thin matrix",
    "passes/expand/tree_reduction_rewriter.py:block_bytes": DEFAULTS,
    "passes/expand/tree_reduction_rewriter.py:least_columns_bytes": DEFAULTS,
    "passes/fuse/cost.py:BLOCK_LINES": "rows or columns of a matrix",
    "passes/fuse/fusion.py:cached_bytes": DEFAULTS,
    "passes/fuse/fusion.py:row_bytes": DEFAULTS,
    "passes/fuse/fusion.py:vector_floats": DEFAULTS,
    "passes/fuse/group.py:cached_bytes": DEFAULTS,
    "passes/fuse/group.py:row_bytes": DEFAULTS,
    "passes/fuse/group.py:vector_floats": DEFAULTS,
    "passes/layout/while_loop_weight_panels.py:most_bytes": DEFAULTS,
    "passes/normalize/while_loop_fresh_stacks.py:least_bytes": EFFORT,
    "passes/partition/reshard_plan.py:STEP_BYTES": "breaks ties: bytes are what is made few",
    "passes/partition/sharding_refinement.py:LEAST_BYTES": EFFORT,
    "passes/simplify/constant_folding.py:result_limit_bytes": EFFORT,
    "program/c_fft.py:VECTOR_BYTES": "of the widest code of fft_tile.inc: memory is counted for it",
    "program/c_scratch.py:NAME_BYTES": SIZED,
    "program/c_weights.py:SHARED_BYTES": EFFORT,
    "program/saved_form.py:PAGE": SIZED,
    "program/slice.py:STREAMED_BYTES": "a promise to callers: what is smaller need not be aligned",
    "program/thunks/fft.py:PART_BYTES": "how the routine is written",
    "runtime/cache.py:DEFAULT_LIMIT_BYTES": HERE,
    "runtime/cache.py:_LABELS_BYTES": SIZED,
    "runtime/guards.py:GUARD_BYTES": HERE,
    "runtime/native.py:_PIECE_NS": HERE,
    "runtime/object_cache.py:IN_MEMORY_BYTES": HERE,
    "runtime/program_files.py:_MAPPED_BYTES": HERE,
    "targets/cpu/fault_notice.py:MOST_CONSTANT_BYTES": EFFORT,
    "targets/cpu/lower/loop_steps.py:LONG_NS": "how long people wait for a program to stop",
    "targets/cpu/tuning/candidates.py:MOST_LOOP_FLOPS": EFFORT,
    "targets/cpu/tuning/profiler.py:GUARD_BYTES": HERE,
    "targets/cpu/tuning/results.py:MOST_BYTES": HERE,
    "tools/calibrate.py:RATE_ROUNDS": EFFORT,
    "tools/calibrate.py:CACHE_ROUNDS": "how often something is measured",
    "tools/calibrate.py:LONG_BYTES": "beside what moving so much takes a call is nothing",
    "tools/device.py:ALL_REDUCE_BYTES": "an example that is shown",
    "torch/weights.py:FREEZE_BYTES": EFFORT,
    "types/sizes.py:SIZE_SLOT_BYTES": SIZED,
}
"""Numbers whose names sound like those of a machine, and what they are."""

LARGE = {
    "analysis/alias_tree.py": "later than everything",
    "analysis/device_values.py": EFFORT,
    "analysis/fusible.py": EFFORT,
    "analysis/replication.py": "entries of a cache of the compiler's",
    "codegen/depthwise_shape.py": "a row that is no picture",
    "codegen/elements.py": WIDTH,
    "codegen/elements_data.py": WIDTH,
    "codegen/llvm/arithmetic.py": WIDTH,
    "codegen/llvm/c_entry.py": "as above",
    "codegen/llvm/c_processor.py": "questions to a processor",
    "codegen/llvm/compile.py": "as above",
    "codegen/llvm/known_offsets.py": EFFORT,
    "codegen/llvm/lower_dot.py": "a byte repeated",
    "codegen/llvm/lower_real.py": "the largest numbers whose reciprocals are normal ones",
    "codegen/llvm/required_features.py": "a question to the system",
    "codegen/llvm/values.py": WIDTH,
    "codegen/pieces.py": "elements whose masks cost more than a kernel: a ratio",
    "passes/collectives/all_reduce_decomposer.py": "as above",
    "passes/collectives/collective_backend_assigner.py": "as above",
    "passes/collectives/collective_kernel_strategy_annotator.py": "as above",
    "passes/collectives/combining.py": "as above",
    "passes/collectives/pipelined_forward.py": EFFORT,
    "passes/layout/while_loop_weight_panels.py": "as above",
    "passes/collectives/while_loop_all_reduce_code_motion.py": "as above",
    "passes/collectives/windowed_einsum.py": "as above",
    "passes/control/call_inliner.py": EFFORT,
    "passes/expand/async_simplifier.py": "as above",
    "passes/expand/dot_algorithm_rewriter.py": WIDTH,
    "passes/expand/dynamic_values.py": WIDTH,
    "passes/expand/grouped_rows.py": WIDTH,
    "passes/expand/ragged_dot_expander.py": WIDTH,
    "passes/expand/random_bits.py": "constants of Philox and Threefry",
    "passes/expand/rng_expander.py": "constants of a generator",
    "passes/expand/scan_expander.py": WIDTH,
    "passes/expand/select_and_scatter_expander.py": WIDTH,
    "passes/expand/split_k_rewriter.py": "terms for each part, results for each term: ratios",
    "passes/expand/stochastic_convert_decomposer.py": WIDTH,
    "passes/expand/tree_reduction_rewriter.py": "as above",
    "passes/expand/zero_sized_hlo_elimination.py": WIDTH,
    "passes/fuse/attention_fusion.py": DEFAULTS,
    "passes/normalize/topk_rewriter.py": WIDTH,
    "passes/fuse/fusion.py": "as above",
    "passes/fuse/group.py": "as above",
    "passes/partition/gather.py": WIDTH,
    "passes/partition/halo.py": "entries of a cache of the compiler's",
    "passes/partition/partitioner.py": "few elements: bytes are what is made few",
    "passes/partition/reshard_plan.py": "entries of a cache of the compiler's",
    "passes/partition/spmd_partitioner.py": WIDTH,
    "passes/sharding/sharding_propagation.py": EFFORT,
    "passes/simplify/algebra/fills.py": EFFORT,
    "passes/simplify/constant_folding.py": EFFORT,
    "passes/simplify/cse.py": EFFORT,
    "schedule/least_memory.py": "more than everything",
}
"""Files of the deciding rooms that have a number from `LEAST` on, and what it is."""


NOT_YET = frozenset(["scratchpad_bytes"])
"""Of GPUs, which nothing compiles for."""


def number(node: ast.AST | None) -> float | None:
    """What a literal, or an expression of literals, is; None for everything else."""
    if not isinstance(node, ast.Constant | ast.BinOp | ast.UnaryOp):
        return None
    if any(not isinstance(x, ast.expr | ast.operator | ast.unaryop) for x in ast.walk(node)):
        return None
    if any(isinstance(x, ast.Name | ast.Call | ast.Attribute) for x in ast.walk(node)):
        return None
    try:
        value = eval(compile(ast.Expression(node), "number", "eval"), {})
    except TypeError:
        return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def assigned(tree: ast.Module) -> Iterator[tuple[str, float]]:
    """What is given a name: constants, fields of classes, defaults of arguments."""
    pairs: list[tuple[str, ast.AST | None]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    pairs.append((target.id, node.value))
                elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    names = [getattr(x, "id", "") for x in target.elts]
                    pairs += zip(names, node.value.elts)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            pairs.append((node.target.id, node.value))
        elif isinstance(node, ast.FunctionDef):
            a = node.args
            last = a.args[len(a.args) - len(a.defaults) :]
            pairs += [(x.arg, d) for x, d in zip(last, a.defaults)]
            pairs += [(x.arg, d) for x, d in zip(a.kwonlyargs, a.kw_defaults)]
    for name, value in pairs:
        if (found := number(value)) is not None:
            yield name, found


def is_named_so(name: str, value: float) -> bool:
    """Whether a name says that the number may be one of a machine; 0 and 1 are none."""
    return abs(value) > 1 and bool(WORDS.intersection(name.lower().strip("_").split("_")))


@cache
def trees() -> dict[str, ast.Module]:
    """Every file of the compiler, by its name."""
    return {
        file.relative_to(HLOOM).as_posix(): ast.parse(file.read_text(encoding="utf-8"))
        for file in sorted(HLOOM.rglob("*.py"))
    }


@cache
def attributes_read() -> frozenset[str]:
    """All that is read of anything, outside the text form, which reads and writes all fields."""
    return frozenset(
        x.attr
        for name, tree in trees().items()
        if name != "device/text.py"
        for x in ast.walk(tree)
        if isinstance(x, ast.Attribute) and isinstance(x.ctx, ast.Load)
    )


def sources() -> Iterator[tuple[str, ast.Module]]:
    """Every file that describes no device."""
    own = ("device/", "targets/cpu/device.py")
    yield from ((name, tree) for name, tree in trees().items() if not name.startswith(own))


def test_numbers_named_like_those_of_a_machine_are_on_the_list() -> None:
    named = {
        f"{file}:{name}"
        for file, tree in sources()
        if not file.startswith("codegen/llvm/math/")
        for name, value in assigned(tree)
        if is_named_so(name, value)
    }
    assert named - NAMED.keys() == set(), "a number of a machine belongs to its device"
    assert NAMED.keys() - named == set(), "gone"


def test_large_numbers_of_what_decides_are_on_the_list() -> None:
    large = {
        file
        for file, tree in sources()
        if file.startswith(DECIDING) and not file.startswith(FORMS)
        for node in ast.walk(tree)
        if (number(node) or 0) >= LEAST
    }
    assert large - LARGE.keys() == set(), "a size of a cache belongs to the device"
    assert LARGE.keys() - large == set(), "gone"


@pytest.mark.parametrize(
    "text",
    [
        "CACHE_BYTES = 1 << 20",
        "class A:\n    row_bytes: int = 4 * 1024",
        "FEW, LINES = 2, 64",
        "def f(x, *, step_ns=4e3): pass",
    ],
)
def test_a_constant_would_be_noticed(text: str) -> None:
    assert any(is_named_so(name, value) for name, value in assigned(ast.parse(text)))


@pytest.mark.parametrize("kind", [Device, Compute, Cache, MemorySpace, Engine, Costs])
def test_each_fact_of_a_device_has_a_reader(kind: type) -> None:
    unread = {f.name for f in fields(kind)} - attributes_read()
    assert unread == {f.name for f in fields(kind)} & NOT_YET
