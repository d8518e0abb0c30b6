"""Collectives on one device, custom calls, asynchronous operations, quantised types."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz.stablehlo.sketch import FLOATS, INTS, Sketch, array, family, tensor

ELEMENTS = FLOATS + ["i32", "i64", "ui8", "i8", "complex<f32>"]
ONE_GROUP = "replica_groups = dense<0> : tensor<1x1xi64>"


def channel(s: Sketch) -> str:
    if s.chance(0.5):
        return ""
    more = ", use_global_device_ids" if s.chance(0.5) else ""
    return f", channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>{more}"


def sum_region(s: Sketch, elements: Sequence[str]) -> str:
    scalar = tensor([], elements[0])
    return s.region([scalar, scalar], lambda r: s.op("add", r, scalar))


@family("all_reduce", "reduce_scatter")
def reduced(s: Sketch, name: str) -> Sequence[str]:
    element, dims = s.element(ELEMENTS), s.dims(1, 3)
    x = s.argument(dims, element)
    attributes = ONE_GROUP + channel(s)
    if name == "reduce_scatter":
        attributes += f", scatter_dimension = {s.whole(0, len(dims) - 1)} : i64"
        return s.op(name, [x], tensor(dims, element), attributes, [sum_region(s, [element])])
    parts = [x, *(s.argument(s.dims(0, 2), element) for _ in range(s.pick([0, 0, 1, 2])))]
    kinds = [s.types[p] for p in parts]
    return s.op(name, parts, kinds, attributes, [sum_region(s, [element])])


@family("all_gather", "all_to_all", "collective_permute", "collective_broadcast")
def exchanged(s: Sketch, name: str) -> Sequence[str]:
    element, dims = s.element(ELEMENTS), s.dims(1, 3)
    along = s.whole(0, len(dims) - 1)
    attributes = ONE_GROUP + channel(s)
    if name == "all_gather":
        attributes += f", all_gather_dim = {along} : i64"
    elif name == "all_to_all":
        attributes = (
            f"{ONE_GROUP}, split_dimension = {along} : i64, "
            f"concat_dimension = {s.whole(0, len(dims) - 1)} : i64, split_count = 1 : i64"
        )
    elif name == "collective_permute":
        rows = s.pick(["dense<0> : tensor<1x2xi64>", "dense<> : tensor<0x2xi64>"])
        attributes = f"source_target_pairs = {rows}"
    else:
        attributes = ONE_GROUP
    x = s.argument(dims, element)
    return s.op(name, [x], tensor(dims, element), attributes)


@family("partition_id", "replica_id")
def ids(s: Sketch, name: str) -> Sequence[str]:
    return s.op(name, [], "tensor<ui32>")


@family("custom_call")
def custom_call(s: Sketch) -> Sequence[str]:
    """Targets that every compiler of HLO knows."""
    dims, element = s.dims(0, 2), s.element(["f32", "i32", "f64"])
    x, kind = s.argument(dims, element), tensor(dims, element)
    target = s.pick(["Sharding", "AllocateBuffer", "annotate_device_placement", "TopK", "mhlo.erf"])
    if target == "AllocateBuffer":
        made = s.op("custom_call", [], kind, 'call_target_name = "AllocateBuffer"')
        zero = s.op("xor" if element == "i32" else "subtract", made + made, kind)
        return s.op("add", [x, *zero], kind) if element == "i32" else [x]
    if target == "TopK":
        n = s.whole(1, 9)
        x, k = s.argument([2, n], "f32"), s.whole(1, n)
        fold = f'"mhlo.attributes" = {{k = {k} : i64, largest = true}}, "mhlo.version" = 1 : i64'
        return s.op(
            "custom_call",
            [x],
            [tensor([2, k], "f32"), tensor([2, k], "i32")],
            f'call_target_name = "mhlo.topk", {fold}',
        )
    if target == "mhlo.erf":
        x = s.argument(dims, "f32")
        s.is_exact = False
        return s.op(
            "custom_call",
            [x],
            tensor(dims, "f32"),
            'call_target_name = "mhlo.erf", "mhlo.attributes" = {}, "mhlo.version" = 1 : i64',
        )
    attributes = f'call_target_name = "{target}"'
    if target == "Sharding":
        attributes += ', "mhlo.sharding" = "{replicated}"'
    else:
        attributes += (
            ', has_side_effect = true, "mhlo.frontend_attributes" = '
            '{_xla_buffer_placement = "device"}'
        )
    return s.op("custom_call", [x], kind, attributes)


@family("uniform_quantize")
def uniform_quantize(s: Sketch) -> Sequence[str]:
    """Quantise, compute, dequantise, per tensor and per axis."""
    dims, element = s.dims(1, 3), s.pick(["f32", "f32", "bf16", "f16"])
    storage = s.pick(["i8", "ui8", "i16", "i4", "i32"])
    low = "0" if storage[0] == "u" else "-3"
    axis = s.whole(0, len(dims) - 1)
    if s.chance(0.4) and dims[axis] and storage[0] != "u":
        scales = ", ".join(
            f"{s.pick(['0.5', '0.1', '0.25'])}:{s.pick([0, 1, -3])}" for _ in range(dims[axis])
        )
        quantised = f"!quant.uniform<{storage}:{element}:{axis}, {{{scales}}}>"
    else:
        quantised = f"!quant.uniform<{storage}:{element}, {s.pick(['0.5', '0.1'])}:{low}>"
    kind = tensor(dims, quantised)
    made = s.op("uniform_quantize", [s.argument(dims, element)], kind)
    s.is_exact = False
    more = s.pick(["", "negate", "add", "reshape", "maximum"])
    if "{" in quantised and more != "reshape":
        more = ""
    if more in ("add", "maximum"):
        made = s.op(more, made + made, kind)
    elif more == "negate":
        made = s.op(more, made, kind)
    return s.op("uniform_dequantize", made, tensor(dims, element))


@family("rng")
def rng(s: Sketch) -> Sequence[str]:
    """Between two bounds, then cut to whether it is: there is no one right answer."""
    dims, element = s.dims(1, 2), s.pick(["f32", "i32", "f64"])
    low, high = ("0", "5") if element == "i32" else ("0.0", "1.0")
    size = f"[{', '.join(map(str, dims))}]"
    parts = [s.constant(low, [], element), s.constant(high, [], element)]
    parts.append(s.constant(size, [len(dims)], "i64"))
    kind = tensor(dims, element)
    made = s.op("rng", parts, kind, "rng_distribution = #stablehlo<rng_distribution UNIFORM>")
    bounds = [
        s.op("broadcast_in_dim", [p], kind, f"broadcast_dimensions = {array([])}")[0]
        for p in parts[:2]
    ]
    inside = s.op("clamp", [bounds[0], *made, bounds[1]], kind)
    return s.op(
        "compare",
        [*made, *inside],
        tensor(dims, "i1"),
        "comparison_direction = #stablehlo<comparison_direction EQ>",
    )


@family("folded")
def folded(s: Sketch) -> Sequence[str]:
    """Constants only: what a compiler folds, it folds as it computes."""
    dims, element = s.dims(0, 2), s.pick(FLOATS + INTS[2:])
    value = "3" if element in INTS else "0.75"
    made = [s.constant(value, dims, element)]
    kind = tensor(dims, element)
    s.is_exact = element in INTS
    for _ in range(s.whole(1, 4)):
        name = s.pick(["add", "multiply", "maximum", "divide", "remainder"])
        made = s.op(name, [made[0], s.constant(value, dims, element)], kind)
    return made
