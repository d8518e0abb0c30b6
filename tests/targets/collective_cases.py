"""Programs for several devices with every collective, in all its forms, by name."""

from __future__ import annotations

from collections.abc import Iterator

ALL = "replica_groups={{0,1,2,3}}, channel_id=1, use_global_device_ids=true"
FLOATS = "f16 bf16 f32 f64 f8e4m3fn f8e5m2 f8e8m0fnu f4e2m1fn".split()
INTEGERS = "pred s4 u4 s8 u8 s16 u16 s32 u32 s64 u64".split()
COMPLEX = ["c64", "c128"]


def program(header: str, body: str, dtype: str = "f32", op: str = "add") -> str:
    """A module with a computation `fold`."""
    fold = f"fold {{ a = {dtype}[] parameter(0)\n b = {dtype}[] parameter(1)\n"
    return f"HloModule m, {header}\n{fold} ROOT s = {dtype}[] {op}(a, b) }}\nENTRY e {{\n{body}\n}}"


def reductions() -> Iterator[tuple[str, str]]:
    """An all-reduce of each type with each operation that it has."""
    for dtype in (*FLOATS, *INTEGERS, *COMPLEX):
        ops = ["add", "multiply"]
        ops += [] if dtype in COMPLEX else ["maximum", "minimum"]
        ops += ["and", "or"] if dtype in INTEGERS else []
        for op in ops:
            body = f" x = {dtype}[37] parameter(0)\n ROOT r = {dtype}[37] all-reduce(x), {ALL}"
            yield f"{op} {dtype}", program("num_partitions=4", f"{body}, to_apply=fold", dtype, op)


MODES = {
    "replicas": ("replica_groups={{0,1}}", 2),
    "nobody named": ("replica_groups={}", 2),
    "partitions": ("replica_groups={{1,0}}, channel_id=3", 2),
    "both": ("replica_groups={{1,0}}, channel_id=3", 4),
    "flattened": ("replica_groups={{0,3},{2,1}}, channel_id=3, use_global_device_ids=true", 2),
    "iota": ("replica_groups=[2,2]<=[2,2]T(1,0), channel_id=3, use_global_device_ids=true", 2),
}
"""Attributes and sizes of groups. Collectives that have no use_global_device_ids take a channel to
mean that their groups are of partitions."""
FLAT = ("replicas", "nobody named", "partitions")
GLOBAL = ("replicas", "nobody named", "both", "flattened", "iota")
HEADER = "replica_count=2, num_partitions=2"


def group_modes() -> Iterator[tuple[str, str]]:
    """Each kind of collective with groups in each mode."""
    x = " x = f32[8,12] parameter(0)\n ROOT r ="
    for mode in GLOBAL:
        groups, size = MODES[mode]
        for name, shape, more in (
            ("all-reduce", "[8,12]", "to_apply=fold"),
            ("collective-reduce", "[8,12]", "to_apply=fold"),
            ("reduce-scatter", f"[8,{12 // size}]", "dimensions={1}, to_apply=fold"),
            ("all-gather", f"[8,{12 * size}]", "dimensions={1}"),
            ("all-gather", f"[{8 * size},12]", "dimensions={0}"),
        ):
            body = f"{x} f32{shape} {name}(x), {groups}, {more}"
            yield f"{name} {shape} {mode}", program(HEADER, body)
    for mode in FLAT:
        groups, _ = MODES[mode]
        two = " x = f32[4] parameter(0)\n y = f32[4] negate(x)\n ROOT r = (f32[4], f32[4]) {}"
        yield (
            f"all-to-all {mode}",
            program(HEADER, f"{x} f32[8,12] all-to-all(x), {groups}, dimensions={{1}}"),
        )
        yield f"all-to-all tuple {mode}", program(HEADER, two.format(f"all-to-all(x, y), {groups}"))
        yield (
            f"broadcast {mode}",
            program(HEADER, f"{x} f32[8,12] collective-broadcast(x), {groups}"),
        )


