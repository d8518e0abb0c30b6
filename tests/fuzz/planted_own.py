"""Programs made so that planted faults are met which no text of the tests meets.

Some are as large as passes ask for that cut long sums in parts; they are told by their names. Each
operation is drawn by itself and given shardings, so that every rule of the partitioner is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from hloom.base.diagnostics import HloError
from hloom.ir.module import Module
from hloom.ir.values.sharding import Sharding
from hloom.passes.partition.partitioner import FAMILIES as PARTITION_RULES
from tests.fuzz.programs_native import drawn_single
from tests.fuzz.size_families import families

RECURRENT = """HloModule recurrent
more { s = (s32[], f32[6,4], f32[5,6,4], f32[4,4]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 n = s32[] constant(5)
 ROOT c = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[6,4], f32[5,6,4], f32[4,4]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 h = f32[6,4] get-tuple-element(s), index=1
 xs = f32[5,6,4] get-tuple-element(s), index=2
 w = f32[4,4] get-tuple-element(s), index=3
 z = s32[] constant(0)
 x1 = f32[1,6,4] dynamic-slice(xs, i, z, z), dynamic_slice_sizes={1,6,4}
 x = f32[6,4] reshape(x1)
 p = f32[6,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
 g = f32[6,4] add(p, h)
 t = f32[6,4] tanh(g)
 o = s32[] constant(1)
 j = s32[] add(i, o)
 ROOT r = (s32[], f32[6,4], f32[5,6,4], f32[4,4]) tuple(j, t, xs, w) }
ENTRY e { h = f32[6,4] parameter(0)
 xs = f32[5,6,4] parameter(1)
 w = f32[4,4] parameter(2)
 i = s32[] constant(0)
 t = (s32[], f32[6,4], f32[5,6,4], f32[4,4]) tuple(i, h, xs, w)
 l = (s32[], f32[6,4], f32[5,6,4], f32[4,4]) while(t), condition=more, body=body
 ROOT r = f32[6,4] get-tuple-element(l), index=1 }"""
CHOLESKY = """HloModule factor
ENTRY e { x = f32[4,4] parameter(0)
 t = f32[4,4] transpose(x), dimensions={1,0}
 p = f32[4,4] dot(x, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
 i = s32[4,4] iota(), iota_dimension=0
 j = s32[4,4] iota(), iota_dimension=1
 d = pred[4,4] compare(i, j), direction=EQ
 f = f32[4,4] convert(d)
 n = f32[4,4] add(p, f)
 c = f32[4,4] cholesky(n), lower=true
 ROOT s = f32[4,4] triangular-solve(c, x), left_side=true, lower=true, transpose_a=NO_TRANSPOSE }"""
SENT = """HloModule sent, num_partitions=2
ENTRY e { x = f32[5] parameter(0)
 t = token[] after-all()
 s = (f32[5], u32[], token[]) send(x, t), channel_id=1,
   frontend_attributes={_xla_send_recv_source_target_pairs={{0,1}}}
 r = (f32[5], u32[], token[]) recv(t), channel_id=1,
   frontend_attributes={_xla_send_recv_source_target_pairs={{0,1}}}
 rd = (f32[5], token[]) recv-done(r), channel_id=1
 sd = token[] send-done(s), channel_id=1
 g = f32[5] get-tuple-element(rd), index=0
 ROOT y = f32[5] add(g, x) }"""
FOURIER = """HloModule transformed
ENTRY e { x = c64[3,101] parameter(0)
 y = c64[3,101] fft(x), fft_type=FFT, fft_length={101}
 r = f32[3,202] parameter(1)
 s = c64[3,102] fft(r), fft_type=RFFT, fft_length={202}
 ROOT t = (c64[3,101], c64[3,102]) tuple(y, s) }"""
RANDOM = """HloModule random
ENTRY e { low = s32[] constant(3)
 high = s32[] constant(4)
 ROOT r = s32[7] rng(low, high), distribution=rng_uniform }"""
ANNOUNCED = """HloModule announced, replica_count=2
ENTRY e { x = f32[5] parameter(0)
 y = f32[5] collective-broadcast(x), replica_groups={{1,0}}
 ROOT r = f32[5] add(x, y) }"""
OWN = (RECURRENT, CHOLESKY, SENT, FOURIER, RANDOM, ANNOUNCED)
"""What texts of the tests do not reach."""
CASES = {
    "split-k-rewriter": 2,
    "tree-reduction-rewriter": 2,
    "weight-gradient-splitter": 2,
    "all-gather-simplifier": 1,
    "all-reduce-splitter": 1,
    "reduce-scatter-reassociate": 1,
}
"""Passes of whose own cases so many are taken."""
SIZED = {"attention square": 700, "transpose all": 700, "convolution features": 300}
SIZED |= {"reduce transposed": 300, "convolution images first": 300}
"""Families of kernels by name, and how long they are taken (`size_families.txt`)."""
FOLDER = Path(__file__).parents[1] / "passes"


def large() -> tuple[str, ...]:
    """Texts of the cases and families."""
    cases = [
        "HloModule large_" + case.split("HloModule ", 1)[1]
        for name, most in CASES.items()
        for path in FOLDER.glob(f"*/{name.replace('-', '_')}.hlo")
        for case in path.read_text().split("// ---")[:most]
    ]
    return (*cases, *(_sized(name, n) for name, n in SIZED.items()))


def _sized(name: str, n: int) -> str:
    return families()[name].text(n).replace("HloModule sized", f"HloModule large_{n}", 1)


class _Large:
    """Names of modules that may be large."""

    def __contains__(self, name: object) -> bool:
        return str(name).startswith("large_")


LARGE = _Large()


def partitioned_singles() -> Iterator[tuple[str, Module]]:
    """For each operation with a rule some programs of it alone, cut for two devices."""
    for opcode in sorted(PARTITION_RULES):
        for number in range(8):
            with suppress(HloError, KeyError, ValueError, RecursionError, StopIteration):
                module = drawn_single(number, opcode)
                if _is_cut(module):
                    yield opcode, module


def _is_cut(module: Module) -> bool:
    """Give what can be halved a sharding over two devices; whether anything has one."""
    if module.replica_count * module.num_partitions > 1:
        return False
    module.num_partitions, module.use_spmd_partitioning = 2, True
    for p in module.entry.parameters:
        even = [d for d, n in enumerate(p.shape.dims) if not n % 2] if p.shape.is_array else []
        if even:
            tiles = tuple([1 + (d == even[0]) for d in range(p.shape.rank)])
            p.sharding = Sharding.tile(tiles, (0, 1))
    whole = Sharding("replicated")
    leaves = list(module.entry.root.shape.leaves())
    is_tuple = module.entry.root.shape.is_tuple
    module.entry.root.sharding = Sharding.tuple_of(*[whole] * len(leaves)) if is_tuple else whole
    return any(p.sharding is not None for p in module.entry.parameters)
