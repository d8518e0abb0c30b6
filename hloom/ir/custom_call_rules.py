"""What custom calls take and give that mean one thing everywhere, whoever asks for them.

`wrong_custom_call` says what a call has that its target cannot be called with, and what it takes:
whoever does it trusts the shapes, so that another one would be read and written past its end.
"""

from __future__ import annotations

from hloom.ir.eigh_call import TARGET as EIGH
from hloom.ir.eigh_call import is_eigh
from hloom.ir.instruction import Instruction
from hloom.ir.lapack_calls import wrong_lapack_call, wrong_library_call
from hloom.types.dtype import S32
from hloom.types.shape import Shape

SAME = frozenset(
    """Sharding annotate_device_placement MoveToHost MoveToDevice MoveToMemorySpace LayoutConstraint
    AssumeGatherIndicesInBound xla.sdy.FuncResultSharding xla.sdy.PropagationBarrier""".split()
)
"""Targets whose result is what they take: they say where it lives, or how it is spread."""
SPREAD = frozenset(
    """SPMDFullToShardShape SPMDShardToFullShape xla.sdy.GlobalToLocalShape
    xla.sdy.LocalToGlobalShape""".split()
)
"""Targets that make the share of one device of an array, or the array of the shares."""
SPACE = "MoveToMemorySpace"
DIALECTS = ("mhlo", "chlo")
"""After which front ends name the operations that they write as custom calls."""
FUNCTIONS = frozenset("acos acosh asin asinh atan atanh cosh erf sinh tan".split())
"""Those of them that are functions of one number, which HLO has by that name or, as `atan2`, by
another."""
CHOICES = frozenset(("topk", "top_k"))
"""Those that are the operation `topk`."""


def wrong_custom_call(i: Instruction) -> str:
    """Why a custom call cannot be what its target means; nothing if it can, or if nobody but a
    handler knows what that is."""
    target = i.attrs.custom_call_target
    if target in SAME:
        return _wrong_same(i)
    if target in SPREAD:
        return "" if i.operands else f"{target} takes an array, not nothing"
    if target == "TopK":
        return _wrong_top_k(i)
    if target == "PadToStatic":
        return _wrong_pad(i)
    if target == "SliceToDynamic":
        return _wrong_slice(i)
    return wrong_lapack_call(i) or wrong_library_call(i)


def wrong_front_end_call(i: Instruction) -> str:
    """`wrong_custom_call` of what front ends write, where nobody has registered a handler."""
    target = i.attrs.custom_call_target
    if target == EIGH and not is_eigh(i):
        return (
            "Eigh takes T[..,n,n] and gives eigenvectors T[..,n,n] and real eigenvalues R[..,n], "
            f"where T is a float or complex type, not {_text(i)}"
        )
    dialect, _, name = target.partition(".")
    if dialect in DIALECTS and name in CHOICES:
        return _wrong_top_k(i)
    if dialect in DIALECTS and name in FUNCTIONS:
        return _wrong_function(i, name)
    return ""


def takes_largest(i: Instruction) -> bool:
    """Whether a call for the k of each row asks for the largest ones."""
    config = i.backend_config.json if i.backend_config is not None else None
    return bool((config or {}).get("largest", True))


def _wrong_function(i: Instruction, name: str) -> str:
    x = i.operands[0].shape if len(i.operands) == 1 else None
    if x is not None and x.is_array and i.shape.is_array and _is_like(x, i.shape):
        if x.dtype.is_floating or (x.dtype.is_complex and name != "erf"):
            return ""
    types = "floats" if name == "erf" else "floats or complex numbers"
    return (
        f"{i.attrs.custom_call_target} takes an array of {types} and gives one of the same shape, "
        f"not {_text(i)}"
    )


def _text(i: Instruction) -> str:
    """What a call gives, and what of."""
    return f"{i.shape.bare} of {', '.join([str(x.shape.bare) for x in i.operands]) or 'nothing'}"


def _parts(shape: Shape) -> list[Shape]:
    """What stands in a tuple, or a value by itself."""
    return list(shape.elements) if shape.is_tuple else [shape]


def _is_like(x: Shape, y: Shape) -> bool:
    """Whether two values are of one type and of the same sizes, or bounds."""
    leaves = list(x.leaves()), list(y.leaves())
    return [(s.dtype, s.dims) for s in leaves[0]] == [(s.dtype, s.dims) for s in leaves[1]]


def _wrong_same(i: Instruction) -> str:
    target, taken = i.attrs.custom_call_target, [x.shape for x in i.operands]
    is_one = len(taken) == 1 and _is_like(taken[0], i.shape)
    parts = i.shape.elements if i.shape.is_tuple else ()
    is_each = len(taken) == len(parts) and all(map(_is_like, taken, parts))
    if not taken or not (is_one or is_each):
        return f"{target} gives what it takes, not {_text(i)}"
    config = i.backend_config.raw if i.backend_config is not None else ""
    if target == SPACE and not config.isdecimal():
        return f"the config of {target} is the number of a memory space, not {config!r}"
    return ""


def _wrong_top_k(i: Instruction) -> str:
    shapes, parts = [x.shape for x in i.operands], _parts(i.shape)
    if len(shapes) == 1 and len(parts) == 2 and all(s.is_array for s in (*shapes, *parts)):
        (x,), (values, indices) = shapes, parts
        if (
            x.rank
            and values.rank == x.rank
            and values.dims[:-1] == x.dims[:-1]
            and values.dims[-1] <= x.dims[-1]
            and values.dtype is x.dtype
            and (indices.dtype, indices.dims) == (S32, values.dims)
        ):
            return ""
    return (
        f"{i.attrs.custom_call_target} takes T[..,n] and gives T[..,k] and s32[..,k], the k of "
        f"each row and their places, with k at most n, not {_text(i)}"
    )


def _wrong_pad(i: Instruction) -> str:
    shapes, parts = [x.shape for x in i.operands], _parts(i.shape)
    if len(shapes) == 1 and shapes[0].is_array and parts[0].is_array:
        x, *sizes = parts
        is_padded = (x.dtype, x.dims) == (shapes[0].dtype, shapes[0].dims) and x.is_static
        if is_padded and len(sizes) == x.rank and all(_is_size(s) for s in sizes):
            return ""
    return f"PadToStatic gives an array of the bounds and an s32 for each size, not {_text(i)}"


def _wrong_slice(i: Instruction) -> str:
    shapes = [x.shape for x in i.operands]
    if shapes and shapes[0].is_array and i.shape.is_array:
        x, *sizes = shapes
        is_cut = (x.dtype, x.dims) == (i.shape.dtype, i.shape.dims) and x.is_static
        if is_cut and len(sizes) == x.rank and all(_is_size(s) for s in sizes):
            return ""
    return f"SliceToDynamic takes an array of the bounds and an s32 for each size, not {_text(i)}"


def _is_size(s: Shape) -> bool:
    return s.is_array and s.dtype is S32 and not s.dims