def forms() -> Iterator[tuple[str, str]]:
    """What else a collective may be."""
    four = "num_partitions=4"
    x = " x = f32[4,6] parameter(0)\n"
    pairs = "source_target_pairs={{0,1},{1,2},{3,0}}, channel_id=1"
    uneven = "replica_groups={{0},{3,1,2}}, channel_id=3, use_global_device_ids=true"
    yield (
        "uneven groups",
        program(four, f"{x} ROOT r = f32[4,6] all-reduce(x), {uneven}, to_apply=fold"),
    )
    yield (
        "several arrays",
        program(
            four,
            f"{x} y = f32[0] parameter(1)\n z = f32[] parameter(2)\n"
            f" ROOT r = (f32[4,6], f32[0], f32[]) all-reduce(x, y, z), {ALL}, to_apply=fold",
        ),
    )
    yield "permute", program(four, f"{x} ROOT r = f32[4,6] collective-permute(x), {pairs}")
    yield (
        "permute of several",
        program(
            "replica_count=4",
            f"{x} y = bf16[3] parameter(1)\n ROOT r = (f32[4,6], bf16[3])"
            " collective-permute(x, y), source_target_pairs={{0,1},{1,0}}",
        ),
    )
    yield "permute in place", program("num_partitions=2", IN_PLACE)
    yield "permute of several slices", program("num_partitions=2", SEVERAL_SLICES)
    root = " q = s32[1] constant({2})\n ROOT r = f32[4,6]"
    yield (
        "reduce to a root",
        program(
            four,
            f"{x}{root} collective-reduce(x, q), {ALL}, has_dynamic_root=true, to_apply=fold",
        ),
    )
    groups = "replica_groups={{0,1,2,3}}, channel_id=2, has_dynamic_root=true"
    yield "broadcast of a root", program(four, f"{x}{root} collective-broadcast(x, q), {groups}")
    yield (
        "broadcast to some",
        program(
            four,
            f"{x} ROOT r = f32[4,6] collective-broadcast(x), channel_id=2,"
            " replica_groups={{1,2}}",
        ),
    )
    yield (
        "numbers",
        program(
            "replica_count=2, num_partitions=3",
            " p = u32[] partition-id()\n q = u32[] replica-id()\n"
            " ROOT r = (u32[], u32[]) tuple(p, q)",
        ),
    )
    yield "more than one operation", SEVERAL_OPERATIONS
    yield "ragged", program("num_partitions=2", RAGGED)
    yield "send and recv", program(four, TRANSFER)
    yield "send and recv of replicas", program("replica_count=4", TRANSFER)
    yield "in a loop", program(four, LOOP_ENTRY).replace("ENTRY", LOOP + "ENTRY")


def odd() -> Iterator[tuple[str, str]]:
    """Arrays of nothing, single numbers, narrow types, floats of several types together."""
    four = "num_partitions=4"
    for dims, axis in (("0", 0), ("3,0", 0), ("3,0", 1), ("0,3", 1)):
        sizes = [int(d) for d in dims.split(",")]
        sizes[axis] *= 4
        whole = ",".join(map(str, sizes))
        for name, given, result, more in (
            ("all-gather", dims, whole, f"{ALL}, dimensions={{{axis}}}"),
            ("reduce-scatter", whole, dims, f"{ALL}, dimensions={{{axis}}}, to_apply=fold"),
            ("all-to-all", whole, whole, f"replica_groups={{}}, dimensions={{{axis}}}"),
            ("all-reduce", dims, dims, f"{ALL}, to_apply=fold"),
        ):
            header = "replica_count=4" if name == "all-to-all" else four
            made = f" x = f32[{given}] parameter(0)\n ROOT r = f32[{result}] {name}(x), {more}"
            yield f"{name} [{given}] along {axis}", program(header, made)
            inside = f"inside {{\n{made} }}\nENTRY"
            begun = f"s = ((f32[{given}]), f32[{result}]) async-start(x), calls=inside"
            halves = f" x = f32[{given}] parameter(0)\n {begun}\n"
            text = program(header, f"{halves} ROOT r = f32[{result}] async-done(s)")
            yield f"{name} [{given}] along {axis} in halves", text.replace("ENTRY", inside)
    three = "u4[3], u4[], u4[0]"
    yield (
        "narrow numbers",
        program(
            four,
            " x = u4[3] parameter(0)\n y = u4[] parameter(1)\n z = u4[0] parameter(2)\n"
            f" ROOT r = ({three}) all-reduce(x, y, z), {ALL}, to_apply=fold",
            "u4",
            "subtract",
        ),
    )
    pair, gathered = "(f32[2], bf16[2])", "(f32[8], bf16[8])"
    yield (
        "floats of two types in halves",
        program(
            four,
            " x = f32[2] parameter(0)\n y = bf16[2] parameter(1)\n"
            f" s = ({pair}, {gathered}) all-gather-start(x, y), {ALL}, dimensions={{0}}\n"
            f" d = {gathered} all-gather-done(s)\n g = f32[8] get-tuple-element(d), index=0\n"
            f" h = bf16[8] get-tuple-element(d), index=1\n"
            f" p = ({pair}, {pair}) collective-permute-start(x, y),"
            " source_target_pairs={{0,1},{1,0}}, channel_id=1\n"
            f" q = {pair} collective-permute-done(p)\n"
            f" ROOT r = (f32[8], bf16[8], {pair}) tuple(g, h, q)",
        ),
    )


