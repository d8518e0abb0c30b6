"""What the header of a library says of the function that takes any size."""

from __future__ import annotations

from hloom.aot.buckets import CBuckets, Of
from hloom.aot.header import element_type, error_words, in_place_line, struct
from hloom.api import CArray

_ARRAYS = "const void *const *inputs, void *const *outputs, void *workspace"


def buckets_lines(library: str, b: CBuckets, pool: str, weights: str) -> list[str]:
    """Its constants, which take the sizes of a call, its prototype and its struct."""
    name, prefix, names = b.name, b.name.upper(), list(b.sizes)
    lines = [
        f"#define {prefix}_INPUTS {len(b.inputs)}",
        f"#define {prefix}_OUTPUTS {len(b.outputs)}",
        "/* Bytes, and at which multiples of bytes memory begins. */",
        f"#define {prefix}_WORKSPACE_BYTES {b.workspace_bytes}",
        f"#define {prefix}_WORKSPACE_ALIGNMENT 64",
        "/* The largest that calls may bring. */",
        *[f"#define {prefix}_{n.upper()}_MOST {max(s)}" for n, s in b.sizes.items()],
        "",
    ]
    arrays = list(zip(b.inputs, b.input_sizes, b.largest.inputs, strict=True))
    for k, (array, of, a) in enumerate(arrays):
        lines += _array(f"{prefix}_INPUT", k, array, of, a, b)
        lines += [] if a.alias is None else [in_place_line(b.outputs[a.alias])]
    arrays = list(zip(b.outputs, b.output_sizes, b.largest.outputs, strict=True))
    for k, (array, of, a) in enumerate(arrays):
        lines += _array(f"{prefix}_OUTPUT", k, array, of, a, b)
        lines += [] if a.alias is None else [in_place_line(b.inputs[a.alias])]
    sizes = "".join([f"int64_t {n}, " for n in names])
    lines += ["", *_about(b), f"int {name}({sizes}{_ARRAYS});"]
    if pool == "caller":
        lines.append(f"int {name}_on({sizes}const {library}_pool *pool, {_ARRAYS});")
    no_bucket = "the library has no bucket for this size"
    lines += error_words(name, weights, f'      : status == 8 ? "{no_bucket}"')
    return lines + struct(library, name, prefix, b.inputs, b.outputs, pool, names)


def _about(b: CBuckets) -> list[str]:
    listed = "; ".join([f"{n}: {', '.join(map(str, s))}" for n, s in b.sizes.items()])
    lines = [f"/* The function for the sizes of a call. Buckets of {listed}."]
    if b.why_exact:
        reason = b.why_exact.replace("*/", "* /")
        return [*lines, f" * Other sizes are refused: {reason}. */"]
    return [
        *lines,
        " * For other sizes arrays are padded with zeros in the workspace, to the next bucket:",
        " * no row of a result depends on the others. */",
    ]


def _array(prefix: str, number: int, name: str, of: Of, a: CArray, b: CBuckets) -> list[str]:
    """The type of an array, and its bytes, which take the sizes."""
    names, own, shape = list(b.sizes), f"{prefix}_{name}", a.shape
    dims: list[str] = []
    factors: list[str] = []
    factor = 1
    for n, k in zip(shape.dims, of):
        times = n if k is None else n // max(b.sizes[names[k]])
        factor *= times
        factors += [] if k is None else [f" * ({names[k]})"]
        dims.append(str(n) if k is None else names[k] if times == 1 else f"{times}*{names[k]}")
    what = f"{shape.dtype.name}[{','.join(dims)}]{shape.text.partition(']')[2]}"
    used = ", ".join(dict.fromkeys([names[k] for k in of if k is not None]))
    width = shape.dtype.size_bytes if shape.dtype.bits % 8 == 0 or shape.dtype.name == "pred" else 0
    size = f" {a.size_bytes}"
    if used and width:
        size = f"({used}) ((int64_t){factor * width}{''.join(factors)})"
    elif used:
        size = f"({used}) (((int64_t){factor * shape.dtype.bits}{''.join(factors)} + 7) / 8)"
    return [
        f"/* {prefix.rsplit('_', 1)[1].lower()} {number}: {what} */",
        f"#define {own} {number}",
        f"#define {own}_BYTES{size}",
        f"#define {own}_ALIGNMENT {a.alignment}",
        f"typedef {element_type(shape)} {own}_TYPE;",
    ]