def halves() -> Iterator[tuple[str, str]]:
    """Starts and dones with something between, and operations that wrap a collective."""
    four = "num_partitions=4"
    x = " x = f32[4,6] parameter(0)\n"
    pairs = "source_target_pairs={{0,1},{1,2},{3,0}}, channel_id=1"
    both = " y = f32[4,6] negate(x)\n ROOT r = (f32[4,6], f32[4,6]) tuple(d, y)"
    for contexts in ("", ", u32[], u32[]"):
        yield (
            f"permute{contexts}",
            program(
                four,
                f"{x} s = (f32[4,6], f32[4,6]{contexts}) collective-permute-start(x), {pairs}\n"
                f" d = f32[4,6] collective-permute-done(s)\n{both}",
            ),
        )
    yield (
        "gather",
        program(
            four,
            f"{x} s = (f32[4,6], f32[16,6]) all-gather-start(x), {ALL}, dimensions={{0}}\n"
            " y = f32[4,6] negate(x)\n d = f32[16,6] all-gather-done(s)\n"
            " ROOT r = (f32[16,6], f32[4,6]) tuple(d, y)",
        ),
    )
    yield "gather of several", program(four, GATHER_SEVERAL)
    yield (
        "reduce",
        program(
            four,
            f"{x} n = f32[4,6] negate(x)\n s = f32[4,6] all-reduce-start(n), {ALL}, to_apply=fold\n"
            " y = f32[4,6] multiply(n, n)\n d = f32[4,6] all-reduce-done(s)\n"
            " ROOT r = (f32[4,6], f32[4,6], f32[4,6]) tuple(d, y, n)",
        ),
    )
    yield (
        "reduce of several",
        program(
            four,
            f"{x} y = f32[100] parameter(1)\n"
            f" s = (f32[4,6], f32[100]) all-reduce-start(x, y), {ALL}, to_apply=fold\n"
            " ROOT d = (f32[4,6], f32[100]) all-reduce-done(s)",
        ),
    )
    yield "two at once", program(four, TWO_AT_ONCE)
    for name, result, more in (
        ("all-gather", "[16,6]", "dimensions={0}"),
        ("reduce-scatter", "[1,6]", "dimensions={0}, to_apply=fold"),
        ("all-reduce", "[4,6]", "to_apply=fold"),
    ):
        inside = (
            f"w {{ p = f32[4,6] parameter(0)\n ROOT a = f32{result} {name}(p), {ALL}, {more} }}\n"
        )
        text = program(
            four,
            f"{x} s = ((f32[4,6]), f32{result}, s32[]) async-start(x), calls=w\n"
            " y = f32[4,6] negate(x)\n"
            f" d = f32{result} async-done(s), calls=w\n"
            f" ROOT r = (f32{result}, f32[4,6]) tuple(d, y)",
        )
        yield f"wrapped {name}", text.replace("ENTRY", inside + "ENTRY")


IN_PLACE = """ x = f32[8,3] parameter(0)
 o = f32[10,3] parameter(1)
 a = s32[] parameter(2)
 z = s32[] constant(0)
 f = (s32[], s32[]) tuple(a, z)
 g = (s32[], s32[]) tuple(z, z)
 ROOT r = f32[10,3] collective-permute(x, o, f, g), source_target_pairs={{0,1},{1,0}},
   slice_sizes={{4,2}}, channel_id=1"""
SEVERAL_SLICES = """ x = f32[8,3] parameter(0)
 o = f32[10,3] parameter(1)
 a = s32[] constant(2)
 z = s32[] constant(0)
 f = (s32[], s32[]) tuple(a, z)
 g = (s32[], s32[]) tuple(z, z)
 h = (s32[], s32[]) tuple(a, a)
 ff = ((s32[], s32[]), (s32[], s32[])) tuple(f, g)
 gg = ((s32[], s32[]), (s32[], s32[])) tuple(g, h)
 ROOT r = f32[10,3] collective-permute(x, o, ff, gg), source_target_pairs={{0,1}},
   slice_sizes={{2,3},{4,1}}, channel_id=1"""
RAGGED = """ x = f32[8,3] parameter(0)
 o = f32[10,3] parameter(1)
 i = s32[2] constant({0,4})
 z = s32[2] constant({2,3})
 t = s32[2] constant({1,5})
 v = s32[2] constant({2,3})
 ROOT r = f32[10,3] ragged-all-to-all(x, o, i, z, t, v), replica_groups={{0,1}}, channel_id=1"""
_PAIRS = 'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1},{1,2},{2,3}}"}'
TRANSFER = f""" x = f32[4,6] parameter(0)
 t = token[] after-all()
 s = (f32[4,6], u32[], token[]) send(x, t), channel_id=7, {_PAIRS}
 q = (f32[4,6], u32[], token[]) recv(t), channel_id=7, {_PAIRS}
 sd = token[] send-done(s), channel_id=7
 qd = (f32[4,6], token[]) recv-done(q), channel_id=7
 ROOT r = f32[4,6] get-tuple-element(qd), index=0"""
GATHER_SEVERAL = f""" x = f32[4,6] parameter(0)
 z = s32[2] parameter(1)
 s = ((f32[4,6], s32[2]), (f32[16,6], s32[8])) all-gather-start(x, z), {ALL}, dimensions={{0}}
 in = (f32[4,6], s32[2]) get-tuple-element(s), index=0
 i = s32[2] get-tuple-element(in), index=1
 y = s32[2] negate(z)
 d = (f32[16,6], s32[8]) all-gather-done(s)
 ROOT r = ((f32[16,6], s32[8]), s32[2], s32[2]) tuple(d, y, i)"""
TWO_AT_ONCE = f""" x = f32[4,6] parameter(0)
 y = f32[4,6] parameter(1)
 a = (f32[4,6], f32[16,6]) all-gather-start(x), {ALL}, dimensions={{0}}
 b = (f32[4,6], f32[16,6]) all-gather-start(y), replica_groups={{{{0,1,2,3}}}}, channel_id=2,
   use_global_device_ids=true, dimensions={{0}}
 n = f32[4,6] multiply(x, y)
 e = f32[16,6] all-gather-done(b)
 d = f32[16,6] all-gather-done(a)
 ROOT r = (f32[16,6], f32[16,6], f32[4,6]) tuple(d, e, n)"""
LOOP = """cond { s = (s32[], f32[33]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 n = s32[] constant(5)
 ROOT c = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[33]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 x = f32[33] get-tuple-element(s), index=1
 one = s32[] constant(1)
 j = s32[] add(i, one)
 r = f32[33] all-reduce(x), replica_groups={{0,1},{2,3}}, channel_id=1,
   use_global_device_ids=true, to_apply=fold
 p = f32[33] collective-permute(r), source_target_pairs={{0,1},{1,2},{2,3},{3,0}}, channel_id=2
 h = f32[] constant(0.5)
 hb = f32[33] broadcast(h), dimensions={}
 y = f32[33] multiply(p, hb)
 ROOT t = (s32[], f32[33]) tuple(j, y) }
"""
LOOP_ENTRY = """ x = f32[33] parameter(0)
 z = s32[] constant(0)
 t = (s32[], f32[33]) tuple(z, x)
 w = (s32[], f32[33]) while(t), condition=cond, body=body
 ROOT r = f32[33] get-tuple-element(w), index=1"""
SEVERAL_OPERATIONS = f"""HloModule m, num_partitions=4
fold {{ a = bf16[] parameter(0)
 b = bf16[] parameter(1)
 c = bf16[] constant(0.5)
 d = bf16[] multiply(a, c)
 m = bf16[] maximum(d, b)
 ROOT s = bf16[] add(m, a) }}
ENTRY e {{ x = bf16[70] parameter(0)
 ROOT r = bf16[70] all-reduce(x), {ALL}, to_apply=fold }}"""
